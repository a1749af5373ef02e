//! An agent's port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lines::Lines;
use super::session::{Shared, serve as serve_one};
use super::token::Token;
use crate::error::{Error, Result};
use crate::machine::host::clock;
use crate::model::cpuset::CpuSet;

/// Connections at a time, those included that have not said anything yet.
const MOST: usize = 8;

/// An agent that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the port.
    ///
    /// # Errors
    /// A usage error if the address is open to others without a token; not supported if it is
    /// taken.
    pub fn bind(address: SocketAddr, token: Option<&Token>) -> Result<Self> {
        if token.is_none() && !address.ip().is_loopback() {
            let why = "whoever reaches this address could make the machine send traffic";
            return Err(Error::usage(format!("agent: listen on {address}"), why).hint(
                "give it a secret that the controller has too: --token-file FILE; or listen on \
                 127.0.0.1 and reach it through ssh -L",
            ));
        }
        let failed = |e: io::Error| {
            let error = Error::not_supported(format!("agent: listen on {address}"), &e);
            match e.kind() {
                io::ErrorKind::AddrInUse => error.hint(
                    "another program has the port, perhaps an agent that runs already; take \
                     another: --listen ADDRESS:PORT",
                ),
                io::ErrorKind::AddrNotAvailable => {
                    error.hint("the address must be one of this machine's own")
                }
                _ => error,
            }
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves until `stop` is raised, with its load's threads on `cpus`; `say` gets a message for every
/// event.
///
/// # Errors
/// Fails if the port can't be waited for.
pub fn serve(
    server: &Server,
    token: Option<&Token>,
    cpus: Option<&CpuSet>,
    stop: &AtomicBool,
    say: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let shared = Shared { token, cpus, stop, served: Mutex::new(None), say };
    let connected = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let slice = Timespec { tv_sec: 1, tv_nsec: 0 };
            match poll(&mut [PollFd::new(&server.listener, PollFlags::IN)], Some(&slice)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(Error::not_supported("agent: wait for a controller", error));
                }
            }
            let (socket, peer) = match server.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                // The peer is gone already, or there are no descriptors left for a moment.
                Err(error) => {
                    say(&format!("a connection was lost: {error}"));
                    clock::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            if connected.load(Ordering::Acquire) >= MOST {
                say(&format!("{peer}: turned away: {MOST} others are connected"));
                continue;
            }
            connected.fetch_add(1, Ordering::AcqRel);
            let (shared, connected) = (&shared, &connected);
            let work = move || {
                match Lines::new(socket) {
                    Ok(mut lines) => serve_one(shared, &mut lines, &peer.to_string()),
                    Err(error) => (shared.say)(&format!("{peer}: {error}")),
                }
                connected.fetch_sub(1, Ordering::AcqRel);
            };
            let name = std::thread::Builder::new().name("agent".into());
            if let Err(error) = name.spawn_scoped(scope, work) {
                connected.fetch_sub(1, Ordering::AcqRel);
                say(&format!("{peer}: no thread for it: {error}"));
            }
        }
        Ok(())
    })
}

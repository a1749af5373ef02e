//! An agent's port.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::limits::Limits;
use super::lines::Lines;
use super::session::{Shared, serve as serve_one};
use super::token::Token;
use crate::error::{Error, ExitCode, Result, words};
use crate::machine::host::{HostRead, Live, clock};
use crate::machine::parse::net_tcp::owner;
use crate::machine::sys::poll::{Wanted, is_ready};
use crate::model::cpuset::CpuSet;

/// Connections at a time that have not proven anything yet, of one address and of all. When there are
/// more the oldest is closed, so that nobody keeps others out by saying nothing.
const MOST_OF_ONE: usize = 4;
const MOST: usize = 64;

/// Connections that have not proven anything yet, the oldest first.
#[derive(Default)]
struct Strangers(Mutex<Vec<(SocketAddr, TcpStream)>>);

impl Strangers {
    fn add(&self, peer: SocketAddr, socket: &TcpStream) -> io::Result<()> {
        let socket = socket.try_clone()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = all.iter().filter(|(other, _)| other.ip() == peer.ip()).count();
        let oldest = match () {
            () if of_it >= MOST_OF_ONE => all.iter().position(|(o, _)| o.ip() == peer.ip()),
            () if all.len() >= MOST => Some(0),
            () => None,
        };
        if let Some(at) = oldest {
            // Its thread sees the end, and says so.
            drop(all.remove(at).1.shutdown(Shutdown::Both));
        }
        all.push((peer, socket));
        Ok(())
    }

    /// Closes the oldest.
    fn make_room(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.is_empty() {
            drop(all.remove(0).1.shutdown(Shutdown::Both));
        }
    }

    fn forget(&self, peer: SocketAddr) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(other, _)| *other != peer);
    }
}

/// True if the other end of a connection over loopback is of this process's user, or of root.
fn is_own(peer: SocketAddr, here: SocketAddr) -> bool {
    let table = if peer.is_ipv4() { "tcp" } else { "tcp6" };
    let path = format!("/proc/thread-self/net/{table}");
    let owner = Live::here().read(Path::new(&path)).ok().and_then(|t| owner(&t, peer, here));
    owner.is_some_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

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
                io::ErrorKind::PermissionDenied => error
                    .with_code(ExitCode::NotPermitted)
                    .hint("ports below 1024 are root's; take another: --listen ADDRESS:PORT"),
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

/// Serves until `stop` is raised, with its load's threads on `cpus` and within `limits`; `say` gets a message for every
/// event.
///
/// # Errors
/// Fails if the port can't be waited for.
pub fn serve(
    server: &Server,
    token: Option<&Token>,
    cpus: Option<&CpuSet>,
    limits: &Limits,
    stop: &AtomicBool,
    say: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let shared = Shared { token, cpus, limits, stop, served: Mutex::new(None), say };
    let strangers = Strangers::default();
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            is_ready(&server.listener, Wanted::Read, Duration::from_secs(1))
                .map_err(|e| Error::not_supported("agent: wait for a controller", e))?;
            let (socket, peer) = match server.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                // The peer is gone already, or there are no descriptors left: whoever says nothing
                // has them.
                Err(error) => {
                    say(&format!("a connection was lost: {}", words(&error)));
                    strangers.make_room();
                    clock::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            if !limits.allows(peer.ip()) {
                say(&format!("{peer}: turned away: not among those that --allow names"));
                continue;
            }
            if token.is_none() && !is_own(peer, server.address) {
                say(&format!("{peer}: turned away: it is of another user, and there is no token"));
                continue;
            }
            if let Err(error) = strangers.add(peer, &socket) {
                say(&format!("{peer}: {error}"));
                continue;
            }
            let (shared, strangers) = (&shared, &strangers);
            let work = move || {
                match Lines::new(socket) {
                    Ok(mut lines) => {
                        let met = || strangers.forget(peer);
                        serve_one(shared, &mut lines, &peer.to_string(), &met);
                    }
                    Err(error) => (shared.say)(&format!("{peer}: {error}")),
                }
                strangers.forget(peer);
            };
            let name = std::thread::Builder::new().name("agent".into());
            if let Err(error) = name.spawn_scoped(scope, work) {
                strangers.forget(peer);
                say(&format!("{peer}: no thread for it: {error}"));
            }
        }
        Ok(())
    })
}

//! Word to the program that supervises this one: systemd's protocol of sd_notify(3).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The supervisor, where there is one.
pub struct Supervisor {
    socket: Option<UnixDatagram>,
    /// Longest time that it waits for a sign of life.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The one that the environment names.
    #[must_use]
    pub fn of_environment() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let connected = |name: String| {
            let socket = UnixDatagram::unbound()?;
            match name.strip_prefix('@') {
                Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
                None => socket.connect(name)?,
            }
            socket.set_nonblocking(true)?;
            std::io::Result::Ok(socket)
        };
        let socket = text("NOTIFY_SOCKET").and_then(|name| match connected(name) {
            Ok(socket) => Some(socket),
            Err(e) => {
                log::warn!("the supervisor can't be told: {e}");
                None
            }
        });
        let own = std::process::id().to_string();
        let ours = text("WATCHDOG_PID").is_none_or(|pid| pid == own);
        let watchdog = text("WATCHDOG_USEC").filter(|_| ours).and_then(|usec| usec.parse().ok());
        Self { socket, watchdog: watchdog.map(Duration::from_micros) }
    }

    /// Tells it something: `READY=1`, `WATCHDOG=1`.
    pub fn tell(&self, words: &str) {
        // One that is busy hears the next sign of life.
        if let Some(Err(e)) = self.socket.as_ref().map(|socket| socket.send(words.as_bytes())) {
            log::debug!("{words}: {e}");
        }
    }

    /// Longest time between two signs of life: half of what it waits.
    #[must_use]
    pub fn pace(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }
}

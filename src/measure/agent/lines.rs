//! A connection between controller and agent, as lines.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::protocol::{GREETING_PATIENCE, Message, SILENCE, line, plain};
use crate::machine::host::clock;

/// Interval at which a wait checks the stop flag.
const SLICE: Duration = Duration::from_millis(100);

/// Reason why there is no further line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoLine {
    /// The other side has closed the connection.
    Closed,
    /// Nothing whole came in time.
    Silent,
    /// A line is longer than any message; its beginning.
    TooLong(String),
    /// The connection failed.
    Failed(String),
    /// The stop flag was raised.
    Stopped,
}

impl std::fmt::Display for NoLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Silent => f.write_str("no answer in time"),
            Self::TooLong(start) => write!(f, "a line without an end: \"{start}\""),
            Self::Failed(why) => f.write_str(why),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// A connection on which lines come and go.
pub(super) struct Lines {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of lines, both ways.
    pub(super) talked: u64,
}

impl Lines {
    /// Over a connected socket.
    ///
    /// # Errors
    /// Fails if the socket's options can't be set.
    pub(super) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SLICE))?;
        // A peer that takes nothing is gone.
        socket.set_write_timeout(Some(GREETING_PATIENCE))?;
        Ok(Self { socket, buffer: Vec::new(), talked: 0 })
    }

    /// The next line without its end, of at most `most` bytes, within `patience`.
    ///
    /// # Errors
    /// The reason why there is no further line.
    pub(super) fn next(
        &mut self,
        most: usize,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, NoLine> {
        let deadline = clock::monotonic() + patience;
        let mut searched = 0;
        loop {
            let fresh = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|b| *b == b'\n').map(|at| searched + at)
                && at <= most
            {
                let rest = self.buffer.split_off(at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.talked += line.len() as u64;
                line.pop();
                return Ok(line);
            }
            searched = self.buffer.len();
            if searched > most {
                return Err(NoLine::TooLong(plain(&self.buffer, 40)));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(NoLine::Stopped);
            }
            if clock::monotonic() >= deadline {
                return Err(NoLine::Silent);
            }
            let mut chunk = [0; 4096];
            match rustix::net::recv(&self.socket, &mut chunk, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(NoLine::Closed),
                Ok((got, _)) => {
                    self.buffer.extend_from_slice(chunk.get(..got).unwrap_or_default());
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(NoLine::Closed),
                Err(error) => return Err(NoLine::Failed(io::Error::from(error).to_string())),
            }
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Closed or failed; also if the other side takes nothing for seconds.
    pub(super) fn put<T: Message>(&mut self, message: &T) -> Result<(), NoLine> {
        let line = line(message);
        self.talked += line.len() as u64;
        let mut rest = line.as_slice();
        let deadline = clock::monotonic() + SILENCE;
        while !rest.is_empty() {
            if clock::monotonic() >= deadline {
                return Err(NoLine::Silent);
            }
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(NoLine::Silent),
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(NoLine::Closed),
                Err(error) => return Err(NoLine::Failed(io::Error::from(error).to_string())),
            }
        }
        Ok(())
    }
}

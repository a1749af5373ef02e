//! Answers to whoever scrapes metrics: on this machine's loopback or a unix socket, GET alone, one
//! request for each connection, bounded in length and time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::sys::poll::{Wanted, is_ready};

/// Longest time that one side of an exchange may take: nobody else is served meanwhile.
const PATIENCE: Duration = Duration::from_millis(300);
/// Most bytes of a request.
const MOST: usize = 2048;

/// A place where metrics can be had.
#[derive(Debug)]
pub enum Scraped {
    /// A port of the loopback.
    Port(TcpListener),
    /// A socket in the file system, removed in the end.
    Path(UnixListener, PathBuf),
}

impl Scraped {
    /// Listens at `127.0.0.1:9777`, `[::1]:9777` or `/run/linerate.sock`.
    ///
    /// # Errors
    /// Invalid input for an address that is not the loopback's; what the kernel answered.
    pub fn listen(place: &str) -> io::Result<Self> {
        if place.starts_with('/') {
            let path = PathBuf::from(place);
            remove_stale(&path)?;
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            return Ok(Self::Path(listener, path));
        }
        let wrong = "neither an address of the loopback with a port nor a path";
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, wrong);
        let address: SocketAddr = place.parse().map_err(|_| wrong())?;
        if !address.ip().is_loopback() {
            return Err(wrong());
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Port(listener))
    }

    /// The address that it listens at, for a port that the kernel chose.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Port(listener) => listener.local_addr().ok(),
            Self::Path(..) => None,
        }
    }

    /// Serves one connection that waits, if there is one. It takes half a second at most.
    ///
    /// # Errors
    /// What became of the connection.
    pub fn serve(&self, text: impl FnOnce() -> String) -> io::Result<()> {
        let accepted = match self {
            Self::Port(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                exchange(stream, text)
            }),
            Self::Path(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                exchange(stream, text)
            }),
        };
        match accepted {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }
}

impl AsFd for Scraped {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Port(listener) => listener.as_fd(),
            Self::Path(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Scraped {
    fn drop(&mut self) {
        if let Self::Path(_, path) = self
            && let Err(e) = rustix::fs::unlink(path.as_path())
        {
            log::debug!("{}: {e}", path.display());
        }
    }
}

/// Removes a socket that a process which is gone left; anything else that has the name stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    match rustix::fs::lstat(path) {
        Ok(meta)
            if rustix::fs::FileType::from_raw_mode(meta.st_mode)
                == rustix::fs::FileType::Socket =>
        {
            Ok(rustix::fs::unlink(path)?)
        }
        _ => Ok(()),
    }
}

fn exchange(mut stream: impl Read + Write + AsFd, text: impl FnOnce() -> String) -> io::Result<()> {
    let mut request = Vec::new();
    let mut chunk = [0; 512];
    // A client that sends byte after byte has so many waits.
    for _ in 0..8 {
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
        if request.len() > MOST || !is_ready(&stream, Wanted::Read, PATIENCE / 8)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => request.extend(chunk.iter().take(read)),
        }
    }
    let mut words = request.split(|b| *b == b' ');
    let (method, target) = (words.next(), words.next());
    let (status, body) = match (method, target) {
        (Some(b"GET"), Some(b"/metrics" | b"/")) => ("200 OK", text()),
        (Some(b"GET"), _) => ("404 Not Found", String::new()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let answer = head + &body;
    let mut rest = answer.as_bytes();
    // Nor has one that takes byte after byte more than so many.
    for _ in 0..8 {
        if rest.is_empty() {
            return Ok(());
        }
        if !is_ready(&stream, Wanted::Write, PATIENCE)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let written = stream.write(rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Answer that a client gets which sends `request`.
    fn asked(scraped: &Scraped, mut client: impl Read + Write, request: &[u8]) -> String {
        client.write_all(request).unwrap();
        drop(scraped.serve(|| "up 1\n".into()));
        let mut answer = Vec::new();
        drop(client.read_to_end(&mut answer));
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_get_is_answered_and_anything_else_is_refused_in_time() {
        let scraped = Scraped::listen("127.0.0.1:0").unwrap();
        let client = || TcpStream::connect(scraped.address().unwrap()).unwrap();
        let told = asked(&scraped, client(), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            told.starts_with("HTTP/1.1 200 OK\r\n") && told.ends_with("\r\n\r\nup 1\n"),
            "{told}"
        );
        assert!(told.contains("Content-Length: 5\r\n"), "{told}");
        let post = asked(&scraped, client(), b"POST /metrics HTTP/1.1\r\n\r\n");
        assert!(post.starts_with("HTTP/1.1 405"), "{post}");
        let other = asked(&scraped, client(), b"GET /etc/passwd HTTP/1.1\r\n\r\n");
        assert!(other.starts_with("HTTP/1.1 404"), "{other}");
        // One that says nothing, never ends, or leaves is let go.
        assert_eq!(asked(&scraped, client(), b""), "");
        assert_eq!(asked(&scraped, client(), &[b'x'; 1 << 16]), "");
        drop(client());
        scraped.serve(String::new).unwrap_err();
        scraped.serve(String::new).unwrap();
        assert!(Scraped::listen("0.0.0.0:0").is_err());
        assert!(Scraped::listen("192.0.2.1:80").is_err());
        assert!(Scraped::listen("9777").is_err());
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_a_file_is_not() {
        let dir = crate::machine::testing::scratch("scrape");
        let path = dir.join("metrics.sock");
        let place = path.to_str().unwrap();
        let left = UnixListener::bind(&path).unwrap();
        drop(left);
        let scraped = Scraped::listen(place).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        assert!(asked(&scraped, client, b"GET / HTTP/1.0\r\n\r\n").ends_with("up 1\n"));
        drop(scraped);
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        assert!(Scraped::listen(place).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

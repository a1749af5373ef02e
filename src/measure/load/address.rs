//! Addresses of machines that take part in a measurement, as people write them.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::error::{Error, Result};

/// Finds `HOST`, `HOST:PORT`, `[2001:db8::1]:PORT` or a bare IPv6 address, for `who` wants to know;
/// `port` is the one where none is named.
///
/// # Errors
/// Usage if the text is no host; not supported if nobody has that name.
pub fn find(who: &str, text: &str, port: u16) -> Result<SocketAddr> {
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok((ip, port).into());
    }
    let with_port = if text.contains(':') { text.to_owned() } else { format!("{text}:{port}") };
    let what = format!("{who}: find {text}");
    let unknown = |why: String| {
        Error::not_supported(&what, why)
            .hint("give its address, or a name that this machine can look up (getent hosts NAME)")
    };
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::InvalidInput => Error::usage(&what, e)
            .hint("a host is a name or an address, and may have a port: pc1:19820"),
        _ => unknown(e.to_string()),
    };
    let found = with_port.to_socket_addrs().map_err(failed)?.next();
    found.ok_or_else(|| unknown("no address has that name".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExitCode;

    #[test]
    fn a_host_is_read_as_people_write_it() {
        for (text, is) in [
            ("198.18.0.1", "198.18.0.1:5201"),
            ("198.18.0.1:7", "198.18.0.1:7"),
            ("2001:db8::1", "[2001:db8::1]:5201"),
            ("[2001:db8::1]", "[2001:db8::1]:5201"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
        ] {
            assert_eq!(find("wan", text, 5201).unwrap().to_string(), is);
        }
        for wrong in ["198.18.0.1:99999", "198.18.0.1:", "pc1:port"] {
            let error = find("wan", wrong, 5201).unwrap_err();
            assert_eq!(error.code(), ExitCode::Usage, "{error}");
            assert!(error.to_string().starts_with(&format!("wan: find {wrong}: ")), "{error}");
        }
    }
}

//! Kernel answers by name: their numbers differ between processors (EOPNOTSUPP is 95 on x86 and
//! 122 on MIPS), and a capture is read on another machine.

use rustix::io::Errno;

const NAMES: &[(&str, Errno)] = &[
    ("EPERM", Errno::PERM),
    ("ENOENT", Errno::NOENT),
    ("ESRCH", Errno::SRCH),
    ("EINTR", Errno::INTR),
    ("EIO", Errno::IO),
    ("ENXIO", Errno::NXIO),
    ("E2BIG", Errno::TOOBIG),
    ("EAGAIN", Errno::AGAIN),
    ("ENOMEM", Errno::NOMEM),
    ("EACCES", Errno::ACCESS),
    ("EBUSY", Errno::BUSY),
    ("ENODEV", Errno::NODEV),
    ("ENOTDIR", Errno::NOTDIR),
    ("EISDIR", Errno::ISDIR),
    ("EINVAL", Errno::INVAL),
    ("EFBIG", Errno::FBIG),
    ("ENOSPC", Errno::NOSPC),
    ("EROFS", Errno::ROFS),
    ("ERANGE", Errno::RANGE),
    ("ENOSYS", Errno::NOSYS),
    ("ELOOP", Errno::LOOP),
    ("ENAMETOOLONG", Errno::NAMETOOLONG),
    ("ENODATA", Errno::NODATA),
    ("EPROTO", Errno::PROTO),
    ("EBADMSG", Errno::BADMSG),
    ("EOVERFLOW", Errno::OVERFLOW),
    ("EOPNOTSUPP", Errno::OPNOTSUPP),
    ("EPROTONOSUPPORT", Errno::PROTONOSUPPORT),
    ("EAFNOSUPPORT", Errno::AFNOSUPPORT),
    ("ENETDOWN", Errno::NETDOWN),
    ("ENOBUFS", Errno::NOBUFS),
    ("ETIMEDOUT", Errno::TIMEDOUT),
];

/// The name; EIO for an answer that nothing here decides by.
pub(super) fn name(errno: Errno) -> &'static str {
    NAMES.iter().find(|(_, known)| *known == errno).map_or("EIO", |(name, _)| name)
}

/// The answer of that name; EIO for an unknown one.
pub(super) fn of(name: &[u8]) -> Errno {
    NAMES.iter().find(|(known, _)| known.as_bytes() == name).map_or(Errno::IO, |(_, errno)| *errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_means_itself() {
        for (text, errno) in NAMES {
            assert_eq!((name(*errno), of(text.as_bytes())), (*text, *errno));
        }
        assert_eq!(of(b"ENEW"), Errno::IO);
    }
}

//! Reading that neither hangs nor exhausts: what is behind a name may be a pipe, a device, a file
//! without an end, or a driver that takes its time.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, fstat, open, stat};
use rustix::io::Errno;

use super::{MAX_READ, clock};
use crate::model::order::InOrder;

/// Longest that one file may take. A large /proc/interrupts needs milliseconds; an EEPROM behind a
/// slow bus some hundreds.
const TIME: Duration = Duration::from_secs(2);

/// The one file that takes longer by its nature, and its time: the kernel unpacks the name of each
/// of its functions, and prints five megabytes of them.
const SLOW: (&str, Duration) = ("/proc/kallsyms", Duration::from_secs(60));

/// Most names that a directory may have: /proc of a machine with as many processes as it can have
/// (pid_max of a large one) is not read by us.
const MAX_NAMES: usize = 100_000;

const CHUNK: usize = 8 << 10;

/// The content of a regular file.
///
/// A read that the kernel itself never returns from can't be ended from here; nothing but a
/// regular file is read, and never one that makes the reader wait for events (`O_NONBLOCK`:
/// /proc/kmsg, trace_pipe).
///
/// # Errors
/// EFBIG beyond [`MAX_READ`], ETIMEDOUT beyond two seconds (a minute for the kernel's symbols), EISDIR for a directory, EINVAL for
/// pipes, sockets and devices, EAGAIN for a file that has nothing yet; otherwise what the kernel
/// answered.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Errno> {
    let time = if path == Path::new(SLOW.0) { SLOW.1 } else { TIME };
    read_within(path, MAX_READ, time)
}

fn read_within(path: &Path, most: u64, time: Duration) -> Result<Vec<u8>, Errno> {
    // Opening some devices does something (a watchdog starts). The kernel's own trees have none.
    if !path.starts_with("/proc") && !path.starts_with("/sys") {
        regular(FileType::from_raw_mode(stat(path)?.st_mode))?;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty())?;
    let meta = fstat(&file)?;
    regular(FileType::from_raw_mode(meta.st_mode))?;
    if u64::try_from(meta.st_size).is_ok_and(|size| size > most) {
        return Err(Errno::FBIG);
    }
    to_the_end(&file, most, time)
}

/// The names in a directory, sorted.
///
/// # Errors
/// EFBIG for an absurd number of names; otherwise what the kernel answered.
#[expect(clippy::disallowed_methods, reason = "the door to the system")]
pub(super) fn names(path: &Path) -> Result<Vec<String>, Errno> {
    let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(errno)? {
        names.push(entry.map_err(errno)?.file_name().to_string_lossy().into_owned());
        if names.len() > MAX_NAMES {
            return Err(Errno::FBIG);
        }
    }
    names.order_by(Ord::cmp);
    Ok(names)
}

fn regular(kind: FileType) -> Result<(), Errno> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

fn to_the_end(file: &OwnedFd, most: u64, time: Duration) -> Result<Vec<u8>, Errno> {
    let deadline = clock::monotonic() + time;
    let mut content = Vec::new();
    // Nearly all files are short, and there are hundreds: reading into the stack spares each of
    // them a mapping, which is what musl's allocator makes of a buffer this long.
    let mut chunk = [0; CHUNK];
    loop {
        let read = rustix::io::read(file, &mut chunk);
        content.extend(chunk.iter().take(*read.as_ref().unwrap_or(&0)));
        match read {
            Ok(0) => return Ok(content),
            Ok(_) if content.len() as u64 > most => return Err(Errno::FBIG),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if clock::monotonic() > deadline {
            return Err(Errno::TIMEDOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_a_device_and_a_directory_are_refused_at_once() {
        let dir = crate::machine::testing::scratch("bounded");
        let pipe = dir.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(read(&pipe), Err(Errno::INVAL));
        assert_eq!(read(Path::new("/dev/zero")), Err(Errno::INVAL));
        assert_eq!(read(&dir), Err(Errno::ISDIR));
        assert_eq!(read(&dir.join("none")), Err(Errno::NOENT));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_longer_than_the_limit_is_an_error_not_a_full_memory() {
        let dir = crate::machine::testing::scratch("huge");
        let huge = dir.join("huge");
        std::fs::File::create(&huge).unwrap().set_len(MAX_READ + 1).unwrap();
        assert_eq!(read(&huge), Err(Errno::FBIG));
        // Files under /proc say that they are empty: there the content itself is counted.
        let long = read_within(Path::new("/proc/kallsyms"), 10_000, TIME);
        assert!(matches!(long, Err(Errno::FBIG | Errno::NOENT)), "{:?}", long.map(|c| c.len()));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_that_takes_too_long_is_given_up() {
        // No time at all: the first piece of a file that needs more than one is already late.
        let slow = read_within(Path::new("/proc/kallsyms"), MAX_READ, Duration::ZERO);
        assert!(matches!(slow, Err(Errno::TIMEDOUT | Errno::NOENT)), "{:?}", slow.map(|c| c.len()));
    }
}

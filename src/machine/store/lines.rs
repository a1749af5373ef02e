//! A file that grows line by line: every line written stays, whatever happens next.

#![expect(clippy::disallowed_methods, reason = "store owns our own files")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::straight;
use crate::error::{Error, Result, words};

/// The operations that a growing file comes down to; tests let each of them fail.
pub(crate) trait Growing: Send {
    /// Writes all of these bytes behind the rest.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to this length.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Makes the written bytes safe against a power cut.
    fn sync(&mut self) -> io::Result<()>;
}

impl Growing for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file that grows line by line.
pub struct Lines {
    what: String,
    file: Box<dyn Growing>,
    /// Number of bytes in whole lines.
    length: u64,
}

impl Lines {
    /// Makes the file. A regular file that is there already is left alone; one that is not regular
    /// (/dev/stdout, a pipe) is written straight through.
    ///
    /// # Errors
    /// A usage error (exit 2) with the path and why; not permitted (exit 4).
    pub fn create(kind: &str, path: &Path) -> Result<Self> {
        let what = format!("write {kind} {}", path.display());
        let mut options = fs::OpenOptions::new();
        // Nothing that has the name is written to, also not what a link leads to.
        options.write(true).create_new(true).mode(0o644);
        let opened = straight(path).and_then(|file| match file {
            Some(file) => Ok(file),
            None if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            None => options.open(path),
        });
        match opened {
            Ok(file) => Ok(Self { what, file: Box::new(file), length: 0 }),
            Err(e) => Err(failed(&what, &e).hint("name another file with -o")),
        }
    }

    /// Opens a regular file to go on behind its present content.
    ///
    /// # Errors
    /// Fails as [`Lines::create`] does.
    pub(super) fn append(kind: &str, path: &Path) -> Result<Self> {
        let what = format!("write {kind} {}", path.display());
        let mut options = fs::OpenOptions::new();
        options.append(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let opened = options.open(path).and_then(|file| {
            let meta = file.metadata()?;
            if !meta.is_file() {
                return Err(io::ErrorKind::Unsupported.into());
            }
            Ok((file, meta.len()))
        });
        let (file, length) = opened.map_err(|e| failed(&what, &e))?;
        Ok(Self { what, file: Box::new(file), length })
    }

    #[cfg(test)]
    pub(crate) fn over(file: Box<dyn Growing>) -> Self {
        Self { what: "write record x".into(), file, length: 0 }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Fails as [`Lines::create`] does; the lines before are in the file.
    pub fn put(&mut self, line: &str) -> Result<()> {
        self.add(line, false)
    }

    /// Adds a line, which is on the disk when this returns.
    ///
    /// # Errors
    /// Fails as [`Lines::put`] does.
    pub fn put_safely(&mut self, line: &str) -> Result<()> {
        self.add(line, true)
    }

    fn add(&mut self, line: &str, safely: bool) -> Result<()> {
        let line = format!("{line}\n");
        let written = self.file.write(line.as_bytes());
        let written = if safely { written.and_then(|()| self.file.sync()) } else { written };
        if let Err(e) = written {
            // Half a line would spoil the file for its readers. A pipe can't be cut; nor need it.
            drop(self.file.cut(self.length));
            let hint = match e.kind() {
                io::ErrorKind::StorageFull => "the file system is full; what was written is kept",
                _ => "what was written is kept",
            };
            return Err(failed(&self.what, &e).hint(hint));
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

fn failed(what: &str, e: &io::Error) -> Error {
    Error::new(super::code_of(e), what, words(e))
}

/// A disk on which there is room for so many lines: the next one is torn. Returned together with
/// its content.
#[cfg(test)]
pub(crate) fn full_after(
    lines: usize,
) -> (Box<dyn Growing>, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    struct Small {
        left: usize,
        content: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    }
    impl Growing for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            let mut content = self.content.lock().unwrap();
            if self.left == 0 {
                content.extend_from_slice(&bytes[..bytes.len() / 2]);
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.left -= 1;
            content.extend_from_slice(bytes);
            Ok(())
        }
        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.content.lock().unwrap().truncate(usize::try_from(length).unwrap());
            Ok(())
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let content = std::sync::Arc::default();
    (Box::new(Small { left: lines, content: std::sync::Arc::clone(&content) }), content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_a_link_that_somebody_put_there() {
        let dir = crate::machine::testing::scratch("lines");
        let (link, other, pipe) = (dir.join("link"), dir.join("other"), dir.join("pipe"));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(Lines::create("recording", &link).is_err());
        assert!(!other.exists(), "made through the link");
        fs::write(&other, "theirs").unwrap();
        assert!(Lines::create("recording", &link).is_err());
        assert!(Lines::append("record", &link).is_err());
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        Lines::create("recording", &pipe).unwrap().put("straight through").unwrap();
        assert!(Lines::append("record", &pipe).is_err());
        drop(reader);
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        fs::remove_dir_all(&dir).unwrap();
    }
}

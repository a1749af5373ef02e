//! tar files: enough to write a capture and to read one from any tar (POSIX.1-1988 ustar, the long
//! names of GNU and busybox, the `path`, `linkpath` and `size` records of POSIX.1-2001).
//!
//! Nothing here touches the file system, and nothing is trusted: every length is checked before it
//! is used, and every entry counts against [`Limits`].

use std::io::{self, Read};

const BLOCK: usize = 512;

/// Longest name or extended header; the kernel's paths end at 4096 bytes.
const MAX_NAME: u64 = 64 << 10;

/// Room is made for so much of a file at a time, bytes.
const STEP: u64 = 4 << 20;

/// How much an archive may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Entries, of every kind.
    pub entries: usize,
    /// Bytes of the unpacked archive, headers included.
    pub total: u64,
    /// Bytes of one file.
    pub file: u64,
}

/// Kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file with its content.
    File(Vec<u8>),
    /// A directory.
    Directory,
    /// A symbolic link with its target.
    Link(Vec<u8>),
    /// A device, a pipe, a hard link, or something newer.
    Other,
}

/// One entry, its name as it stands in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// Kind of the entry.
    pub kind: Kind,
}

/// Why an archive can't be read.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// It ends in the middle.
    #[error("it is cut short")]
    Cut,
    /// Not a tar file, or a damaged one.
    #[error("it is damaged ({0})")]
    Damaged(&'static str),
    /// More than the limits allow.
    #[error("it holds more than a capture can ({0})")]
    TooMuch(&'static str),
    /// The stream failed.
    #[error("{0}")]
    Io(#[source] io::Error),
}

/// Reads entries one after another.
pub struct Reader<R> {
    stream: R,
    limits: Limits,
    entries: usize,
    total: u64,
}

/// Facts from the headers before an entry.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl<R: Read> Reader<R> {
    /// Reads from an unpacked stream.
    pub fn new(stream: R, limits: Limits) -> Self {
        Self { stream, limits, entries: 0, total: 0 }
    }

    /// The next entry; `None` at the end of the archive. The contents of files whose name `skip`
    /// accepts are passed over.
    ///
    /// # Errors
    /// See [`TarError`]; nothing can be read after one.
    pub fn next(&mut self, skip: impl Fn(&[u8]) -> bool) -> Result<Option<Entry>, TarError> {
        let mut extended = Extended::default();
        loop {
            let header = self.block()?;
            if header.iter().all(|b| *b == 0) {
                // Two blocks of zeros end an archive; some tars write one.
                return Ok(None);
            }
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(TarError::TooMuch("entries"));
            }
            let header = Header(&header);
            header.check()?;
            let size = extended.size.map_or_else(|| header.size(), Ok)?;
            match header.kind() {
                b'L' => extended.name = Some(until_nul(&self.content(size, MAX_NAME)?)),
                b'K' => extended.link = Some(until_nul(&self.content(size, MAX_NAME)?)),
                b'x' => extended.records(&self.content(size, MAX_NAME)?)?,
                // Records for all that follows: nothing of use to us.
                b'g' => drop(self.content(size, MAX_NAME)?),
                kind => {
                    let name = extended.name.take().unwrap_or_else(|| header.name());
                    let kind = match kind {
                        0 | b'0' | b'7' if name.ends_with(b"/") => Kind::Directory,
                        0 | b'0' | b'7' if skip(&name) => {
                            self.pass(size)?;
                            Kind::File(Vec::new())
                        }
                        0 | b'0' | b'7' => Kind::File(self.content(size, self.limits.file)?),
                        b'5' => Kind::Directory,
                        b'2' => Kind::Link(extended.link.take().unwrap_or_else(|| header.link())),
                        // Neither hard links nor devices carry content.
                        b'1' | b'3' | b'4' | b'6' => Kind::Other,
                        _ => {
                            self.pass(size)?;
                            Kind::Other
                        }
                    };
                    return Ok(Some(Entry { name, kind }));
                }
            }
        }
    }

    /// Reads what is left: a compressed stream's own check comes at its very end.
    ///
    /// # Errors
    /// When the stream fails or is longer than allowed.
    pub fn finish(mut self) -> Result<(), TarError> {
        let mut rest = [0; BLOCK];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(n) => self.count(n as u64)?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }

    fn block(&mut self) -> Result<[u8; BLOCK], TarError> {
        let mut block = [0; BLOCK];
        self.count(BLOCK as u64)?;
        self.stream.read_exact(&mut block).map_err(failed)?;
        Ok(block)
    }

    /// The content of an entry, whose last block is filled up.
    fn content(&mut self, size: u64, most: u64) -> Result<Vec<u8>, TarError> {
        if size > most {
            return Err(TarError::TooMuch("bytes in one file"));
        }
        let padded = size.next_multiple_of(BLOCK as u64);
        self.count(padded)?;
        let mut content = Vec::new();
        // Grows with what really comes: a header can claim any size. By steps, not by doubling,
        // which would hold a large file three times.
        let mut left = padded;
        while left > 0 {
            let step = left.min(STEP);
            content.reserve_exact(usize::try_from(step).unwrap_or(0));
            let came = (&mut self.stream).take(step).read_to_end(&mut content).map_err(failed)?;
            if came as u64 != step {
                return Err(TarError::Cut);
            }
            left -= step;
        }
        content.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        // Thousands of small files live as long as the archive is open.
        content.shrink_to_fit();
        Ok(content)
    }

    fn pass(&mut self, size: u64) -> Result<(), TarError> {
        let padded = size.checked_next_multiple_of(BLOCK as u64);
        let padded = padded.ok_or(TarError::Damaged("a size"))?;
        self.count(padded)?;
        let passed = io::copy(&mut (&mut self.stream).take(padded), &mut io::sink());
        if passed.map_err(failed)? == padded { Ok(()) } else { Err(TarError::Cut) }
    }

    fn count(&mut self, bytes: u64) -> Result<(), TarError> {
        self.total = self.total.saturating_add(bytes);
        if self.total > self.limits.total { Err(TarError::TooMuch("bytes")) } else { Ok(()) }
    }
}

impl Extended {
    /// Records `LENGTH KEY=VALUE\n`, the length counting all of it.
    fn records(&mut self, text: &[u8]) -> Result<(), TarError> {
        let damaged = || TarError::Damaged("an extended header");
        let mut rest = text;
        while !rest.is_empty() {
            let space = rest.iter().position(|b| *b == b' ').ok_or_else(damaged)?;
            let length: usize = ascii(rest.get(..space)).ok_or_else(damaged)?;
            let end = length.checked_sub(1).ok_or_else(damaged)?;
            let record = rest.get(space + 1..end).ok_or_else(damaged)?;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(damaged)?;
            let (key, value) = record.split_at(equals);
            let value = value.get(1..).unwrap_or_default();
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => self.size = Some(ascii(Some(value)).ok_or_else(damaged)?),
                _ => {}
            }
            rest = rest.get(length..).ok_or_else(damaged)?;
        }
        Ok(())
    }
}

struct Header<'a>(&'a [u8; BLOCK]);

impl Header<'_> {
    fn field(&self, from: usize, length: usize) -> &[u8] {
        self.0.get(from..from + length).unwrap_or_default()
    }

    fn check(&self) -> Result<(), TarError> {
        // The field itself counts as eight blanks.
        let bytes = || self.field(0, 148).iter().chain(self.field(156, BLOCK - 156)).copied();
        let blanks = 8 * i64::from(b' ');
        let stated = octal(self.field(148, 8)).and_then(|n| i64::try_from(n).ok());
        // Old tars added up signed bytes.
        let right = stated == Some(blanks + bytes().map(i64::from).sum::<i64>())
            || stated == Some(blanks + bytes().map(|b| i64::from(b as i8)).sum::<i64>());
        if right { Ok(()) } else { Err(TarError::Damaged("a checksum")) }
    }

    fn size(&self) -> Result<u64, TarError> {
        // The first bit set would be GNU's binary form, for files of 8 GiB and more.
        octal(self.field(124, 12)).ok_or(TarError::Damaged("a size"))
    }

    fn kind(&self) -> u8 {
        self.0.get(156).copied().unwrap_or_default()
    }

    fn link(&self) -> Vec<u8> {
        until_nul(self.field(157, 100))
    }

    fn name(&self) -> Vec<u8> {
        let name = until_nul(self.field(0, 100));
        // GNU's own format uses the prefix for something else, and says "ustar " then.
        let prefix = match self.field(257, 6) {
            b"ustar\0" => until_nul(self.field(345, 155)),
            _ => Vec::new(),
        };
        if prefix.is_empty() { name } else { [prefix, name].join(&b'/') }
    }
}

fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|b| *b != 0).collect()
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = until_nul(field);
    let text = text.trim_ascii();
    if text.is_empty() {
        return Some(0);
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok()
}

fn ascii<T: std::str::FromStr>(text: Option<&[u8]>) -> Option<T> {
    std::str::from_utf8(text?).ok()?.parse().ok()
}

fn failed(error: io::Error) -> TarError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => TarError::Cut,
        // flate2's words for bytes that are no deflate stream or fail its check.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            TarError::Damaged("its compression")
        }
        _ => TarError::Io(error),
    }
}

/// Appends an entry to an archive in the making; names and link targets of any length.
///
/// # Errors
/// What writing answered.
pub fn append(out: &mut impl io::Write, name: &[u8], kind: &Kind) -> io::Result<()> {
    let (letter, link, content): (u8, &[u8], &[u8]) = match kind {
        Kind::File(content) => (b'0', b"", content),
        Kind::Directory => (b'5', b"", b""),
        Kind::Link(target) => (b'2', target, b""),
        Kind::Other => return Err(io::ErrorKind::Unsupported.into()),
    };
    for (letter, long) in [(b'L', name), (b'K', link)] {
        if long.len() > 100 {
            let terminated = [long, b"\0"].concat();
            raw(out, letter, b"././@LongLink", b"", &terminated)?;
        }
    }
    raw(out, letter, name, link, content)
}

/// The two empty blocks that end an archive.
///
/// # Errors
/// What writing answered.
pub fn end(out: &mut impl io::Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

fn raw(
    out: &mut impl io::Write,
    letter: u8,
    name: &[u8],
    link: &[u8],
    content: &[u8],
) -> io::Result<()> {
    let mut header = Vec::with_capacity(BLOCK);
    let mut field = |bytes: &[u8], length: usize| {
        header.extend(bytes.iter().chain(std::iter::repeat(&0)).take(length));
    };
    field(name, 100);
    let mode: &[u8] = if letter == b'5' { b"0000755" } else { b"0000644" };
    field(mode, 8);
    field(b"0000000", 8);
    field(b"0000000", 8);
    field(format!("{:011o}", content.len()).as_bytes(), 12);
    field(b"00000000000", 12);
    field(b"        ", 8);
    field(&[letter], 1);
    field(link, 100);
    // GNU's form: its long names go with it, and every tar of today reads it.
    field(b"ustar  ", 8);
    field(b"root", 32);
    field(b"root", 32);
    field(b"", 183);
    let sum: u64 = header.iter().map(|b| u64::from(*b)).sum();
    header.splice(148..155, format!("{sum:06o}\0").into_bytes());
    out.write_all(&header)?;
    out.write_all(content)?;
    let padding = content.len().next_multiple_of(BLOCK) - content.len();
    out.write_all([0; BLOCK].get(..padding).unwrap_or_default())
}

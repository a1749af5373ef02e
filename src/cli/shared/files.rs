//! Files that verbs write for their user: nothing that is there already is overwritten, unless that is
//! asked for.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::{Error, Result};
use crate::machine::host::clock;

/// Permission to overwrite.
#[derive(Debug, Clone, Copy, Args)]
pub struct Force {
    /// Overwrite files that are there already
    #[arg(long)]
    pub force: bool,
}

impl Force {
    /// Refuses a file that could not be written, or is there already, so that minutes of measuring do not
    /// end at it. What is no regular file (/dev/stdout, a pipe) is written straight through.
    ///
    /// # Errors
    /// A usage error (exit 2).
    pub(in crate::cli) fn check(self, file: &Path) -> Result<()> {
        let refused = |why| Error::usage(format!("write {}", file.display()), why);
        let dir = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if file.is_dir() {
            return Err(refused("it is a directory").hint("name a file in it: -o FILE"));
        }
        if !dir.is_dir() {
            return Err(refused("no such directory")
                .hint(format!("make it first: mkdir -p {}", dir.display())));
        }
        let ending = file.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("pdf" | "png" | "jpg" | "jpeg")) {
            return Err(refused("such files are not made here")
                .hint("make a page, -o FILE.html, and print that in a browser"));
        }
        if file.is_file() && !self.force {
            return Err(refused("it is there already")
                .hint("name another file with -o, or overwrite it with --force"));
        }
        Ok(())
    }

    /// The usual name of a file, or, where that is taken, the same with the time of day.
    #[must_use]
    pub(in crate::cli) fn usual(self, name: &str) -> PathBuf {
        match Path::new(name).exists() && !self.force {
            true => dated(name),
            false => name.into(),
        }
    }
}

/// A name with the date and time of day in it: `plan.toml` is `plan-20261122-164000.toml`.
#[must_use]
pub(in crate::cli) fn dated(name: &str) -> PathBuf {
    let now: String = clock::wall().chars().filter(char::is_ascii_digit).collect();
    let (date, time) = now.split_at_checked(8).unwrap_or((&now, ""));
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let first = format!("{stem}-{date}-{time}.{ending}").into();
    // Two in a second.
    let more = (2..100).map(|n| format!("{stem}-{date}-{time}-{n}.{ending}").into());
    std::iter::once(first).chain(more).find(|path: &PathBuf| !path.exists()).unwrap_or_default()
}

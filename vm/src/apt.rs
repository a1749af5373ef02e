//! Packages of the distribution, asked for and downloaded by apt, never installed: this machine's
//! own, or those of another processor by lists kept apart, so that nothing foreign is added here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::kernel::{read_text, run};

/// A package at a version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// apt, with the lists of one processor.
#[derive(Debug)]
pub(crate) struct Apt {
    /// A configuration of its own; none is this machine's.
    config: Option<PathBuf>,
}

impl Apt {
    /// This machine's own packages, by the lists it has.
    pub(crate) fn host() -> Self {
        Self { config: None }
    }

    /// Packages for `architecture` (as Debian names it), from the same archive; the lists are
    /// fetched into `cache` the first time.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without apt or an archive; [`Error::Failed`] when the cache can't be
    /// written.
    pub(crate) fn foreign(cache: &Path, architecture: &str) -> Result<Self> {
        let home = cache.join(architecture);
        for directory in ["lists/partial", "archives/partial"] {
            let path = home.join(directory);
            fs::create_dir_all(&path).map_err(|e| Error::failed(path.display(), e))?;
        }
        let top = home.display();
        let mut config = format!(
            "APT::Architecture \"{architecture}\";\n\
             APT::Architectures {{ \"{architecture}\"; }};\n\
             APT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n\
             Dir::State \"{top}\";\n\
             Dir::State::Lists \"{top}/lists\";\n\
             Dir::State::status \"{top}/status\";\n\
             Dir::Cache \"{top}\";\n"
        );
        if let Some(source) = ubuntu_ports(&read_text(Path::new("/etc/os-release"))?) {
            put(&home.join("sources.list"), &source)?;
            config.push_str(&format!(
                "Dir::Etc::SourceList \"{top}/sources.list\";\nDir::Etc::SourceParts \"-\";\n"
            ));
        }
        put(&home.join("status"), "")?;
        put(&home.join("apt.conf"), &config)?;
        let apt = Self { config: Some(home.join("apt.conf")) };
        if !home.join("fetched").exists() {
            apt.update()?;
            put(&home.join("fetched"), "")?;
        }
        Ok(apt)
    }

    /// Where trees of these packages are kept in `cache`: Ubuntu's have the same names and versions
    /// for every processor.
    pub(crate) fn trees(&self, cache: &Path) -> PathBuf {
        self.config.as_deref().and_then(Path::parent).unwrap_or(cache).to_owned()
    }

    /// Fetches the lists.
    fn update(&self) -> Result<()> {
        let mut update = self.command("apt-get");
        // Debian's lists of desktop programs are larger than those of packages.
        update.args([
            "update",
            "-qq",
            "-o",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=0",
        ]);
        run(&mut update).map_err(|e| Error::Unavailable(e.to_string()))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C");
        if let Some(config) = &self.config {
            command.env("APT_CONFIG", config);
        }
        command
    }

    fn cache(&self, arguments: &[&str]) -> Result<String> {
        let output = self
            .command("apt-cache")
            .args(arguments)
            .output()
            .map_err(|e| Error::Unavailable(format!("apt-cache: {e}")))?;
        // An unknown package makes it fail: then there is nothing to read, which is the answer.
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What a package depends on, by name.
    pub(crate) fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        Ok(parse_dependencies(&self.cache(&["depends", package])?))
    }

    /// A package at the version that would be installed; `None` when there is none.
    pub(crate) fn candidate(&self, name: &str) -> Result<Option<Package>> {
        let version = parse_candidate(&self.cache(&["policy", name])?);
        Ok(version.map(|version| Package { name: name.to_owned(), version }))
    }

    /// Downloads a package into `tree` and unpacks it there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a download; [`Error::Failed`] when it can't be unpacked.
    pub(crate) fn unpack(&self, Package { name, version }: &Package, tree: &Path) -> Result<()> {
        let mut download = self.command("apt-get");
        // The sandbox user of apt can't write here; without root there is no sandbox to leave.
        download.args(["download", "-qq", "-o", "APT::Sandbox::User=root"]);
        download.arg(format!("{name}={version}")).current_dir(tree);
        run(&mut download).map_err(|e| Error::Unavailable(e.to_string()))?;
        for deb in files_with_extension(tree, "deb")? {
            run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(tree))?;
            fs::remove_file(&deb).map_err(|e| Error::failed(deb.display(), e))?;
        }
        Ok(())
    }

    /// Runs `attempt`; when packages can't be had, once more with new lists, for the archive may have
    /// gone on. This machine's own lists are left to its owner.
    pub(crate) fn with_new_lists<T>(&self, attempt: impl Fn(&Self) -> Result<T>) -> Result<T> {
        match attempt(self) {
            Err(Error::Unavailable(_)) if self.config.is_some() => {
                self.update()?;
                attempt(self)
            }
            outcome => outcome,
        }
    }
}

/// Ubuntu keeps other processors' packages in an archive apart; Debian has one for all.
fn ubuntu_ports(release: &str) -> Option<String> {
    let value = |key: &str| release.lines().find_map(|l| l.strip_prefix(key));
    (value("ID=")?.trim_matches('"') == "ubuntu").then_some(())?;
    let suite = value("VERSION_CODENAME=")?.trim_matches('"');
    Some(format!(
        "deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] \
         http://ports.ubuntu.com/ubuntu-ports {suite} main\n"
    ))
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::failed(path.display(), e))
}

fn parse_dependencies(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|l| l.trim().trim_start_matches('|').strip_prefix("Depends: "))
        .map(|d| d.split(':').next().unwrap_or(d).to_owned())
        .collect()
}

fn parse_candidate(text: &str) -> Option<String> {
    text.lines()
        .find_map(|l| l.trim().strip_prefix("Candidate: "))
        .filter(|v| *v != "(none)")
        .map(ToOwned::to_owned)
}

fn files_with_extension(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(|e| Error::failed(directory.display(), e))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::failed(directory.display(), e))?.path();
        if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meta_package_leads_to_the_versioned_image() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n |Recommends: x\n";
        assert_eq!(parse_dependencies(text), ["linux-image-6.1.0-56-amd64"]);
    }

    #[test]
    fn a_package_without_candidate_is_none() {
        assert_eq!(parse_candidate("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(parse_candidate("x:\n  Candidate: 6.1.192-2\n").as_deref(), Some("6.1.192-2"));
    }

    #[test]
    fn ubuntu_has_other_processors_elsewhere_and_debian_has_not() {
        let source = ubuntu_ports("ID=ubuntu\nVERSION_CODENAME=noble\n").unwrap();
        assert!(source.ends_with("http://ports.ubuntu.com/ubuntu-ports noble main\n"), "{source}");
        assert_eq!(ubuntu_ports("VERSION_CODENAME=bookworm\nID=debian\n"), None);
    }
}

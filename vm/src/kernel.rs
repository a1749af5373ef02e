//! The guest's kernel: the distribution's own, downloaded (never installed) into a cache and
//! unpacked there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::modules::Tables;

/// Packages whose dependency is the current kernel: Debian's, then Ubuntu's.
const META_PACKAGES: [&str; 2] = ["linux-image-amd64", "linux-image-generic"];

/// Parts of a kernel package that no router test needs, and most of its size.
const UNWANTED: [&str; 9] = [
    "kernel/sound",
    "kernel/drivers/gpu",
    "kernel/drivers/media",
    "kernel/drivers/scsi",
    "kernel/drivers/infiniband",
    "kernel/drivers/staging",
    "kernel/drivers/iio",
    "kernel/drivers/usb/serial",
    "kernel/drivers/net/wireless",
];

/// Says that a tree is whole; another name whenever [`UNWANTED`] changes, so that trees of before
/// are unpacked anew.
const COMPLETE: &str = "complete-with-usb";

/// An unpacked kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Its release, as `uname -r` will say.
    pub release: String,
    /// The image to boot.
    pub image: PathBuf,
    /// Where its modules are (`.../lib/modules/RELEASE`), uncompressed.
    pub module_dir: PathBuf,
    /// What depmod found there.
    pub tables: Tables,
}

/// Where kernels are kept between runs: `LINERATE_VM_CACHE`, or `.cache/vm` of the repository.
#[must_use]
pub fn cache_dir() -> PathBuf {
    std::env::var_os("LINERATE_VM_CACHE")
        .map_or_else(|| repository().join(".cache/vm"), PathBuf::from)
}

/// The top of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

impl Kernel {
    /// The distribution's current kernel, from the cache or else from its archive.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where there is no apt, no such package or no download;
    /// [`Error::Failed`] where a package can't be unpacked.
    pub fn fetch(cache: &Path) -> Result<Self> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(Error::Unavailable(format!(
                "the guest is x86_64, and this machine is {}",
                std::env::consts::ARCH
            )));
        }
        let packages = current_packages()?;
        let key = packages.first().map(|p| format!("{}_{}", p.name, p.version)).unwrap_or_default();
        let tree = cache.join(key);
        if !tree.join(COMPLETE).exists() {
            unpack(&packages, &tree)?;
        }
        Self::open(&tree)
    }

    fn open(tree: &Path) -> Result<Self> {
        let modules = tree.join("lib/modules");
        let release = only_name(&modules)?;
        let module_dir = modules.join(&release);
        let image = tree.join("boot").join(format!("vmlinuz-{release}"));
        let table = |name: &str| read_text(&module_dir.join(name));
        let tables = Tables::parse(
            &table("modules.dep")?,
            &table("modules.softdep")?,
            &table("modules.alias")?,
            &table("modules.builtin")?,
        );
        Ok(Self { release, image, module_dir, tables })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
}

/// The image package that the meta package stands for now, and those with its modules.
fn current_packages() -> Result<Vec<Package>> {
    let mut names = Vec::new();
    for meta in META_PACKAGES {
        let depends = dependencies(meta)?;
        let Some(image) = depends.into_iter().find(|d| is_versioned(d, "linux-image-")) else {
            continue;
        };
        // Ubuntu keeps the modules apart.
        let modules =
            dependencies(&image)?.into_iter().filter(|d| is_versioned(d, "linux-modules-"));
        let extra = image.replace("linux-image-", "linux-modules-extra-");
        names.extend(modules);
        names.insert(0, image);
        if names.len() > 1 {
            names.push(extra);
        }
        break;
    }
    let mut packages = Vec::new();
    for name in names {
        if let Some(version) = candidate(&name)? {
            packages.push(Package { name, version });
        }
    }
    if packages.is_empty() {
        return Err(Error::Unavailable(format!(
            "apt knows no kernel package ({}); run: apt-get update",
            META_PACKAGES.join(", ")
        )));
    }
    Ok(packages)
}

/// `linux-image-6.1.0-9-amd64`, but not `linux-image-amd64`.
fn is_versioned(package: &str, prefix: &str) -> bool {
    package.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        && !package.ends_with("-unsigned")
        && !package.ends_with("-dbg")
}

fn dependencies(package: &str) -> Result<Vec<String>> {
    let text = apt_cache(&["depends", package])?;
    Ok(parse_dependencies(&text))
}

fn parse_dependencies(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|l| l.trim().trim_start_matches('|').strip_prefix("Depends: "))
        .map(|d| d.split(':').next().unwrap_or(d).to_owned())
        .collect()
}

fn candidate(package: &str) -> Result<Option<String>> {
    let text = apt_cache(&["policy", package])?;
    Ok(parse_candidate(&text))
}

fn parse_candidate(text: &str) -> Option<String> {
    text.lines()
        .find_map(|l| l.trim().strip_prefix("Candidate: "))
        .filter(|v| *v != "(none)")
        .map(ToOwned::to_owned)
}

fn apt_cache(arguments: &[&str]) -> Result<String> {
    let output = Command::new("apt-cache")
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Error::Unavailable(format!("apt-cache: {e}")))?;
    // An unknown package makes it fail: then there is nothing to read, which is the answer.
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn unpack(packages: &[Package], tree: &Path) -> Result<()> {
    let partial = tree.with_extension(format!("partial-{}", std::process::id()));
    let outcome = unpack_into(packages, &partial).and_then(|()| {
        if tree.exists() {
            // Left by a run that was cut before it was complete.
            fs::remove_dir_all(tree).map_err(|e| Error::failed(tree.display(), e))?;
        }
        fs::rename(&partial, tree).map_err(|e| Error::failed(tree.display(), e))
    });
    if outcome.is_err() && partial.exists() {
        fs::remove_dir_all(&partial).map_err(|e| Error::failed(partial.display(), e))?;
    }
    outcome
}

fn unpack_into(packages: &[Package], tree: &Path) -> Result<()> {
    fs::create_dir_all(tree).map_err(|e| Error::failed(tree.display(), e))?;
    for Package { name, version } in packages {
        let mut download = Command::new("apt-get");
        // The sandbox user of apt can't write here; without root there is no sandbox to leave.
        download.args(["download", "-qq", "-o", "APT::Sandbox::User=root"]);
        download.arg(format!("{name}={version}")).current_dir(tree);
        run(&mut download).map_err(|e| Error::Unavailable(e.to_string()))?;
        for deb in files_with_extension(tree, "deb")? {
            run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(tree))?;
            fs::remove_file(&deb).map_err(|e| Error::failed(deb.display(), e))?;
        }
    }
    if !tree.join("lib").exists() {
        // Since the merge of /usr, packages may say usr/lib/modules.
        std::os::unix::fs::symlink("usr/lib", tree.join("lib"))
            .map_err(|e| Error::failed("link to usr/lib", e))?;
    }
    let modules = tree.join("lib/modules");
    let release = only_name(&modules)?;
    for unwanted in UNWANTED {
        let directory = modules.join(&release).join(unwanted);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(|e| Error::failed(directory.display(), e))?;
        }
    }
    decompress(&modules)?;
    let depmod = if Path::new("/sbin/depmod").exists() { "/sbin/depmod" } else { "depmod" };
    run(Command::new(depmod).arg("-b").arg(tree).arg(&release))?;
    fs::write(tree.join(COMPLETE), "").map_err(|e| Error::failed(COMPLETE, e))
}

/// Uncompressed modules load faster in an emulated guest, and its busybox need not know how.
fn decompress(directory: &Path) -> Result<()> {
    for (suffix, tool) in [("*.ko.xz", "xz"), ("*.ko.zst", "zstd"), ("*.ko.gz", "gzip")] {
        let options: &[&str] = if tool == "zstd" { &["-d", "-q", "--rm"] } else { &["-d", "-f"] };
        run(Command::new("find")
            .arg(directory)
            .args(["-name", suffix, "-exec", tool])
            .args(options)
            .args(["{}", "+"]))?;
    }
    Ok(())
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

fn only_name(directory: &Path) -> Result<String> {
    let mut entries = fs::read_dir(directory).map_err(|e| Error::failed(directory.display(), e))?;
    let entry = entries
        .next()
        .ok_or_else(|| Error::failed(directory.display(), "is empty"))?
        .map_err(|e| Error::failed(directory.display(), e))?;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| Error::failed(path.display(), e))
}

pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| Error::failed(&name, e))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::failed(name, String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meta_package_leads_to_the_versioned_image() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n |Recommends: x\n";
        assert_eq!(parse_dependencies(text), ["linux-image-6.1.0-56-amd64"]);
        assert!(is_versioned("linux-image-6.1.0-56-amd64", "linux-image-"));
        assert!(!is_versioned("linux-image-amd64", "linux-image-"));
    }

    #[test]
    fn a_package_without_candidate_is_none() {
        assert_eq!(parse_candidate("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(parse_candidate("x:\n  Candidate: 6.1.192-2\n").as_deref(), Some("6.1.192-2"));
    }
}

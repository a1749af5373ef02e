//! The guest's kernel: the distribution's own, downloaded (never installed) into a cache and
//! unpacked there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::{Apt, Package};
use crate::error::{Error, Result};
use crate::modules::Tables;

/// A guest's processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// x86_64.
    X86,
    /// 64-bit ARM.
    Arm64,
}

impl Arch {
    /// Packages whose dependency is the current kernel: Debian's, then Ubuntu's.
    fn meta_packages(self) -> [&'static str; 2] {
        [
            if self == Self::X86 { "linux-image-amd64" } else { "linux-image-arm64" },
            "linux-image-generic",
        ]
    }

    /// Where this processor's packages come from.
    pub(crate) fn apt(self, cache: &Path) -> Result<Apt> {
        match self {
            Self::X86 if std::env::consts::ARCH != "x86_64" => Err(Error::Unavailable(format!(
                "the guest is x86_64, and this machine is {}",
                std::env::consts::ARCH
            ))),
            Self::X86 => Ok(Apt::host()),
            Self::Arm64 => Apt::foreign(cache, "arm64"),
        }
    }
}

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
    pub fn fetch(cache: &Path, arch: Arch) -> Result<Self> {
        let tree = arch.apt(cache)?.with_new_lists(|apt| {
            let packages = current_packages(apt, arch)?;
            cached(apt, &packages, cache, COMPLETE, tidy_kernel)
        })?;
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

/// The image package that the meta package stands for now, and those with its modules.
fn current_packages(apt: &Apt, arch: Arch) -> Result<Vec<Package>> {
    let mut names = Vec::new();
    for meta in arch.meta_packages() {
        let depends = apt.dependencies(meta)?;
        let Some(image) = depends.into_iter().find(|d| is_versioned(d, "linux-image-")) else {
            continue;
        };
        // Ubuntu keeps the modules apart.
        let modules =
            apt.dependencies(&image)?.into_iter().filter(|d| is_versioned(d, "linux-modules-"));
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
        packages.extend(apt.candidate(&name)?);
    }
    if packages.is_empty() {
        return Err(Error::Unavailable(format!(
            "apt knows no kernel package ({}); run: apt-get update",
            arch.meta_packages().join(", ")
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

/// Packages unpacked into a tree of the cache, named after the first; `tidy` completes a new one,
/// and the file `complete` says that it is whole.
pub(crate) fn cached(
    apt: &Apt,
    packages: &[Package],
    cache: &Path,
    complete: &str,
    tidy: fn(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let key = packages.first().map(|p| format!("{}_{}", p.name, p.version)).unwrap_or_default();
    let trees = apt.trees(cache);
    let tree = trees.join(key);
    if tree.join(complete).exists() {
        return Ok(tree);
    }
    // Not with_extension: a version has dots, and what follows the last would be lost.
    let partial = trees.join(format!("partial-{}", std::process::id()));
    let outcome = unpack_into(apt, packages, &partial).and_then(|()| {
        tidy(&partial)?;
        fs::write(partial.join(complete), "").map_err(|e| Error::failed(complete, e))?;
        if tree.exists() {
            // Left by a run that was cut before it was complete.
            fs::remove_dir_all(&tree).map_err(|e| Error::failed(tree.display(), e))?;
        }
        fs::rename(&partial, &tree).map_err(|e| Error::failed(tree.display(), e))
    });
    if outcome.is_err() && partial.exists() {
        fs::remove_dir_all(&partial).map_err(|e| Error::failed(partial.display(), e))?;
    }
    outcome.map(|()| tree)
}

fn unpack_into(apt: &Apt, packages: &[Package], tree: &Path) -> Result<()> {
    fs::create_dir_all(tree).map_err(|e| Error::failed(tree.display(), e))?;
    for package in packages {
        apt.unpack(package, tree)?;
    }
    Ok(())
}

/// Removes what nobody needs, and makes the modules loadable.
fn tidy_kernel(tree: &Path) -> Result<()> {
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
    run(Command::new(depmod).arg("-b").arg(tree).arg(&release))
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
    fn an_image_is_told_from_its_meta_package() {
        assert!(is_versioned("linux-image-6.1.0-56-amd64", "linux-image-"));
        assert!(!is_versioned("linux-image-amd64", "linux-image-"));
    }
}

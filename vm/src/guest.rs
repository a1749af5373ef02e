//! What is inside the guest: a static busybox, the kernel's modules, the files a test brings, and
//! an init that runs the test's script.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cpio::Archive;
use crate::error::{Error, Result};
use crate::kernel::{Arch, Kernel, cached};

/// The first process. One serial line takes what the script prints, the next the results: for each
/// file under /out a line `FILE NAME SIZE` and its bytes, then `EXIT CODE`.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
# Sentences are looked for in one line.
export PATH=/bin HOME=/root COLUMNS=200
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
hostname guest
ip link set lo up
# As bytes, not as a terminal's lines.
# On x86 the console is the first of three; on ARM it is of another kind.
case $(uname -m) in x86_64) output=/dev/ttyS1 results=/dev/ttyS2 ;; *) output=/dev/ttyS0 results=/dev/ttyS1 ;; esac
for line in $output $results; do stty -F $line raw -echo; done
for module in $(cat /etc/modules); do modprobe "$module" || echo "init: no module $module"; done
cd /root
sh /root/script </dev/null >$output 2>&1
code=$?
stty -F $output raw # waits until the output has left
{
    for file in /out/*; do
        [ -f "$file" ] || continue
        echo "FILE ${file##*/} $(stat -c %s "$file")"
        cat "$file"
    done
    echo "EXIT $code"
} >$results
stty -F $results raw
poweroff -f
"#;

/// What a test brings into the guest.
#[derive(Debug, Default)]
pub struct Contents {
    /// Modules loaded before the script starts, in this order, with what they depend on.
    pub load: Vec<&'static str>,
    /// Modules that are there for `modprobe` (by the kernel, too) but not loaded.
    pub offer: Vec<&'static str>,
    /// Programs and data: path in the guest (no leading slash), permission bits, bytes.
    pub files: Vec<(String, u32, Vec<u8>)>,
    /// The script, for busybox's shell.
    pub script: String,
}

impl Contents {
    /// Adds a file of this machine.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn copy(&mut self, from: &Path, to: &str, mode: u32) -> Result<()> {
        let data = fs::read(from).map_err(|e| Error::failed(from.display(), e))?;
        self.files.push((to.to_owned(), mode, data));
        Ok(())
    }

    /// The RAM disk, with a static `busybox` for the guest's processor.
    ///
    /// # Errors
    /// [`Error::Failed`] for a module that this kernel does not have.
    pub fn initramfs(&self, kernel: &Kernel, busybox: Vec<u8>) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        for directory in ["dev", "proc", "sys", "run", "tmp", "out", "root", "etc", "var"] {
            archive.directory(directory);
        }
        archive.char_device("dev/console", 5, 1);
        // The kernel calls /sbin/modprobe.
        for link in ["sbin", "usr/bin", "usr/sbin"] {
            archive.symlink(link, if link.contains('/') { "../bin" } else { "bin" });
        }
        archive.file(BUSYBOX.trim_start_matches('/'), 0o755, busybox);
        archive.file("init", 0o755, INIT);
        archive.file("root/script", 0o644, self.script.as_bytes());
        self.add_modules(&mut archive, kernel)?;
        for (name, mode, data) in &self.files {
            archive.file(name, *mode, data.clone());
        }
        Ok(archive.to_bytes())
    }

    fn add_modules(&self, archive: &mut Archive, kernel: &Kernel) -> Result<()> {
        let unknown =
            |name: String| Error::Failed(format!("kernel {} has no module {name}", kernel.release));
        let load = kernel.tables.closure(self.load.iter().copied()).map_err(unknown)?;
        let all =
            kernel.tables.closure(self.load.iter().chain(&self.offer).copied()).map_err(unknown)?;
        let top = format!("lib/modules/{}", kernel.release);
        for name in &all {
            let Some(path) = kernel.tables.path(name) else { continue };
            let from = kernel.module_dir.join(path);
            let data = fs::read(&from).map_err(|e| Error::failed(from.display(), e))?;
            archive.file(&format!("{top}/{path}"), 0o644, data);
        }
        let (dep, alias) = kernel.tables.subset(&all);
        archive.file(&format!("{top}/modules.dep"), 0o644, dep);
        archive.file(&format!("{top}/modules.alias"), 0o644, alias);
        archive.file("etc/modules", 0o644, load.join("\n") + "\n");
        Ok(())
    }
}

/// Where busybox is, here and in the guest.
pub(crate) const BUSYBOX: &str = "/bin/busybox";

/// The busybox of a guest: this machine's own, or its package for another processor.
pub(crate) fn busybox_for(arch: Arch, cache: &Path) -> Result<Vec<u8>> {
    if arch == Arch::X86 {
        return static_busybox();
    }
    let missing = || Error::Unavailable("apt has no busybox-static for the guest".into());
    let tree = arch.apt(cache)?.with_new_lists(|apt| {
        let package = apt.candidate("busybox-static")?.ok_or_else(missing)?;
        cached(apt, &[package], cache, "complete", |_| Ok(()))
    })?;
    // Since the merge of /usr, packages may say usr/bin.
    let places = ["bin/busybox", "usr/bin/busybox"].map(|place| tree.join(place));
    let busybox = places.iter().find(|p| p.exists()).ok_or_else(missing)?;
    fs::read(busybox).map_err(|e| Error::failed(busybox.display(), e))
}

/// This machine's busybox.
pub(crate) fn static_busybox() -> Result<Vec<u8>> {
    let busybox = Path::new(BUSYBOX);
    if !is_static(busybox) {
        return Err(Error::Unavailable("no static busybox (package busybox-static)".into()));
    }
    fs::read(busybox).map_err(|e| Error::failed(busybox.display(), e))
}

fn is_static(program: &Path) -> bool {
    // ldd names the libraries of a dynamic program and fails for a static one.
    program.exists()
        && Command::new("ldd")
            .arg(program)
            .output()
            .is_ok_and(|out| !String::from_utf8_lossy(&out.stdout).contains("=>"))
}

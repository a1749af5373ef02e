//! A whole system in the machine: the distribution's systemd and udev on a disk, rebooted for real.
//!
//! ```text
//!   apt ─▶ mmdebstrap ─▶ root file system ─┐
//!   kernel ─▶ its modules ─────────────────┴▶ image (cached), copied ──▶ QEMU, once for each boot
//!   linerate, script ─▶ a second disk (tar) ───────────────────▶  │ the script runs at every boot
//!                                                                 ▼
//!   requests of the script (QMP: plug in a card; cut the power) ◀── serial lines ──▶ results
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::cpio::Archive;
use crate::error::{Error, Result};
use crate::guest::{BUSYBOX, static_busybox};
use crate::kernel::{self, Arch, Kernel, run};
use crate::machine::{Outcome, QEMU, Running, Scratch, parse_results, tail};

/// Debian and Ubuntu have all of them under these names.
const PACKAGES: &str = "systemd,systemd-sysv,udev,kmod,iproute2,procps,dbus,ppp,pppoe,\
    irqbalance,iperf3,ethtool,strace";

/// Parts of the kernel's modules that such a system needs.
const MODULES: [&str; 7] = [
    "kernel/net",
    "kernel/drivers/net",
    "kernel/drivers/virtio",
    "kernel/drivers/block",
    "kernel/fs/ext4",
    "kernel/lib",
    "kernel/crypto",
];

/// Raised when the recipe below changes: an image of another one is not taken from the cache.
const RECIPE: u32 = 5;

/// Runs the script of the second disk at every boot, before anybody could log in. The script gives
/// control back for a reboot, and calls `finish CODE` at the end.
const UNIT: &str = "[Unit]\nDescription=The script of the test\nAfter=basic.target\nBefore=systemd-user-sessions.service getty.target\n\n[Service]\nType=oneshot\nExecStart=/bin/sh /usr/lib/test/run\nTimeoutStartSec=infinity\n";

const RUN: &str = r#"
exec </dev/null >/dev/ttyS1 2>&1
for line in 1 2 3; do stty -F /dev/ttyS$line raw -echo; done
mkdir -p /out /var/test
[ -e /var/test/unpacked ] || { tar -C / -xf /dev/vdb && : >/var/test/unpacked; }
# request JSON: has QEMU do something (QMP).
request() { echo "$1" >/dev/ttyS3; }
# cut_power MILLISECONDS: so much later the power is cut, whatever goes on then.
cut_power() { request "cut $1"; }
finish() {
    {
        for file in /out/*; do
            [ -f "$file" ] || continue
            echo "FILE ${file##*/} $(stat -c %s "$file")"
            cat "$file"
        done
        echo "EXIT $1"
    } >/dev/ttyS2
    stty -F /dev/ttyS2 raw
    systemctl poweroff --force --force
    sleep 60
}
boot=$(cat /var/test/boot 2>/dev/null || echo 0)
boot=$((boot + 1))
echo $boot >/var/test/boot
# Else a power cut soon after takes the count back, and the same step comes twice.
sync /var/test/boot
echo "== boot $boot, $(cut -d' ' -f1 /proc/uptime) s"
. /root/script
"#;

/// Mounts the disk and starts its init.
const FIRST: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules); do /bin/busybox insmod /lib/$module.ko; done
for i in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; /bin/busybox sleep 1; done
/bin/busybox mount -t ext4 /dev/vda /root
exec /bin/busybox switch_root /root /sbin/init
"#;

/// A system to be booted.
#[derive(Debug)]
pub struct System {
    /// Files that are unpacked into it: path without a leading slash, permission bits, bytes.
    pub files: Vec<(String, u32, Vec<u8>)>,
    /// What runs at every boot, for a POSIX shell; `$boot` is its number, from 1.
    pub script: String,
    /// More words for QEMU.
    pub devices: Vec<String>,
    /// At most so many boots.
    pub boots: u32,
    /// Killed after this, all boots together.
    pub timeout: Duration,
}

impl System {
    /// Boots, as often as the script reboots, and waits for the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where something is missing that it is built of, or this is not root;
    /// [`Error::Failed`] when the script gave no exit code.
    pub fn run(&self) -> Result<Outcome> {
        if Command::new(QEMU).arg("--version").output().is_err() {
            return Err(Error::Unavailable(format!("{QEMU} (package qemu-system-x86)")));
        }
        let cache = kernel::cache_dir();
        fs::create_dir_all(&cache).map_err(|e| Error::failed(cache.display(), e))?;
        let lock = cache.join("lock");
        let lock = fs::File::create(&lock).map_err(|e| Error::failed(lock.display(), e))?;
        flock(lock.as_fd(), FlockOperation::LockExclusive)
            .map_err(|e| Error::failed("lock of the virtual machine", e))?;
        let kernel = Kernel::fetch(&cache, Arch::X86)?;
        let image = image(&kernel, &cache)?;
        let scratch = Scratch::new(&cache)?;
        let initrd = scratch.path().join("initramfs");
        fs::write(&initrd, first_stage(&kernel)?)
            .map_err(|e| Error::failed(initrd.display(), e))?;
        let disk = self.second_disk(scratch.path())?;
        self.boot(&kernel, &image, &initrd, &disk, scratch.path())
    }

    /// The second disk: a tar, filled up to whole sectors.
    fn second_disk(&self, scratch: &Path) -> Result<PathBuf> {
        let (tree, disk) = (scratch.join("tree"), scratch.join("disk.tar"));
        let script = (String::from("root/script"), 0o644, self.script.clone().into_bytes());
        for (name, mode, data) in self.files.iter().chain([&script]) {
            put(&tree.join(name), *mode, data)?;
        }
        run(Command::new("tar")
            .args(["--owner=0", "--group=0", "-cf"])
            .arg(&disk)
            .arg("-C")
            .arg(&tree)
            .arg("."))?;
        Ok(disk)
    }

    fn boot(
        &self,
        kernel: &Kernel,
        image: &Path,
        initrd: &Path,
        second: &Path,
        scratch: &Path,
    ) -> Result<Outcome> {
        let start = Instant::now();
        let deadline = start + self.timeout;
        let line = |name: &str| scratch.join(name);
        let disk = line("disk");
        run(Command::new("cp").arg("--sparse=always").arg(image).arg(&disk))?;
        let text = |name: &str| {
            String::from_utf8_lossy(&fs::read(line(name)).unwrap_or_default()).into_owned()
        };
        let (mut boots, mut answered) = (0, 0);
        loop {
            boots += 1;
            let errors = line("qemu-errors");
            let stderr =
                fs::File::create(&errors).map_err(|e| Error::failed(errors.display(), e))?;
            let mut command = self.command(kernel, initrd, [&disk, second], scratch);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
            let mut qemu = Running(command.spawn().map_err(|e| Error::failed(QEMU, e))?);
            let mut qmp = None;
            let ended = loop {
                match qemu.0.try_wait().map_err(|e| Error::failed(QEMU, e))? {
                    Some(_) => break true,
                    None if Instant::now() >= deadline => break false,
                    None => sleep(Duration::from_millis(20)),
                }
                let requests = text("requests");
                let whole =
                    requests.rfind('\n').map_or("", |end| requests.get(..end).unwrap_or(""));
                if let Some(wait) = whole.lines().skip(answered).find_map(cut_after) {
                    // What the guest has not written out is lost, as with any power cut; what it
                    // has is in this machine's memory and stays.
                    sleep(wait);
                    answered = whole.lines().count();
                    break true;
                }
                for request in whole.lines().skip(answered) {
                    let qmp = match &mut qmp {
                        Some(open) => open,
                        none => none.insert(Qmp::open(&line("qmp"))?),
                    };
                    qmp.ask(request)?;
                    answered += 1;
                }
            };
            drop(qemu);
            let (console, output) = (text("console"), text("output"));
            let results = fs::read(line("results")).unwrap_or_default();
            let (files, code) = parse_results(&results);
            match code {
                Some(code) if ended => {
                    return Ok(Outcome { code, output, console, files, elapsed: start.elapsed() });
                }
                // It asked for a reboot, or had its power cut.
                None if ended && boots < self.boots => {}
                _ => {
                    return Err(Error::Failed(format!(
                        "the guest gave no exit code in {boots} boots and {} s\n--- end of its \
                         output\n{}\n--- end of its console\n{}\n--- QEMU\n{}",
                        start.elapsed().as_secs(),
                        tail(&output),
                        tail(&console),
                        tail(&text("qemu-errors")),
                    )));
                }
            }
        }
    }

    /// One boot. A reboot ends QEMU, and the disk outlives it: after an emulated reset the kernel
    /// had not started again within minutes on a busy machine (QEMU 7.2, TCG).
    fn command(
        &self,
        kernel: &Kernel,
        initrd: &Path,
        disks: [&Path; 2],
        scratch: &Path,
    ) -> Command {
        // A killed test run must not leave an emulator behind: the kernel kills it with its parent.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", QEMU]);
        command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
        command.args(["-m", "768", "-nodefaults", "-display", "none", "-no-reboot"]);
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initrd);
        command.args([
            "-append",
            "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=unstable rw",
        ]);
        for name in ["console", "output", "results", "requests"] {
            let path = scratch.join(name);
            let device = format!("file,id={name},append=on,path={}", path.display());
            command.arg("-chardev").arg(device).arg("-serial").arg(format!("chardev:{name}"));
        }
        let drive =
            |path: &Path, more| format!("file={},if=virtio,format=raw,{more}", path.display());
        let [first, second] = disks;
        command.arg("-drive").arg(drive(first, "cache=unsafe"));
        command.arg("-drive").arg(drive(second, "readonly=on"));
        let monitor = scratch.join("qmp");
        command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", monitor.display()));
        command.args(&self.devices);
        command
    }
}

/// How long after it is asked for the power is cut; `None` of another request.
fn cut_after(request: &str) -> Option<Duration> {
    request.strip_prefix("cut ")?.parse().ok().map(Duration::from_millis)
}

/// QEMU's control socket.
struct Qmp(BufReader<UnixStream>);

impl Qmp {
    fn open(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).map_err(|e| Error::failed("QMP", e))?;
        let patience = Some(Duration::from_secs(10));
        stream.set_read_timeout(patience).map_err(|e| Error::failed("QMP", e))?;
        let mut qmp = Self(BufReader::new(stream));
        qmp.line()?; // the greeting
        qmp.ask(r#"{"execute":"qmp_capabilities"}"#)?;
        Ok(qmp)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).map_err(|e| Error::failed("QMP", e))?;
        Ok(line)
    }

    /// Asks and waits for the answer; events may come first.
    fn ask(&mut self, request: &str) -> Result<()> {
        let sent = writeln!(self.0.get_mut(), "{request}");
        sent.map_err(|e| Error::failed("QMP", e))?;
        loop {
            let line = self.line()?;
            if line.starts_with("{\"return\"") {
                return Ok(());
            }
            if line.is_empty() || line.starts_with("{\"error\"") {
                return Err(Error::failed(format!("QMP {request}"), line.trim()));
            }
        }
    }
}

/// The disk image, from the cache or made now.
fn image(kernel: &Kernel, cache: &Path) -> Result<PathBuf> {
    let (suite, sources) = distribution()?;
    let image = cache.join(format!("system-{suite}-{}-{RECIPE}.ext4", kernel.release));
    if image.exists() {
        return Ok(image);
    }
    // An older kernel's, or a run's that was cut.
    let entries = fs::read_dir(cache).map_err(|e| Error::failed(cache.display(), e))?;
    for entry in
        entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("system-"))
    {
        let path = entry.path();
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|e| Error::failed(path.display(), e))?;
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Unavailable("making a system image needs root".into()));
    }
    let tree = cache.join("system-tree");
    make_tree(kernel, &suite, &sources, &tree)?;
    let partial = cache.join("system-partial");
    let mut mke2fs = Command::new("mke2fs");
    // Debian keeps it in /sbin, which not everybody has in PATH.
    mke2fs.env("PATH", path_with_sbin());
    mke2fs.args(["-q", "-t", "ext4", "-d"]).arg(&tree).arg(&partial).arg("900M");
    run(&mut mke2fs).map_err(|e| Error::Unavailable(e.to_string()))?;
    fs::remove_dir_all(&tree).map_err(|e| Error::failed(tree.display(), e))?;
    fs::rename(&partial, &image).map_err(|e| Error::failed(image.display(), e))?;
    Ok(image)
}

fn path_with_sbin() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// This distribution's name, and its own lists of sources.
fn distribution() -> Result<(String, Vec<PathBuf>)> {
    let release = kernel::read_text(Path::new("/etc/os-release"))?;
    let suite = release.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME="));
    let suite = suite.ok_or_else(|| Error::Unavailable("a distribution without a name".into()))?;
    let places = [
        "/etc/apt/sources.list",
        "/etc/apt/sources.list.d/debian.sources",
        "/etc/apt/sources.list.d/ubuntu.sources",
    ];
    let sources = places.iter().map(PathBuf::from);
    let sources = sources.filter(|p| fs::metadata(p).is_ok_and(|m| m.len() > 0)).collect();
    Ok((suite.trim_matches('"').to_owned(), sources))
}

fn make_tree(kernel: &Kernel, suite: &str, sources: &[PathBuf], tree: &Path) -> Result<()> {
    let mut debstrap = Command::new("mmdebstrap");
    debstrap.env("PATH", path_with_sbin());
    debstrap.args(["--quiet", "--variant=minbase", "--mode=root", "--format=directory"]);
    debstrap.arg(format!("--include={PACKAGES}"));
    for unwanted in ["doc", "man", "locale", "info"] {
        debstrap.arg(format!("--dpkgopt=path-exclude=/usr/share/{unwanted}/*"));
    }
    debstrap.arg(suite).arg(tree).args(sources);
    run(&mut debstrap)
        .map_err(|e| Error::Unavailable(format!("no system image (package mmdebstrap): {e}")))?;
    for cache in ["var/cache/apt", "var/lib/apt/lists"] {
        let path = tree.join(cache);
        fs::remove_dir_all(&path).map_err(|e| Error::failed(path.display(), e))?;
    }
    let to = tree.join("usr/lib/modules").join(&kernel.release);
    fs::create_dir_all(&to).map_err(|e| Error::failed(to.display(), e))?;
    let mut copy = Command::new("cp");
    copy.current_dir(&kernel.module_dir).args(["-r", "--parents"]);
    let there = |name: &&&str| kernel.module_dir.join(name).exists();
    copy.args(MODULES.iter().filter(there));
    copy.args(["modules.builtin", "modules.builtin.modinfo", "modules.order"]).arg(&to);
    run(&mut copy)?;
    run(Command::new("depmod")
        .env("PATH", path_with_sbin())
        .arg("-b")
        .arg(tree)
        .arg(&kernel.release))?;
    put(&tree.join("etc/fstab"), 0o644, b"")?;
    put(&tree.join("etc/hostname"), 0o644, b"guest\n")?;
    put(&tree.join("etc/systemd/system/test.service"), 0o644, UNIT.as_bytes())?;
    put(&tree.join("usr/lib/test/run"), 0o644, RUN.as_bytes())?;
    let wants = tree.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).map_err(|e| Error::failed(wants.display(), e))?;
    std::os::unix::fs::symlink("../test.service", wants.join("test.service"))
        .map_err(|e| Error::failed(wants.display(), e))?;
    // It is there for tests that start it.
    let balancer = tree.join("etc/systemd/system/multi-user.target.wants/irqbalance.service");
    if balancer.is_symlink() {
        fs::remove_file(&balancer).map_err(|e| Error::failed(balancer.display(), e))?;
    }
    // Nobody looks at a terminal here, and waiting for one takes half of a boot.
    for unit in [
        "serial-getty@ttyS0.service",
        "getty@tty1.service",
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
    ] {
        let mask = tree.join("etc/systemd/system").join(unit);
        std::os::unix::fs::symlink("/dev/null", &mask)
            .map_err(|e| Error::failed(mask.display(), e))?;
    }
    Ok(())
}

fn put(path: &Path, mode: u32, data: &[u8]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |e| Error::failed(path.display(), e);
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    fs::write(path, data).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)
}

/// The RAM disk that finds the disk.
fn first_stage(kernel: &Kernel) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    for directory in ["bin", "dev", "lib", "root"] {
        archive.directory(directory);
    }
    archive.char_device("dev/console", 5, 1);
    archive.file(BUSYBOX.trim_start_matches('/'), 0o755, static_busybox()?);
    let unknown =
        |name: String| Error::Failed(format!("kernel {} has no module {name}", kernel.release));
    let modules = kernel.tables.closure(["virtio_pci", "virtio_blk", "ext4"]).map_err(unknown)?;
    let mut present = Vec::new();
    for name in modules {
        let Some(path) = kernel.tables.path(&name) else { continue };
        let from = kernel.module_dir.join(path);
        let data = fs::read(&from).map_err(|e| Error::failed(from.display(), e))?;
        archive.file(&format!("lib/{name}.ko"), 0o644, data);
        present.push(name);
    }
    archive.file("modules", 0o644, present.join("\n"));
    archive.file("init", 0o755, FIRST);
    Ok(archive.to_bytes())
}

//! The virtual machine: QEMU without hardware virtualisation, and what comes back from it.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::board::{self, Board};
use crate::error::{Error, Result};
use crate::guest::{Contents, busybox_for};
use crate::kernel::{self, Arch, Kernel};

pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// A network card; all cards of a machine hang on one hub. In the guest they are eth0, eth1, ... in
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nic {
    /// Multi-queue: a line `ethN-rxtx-Q` for each CPU.
    Vmxnet3,
    /// One line for receiving, one for sending, one for the rest.
    E1000e,
    /// Lines named after the virtio device, not after the network device.
    VirtioNet,
    /// On USB: its packets come by the one line of the host controller. In the guest it is usb0.
    UsbNet,
}

impl Nic {
    fn device(self) -> &'static str {
        match self {
            Self::Vmxnet3 => "vmxnet3",
            Self::E1000e => "e1000e",
            Self::VirtioNet => "virtio-net-pci",
            Self::UsbNet => "usb-net,bus=xhci.0",
        }
    }
}

/// A machine to be booted once.
#[derive(Debug)]
pub struct Machine {
    /// CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory: u32,
    /// Network cards.
    pub nics: Vec<Nic>,
    /// An arm64 machine that poses as this; none is a plain x86 one.
    pub board: Option<Board>,
    /// Killed after this.
    pub timeout: Duration,
}

/// What came back.
#[derive(Debug)]
pub struct Outcome {
    /// The script's exit code.
    pub code: i32,
    /// What the script printed, both streams.
    pub output: String,
    /// What the kernel and the init said.
    pub console: String,
    /// The files the script left under /out.
    pub files: BTreeMap<String, Vec<u8>>,
    /// From the start of QEMU to its end.
    pub elapsed: Duration,
}

impl Outcome {
    /// A file that the script left, as text; empty when there is none.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.files.get(name).map(|f| String::from_utf8_lossy(f).into_owned()).unwrap_or_default()
    }
}

/// Kills QEMU when the test ends in whatever way.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It is gone already in the good case, and killing a child that was waited for is refused by
        // the standard library; there is nobody to tell.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A directory of one boot, removed afterwards.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// The caller holds the lock: what other runs have here was left by one that was killed.
    pub(crate) fn new(cache: &Path) -> Result<Self> {
        let entries = fs::read_dir(cache).map_err(|e| Error::failed(cache.display(), e))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with("run-") {
                fs::remove_dir_all(entry.path())
                    .map_err(|e| Error::failed(entry.path().display(), e))?;
            }
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = cache.join(format!("run-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).map_err(|e| Error::failed(path.display(), e))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

impl Machine {
    /// A machine with `cpus` CPUs and these cards.
    #[must_use]
    pub fn new(cpus: u32, nics: &[Nic]) -> Self {
        // For one that hangs, whatever else a builder does: none of the scripts takes three minutes on a
        // machine with nothing else to do.
        let timeout = Duration::from_secs(600);
        Self { cpus, memory: 512, nics: nics.to_vec(), board: None, timeout }
    }

    /// An arm64 machine that poses as this board, with these cards.
    #[must_use]
    pub fn posing_as(board: Board, nics: &[Nic]) -> Self {
        Self { board: Some(board.clone()), ..Self::new(board.cpus(), nics) }
    }

    /// Its processor.
    #[must_use]
    pub fn arch(&self) -> Arch {
        if self.board.is_some() { Arch::Arm64 } else { Arch::X86 }
    }

    fn qemu(&self) -> &'static str {
        if self.board.is_some() { board::QEMU } else { QEMU }
    }

    /// Boots, runs the script of `contents` and waits for the end. One machine at a time on this
    /// host, whoever asks: a second emulated one would only make both miss their deadlines.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where QEMU, a kernel or busybox is missing; [`Error::Failed`] when the
    /// guest gave no exit code, with the end of its console.
    pub fn run(&self, contents: &Contents) -> Result<Outcome> {
        let qemu = self.qemu();
        if Command::new(qemu).arg("--version").output().is_err() {
            let package = if self.arch() == Arch::X86 { "x86" } else { "arm" };
            return Err(Error::Unavailable(format!("{qemu} (package qemu-system-{package})")));
        }
        let cache = kernel::cache_dir();
        fs::create_dir_all(&cache).map_err(|e| Error::failed(cache.display(), e))?;
        let lock = cache.join("lock");
        let lock = fs::File::create(&lock).map_err(|e| Error::failed(lock.display(), e))?;
        flock(lock.as_fd(), FlockOperation::LockExclusive)
            .map_err(|e| Error::failed("lock of the virtual machine", e))?;
        let kernel = Kernel::fetch(&cache, self.arch())?;
        let busybox = busybox_for(self.arch(), &cache)?;
        let scratch = Scratch::new(&cache)?;
        let initrd = scratch.0.join("initramfs");
        fs::write(&initrd, contents.initramfs(&kernel, busybox)?)
            .map_err(|e| Error::failed(initrd.display(), e))?;
        self.boot(&kernel, &initrd, &scratch.0)
    }

    fn boot(&self, kernel: &Kernel, initrd: &Path, scratch: &Path) -> Result<Outcome> {
        let line = |name: &str| scratch.join(name);
        let start = Instant::now();
        let mut command = self.command(kernel, initrd, scratch)?;
        for name in ["console", "output", "results"] {
            command.arg("-chardev").arg(format!("file,id={name},path={}", line(name).display()));
        }
        if self.board.is_some() {
            // `virt` has one serial line of its own.
            command.args(["-serial", "chardev:console"]);
            command.args(["-device", "pci-serial-2x,chardev1=output,chardev2=results"]);
        } else {
            for name in ["console", "output", "results"] {
                command.arg("-serial").arg(format!("chardev:{name}"));
            }
        }
        let errors = line("qemu-errors");
        let stderr = fs::File::create(&errors).map_err(|e| Error::failed(errors.display(), e))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let failed = |e| Error::failed(self.qemu(), e);
        let mut qemu = Running(command.spawn().map_err(failed)?);
        let deadline = start + self.timeout;
        let ended = loop {
            match qemu.0.try_wait().map_err(failed)? {
                Some(_) => break true,
                None if Instant::now() >= deadline => break false,
                None => sleep(Duration::from_millis(20)),
            }
        };
        drop(qemu);
        let text = |name: &str| {
            String::from_utf8_lossy(&fs::read(line(name)).unwrap_or_default()).into_owned()
        };
        let (console, output) = (text("console"), text("output"));
        let results = fs::read(line("results")).unwrap_or_default();
        let (files, code) = parse_results(&results);
        match code {
            Some(code) if ended => {
                Ok(Outcome { code, output, console, files, elapsed: start.elapsed() })
            }
            _ => Err(Error::Failed(format!(
                "{}\n--- end of its output\n{}\n--- end of its console\n{}\n--- QEMU\n{}",
                if ended {
                    "the guest ended without an exit code".to_owned()
                } else {
                    format!("the guest was killed after {} s", self.timeout.as_secs())
                },
                tail(&output),
                tail(&console),
                tail(&text("qemu-errors")),
            ))),
        }
    }

    fn command(&self, kernel: &Kernel, initrd: &Path, scratch: &Path) -> Result<Command> {
        // A killed test run must not leave an emulator behind: the kernel kills it with its parent.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", self.qemu()]);
        // Mitigations only cost time here.
        let line = "quiet panic=-1 mitigations=off nokaslr";
        if let Some(board) = &self.board {
            command.args(board.machine(self.memory));
            command.arg("-dtb").arg(board.tree(self.memory, scratch)?);
            command.arg("-append").arg(format!("console=ttyAMA0 {line}"));
        } else {
            command.args(["-M", "q35", "-cpu", "max"]);
            command.arg("-smp").arg(self.cpus.to_string());
            command.arg("-m").arg(self.memory.to_string());
            // The emulated time stamp counters differ between CPUs.
            command.arg("-append").arg(format!("console=ttyS0 {line} tsc=unstable"));
        }
        command.args(["-accel", "tcg,thread=multi", "-nodefaults", "-no-reboot"]);
        command.args(["-display", "none"]);
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initrd);
        if self.nics.contains(&Nic::UsbNet) {
            // One plain line, as the controllers of small boards have.
            command.args(["-device", "nec-usb-xhci,id=xhci,msi=off,msix=off"]);
        }
        for (index, nic) in self.nics.iter().enumerate() {
            command.arg("-netdev").arg(format!("hubport,id=n{index},hubid=0"));
            // Without a boot ROM, QEMU needs no ROM package.
            let rom = if *nic == Nic::UsbNet { "" } else { ",romfile=" };
            command.arg("-device").arg(format!(
                "{},netdev=n{index},mac=52:54:00:12:34:{index:02x}{rom}",
                nic.device()
            ));
        }
        Ok(command)
    }
}

/// What stands on the results line: files, and the exit code if it arrived whole.
pub(crate) fn parse_results(mut bytes: &[u8]) -> (BTreeMap<String, Vec<u8>>, Option<i32>) {
    let mut files = BTreeMap::new();
    while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
        let (line, rest) = bytes.split_at(end);
        let line = String::from_utf8_lossy(line).into_owned();
        bytes = rest.get(1..).unwrap_or_default();
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("EXIT"), Some(code), None) => return (files, code.parse().ok()),
            (Some("FILE"), Some(name), Some(size)) => {
                let Ok(size) = size.parse::<usize>() else { break };
                let Some(data) = bytes.get(..size) else { break };
                files.insert(name.to_owned(), data.to_vec());
                bytes = bytes.get(size..).unwrap_or_default();
            }
            _ => break,
        }
    }
    (files, None)
}

pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_line_that_looks_like_an_exit_code_stays_a_file() {
        let (files, code) = parse_results(b"FILE a 7\nEXIT 0\nFILE b 0\nEXIT 3\n");
        assert_eq!(files["a"], b"EXIT 0\n");
        assert_eq!(files["b"], b"");
        assert_eq!(code, Some(3));
    }

    #[test]
    fn results_cut_short_give_no_exit_code() {
        for cut in [&b""[..], b"FILE a 9\nabc", b"EXIT 0", b"FILE a x\nEXIT 0\n", b"nonsense\n"] {
            assert_eq!(parse_results(cut).1, None, "{cut:?}");
        }
    }
}

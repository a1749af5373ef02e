//! The program in a directory of its own, and on a lab's router.

#![allow(dead_code, unused_macros, unused_imports, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::program;

pub(crate) struct Place {
    pub(crate) dir: PathBuf,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("linerate-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program::path());
        command
            .args(args)
            .current_dir(&self.dir)
            .env("LINERATE_STATE_DIR", self.dir.join("state"))
            // Sentences are looked for in one line.
            .env("COLUMNS", "200")
            .env_remove("RUST_BACKTRACE");
        if args.first() == Some(&"plan") {
            // No test here has traffic worth three seconds.
            command.args(["--sample", "0"]);
        }
        if args.contains(&"-o") && matches!(args.first(), Some(&"plan" | &"capture")) {
            command.arg("--force");
        }
        if args.first() == Some(&"apply") && !args.contains(&"--confirm") {
            // Whoever runs the tests may have come in over the network.
            command.arg("--no-confirm");
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A guard that has just undone something may still be tidying up in it.
        let gone = (0..600).any(|_| {
            let gone = std::fs::remove_dir_all(&self.dir).is_ok() || !self.dir.exists();
            if !gone {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            gone
        });
        assert!(gone || std::thread::panicking(), "{} stays", self.dir.display());
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One line that says what failed, perhaps a hint, and the exit code.
#[track_caller]
pub(crate) fn refused(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    let errors = text.lines().filter(|l| l.starts_with("linerate: ")).count();
    assert_eq!(errors, 1, "one line of error: {text}");
}

pub(crate) fn root() -> bool {
    rustix::process::geteuid().is_root()
}

macro_rules! need_root {
    () => {
        if !$crate::router::root() {
            eprintln!(
                "SKIPPED {}: needs root",
                std::thread::current().name().unwrap_or("a test of the command line")
            );
            return;
        }
    };
}

pub(crate) use need_root;

/// A lab's router on which the program runs as on any machine.
pub(crate) struct Router {
    pub(crate) place: Place,
    pub(crate) lab: linerate::measure::lab::Lab,
}

impl Router {
    pub(crate) fn new(name: &str) -> Self {
        let lab = linerate::measure::lab::Lab::build(&linerate::measure::lab::LabSpec::default())
            .unwrap();
        Self { place: Place::new(name), lab }
    }

    /// Runs a command inside the router's namespace, with its /sys.
    pub(crate) fn inside(&self, mut command: Command) -> Output {
        self.lab.router.run(move || command.output().unwrap()).unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.inside(self.place.command(args))
    }

    pub(crate) fn mask(&self, device: &str) -> String {
        use linerate::machine::host::HostRead;
        let path = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
        self.lab.router_host().text(Path::new(&path)).unwrap()
    }

    pub(crate) fn set(&self, device: &str, mask: &str) {
        use linerate::machine::host::HostWrite;
        let path = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
        self.lab.router_host().write(Path::new(&path), mask.as_bytes()).unwrap();
    }
}

/// Waits until `done`, at most five seconds.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The guards that were started with this place's state directory: the first, and the second.
#[track_caller]
pub(crate) fn guards_of(place: &Path) -> [rustix::process::Pid; 2] {
    let state = place.join("state");
    let arguments = |pid: &str| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).into_owned()
    };
    let mine = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(state.to_str().unwrap())
            && arguments(pid).contains("dead-man")
    };
    let names = std::fs::read_dir("/proc").unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    let numbers = names.filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let mut all: Vec<String> = numbers.filter(mine).collect();
    all.sort_by_key(|pid| arguments(pid).contains("--second"));
    let pids = all.iter().map(|pid| rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap());
    pids.collect::<Vec<_>>().try_into().expect("a guard and a second one")
}

/// The first of them.
#[track_caller]
pub(crate) fn guard_of(place: &Path) -> rustix::process::Pid {
    guards_of(place)[0]
}

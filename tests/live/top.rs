//! `linerate top` on a terminal: it starts, does what keys ask, follows the size, and leaves the terminal
//! as it was, however it ends. The terminal is a pty, read by a terminal emulator.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rexpect::process::PtyProcess;
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::program;

/// A machine with all of this is busy: what is waited for comes within a minute or never.
const PATIENCE: Duration = Duration::from_secs(60);

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/recordings/nat-2cpu.jsonl");

/// The program on a terminal.
struct OnTerminal {
    process: PtyProcess,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// Everything that was sent.
    sent: Vec<u8>,
}

impl OnTerminal {
    /// Starts a shell that sets the size, runs `top` and tells how it ended; while it is stopped, a line
    /// that is typed lets it go on.
    fn start(term: &str, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        let script = "set -m; stty cols 80 rows 24; stty -g >\"$0\"; \"$@\"; code=$?; \
                      while [ \"$(kill -l \"$code\" 2>/dev/null)\" = TSTP ]; do \
                      echo stopped; stty -g | cmp - \"$0\" && echo as-found; \
                      read x; fg >/dev/null; code=$?; done; \
                      echo \"ended $code\"; stty -g | cmp - \"$0\" && echo as-found; rm \"$0\"; read x";
        let modes = std::env::temp_dir().join(format!(
            "linerate-top-{}-{}",
            std::process::id(),
            std::thread::current().name().unwrap().replace(':', "-")
        ));
        command.args(["-c", script]).arg(modes).arg(program::path()).arg("top").args(args);
        command.env("TERM", term).env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        command.env_remove("COLUMNS").env_remove("LINES");
        let process = PtyProcess::new(command).unwrap();
        let keyboard = process.get_file_handle().unwrap();
        let mut source = process.get_file_handle().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the terminal is an error on Linux.
            while let Ok(length @ 1..) = source.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(24_u16.try_into().unwrap(), 80_u16.try_into().unwrap(), 0);
        Self { process, keyboard, output, screen, sent: Vec::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen has this text, and gives the screen.
    #[track_caller]
    fn shows(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen.screen().contents();
            if screen.contains(text) {
                return screen;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => {
                    self.screen.process(&bytes);
                    self.sent.extend(bytes);
                }
                Err(e) => panic!("{text:?} is not on the screen ({e}):\n{screen}"),
            }
        }
    }

    fn resize(&mut self, ws_row: u16, ws_col: u16) {
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).unwrap();
        let [rows, columns] = [ws_row, ws_col].map(|n| n.try_into().unwrap());
        self.screen.screen_mut().set_size(rows, columns);
    }

    /// Process id of the program itself, the shell's only child.
    fn pid(&self) -> i32 {
        let shell = self.process.child_pid;
        let path = format!("/proc/{shell}/task/{shell}/children");
        let children = std::fs::read_to_string(path).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The program has ended with that code, and the terminal is as it was found.
    #[track_caller]
    fn ended(mut self, code: i32) {
        self.shows(&format!("ended {code}"));
        self.shows("as-found");
        assert!(!self.screen.screen().alternate_screen(), "the first screen is back");
        assert!(!self.screen.screen().hide_cursor(), "the cursor is back");
        self.press("\n");
    }
}

#[test]
fn keys_sizes_and_the_end_of_a_replay() {
    if program::lacks("top") {
        return;
    }
    let mut top = OnTerminal::start("xterm-256color", &["--replay", RECORDING, "--speed", "0.1"]);
    let screen = top.shows("q quit");
    assert!(screen.contains("CPU0") && screen.contains("serves"), "{screen}");
    assert!(top.screen.screen().alternate_screen() && top.screen.screen().hide_cursor());
    assert!(screen.contains("replay"), "{screen}");
    top.press("?");
    top.shows("pause and go on");
    top.press("\x1b");
    top.shows("serves");
    top.press("\x1b[B\r");
    top.shows("network interrupts here");
    top.press("\x1b");
    top.shows("Enter open");
    top.press(">");
    top.shows("0:09 of 0:09");
    // A larger window, and one that is too small.
    top.resize(43, 132);
    let until = Instant::now() + PATIENCE;
    while !top.screen.screen().contents().lines().any(|line| line.chars().count() > 100) {
        assert!(Instant::now() < until, "{}", top.screen.screen().contents());
        top.shows("");
        if let Ok(bytes) = top.output.recv_timeout(Duration::from_millis(200)) {
            top.screen.process(&bytes);
        }
    }
    top.resize(24, 30);
    top.shows("needs 40 columns");
    top.resize(24, 80);
    top.shows("q quit");
    top.press("q");
    top.ended(0);
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_until_fg_takes_it_back() {
    if program::lacks("top") {
        return;
    }
    let mut top = OnTerminal::start("xterm-256color", &["--interval", "0.2"]);
    for _ in 0..2 {
        top.shows("soft%");
        assert!(top.screen.screen().alternate_screen() && top.screen.screen().hide_cursor());
        top.press("\x1a");
        top.shows("stopped");
        let screen = top.shows("as-found");
        assert!(!screen.contains("soft%"), "{screen}");
        assert!(!top.screen.screen().alternate_screen() && !top.screen.screen().hide_cursor());
        // It has to draw everything anew.
        top.press("\n");
        top.screen = vt100::Parser::new(24_u16.try_into().unwrap(), 80_u16.try_into().unwrap(), 0);
    }
    top.shows("soft%");
    top.press("q");
    top.ended(0);
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_it_was() {
    if program::lacks("top") {
        return;
    }
    let mut top = OnTerminal::start("vt100", &["--interval", "0.2"]);
    let screen = top.shows("soft%");
    assert!(screen.contains("CPU0"), "{screen}");
    // A VT100 has no colours and no second screen.
    let sent = String::from_utf8_lossy(&top.sent).into_owned();
    assert!(!sent.contains("1049h"), "{sent:?}");
    let colours = ["31m", "32m", "33m", "34m", "35m", "90m"];
    assert!(!colours.iter().any(|code| sent.contains(code)), "{sent:?}");
    let pid = rustix::process::Pid::from_raw(top.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    top.ended(130);
}

#[test]
fn ctrl_c_ends_it_and_takes_little_of_a_cpu_until_then() {
    if program::lacks("top") {
        return;
    }
    let mut top = OnTerminal::start("screen", &[]);
    top.shows("soft%");
    let used = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        ticks as f64 / 100.0
    };
    let (pid, before, begun) = (top.pid(), used(top.pid()), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let share = (used(pid) - before) / begun.elapsed().as_secs_f64();
    println!("top takes {:.2} % of a CPU", share * 100.0);
    // 1 % is aimed at, of the program as it is shipped; this one is not optimized.
    assert!(share < 0.10, "{:.1} % of a CPU", share * 100.0);
    top.press("\x03");
    top.ended(0);
}

#[test]
fn what_can_not_be_drawn_on_is_refused_with_the_way_out() {
    if program::lacks("top") {
        return;
    }
    let mut top = OnTerminal::start("dumb", &[]);
    let screen = top.shows("as-found");
    assert!(screen.contains("TERM=dumb") && screen.contains("linerate record"), "{screen}");
    assert!(screen.contains("ended 5"), "{screen}");
    top.press("\n");
    let out = Command::new(program::path()).arg("top").stdin(Stdio::null()).output().unwrap();
    assert_eq!(out.status.code(), Some(5), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("top --once"), "{out:?}");
}

fn told(args: &[&str]) -> String {
    let mut command = Command::new(program::path());
    let out = command.arg("top").args(args).env("COLUMNS", "80").output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn one_look_is_text_or_a_line_of_json_for_each_interval() {
    if program::lacks("top") {
        return;
    }
    let text = told(&["--once", "--interval", "0.2"]);
    assert!(text.lines().any(|line| line.starts_with("CPU0")), "{text}");
    let lines = told(&["--json", "--samples", "3", "--interval", "0.1", "--queues"]);
    let looks: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 3, "{lines}");
    for look in &looks {
        assert_eq!(look["format"], "linerate-top");
        assert!(look["cpus"][0]["idle"].is_number(), "{look}");
        assert!(look["standing"]["kernel"].is_string(), "each line is complete: {look}");
    }
}

#[test]
fn what_record_writes_is_played_as_it_was() {
    if program::lacks("top") {
        return;
    }
    let file = std::env::temp_dir().join(format!("linerate-top-{}.jsonl", std::process::id()));
    let path = file.to_str().unwrap();
    let args = ["record", "--interval", "0.1", "--seconds", "0.5", "-o", path];
    let made = Command::new(program::path()).args(args).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let written = std::fs::read_to_string(&file).unwrap();
    let played = told(&["--replay", path, "--json", "--samples", "1000"]);
    std::fs::remove_file(&file).unwrap();
    let written: Vec<Value> =
        written.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let played: Vec<Value> =
        played.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!written.is_empty() && written.len() == played.len(), "{}", played.len());
    for (is, was) in played.iter().zip(&written) {
        for field in ["utc", "at", "cpus", "devices", "irqs", "sensors"] {
            assert_eq!(is[field], was[field], "{field}");
        }
        assert_eq!(is["standing"]["kernel"], written[0]["standing"]["kernel"]);
    }
}

//! What the other side of a connection says steers no terminal, and its silence ends no limit.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, Running, bench, output, pair, program, spawn, stderr};
use crate::alone;
use rustix::process::{Pid, Signal, kill_process};

/// Clears the screen, names the window, rings, colours by C1, turns text around.
const EVIL: &str = "owned\x1b[2J\x1b]0;x\x07\u{9b}31m\u{85}\u{202e}\u{2066}\x08\x7f";

fn harmless(text: &str) {
    let steers =
        |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{2066}\u{200f}\u{2028}".contains(c);
    assert!(!text.contains(steers), "{text:?}");
}

#[test]
fn words_of_the_other_side_do_not_steer_the_terminal() {
    let _alone = alone();
    let (lan, wan) = pair();
    let (nonce, v) = ("0".repeat(64), linerate::measure::agent::protocol::VERSION);
    // At a running agent: as a greeting, as a version's neighbour, as a nonce, as a proof.
    let greetings = [
        format!("{EVIL}\n"),
        format!("linerate-controller\t{v}{EVIL}\t{nonce}\t-\n"),
        format!("linerate-controller\t{v}\t{EVIL}\t-\n"),
        format!("linerate-controller\t{v}\t{nonce}\t{EVIL}\n"),
        format!("linerate-controller\t{v}\t{nonce}\t-\n{EVIL}\tx\n"),
        format!("linerate-controller\t{v}\t{nonce}\t-\nfacts\t{EVIL}\n"),
        EVIL.repeat(2000),
    ];
    for greeting in &greetings {
        let mut socket = TcpStream::connect(&lan.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        // The agent may close in the middle of either.
        drop(socket.write_all(greeting.as_bytes()));
        drop(socket.read_to_end(&mut Vec::new()));
    }
    lan.wait_for("owned");
    harmless(&lan.said());

    // At a controller: something in an agent's place.
    let greeting = format!("linerate-agent\t{v}\t9.0\tno\t{nonce}\n");
    let welcome = format!("{greeting}welcome\t-\ndone\n");
    let mut shown = 0;
    for said in [
        format!("{EVIL}\n"),
        format!("linerate-agent\t{v}\t{EVIL}\tno\t{nonce}\n"),
        format!("linerate-agent\t99\t{EVIL}\tno\t{nonce}\n"),
        format!("{greeting}{EVIL}\n"),
        format!("{greeting}failed\t6\t{EVIL}\t{EVIL}\n"),
        format!("{welcome}failed\t6\t{EVIL}\t{EVIL}\n"),
        format!("{welcome}facts\t{EVIL}\n"),
        format!("{welcome}clock\t{EVIL}\t1\n"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            drop(socket.write_all(said.as_bytes()));
            drop(socket.set_read_timeout(Some(Duration::from_secs(2))));
            while socket.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
        });
        let mut command = program();
        command.args(["bench", "--lan", &address, "--wan", &wan.address]);
        command.args(["--wan-address", "127.0.0.1", "--seconds", "0.2", "--json"]);
        let done = output(None, command);
        assert!(done.status.code().is_some_and(|code| code != 0), "{done:?}");
        for text in [stderr(&done), String::from_utf8(done.stdout).unwrap()] {
            harmless(&text);
            shown += usize::from(text.contains("owned"));
        }
    }
    assert!(shown >= 3, "only {shown} show what was planted");
}

#[test]
fn a_controller_that_asks_for_nothing_does_not_make_a_run_longer_than_its_limit() {
    let _alone = alone();
    let lan = Running::with("127.0.0.1:0", &["--max-seconds", "1"]);
    let wan = Running::start(None, "127.0.0.1:0", None);
    let long = ["--direction", "up", "--seconds", "0.9", "--omit", "0"];
    let mut controller = spawn(None, bench(&lan, &wan, &long));
    lan.wait_for("run: TCP up");
    kill_process(Pid::from_child(&controller), Signal::STOP).unwrap();
    lan.wait_for("longer than --max-seconds");
    let until = Instant::now() + PATIENCE;
    while lan.load_threads() > 0 {
        assert!(Instant::now() < until, "{}", lan.said());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!lan.said().contains("given up"), "by its silence, not by the limit: {}", lan.said());
    controller.kill().unwrap();
    controller.wait().unwrap();
}

//! The session that a command is given in: whether it comes in over the network, which a change may
//! cut off, and whether somebody at a terminal can be asked.

use std::io::{IsTerminal, stdin};
use std::path::Path;
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};

use crate::cli::output::Output;
use crate::machine::host::HostRead;
use crate::machine::parse::task;
use crate::machine::sys::poll::{Wanted, is_ready};

/// Programs whose sessions come in over the network, as the kernel calls them.
const SERVERS: [&str; 11] = [
    "sshd",
    "sshd-session",
    "sshd-auth",
    "dropbear",
    "telnetd",
    "in.telnetd",
    "mosh-server",
    "ttyd",
    "cockpit-bridge",
    "uhttpd",
    "rpcd",
];

/// Generations of processes that are looked through; more than any session has.
const ANCESTORS: usize = 64;

/// The way by which this session comes in over the network, in words; `None` where it does not, as far
/// as can be known. `sudo` takes the variable of SSH away, a terminal multiplexer the ancestors.
pub(in crate::cli) fn from_afar(host: &dyn HostRead) -> Option<String> {
    let told = std::env::var("SSH_CONNECTION").ok();
    if let Some(client) = told.as_deref().and_then(|told| told.split_whitespace().next()) {
        return Some(format!("SSH from {client}"));
    }
    by_ancestor(host).or_else(|| by_logind(host))
}

fn by_ancestor(host: &dyn HostRead) -> Option<String> {
    let mut pid = String::from("self");
    for _ in 0..ANCESTORS {
        let one = task::process(&host.read(&Path::new("/proc").join(&pid).join("stat")).ok()?)?;
        if SERVERS.contains(&one.name.as_str()) {
            return Some(one.name);
        }
        if one.parent == 0 {
            break;
        }
        pid = one.parent.to_string();
    }
    None
}

/// By what logind keeps of the session that the kernel's audit counts this process to.
fn by_logind(host: &dyn HostRead) -> Option<String> {
    let session = host.text(Path::new("/proc/self/sessionid")).ok()?;
    let kept = host.text(&Path::new("/run/systemd/sessions").join(session)).ok()?;
    let value = |key: &str| kept.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    (value("REMOTE")? == "1")
        .then(|| format!("a login from {}", value("REMOTE_HOST").unwrap_or("elsewhere")))
}

/// True if somebody is at a terminal who can read and answer.
pub(in crate::cli) fn is_attended(out: &Output) -> bool {
    out.has_live_progress() && stdin().is_terminal() && is_in_front()
}

/// The terminal's input is for this process, and not for the shell that it runs behind.
fn is_in_front() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|front| front == getpgrp())
}

/// Forgets what was typed so far: it was no answer to what comes now.
pub(in crate::cli) fn forget_typed() {
    if let Err(e) = tcflush(stdin(), QueueSelector::IFlush) {
        log::debug!("{e}");
    }
}

/// A line that was typed; `None` at the end of the input.
pub(in crate::cli) fn line() -> Option<String> {
    let mut line = String::new();
    stdin().read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line.trim().to_owned())
}

/// Waits for a line, a second at most; true if there is one. Signals end the wait.
pub(in crate::cli) fn is_line_typed() -> bool {
    is_ready(stdin(), Wanted::Read, Duration::from_secs(1)).unwrap_or(false) && is_in_front()
}

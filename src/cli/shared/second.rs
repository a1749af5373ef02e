//! The second line behind the guard of a change: should the guard be killed, something else undoes
//! what nobody confirmed. A timer of systemd, which neither a logout nor the out-of-memory killer
//! reaches; an instance that procd starts anew; elsewhere a second guard.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::change::apply::time_left;
use crate::machine::host::{HostRead, command};
use crate::machine::store::STATE_DIR_VARIABLE;
use crate::machine::store::deadman::Armed;
use crate::machine::sys::spawn;

/// Time that another program may take to start or call off the second line.
const LIMIT: Duration = Duration::from_secs(10);

/// Directory that is there where systemd is the init (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

fn name(token: u64) -> String {
    format!("linerate-undo-{token}")
}

/// Starts the second line of a change.
///
/// # Errors
/// What fork or exec answered.
pub(in crate::cli) fn start(host: &dyn HostRead, armed: &Armed) -> io::Result<()> {
    let guard = ["dead-man".to_owned(), armed.token.to_string(), "--second".to_owned()];
    let ours = host.identity().netns;
    let program = std::env::current_exe().ok().filter(|path| path.is_file());
    // What an init starts is in its own network namespace.
    if host.inode(Path::new("/proc/1/ns/net")).is_ok_and(|first| first == ours)
        && let Some(program) = program.as_deref().and_then(Path::to_str)
        && (by_systemd(host, armed, program, &guard) || by_procd(armed.token, program, &guard))
    {
        return Ok(());
    }
    spawn::detached(&guard).map(drop)
}

/// A line of the environment that says where the change waits, if that is not the usual place.
fn state_dir() -> Option<(&'static str, String)> {
    let named = std::env::var(STATE_DIR_VARIABLE).ok().filter(|value| !value.is_empty())?;
    Some((STATE_DIR_VARIABLE, named))
}

fn by_systemd(host: &dyn HostRead, armed: &Armed, program: &str, guard: &[String]) -> bool {
    if host.list(Path::new(SYSTEMD)).is_err() {
        return false;
    }
    let unit = format!("--unit={}", name(armed.token));
    let after = format!("--on-active={}ms", time_left(armed).as_millis());
    let place = state_dir().map(|(name, value)| format!("--setenv={name}={value}"));
    let mut words = vec![
        "--quiet",
        "--collect",
        "--description=Undo a change of linerate that nobody confirmed",
        "--timer-property=AccuracySec=50ms",
        &unit,
        &after,
    ];
    words.extend(place.as_deref());
    words.extend(["--", program]);
    words.extend(guard.iter().map(String::as_str));
    succeeds("systemd-run", &words)
}

fn by_procd(token: u64, program: &str, guard: &[String]) -> bool {
    let command: Vec<&str> =
        std::iter::once(program).chain(guard.iter().map(String::as_str)).collect();
    let env: serde_json::Map<String, serde_json::Value> =
        state_dir().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    // Threshold, seconds until it is started anew, and how often: 0 is for ever (procd's
    // service/instance.c).
    let respawn = ["3600", "1", "0"];
    let instance = serde_json::json!({ "command": command, "respawn": respawn, "env": env });
    let service = serde_json::json!({ "name": name(token), "instances": { "guard": instance } });
    succeeds("ubus", &["call", "service", "add", &service.to_string()])
}

/// Takes the second line of a change away, which is settled.
pub(in crate::cli) fn call_off(host: &dyn HostRead, token: u64) {
    let name = name(token);
    // It may be gone already, and be what undid the change.
    if host.list(Path::new(SYSTEMD)).is_ok() {
        succeeds("systemctl", &["stop", "--no-block", &format!("{name}.timer")]);
    }
    let service = serde_json::json!({ "name": name }).to_string();
    succeeds("ubus", &["call", "service", "delete", &service]);
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    match command::run(program, words, LIMIT) {
        Ok(ended) if ended.code == Some(0) => true,
        Ok(ended) => {
            log::debug!("{program}: {}", String::from_utf8_lossy(&ended.output).trim());
            false
        }
        Err(e) => {
            log::debug!("{e}");
            false
        }
    }
}

//! Services that set what we set: whether one runs, and starting or stopping it by the machine's
//! own way (systemd, or the script that OpenWrt and others have).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;

use super::{HostRead, clock};

/// Longest that a service may take to start or stop, its processes included: a small board in the
/// middle of its boot answers late.
const TIME: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// Where systemd keeps the units of packages and of the administrator.
const UNITS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// True if the program of that name runs; `None` where there is no such service.
pub(super) fn runs(host: &dyn HostRead, name: &str) -> Option<bool> {
    let processes = host.list(Path::new("/proc")).unwrap_or_default();
    let is = |pid: &String| {
        pid.bytes().all(|b| b.is_ascii_digit())
            && host.text(Path::new(&format!("/proc/{pid}/comm"))).is_ok_and(|comm| comm == name)
    };
    if processes.iter().any(is) {
        return Some(true);
    }
    (has_unit(host, name) || has_script(host, name)).then_some(false)
}

fn has_unit(host: &dyn HostRead, name: &str) -> bool {
    UNITS.iter().any(|dir| host.read(&Path::new(dir).join(format!("{name}.service"))).is_ok())
}

fn has_script(host: &dyn HostRead, name: &str) -> bool {
    host.read(&Path::new("/etc/init.d").join(name)).is_ok()
}

/// Starts or stops it, and waits until that shows.
///
/// # Errors
/// EOPNOTSUPP where neither systemd nor a script is there for it (somebody started it by hand);
/// ETIMEDOUT; EIO when the machine's own way says that it failed.
pub(super) fn set(host: &dyn HostRead, name: &str, run: bool) -> Result<(), Errno> {
    let verb = if run { "start" } else { "stop" };
    // sd_booted(3)
    let systemd = host.list(Path::new("/run/systemd/system")).is_ok();
    let script = format!("/etc/init.d/{name}");
    let (program, arguments) = if systemd && has_unit(host, name) {
        ("systemctl", vec![verb.to_owned(), format!("{name}.service")])
    } else if has_script(host, name) {
        (script.as_str(), vec![verb.to_owned()])
    } else {
        return Err(Errno::OPNOTSUPP);
    };
    let deadline = clock::monotonic() + TIME;
    finish(program, &arguments, deadline)?;
    while runs(host, name) != Some(run) {
        if clock::monotonic() > deadline {
            return Err(Errno::TIMEDOUT);
        }
        clock::sleep(LOOK);
    }
    Ok(())
}

/// Runs a program to its end, in `limit` at most.
///
/// # Errors
/// ENOENT where it is not there; EIO when it says that it failed; ETIMEDOUT.
pub(super) fn run(program: &str, arguments: &[&str], limit: Duration) -> Result<(), Errno> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    finish(program, &arguments, clock::monotonic() + limit)
}

/// Runs a program to its end. Its output goes nowhere: what it starts may keep it open for good.
#[expect(clippy::disallowed_methods, reason = "the door to other programs")]
fn finish(program: &str, arguments: &[String], deadline: Duration) -> Result<(), Errno> {
    let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(errno)?;
    loop {
        match child.try_wait().map_err(errno)? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(Errno::IO),
            None if clock::monotonic() > deadline => {
                child.kill().and_then(|()| child.wait().map(drop)).map_err(errno)?;
                return Err(Errno::TIMEDOUT);
            }
            None => clock::sleep(LOOK),
        }
    }
}

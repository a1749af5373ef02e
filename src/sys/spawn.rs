//! Running a program where the calling thread is: in its network and mount namespace.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Runs `program` with the terminal of this process and waits; its exit status, or 128 and the
/// signal's number as shells tell it.
///
/// # Errors
/// ENOENT, EACCES, ... when it can't be started.
#[expect(
    clippy::disallowed_methods,
    reason = "`lab shell` runs what its user names; a child inherits the namespaces of the thread \
              that starts it, so this runs on a namespace's thread and not through `host`"
)]
pub fn status(program: &OsString, arguments: &[OsString]) -> io::Result<u8> {
    let status = Command::new(program).args(arguments).status()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

#[expect(unsafe_code, reason = "the C library's call, to which std is linked anyway")]
unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
}

/// The same on every Linux architecture (include/uapi/asm-generic/signal.h and its kin).
const SIGHUP: i32 = 1;
const SIG_IGN: usize = 1;

/// Starts this very program once more, in a session of its own, without a terminal and deaf to
/// SIGHUP: it goes on when the terminal or this process ends. It inherits the calling thread's namespaces.
///
/// # Errors
/// What fork or exec answered.
#[expect(clippy::disallowed_methods, reason = "a guard must be a process of its own")]
pub fn detached(arguments: &[String]) -> io::Result<()> {
    // By its own path, so that lists of processes show its name; that file may be gone by now.
    let path = std::env::current_exe().ok().filter(|path| path.is_file());
    let mut command = Command::new(path.unwrap_or_else(|| "/proc/self/exe".into()));
    command
        .current_dir("/")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[expect(unsafe_code, reason = "setsid(2) and signal(2) between fork and exec")]
    // SAFETY: the closure makes two system calls and allocates nothing; both are
    // async-signal-safe, as what runs between fork and exec must be. SIG_IGN is no code.
    unsafe {
        command.pre_exec(|| {
            // An ignored signal stays ignored over exec: there is no moment at which the new
            // program could be ended by losing the terminal.
            signal(SIGHUP, SIG_IGN);
            rustix::process::setsid().map(drop).map_err(Into::into)
        });
    }
    command.spawn().map(drop)
}

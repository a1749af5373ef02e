//! Running a program where the calling thread is: in its network and mount namespace.

use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use signal_hook::consts::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;

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

/// Signals by which a terminal, an init system or a person ends a process, SIGKILL apart.
const ENDING: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM];

/// Goes on not to be ended by a signal, after [`detached`] started this process; programs that it
/// starts itself are ended by signals again.
///
/// # Errors
/// When the handlers can't be installed; the signals are ignored then, as they were before.
pub fn stay_detached() -> io::Result<()> {
    // A handler does not survive exec, as an ignored signal does.
    ENDING.iter().try_for_each(|signal| flag::register(*signal, Arc::default()).map(drop))
}

/// Signals that Linux has.
const SIGNALS: libc::c_long =
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) { 128 } else { 64 };

/// The `struct sigaction` of rt_sigaction(2), with nothing but the handler that matters: flags,
/// where they come first (arch/mips/include/uapi/asm/signal.h), and room for the rest.
#[repr(C)]
struct Action {
    #[cfg(any(target_arch = "mips", target_arch = "mips64"))]
    flags: libc::c_uint,
    handler: libc::sighandler_t,
    rest: [libc::c_ulong; 8],
}

static IGNORED: Action = Action {
    #[cfg(any(target_arch = "mips", target_arch = "mips64"))]
    flags: 0,
    handler: libc::SIG_IGN,
    rest: [0; 8],
};

/// Starts this very program once more, in a session of its own, without a terminal, and ignoring
/// every signal that can be ignored: it goes on when the terminal or this process ends, and when a limit
/// of its user is reached (SIGXCPU, SIGXFSZ). What the processor raises in a program ends it all the
/// same (kernel/signal.c, `force_sig_info_to_task`). It inherits the calling thread's namespaces. The
/// pipe that is answered ends when it does, or when it [`let_go`]es.
///
/// # Errors
/// What fork or exec answered.
#[expect(clippy::disallowed_methods, reason = "a guard must be a process of its own")]
pub fn detached(arguments: &[String]) -> io::Result<PipeReader> {
    // By its own path, so that lists of processes show its name; that file may be gone by now.
    let path = std::env::current_exe().ok().filter(|path| path.is_file());
    let (ours, theirs) = io::pipe()?;
    let mut command = Command::new(path.unwrap_or_else(|| "/proc/self/exe".into()));
    command
        .current_dir("/")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(theirs)
        .stderr(Stdio::null());
    #[expect(unsafe_code, reason = "system calls between fork and exec")]
    // SAFETY: the closure makes system calls alone and allocates nothing; all of them are
    // async-signal-safe, as what runs between fork and exec must be. SIG_IGN is no code, and `Action`
    // has at least the bytes that the kernel reads.
    unsafe {
        command.pre_exec(move || {
            // An ignored signal stays ignored over exec: there is no moment at which the new program
            // could be ended by one. The C libraries keep some for themselves (glibc 32 and 33, musl 34
            // as well), let nobody ignore those, and unblock them with their first thread: so the
            // kernel is asked. It refuses what nobody can ignore, SIGKILL and SIGSTOP.
            let (ignored, none) = (&raw const IGNORED, std::ptr::null_mut::<u8>());
            for number in (1..=SIGNALS).filter(|number| *number != libc::c_long::from(SIGCHLD)) {
                libc::syscall(libc::SYS_rt_sigaction, number, ignored, none, SIGNALS / 8);
            }
            rustix::process::setsid().map(drop).map_err(Into::into)
        });
    }
    command.spawn().map(|_| ours)
}

/// Ends the pipe to whoever started this process by [`detached`].
///
/// # Errors
/// What open(2) or dup2(2) answered.
#[expect(clippy::disallowed_methods, reason = "the standard output of a process without any")]
pub fn let_go() -> io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}

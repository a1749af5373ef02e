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

/// Signals that the C libraries keep for themselves (glibc 32 and 33, musl 34 as well), and do not let
/// anybody ignore.
const KEPT: std::ops::RangeInclusive<usize> = 32..=34;

/// Largest number of a signal that Linux has but on MIPS, where those beyond are real-time ones too.
const LAST: i32 = 64;

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

/// The kernel's set of signals (`sigset_t`, in the words of its architecture): 64 of them, on MIPS 128.
type Signals = [libc::c_ulong; SIGNALS / libc::c_ulong::BITS as usize];
const SIGNALS: usize =
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) { 128 } else { 64 };

fn set_of(numbers: std::ops::RangeInclusive<usize>) -> Signals {
    let width = libc::c_ulong::BITS as usize;
    let bit = |word: usize, number: usize| match (number - 1) / width == word {
        true => 1 << ((number - 1) % width),
        false => 0,
    };
    std::array::from_fn(|word| numbers.clone().map(|number| bit(word, number)).sum())
}

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
    let kept = set_of(KEPT);
    #[expect(unsafe_code, reason = "system calls between fork and exec")]
    // SAFETY: the closure makes system calls alone and allocates nothing; all of them are
    // async-signal-safe, as what runs between fork and exec must be. SIG_IGN is no code, and the kernel
    // reads as many bytes of the set as it has.
    unsafe {
        command.pre_exec(move || {
            // An ignored signal stays ignored over exec, and a blocked one blocked: there is no
            // moment at which the new program could be ended by one.
            for number in (1..=LAST).filter(|number| *number != SIGCHLD) {
                libc::signal(number, libc::SIG_IGN);
            }
            let (number, none) = (libc::SYS_rt_sigprocmask, std::ptr::null_mut::<u8>());
            let (from, size) = (kept.as_ptr(), size_of_val(&kept));
            if libc::syscall(number, libc::SIG_BLOCK, from, none, size) != 0 {
                return Err(io::Error::last_os_error());
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

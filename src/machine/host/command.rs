//! Running other programs, bounded in time.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{HostError, HostResult, MAX_READ, clock};
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::process::die_with_parent;

/// How often a running program is looked at.
const SLICE: Duration = Duration::from_millis(10);

/// A program at work. Dropping it ends it.
pub struct Running {
    program: String,
    child: Child,
    output: Option<JoinHandle<std::io::Result<Vec<u8>>>>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit code; `None` when a signal or its time limit ended it.
    pub code: Option<i32>,
    /// Standard output and standard error, together.
    pub output: Vec<u8>,
}

impl Ended {
    /// How it failed by its exit code, in words; `None` where it did not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match self.code {
            Some(0) => None,
            Some(code) => Some(format!("ended by exit code {code}")),
            None => Some("ended by a signal or its time limit".to_owned()),
        }
    }
}

/// Starts `program` (looked up in PATH) inside a network namespace. It ends with this process, and
/// its input is empty.
///
/// # Errors
/// ENOENT when there is no such program; what fork or exec answered otherwise.
pub fn start(netns: &NetnsThread, program: &str, arguments: &[String]) -> HostResult<Running> {
    // Children inherit the namespaces of the thread that makes them.
    launch(program, arguments, |mut command| {
        netns.run(move || command.spawn()).map_err(|_gone| rustix::io::Errno::SRCH)?
    })
}

/// Starts `program` (looked up in PATH) where this process is. It ends with this process, and its
/// input is empty.
///
/// # Errors
/// As [`start`].
pub fn start_here(program: &str, arguments: &[String]) -> HostResult<Running> {
    launch(program, arguments, |mut command| command.spawn())
}

/// Runs `program` (looked up in PATH) where this process is, for at most `limit`. Its input is empty.
///
/// # Errors
/// As [`start`] and [`Running::wait`].
pub fn run(program: &str, arguments: &[&str], limit: Duration) -> HostResult<Ended> {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    launch(program, &arguments, |mut command| command.spawn())?.wait(limit, &AtomicBool::new(false))
}

/// Runs a program once for each of `commands`, all at the same time, and waits for all of them. When
/// one can't be started, the others are ended.
///
/// # Errors
/// As [`start`] and [`Running::wait`].
pub fn together(
    start: &dyn Fn(&[String]) -> HostResult<Running>,
    commands: &[Vec<String>],
    limit: Duration,
    stop: &AtomicBool,
) -> HostResult<Vec<Ended>> {
    let deadline = clock::monotonic() + limit;
    let running = commands.iter().map(|line| start(line)).collect::<HostResult<Vec<_>>>()?;
    let left = || deadline.saturating_sub(clock::monotonic());
    running.into_iter().map(|one| one.wait(left(), stop)).collect()
}

#[expect(clippy::disallowed_methods, reason = "the door to other programs")]
fn launch(
    program: &str,
    arguments: &[String],
    spawn: impl FnOnce(Command) -> std::io::Result<Child>,
) -> HostResult<Running> {
    let fail = |e: &std::io::Error| HostError::from_io("run", Path::new(program), e);
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let (reader, writer) = pipe.map_err(|e| fail(&e.into()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stderr(writer.try_clone().map_err(|e| fail(&e))?).stdout(writer);
    die_with_parent(&mut command);
    // Our copies of the pipe's end close with the command, which `spawn` takes.
    let child = spawn(command).map_err(|e| fail(&e))?;
    let output = std::thread::Builder::new().name("output".into()).spawn(move || {
        let mut bytes = Vec::new();
        std::fs::File::from(reader).take(MAX_READ).read_to_end(&mut bytes).map(|_| bytes)
    });
    let mut running = Running { program: program.into(), child, output: None };
    // On failure `running` is dropped, which ends the child.
    running.output = Some(output.map_err(|e| fail(&e))?);
    Ok(running)
}

impl Running {
    /// Waits for its end; kills it after `limit`, or when `stop` is raised.
    ///
    /// # Errors
    /// What wait or reading answered.
    pub fn wait(mut self, limit: Duration, stop: &AtomicBool) -> HostResult<Ended> {
        let deadline = clock::monotonic() + limit;
        let code = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.code(),
                Ok(None) if clock::monotonic() < deadline && !stop.load(Ordering::Relaxed) => {
                    clock::sleep(SLICE);
                }
                Ok(None) => {
                    self.end();
                    break None;
                }
                Err(error) => return Err(self.failed(&error)),
            }
        };
        let output = match self.output.take().map(JoinHandle::join) {
            Some(Ok(read)) => read.map_err(|e| self.failed(&e))?,
            _ => Vec::new(),
        };
        Ok(Ended { code, output })
    }

    /// True while the program runs.
    #[must_use]
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn end(&mut self) {
        // It may have ended by itself in between; then there is nothing to kill.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
            log::warn!("end {}: {error}", self.program);
        }
    }

    fn failed(&self, error: &std::io::Error) -> HostError {
        HostError::from_io("run", Path::new(&self.program), error)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_alive() {
            self.end();
        }
        if let Some(output) = self.output.take()
            && output.join().is_err()
        {
            log::warn!("reading the output of {} failed", self.program);
        }
    }
}

//! Programs of the owner that run beside us: nobody waits for them, and each ends in time.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{FileType, stat};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{HostError, HostRead, HostResult, clock};
use crate::machine::sys::process::die_with_parent;

/// Directories that such a program finds other programs in.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The programs in a directory, by name, and those that are not run, each with the reason. Editors' and
/// packagers' copies and files that are not executable are no programs.
#[must_use]
pub fn programs(host: &dyn HostRead, dir: &Path) -> (Vec<PathBuf>, Vec<String>) {
    let (mut fine, mut refused) = (Vec::new(), Vec::new());
    let own = rustix::process::geteuid().as_raw();
    for name in host.list(dir).unwrap_or_default() {
        let path = dir.join(&name);
        let is_copy = name.starts_with('.') || name.ends_with('~') || name.contains(".dpkg-");
        let Some(meta) = stat(&path).ok().filter(|_| !is_copy) else { continue };
        let is_program = FileType::from_raw_mode(meta.st_mode) == FileType::RegularFile;
        if !is_program || meta.st_mode & 0o111 == 0 {
            continue;
        }
        // It runs as we do: nobody else may say what it does.
        if meta.st_mode & 0o022 != 0 || (meta.st_uid != 0 && meta.st_uid != own) {
            refused.push(format!("{} is not run: others can write to it", path.display()));
        } else {
            fine.push(path);
        }
    }
    (fine, refused)
}

/// A program at work. Dropping it ends it, and all that it started in its process group.
#[derive(Debug)]
pub struct Hook {
    child: Child,
    deadline: Duration,
    limit: Duration,
}

impl Hook {
    /// Starts a program with these variables and no others but PATH, in a process group of its own; its
    /// input is empty, and nobody sees its output.
    ///
    /// # Errors
    /// What fork or exec answered.
    #[expect(clippy::disallowed_methods, reason = "the door to other programs")]
    pub fn start(
        program: &Path,
        variables: &[(&str, String)],
        limit: Duration,
    ) -> HostResult<Self> {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", PATH).current_dir("/").process_group(0);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        die_with_parent(&mut command);
        let child = command.spawn().map_err(|e| HostError::from_io("run", program, &e))?;
        Ok(Self { child, deadline: clock::monotonic() + limit, limit })
    }

    /// `None` while it runs within its time; then how it failed, in words, or that it did not. One whose
    /// time is over is ended.
    pub fn ended(&mut self) -> Option<Option<String>> {
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Some(None),
            Ok(Some(status)) => Some(Some(format!("failed: {status}"))),
            Ok(None) if clock::monotonic() < self.deadline => None,
            Ok(None) => {
                self.end();
                Some(Some(format!("killed: it took more than {} s", self.limit.as_secs_f64())))
            }
            Err(e) => Some(Some(e.to_string())),
        }
    }

    fn end(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let killed = group.map(|group| kill_process_group(group, Signal::KILL));
        // It may have ended by itself in between; then there is nothing to kill.
        if let Some(Err(e)) = killed {
            log::debug!("end process group {}: {e}", self.child.id());
        }
        if let Err(e) = self.child.wait() {
            log::warn!("process {}: {e}", self.child.id());
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::machine::host::Live;

    fn wait(hook: &mut Hook) -> Option<String> {
        loop {
            if let Some(ended) = hook.ended() {
                return ended;
            }
            clock::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_all_that_it_started() {
        let dir = crate::machine::testing::scratch("hook");
        let put = |name: &str, mode: u32, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        put("fine", 0o755, "#!/bin/sh\n[ \"$A\" = b ] && [ -z \"$HOME\" ]\n");
        let pid = dir.join("pid");
        let text = format!("#!/bin/sh\nsleep 1000 & echo $! >{}; wait\n", pid.display());
        put("hangs", 0o755, &text);
        put("fails", 0o700, "#!/bin/sh\nexit 3\n");
        put("notes", 0o644, "no program");
        put("fine~", 0o755, "#!/bin/sh\n");
        put("open", 0o777, "#!/bin/sh\n");
        let (found, refused) = programs(&Live::here(), &dir);
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["fails", "fine", "hangs"]);
        assert_eq!(refused.len(), 1, "{refused:?}");
        let start = |name: &str, limit| {
            let variables = [("A", "b".to_owned())];
            Hook::start(&dir.join(name), &variables, Duration::from_millis(limit)).unwrap()
        };
        assert_eq!(wait(&mut start("fine", 30_000)), None);
        assert!(wait(&mut start("fails", 30_000)).unwrap().contains('3'));
        let mut hangs = start("hangs", 1500);
        assert!(wait(&mut hangs).unwrap().contains("more than 1.5 s"));
        let child: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        for _ in 0..1000 {
            if gone() {
                break;
            }
            clock::sleep(Duration::from_millis(10));
        }
        assert!(gone(), "what it started is gone too");
        assert!(Hook::start(&dir.join("none"), &[], Duration::ZERO).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

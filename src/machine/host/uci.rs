//! Options of OpenWrt's configuration that are settings of ours.
//!
//! ```text
//!   /etc/config/network    what is committed: on flash          the value in force is the staged one,
//!   /tmp/.uci/network      what is staged: in memory            else the committed
//! ```
//!
//! They are staged with `uci set` and not committed: OpenWrt's own programs read what is staged
//! (libuci.c, `uci_alloc_context`: UCI_FLAG_SAVED_DELTA), it lies in memory (/tmp/.uci) and goes
//! with the boot like every other setting of the running system, and so does the journal. A commit
//! would write the file anew without its comments, would commit whatever a person has staged there,
//! and would outlast the journal that can undo it; what is to stay is for `linerate persist`.
//!
//! Whoever else commits the package commits what we staged too. So the text of a setting has both
//! values, `0 file:1`, the journal keeps both, and undoing puts the file back where ours was committed,
//! byte for byte but for that line. A note on flash (`uci_note.rs`) outlasts the journal: ours that was
//! committed before the machine started anew is put back by the next call that changes something.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use super::uci_note::{self, Note, meant, told};
use super::{HostError, HostRead, HostResult, Query, query_as, service};
use crate::machine::parse::uci::{sections, staged};
use crate::machine::parse::uci_edit::{self, OptionPlace, Origin};
use crate::model::path::Nftables;

/// `uci` itself; and a firewall that is made anew, on a slow machine.
const QUICK: Duration = Duration::from_secs(10);
const RELOAD: Duration = Duration::from_secs(60);
const FIREWALL: &str = "/etc/init.d/firewall";
const STEERING: &str = "/etc/init.d/packet_steering";

/// An option, in the first section of a kind, as `@kind[0].option` of OpenWrt's scripts is.
#[derive(Debug, Clone, Copy)]
pub struct UciOption {
    package: &'static str,
    /// The section's.
    pub kind: &'static str,
    /// Name.
    pub option: &'static str,
}

const SOFTWARE: UciOption =
    UciOption { package: "firewall", kind: "defaults", option: "flow_offloading" };
const HARDWARE: UciOption =
    UciOption { package: "firewall", kind: "defaults", option: "flow_offloading_hw" };
/// OpenWrt's own packet steering: staged here, and edited in its file where a plan is persisted.
pub const PACKET_STEERING: UciOption =
    UciOption { package: "network", kind: "globals", option: "packet_steering" };

/// All that we stage.
const STAGED: [UciOption; 3] = [PACKET_STEERING, SOFTWARE, HARDWARE];

impl UciOption {
    /// The file that it is committed to.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        Path::new("/etc/config").join(self.package)
    }

    /// The committed value, and what is staged over it: the outer `None` where there is no such section,
    /// that of the staged one where nothing is.
    fn layers(&self, host: &dyn HostRead) -> Option<(Option<String>, Option<Option<String>>)> {
        let file = host.read(&self.file()).ok()?;
        let section = sections(&file).into_iter().find(|s| s.kind == self.kind)?;
        let delta = host.read(&Path::new("/tmp/.uci").join(self.package)).unwrap_or_default();
        Some((section.option(self.option).map(str::to_owned), staged(&delta, self.option)))
    }

    /// The value that is committed.
    #[must_use]
    pub fn committed(&self, host: &dyn HostRead) -> Option<String> {
        self.layers(host)?.0
    }

    /// The value in force: staged, else committed. The outer `None` where there is no such section.
    fn read(&self, host: &dyn HostRead) -> Option<Option<String>> {
        self.layers(host).map(|(committed, staged)| staged.unwrap_or(committed))
    }

    fn name(&self) -> String {
        format!("{}.@{}[0].{}", self.package, self.kind, self.option)
    }

    /// Stages a value, or that there is none.
    fn stage(&self, host: &dyn HostRead, wanted: Option<&str>) -> Result<(), Errno> {
        let is = || self.read(host).ok_or(Errno::NOENT).map(|now| now.as_deref() == wanted);
        if is()? {
            return Ok(());
        }
        let name = self.name();
        // What we staged before is taken back rather than staged over, so that nothing is left.
        match service::run("uci", &["-q", "revert", &name], QUICK) {
            Ok(()) if is()? => return Ok(()),
            Ok(()) => {}
            Err(errno) => log::debug!("uci revert {name}: {errno}"),
        }
        match wanted {
            Some(value) => service::run("uci", &["-q", "set", &format!("{name}={value}")], QUICK),
            None => service::run("uci", &["-q", "delete", &name], QUICK),
        }
    }

    /// Takes back what is staged and says no more than the file does: `uci changes` need not list it.
    fn tidy(&self, host: &dyn HostRead) {
        if let Some((committed, Some(staged))) = self.layers(host)
            && committed == staged
            && let Err(errno) = service::run("uci", &["-q", "revert", &self.name()], QUICK)
        {
            log::debug!("uci revert {}: {errno}", self.name());
        }
    }

    /// Makes the file say `wanted`, and changes no other line of it.
    fn put_in_file(&self, host: &dyn HostRead, wanted: Option<&str>) -> Result<(), Errno> {
        let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let path = self.file();
        let text = host.read(&path).map_err(|e| e.errno)?;
        let text = String::from_utf8(text).map_err(|_| Errno::ILSEQ)?;
        let place = OptionPlace { kind: self.kind.into(), option: self.option.into() };
        let origin = wanted.map_or(Origin::NoOption, |v| Origin::Line(uci_edit::line(&place, v)));
        replace(&path, uci_edit::put(&text, &place, &origin).as_bytes()).map_err(errno)
    }

    /// Stages a value of ours over what is committed, which is noted first.
    fn stage_ours(&self, host: &dyn HostRead, wanted: Option<&str>) -> Result<(), Errno> {
        let committed = self.committed(host);
        if committed.as_deref() != wanted && !self.is_persisted(host) {
            let mut notes = uci_note::all(host);
            let boot = host.identity().boot_id;
            // The first of this boot knows what was there before us.
            let first = notes.iter().position(|n| n.option == self.option && n.boot == boot);
            let former = first.map(|at| notes.swap_remove(at)).map_or(committed, |n| n.former);
            notes.retain(|n| n.option != self.option);
            let (option, ours) = (self.option.to_owned(), wanted.map(str::to_owned));
            notes.push(Note { option, former, ours, boot });
            uci_note::put(&notes)?;
        }
        self.stage(host, wanted)
    }

    /// Stages what was there before us, and puts the file back to `former` where somebody else committed
    /// what we staged.
    fn give_back(
        &self,
        host: &dyn HostRead,
        wanted: Option<&str>,
        former: Option<&str>,
    ) -> Result<(), Errno> {
        if let Some((committed, staged)) = self.layers(host)
            && committed.as_deref() != former
            && staged.is_none_or(|staged| staged == committed)
            && !self.is_persisted(host)
        {
            self.put_in_file(host, former)?;
            log::warn!(
                "{}: somebody committed {} while it was ours; its line is as before",
                self.file().display(),
                self.option
            );
        }
        self.stage(host, wanted)?;
        let notes = uci_note::all(host);
        let others: Vec<Note> = notes.iter().filter(|n| n.option != self.option).cloned().collect();
        if others.len() < notes.len() { uci_note::put(&others) } else { Ok(()) }
    }

    /// True where `persist` has the option in the file: what is committed there is to stay.
    fn is_persisted(&self, host: &dyn HostRead) -> bool {
        let record = host.read(Path::new("/etc/linerate/persist.json")).unwrap_or_default();
        String::from_utf8_lossy(&record).contains(self.option)
    }
}

/// True where a note on flash says that something of ours was staged in an earlier boot.
pub fn has_notes(host: &dyn HostRead) -> bool {
    let boot = host.identity().boot_id;
    uci_note::all(host).iter().any(|note| note.boot != boot)
}

/// Puts back what we staged in an earlier boot and somebody else committed before it ended; what the
/// owner set since is theirs. Gives a line for each.
///
/// # Errors
/// When a configuration file can't be written; its note then stays.
pub fn settle_notes(host: &dyn HostRead) -> HostResult<Vec<String>> {
    let (mut told_of, boot) = (Vec::new(), host.identity().boot_id);
    let mut notes = uci_note::all(host);
    while let Some(at) = notes.iter().position(|note| note.boot != boot) {
        let note = notes.swap_remove(at);
        if let Some(option) = STAGED.iter().find(|option| option.option == note.option)
            && let committed = option.committed(host)
            && committed == note.ours
            && committed != note.former
            && !option.is_persisted(host)
        {
            let file = option.file();
            let failed = |errno| HostError::new("write", &file, errno);
            option.put_in_file(host, note.former.as_deref()).map_err(failed)?;
            match option.package {
                "network" => serve(host, note.former.as_deref()),
                _ => service::run(FIREWALL, &["reload"], RELOAD).map_err(failed)?,
            }
            told_of.push(format!(
                "{}: {} was staged by linerate and committed by somebody else before the last start; it is \
                 {} again, as before",
                file.display(),
                option.option,
                told(note.former.as_deref())
            ));
        }
        uci_note::put(&notes)
            .map_err(|errno| HostError::new("write", Path::new(uci_note::NOTE), errno))?;
    }
    Ok(told_of)
}

/// Gives a file another content, all of it or none.
#[expect(clippy::disallowed_methods, reason = "the door to the system")]
pub(super) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    // With a dot in front, so that nobody takes it for a configuration.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let scratch = path.with_file_name(format!(".{name}.linerate-new"));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&scratch)?;
    let like = std::fs::metadata(path).map(|old| old.permissions());
    let written = like
        .map_or(Ok(()), |mode| file.set_permissions(mode))
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&scratch, path));
    if written.is_err() {
        drop(std::fs::remove_file(&scratch));
    }
    written
}

/// Takes back what we staged for OpenWrt's packet steering where the file says the same by now.
pub fn tidy_packet_steering(host: &dyn HostRead) {
    PACKET_STEERING.tidy(host);
}

/// As fw4.uc reads a boolean.
fn is_on(value: Option<&str>) -> bool {
    matches!(value, Some("1" | "on" | "true" | "yes" | "enabled"))
}

/// Flow offload as the firewall is asked for it, and what its file says of both options; `None` where this
/// is no OpenWrt.
pub(super) fn offload(host: &dyn HostRead) -> Option<String> {
    let (software, hardware) = (SOFTWARE.read(host)?, HARDWARE.read(host)?);
    let mode = match (is_on(software.as_deref()), is_on(hardware.as_deref())) {
        (false, _) => "off",
        (true, false) => "software",
        (true, true) => "hardware",
    };
    let [sw_file, hw_file] = [SOFTWARE, HARDWARE].map(|option| option.committed(host));
    let [software, hardware, sw_file, hw_file] =
        [&software, &hardware, &sw_file, &hw_file].map(|value| told(value.as_deref()));
    Some(format!("{mode} sw:{software} hw:{hardware} file:{sw_file},{hw_file}"))
}

/// Asks the firewall for it. `rest` may say what the options, and then their file, are to be exactly.
pub(super) fn set_offload(host: &dyn HostRead, mode: &str, rest: &str) -> Result<(), Errno> {
    let exact = |key: &str| rest.split_whitespace().find_map(|word| word.strip_prefix(key));
    let (was, on) = (HARDWARE.read(host).ok_or(Errno::NOENT)?, Some("1"));
    let (software, hardware) = match (exact("sw:"), exact("hw:"), mode) {
        (Some(software), Some(hardware), _) => (meant(software), meant(hardware)),
        (_, _, "hardware") => (on, on),
        (_, _, "software") if is_on(was.as_deref()) => (on, Some("0")),
        (_, _, "software") => (on, was.as_deref()),
        _ => (Some("0"), was.as_deref()),
    };
    match exact("file:").and_then(|file| file.split_once(',')) {
        Some((sw_file, hw_file)) => {
            SOFTWARE.give_back(host, software, meant(sw_file))?;
            HARDWARE.give_back(host, hardware, meant(hw_file))?;
        }
        None => {
            SOFTWARE.stage_ours(host, software)?;
            HARDWARE.stage_ours(host, hardware)?;
        }
    }
    service::run(FIREWALL, &["reload"], RELOAD)?;
    // fw4 takes the option and goes on without where the kernel's part (kmod-nft-offload) is
    // missing. Before nftables there is nothing to look at here.
    let rules: Option<Nftables> = query_as(host, &Query::Nftables).ok();
    let lacking = rules.is_some_and(|r| r.rules > 0 && r.flowtables.is_empty());
    if is_on(software) && lacking { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

/// The value in force, or `unset`, and behind it what the file says.
pub(super) fn steering(host: &dyn HostRead) -> Result<String, Errno> {
    let (committed, staged) = PACKET_STEERING.layers(host).ok_or(Errno::NOENT)?;
    let now = staged.as_ref().unwrap_or(&committed);
    Ok(format!("{} file:{}", told(now.as_deref()), told(committed.as_deref())))
}

/// Sets it; what the text has behind the value says what the file is to say, where what we staged was
/// committed by somebody else.
pub(super) fn set_steering(host: &dyn HostRead, text: &str) -> Result<(), Errno> {
    let value = match text.split_once(" file:") {
        Some((value, file)) => {
            PACKET_STEERING.give_back(host, meant(value), meant(file))?;
            value
        }
        None => {
            PACKET_STEERING.stage_ours(host, meant(text))?;
            text
        }
    };
    PACKET_STEERING.tidy(host);
    serve(host, meant(value));
    Ok(())
}

/// Has OpenWrt's service act by the value. With 0 it is stopped, for from 24.10 on it goes on to write
/// zeros after every interface event (packet-steering.uc, `disable`); with anything else it is started,
/// where it is enabled, and sets its masks at once.
fn serve(host: &dyn HostRead, value: Option<&str>) {
    if host.read(Path::new(STEERING)).is_err() {
        return;
    }
    let links = host.list(Path::new("/etc/rc.d")).unwrap_or_default();
    let enabled = links.iter().any(|l| l.starts_with('S') && l.ends_with("packet_steering"));
    let verb = match value {
        Some("0") => "stop",
        _ if enabled => "start",
        _ => return,
    };
    // Where procd is not at work (a container), neither is the service: the option is what counts.
    if let Err(errno) = service::run(STEERING, &[verb], QUICK) {
        log::warn!(
            "{STEERING} {verb}: {errno}; check RPS after an interface event: linerate verify"
        );
    }
}

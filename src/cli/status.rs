//! `linerate status`: on one page what is applied, what waits, what is persisted, what has drifted and
//! what runs. It needs no right but to read.

use std::path::Path;
use std::time::Duration;

use super::context::Context;
use super::shared::{persisted, waiting};
use crate::change::apply::{Drifted, Hold, InForce, Whereabouts, deadman, time_left};
use crate::error::{ExitCode, Result};
use crate::machine::host::HostRead;
use crate::machine::store::deadman::Undone;
use crate::machine::store::journal::{Header, Phase};
use crate::machine::store::labs::LabRecords;
use crate::machine::store::{self, StateDir};
use crate::model::order::InOrder;
use crate::model::watch::Running as Watching;
use crate::report::document::{Block, Document, Section, Table};

/// Verbs that are started by this program or by an init, and are told of elsewhere.
const HIDDEN: [&str; 3] = ["dead-man", "boot", "event"];

/// Runs the command.
pub(super) fn run(context: &Context) -> Result<ExitCode> {
    let host = context.live("status")?;
    let out = &context.out;
    let state = store::state_dir();
    if let Some(armed) = deadman::overdue(host, &state)? {
        // Its guard may be at it, and who may not write can only say so.
        let undone = match Hold::take(host, &state, "status", Duration::ZERO) {
            Ok(hold) => hold.undo_overdue(),
            Err(_) => Ok(vec![waiting::late_by(&armed)]),
        };
        match undone {
            Ok(notes) => notes.iter().for_each(|note| out.say(out.warn(note))),
            Err(e) => out.say(out.warn(format_args!(
                "a change that was never confirmed is not undone yet, and is tried again: {e}"
            ))),
        }
    }
    let page = Page::of(host, &state)?;
    match out.json {
        true => out.json(&page)?,
        false => out.document(&page.document())?,
    }
    Ok(if page.drift.is_empty() { ExitCode::Done } else { ExitCode::Drift })
}

#[derive(serde::Serialize)]
struct Page {
    format: &'static str,
    version: u32,
    journals: Vec<Header>,
    /// Journals that can't be undone from, and what is known of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persisted: Option<persisted::State>,
    /// The change that is undone unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Waiting>,
    /// The last change that nobody confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<Undone>,
    /// Settings that somebody else changed since.
    drift: Vec<Drifted>,
    /// Other processes of this program.
    running: Vec<Running>,
    /// The watch that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<Watching>,
    /// Labs that stay.
    labs: Vec<String>,
    /// The newest result of `tune` in this directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<Experiment>,
    #[serde(skip)]
    in_force: Vec<InForce>,
}

#[derive(serde::Serialize)]
struct Waiting {
    seconds_left: f64,
    watched: Vec<String>,
}

#[derive(serde::Serialize)]
struct Running {
    pid: u32,
    command: String,
}

#[derive(serde::Serialize)]
struct Experiment {
    file: String,
    started: String,
    verdict: String,
}

impl Page {
    fn of(host: &dyn HostRead, state: &StateDir) -> Result<Self> {
        let persisted::Kept { in_force, persisted, drift } = persisted::kept(host, state)?;
        Ok(Self {
            format: "linerate-status",
            version: 1,
            journals: in_force.iter().map(|one| one.journal.header.clone()).collect(),
            damaged: state.journals()?.damaged.iter().map(ToString::to_string).collect(),
            persisted,
            waiting: state.armed()?.map(|armed| Waiting {
                seconds_left: time_left(&armed).as_secs_f64(),
                watched: armed.watched.iter().map(ToString::to_string).collect(),
            }),
            undone: deadman::last_undone(host, state)?,
            drift,
            watch: waiting::watching(host, state),
            running: running(host),
            labs: LabRecords::of(state.clone()).ids()?,
            experiment: experiment(),
            in_force,
        })
    }

    fn document(&self) -> Document {
        let mut page = Section::new("");
        page.blocks.extend(self.damaged.iter().map(Block::alarm));
        page.blocks
            .extend(self.undone.iter().map(|undone| Block::alarm(waiting::sentence(undone))));
        if self.persisted.as_ref().is_some_and(|kept| kept.skipped) {
            page.blocks.push(Block::alarm(persisted::SKIPPED));
        }
        if self.in_force.is_empty() && self.damaged.is_empty() {
            page.blocks
                .push(Block::prose("linerate has changed nothing here since the machine started"));
        }
        if !self.in_force.is_empty() {
            page.blocks.push(Block::Table(self.changes()));
        }
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut fact = |label: &str, text: String| facts.push((label.to_owned(), text));
        if let Some(waiting) = &self.waiting {
            let watching = match waiting.watched.join(", ") {
                names if names.is_empty() => String::new(),
                names => format!(", or when {names} stops answering"),
            };
            let left = waiting.seconds_left;
            fact(
                "waits",
                format!("undone in {left:.0} s{watching}, unless you say: linerate confirm"),
            );
        }
        if !self.in_force.is_empty() {
            fact("undo", "linerate rollback".to_owned());
        }
        self.persisted.iter().flat_map(persisted::State::facts).for_each(|(l, t)| fact(&l, t));
        if self.drift.is_empty() && (!self.in_force.is_empty() || self.persisted.is_some()) {
            fact("drift", "none: every setting is as it was left".to_owned());
        }
        if let Some(watch) = &self.watch {
            let since = waiting::ago(Duration::from_millis(watch.since_ms));
            let last = watch.last.as_ref().map_or(String::new(), |last| {
                let ago = waiting::ago(Duration::from_millis(last.at_ms));
                format!("; the last, {ago} ago: {}", last.event.words)
            });
            fact("watch", format!("for {since}, {} events{last}", watch.events));
            for one in &watch.troubles {
                fact("trouble", format!("{}: {}", one.event, one.words));
            }
        }
        for lab in &self.labs {
            fact("lab", format!("{lab} is up; take it down: linerate lab down {lab}"));
        }
        for one in &self.running {
            fact("runs", format!("{} (pid {})", one.command, one.pid));
        }
        if let Some(last) = &self.experiment {
            fact("experiment", format!("{}, {}: {}", last.file, last.started, last.verdict));
        }
        if !facts.is_empty() {
            page.blocks.push(Block::Facts(facts));
        }
        if !self.drift.is_empty() {
            let many = if self.drift.len() == 1 { "setting is" } else { "settings are" };
            page.blocks.push(Block::alarm(format!(
                "drift: {} {many} not as linerate left them; who may have done it: linerate verify",
                self.drift.len()
            )));
            let mut table = Table::new(&["setting", "wanted", "is"]);
            for one in &self.drift {
                let is = one.is.clone().unwrap_or_else(|| "?".to_owned());
                table.row([one.knob.to_string(), one.wanted.clone(), is]);
            }
            page.blocks.push(Block::Table(table));
        }
        let mut document = Document::new("");
        document.section(page);
        document
    }

    fn changes(&self) -> Table {
        let mut table = Table::new(&["change", "settings", "since", "by", "state", "where"]);
        for one in &self.in_force {
            let header = &one.journal.header;
            let place = match one.place {
                Whereabouts::Here => "here",
                Whereabouts::EarlierBoot => "an earlier boot: gone",
                Whereabouts::GoneNamespace => "a network namespace that is gone",
                Whereabouts::OtherNamespace => "another network namespace",
            };
            let since = match one.place {
                Whereabouts::EarlierBoot => "-".to_owned(),
                _ => waiting::ago(Duration::from_millis(header.started_ms)),
            };
            table.row([
                header.what.clone(),
                header.entries.len().to_string(),
                since,
                header.by.clone().unwrap_or_else(|| "-".to_owned()),
                match one.journal.phase {
                    Phase::Applied => "applied".to_owned(),
                    Phase::Unfinished => "unfinished".to_owned(),
                },
                place.to_owned(),
            ]);
        }
        table.drop_empty();
        table
    }
}

/// Other processes of this program that people start.
fn running(host: &dyn HostRead) -> Vec<Running> {
    let proc = Path::new("/proc");
    let names = host.list(proc).unwrap_or_default();
    let mut found: Vec<Running> = Vec::new();
    for pid in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let place = proc.join(pid.to_string());
        let ours = host.text(&place.join("comm")).is_ok_and(|name| name == "linerate");
        if !ours || pid == std::process::id() {
            continue;
        }
        let Ok(words) = host.read(&place.join("cmdline")) else { continue };
        let words = String::from_utf8_lossy(&words).into_owned();
        let words: Vec<&str> = words.split('\0').skip(1).filter(|word| !word.is_empty()).collect();
        if words.first().is_some_and(|verb| !HIDDEN.contains(verb)) {
            found.push(Running { pid, command: format!("linerate {}", words.join(" ")) });
        }
    }
    found.order_by_key(|one| one.pid);
    found
}

#[cfg(feature = "measure")]
fn experiment() -> Option<Experiment> {
    use crate::decide::experiment::{analyse, refuse_starved};
    let file = store::result::newest(Path::new("."))?;
    let mut told = store::result::read(&file).ok()?;
    refuse_starved(&mut told);
    let verdict = crate::report::tune::headline(&told, &analyse(&told));
    let file = file.file_name()?.to_string_lossy().into_owned();
    Some(Experiment { file, started: told.started, verdict })
}

#[cfg(not(feature = "measure"))]
fn experiment() -> Option<Experiment> {
    None
}

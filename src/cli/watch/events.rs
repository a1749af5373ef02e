//! Where events go: a line of JSON for the log, the owner's programs, and the state that `status` reads.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::context::Context;
use crate::cli::shared::syslog::{self, INFO, WARNING};
use crate::decide::watch::Watch;
use crate::machine::host::clock;
use crate::machine::host::hook::{Hook, programs};
use crate::machine::store::StateDir;
use crate::machine::store::disk::Root;
use crate::machine::store::json;
use crate::model::watch::{Event, Events, Last, Phase, Running};

/// Directory of the owner's programs.
const PROGRAMS: &str = "/etc/linerate/events.d";
/// Most programs that are run.
const MOST_PROGRAMS: usize = 16;
/// Most events that wait for one program.
const MOST_WAITING: usize = 32;
/// Most characters of a sentence in the log: the kernel refuses a line of a thousand.
const MOST_WORDS: usize = 400;

/// One event as it is told: docs/schema/event.json.
#[derive(serde::Serialize)]
struct Line<'a> {
    format: &'static str,
    version: u32,
    utc: String,
    #[serde(flatten)]
    event: &'a Event,
}

/// A program of the owner's: what it does now, and what waits for it.
#[derive(Default)]
struct Program {
    running: Option<(Hook, Event)>,
    waiting: VecDeque<Event>,
    /// The last run failed, and that was told.
    failed: bool,
}

/// Who is told.
pub(super) struct Told<'a> {
    context: &'a Context,
    state: StateDir,
    running: Running,
    programs: BTreeMap<PathBuf, Program>,
    /// The state can't be written, and that was told.
    unwritten: bool,
    refused: Vec<String>,
}

fn now_ms() -> u64 {
    u64::try_from(clock::boottime().as_millis()).unwrap_or(u64::MAX)
}

impl<'a> Told<'a> {
    pub(super) fn new(context: &'a Context, state: StateDir) -> Self {
        let running = Running {
            pid: std::process::id(),
            since_ms: now_ms(),
            events: 0,
            last: None,
            troubles: Vec::new(),
        };
        let programs = BTreeMap::new();
        Self { context, state, running, programs, unwritten: false, refused: Vec::new() }
    }

    /// State of this watch.
    pub(super) fn running(&self) -> &Running {
        &self.running
    }

    /// A remark for the log that is no event.
    pub(super) fn log(&self, words: &str) {
        let line = format!("watch: {words}");
        if syslog::line(self.context, INFO, &line).is_err() {
            self.context.out.say(line);
        }
    }

    /// Tells events to everybody.
    pub(super) fn tell(&mut self, watch: &Watch, events: Vec<Event>, wishes: &Events) {
        if events.is_empty() {
            return;
        }
        for event in events {
            self.line(&event);
            self.running.events += 1;
            self.running.last = Some(Last { at_ms: now_ms(), event: event.clone() });
            if wishes.run {
                self.enqueue(&event);
            }
        }
        self.keep(watch);
        self.attend(wishes);
    }

    fn line(&self, event: &Event) {
        let words: String = event.words.chars().take(MOST_WORDS).collect();
        let event = &Event { words, ..event.clone() };
        let (format, version) = ("linerate-event", 1);
        let line = match json::line(&Line { format, version, utc: clock::wall(), event }) {
            Ok(line) => line,
            Err(e) => return log::warn!("{e}"),
        };
        let level = if event.phase == Phase::Raised { WARNING } else { INFO };
        let logged = syslog::line(self.context, level, &line);
        let out = &self.context.out;
        if out.json {
            // Whoever reads it may be gone: the log has it.
            if let Err(e) = out.data(&line) {
                log::debug!("{e}");
            }
        } else {
            let text = format!("{} {}: {}", event.event, event.phase.word(), event.words);
            out.say(if event.phase == Phase::Raised { out.warn(text) } else { text });
        }
        if let Err(e) = logged {
            log::debug!("{e}");
        }
    }

    /// Writes the state for `status`; a disk that is full is told once, and tried again at each event.
    pub(super) fn keep(&mut self, watch: &Watch) {
        self.running.troubles = watch.health.lasting().collect();
        match self.state.watches(&self.running) {
            Ok(()) => self.unwritten = false,
            Err(e) if !std::mem::replace(&mut self.unwritten, true) => {
                self.log(&format!("status will not tell of this watch: {e}"));
            }
            Err(_) => {}
        }
    }

    fn enqueue(&mut self, event: &Event) {
        let host = match self.context.live("watch") {
            Ok(host) => host,
            Err(e) => return log::warn!("{e}"),
        };
        let dir = Root::of_environment().path(Path::new(PROGRAMS));
        let (found, refused) = programs(host, &dir);
        if refused != self.refused {
            refused.iter().for_each(|why| self.log(why));
            self.refused = refused;
        }
        self.programs.retain(|path, program| found.contains(path) || program.running.is_some());
        for path in found.into_iter().take(MOST_PROGRAMS) {
            let program = self.programs.entry(path).or_default();
            if program.waiting.len() >= MOST_WAITING {
                // The newest say how things are.
                program.waiting.pop_front();
            }
            program.waiting.push_back(event.clone());
        }
    }

    /// True while programs run or wait.
    pub(super) fn is_busy(&self) -> bool {
        self.programs.values().any(|one| one.running.is_some() || !one.waiting.is_empty())
    }

    /// Looks after the programs: each runs for one event after the other, all beside each other.
    pub(super) fn attend(&mut self, wishes: &Events) {
        let mut said = Vec::new();
        for (path, program) in &mut self.programs {
            let name = path.display();
            if let Some((hook, event)) = &mut program.running {
                let Some(ended) = hook.ended() else { continue };
                let failed = ended.is_some();
                if let Some(why) = ended.filter(|_| !program.failed) {
                    said.push(format!("{name} at {}: {why}", event.event));
                }
                (program.running, program.failed) = (None, failed);
            }
            let Some(event) = program.waiting.pop_front() else { continue };
            let limit = Duration::from_secs_f64(wishes.limit);
            match Hook::start(path, &variables(&event), limit) {
                Ok(hook) => program.running = Some((hook, event)),
                Err(e) => {
                    if !std::mem::replace(&mut program.failed, true) {
                        said.push(e.to_string());
                    }
                }
            }
        }
        said.iter().for_each(|words| self.log(words));
    }

    /// Ends: programs that run are killed, and the state goes.
    pub(super) fn end(&mut self) {
        self.programs.clear();
        if let Err(e) = self.state.watches_no_more() {
            log::debug!("{e}");
        }
    }
}

/// Environment of a program (docs/watch.md).
fn variables(event: &Event) -> [(&'static str, String); 6] {
    [
        ("LINERATE_EVENT", event.event.clone()),
        ("LINERATE_PHASE", event.phase.word().to_owned()),
        ("LINERATE_PLACE", event.place.replace('\0', "")),
        ("LINERATE_WORDS", event.words.replace('\0', "")),
        ("LINERATE_UTC", clock::wall()),
        ("LINERATE_PID", std::process::id().to_string()),
    ]
}

//! Many candidates in turn under one journal: for the cells of an experiment.

use super::changer::Changer;
use super::knob::{Target, read_text, resolve, same, same_text};
use super::renamed::Devices;
use super::undo::Left;
use super::write::set;
use super::{Write, begin, current, entry, incomplete, put_back};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::HostWrite;
use crate::machine::store::journal::{JournalLine, Writer};
use crate::model::knob::{Knob, Value};
use crate::model::measurement::ReadBack;
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;

/// An experiment's hold on the router's settings. Every setting that any of its candidates
/// touches is journalled once, when it is opened; dropping it restores them all.
pub struct Session<'a> {
    host: &'a dyn HostWrite,
    snapshot: &'a Snapshot,
    /// Every setting, as it was found.
    found: Vec<Write>,
    candidates: Vec<(String, Vec<Target>)>,
    /// Settings that were written at all, by place in `found`.
    touched: Vec<bool>,
    /// `None` once everything is restored.
    journal: Option<Writer>,
}

impl<'a> Session<'a> {
    /// Looks up and journals what `candidates` would touch.
    pub(super) fn open(changer: &'a Changer<'_>, candidates: &[Candidate]) -> Result<Self> {
        let (host, snapshot) = (changer.host(), changer.snapshot());
        let mut found: Vec<Write> = Vec::new();
        let mut texts: Vec<Vec<String>> = Vec::new();
        let mut all = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let targets = resolve(snapshot, candidate)?;
            for target in &targets {
                let text = target.wanted.to_kernel();
                match found.iter().position(|w| w.path == target.path) {
                    Some(at) => {
                        texts.iter_mut().skip(at).take(1).for_each(|t| t.push(text.clone()))
                    }
                    None => {
                        found.push(current(host, target.clone())?);
                        texts.push(vec![text]);
                    }
                }
            }
            all.push((candidate.name.clone(), targets));
        }
        let devices = Devices::of(host);
        let entries = found.iter().zip(texts).map(|(write, after)| entry(write, after, &devices));
        let journal = begin(host, changer.lock(), "experiment", entries.collect())?;
        let touched = vec![false; found.len()];
        Ok(Self { host, snapshot, found, candidates: all, touched, journal: Some(journal) })
    }

    /// Takes in a candidate that the session was not opened with. All of its settings and values
    /// must be those of others that it was: the journal is on disk already.
    ///
    /// # Errors
    /// Fails as [`Changer::open`] does; usage for a setting or value that is not in the journal.
    pub fn learn(&mut self, candidate: &Candidate) -> Result<()> {
        if self.candidates.iter().any(|(name, _)| *name == candidate.name) {
            return Ok(());
        }
        let targets = resolve(self.snapshot, candidate)?;
        let entries = self.journal.as_ref().map(|j| &j.journal().header.entries);
        for target in &targets {
            let text = target.wanted.to_kernel();
            let known = entries
                .into_iter()
                .flatten()
                .any(|e| e.path == target.path && (e.before == text || e.after.contains(&text)));
            if !known {
                let what = format!("set {}: {}", target.knob, target.path.display());
                return Err(Error::usage(what, format!("{text} is not in the session's journal")));
            }
        }
        self.candidates.push((candidate.name.clone(), targets));
        Ok(())
    }

    /// Makes the router what the candidate of that name asks for; settings that it does not
    /// mention are as found. Writes only what differs from what is there, and reads it back.
    /// Gives the number of writes.
    ///
    /// # Errors
    /// An error of usage for a name that the session was not opened with; rolled back (exit 7) when
    /// a setting could not be made: then everything is as found again and the session is over;
    /// rollback incomplete (exit 8) when that failed too.
    pub fn set(&mut self, name: &str) -> Result<usize> {
        let Some((_, targets)) = self.candidates.iter().find(|(n, _)| n == name) else {
            return Err(Error::usage(format!("set {name}"), "no candidate has that name"));
        };
        let Some(journal) = self.journal.as_mut() else {
            return Err(Error::usage(format!("set {name}"), "the session is over"));
        };
        let moves =
            |t: &Target| matches!(t.knob, Knob::Service { .. }) && t.wanted == Value::Switch(true);
        if targets.iter().any(moves) {
            // It may leave any value in any line, which is then not somebody else's but ours.
            let lines = self.found.iter().zip(self.touched.iter_mut()).enumerate();
            for (number, (_, touched)) in
                lines.filter(|(_, (w, _))| matches!(w.knob, Knob::IrqAffinity { .. }))
            {
                journal.step(JournalLine::Begin(number))?;
                *touched = true;
            }
        }
        let mut written = 0;
        let mut failed = None;
        for (number, (found, touched)) in self.found.iter().zip(self.touched.iter_mut()).enumerate()
        {
            let target = targets.iter().find(|t| t.path == found.path);
            let wanted = target.map_or_else(|| found.before_text.clone(), |t| t.wanted.to_kernel());
            match bring(self.host, journal, number, found, touched, &wanted) {
                Ok(true) => written += 1,
                Ok(false) => {}
                Err(e) => {
                    failed = Some((found, e));
                    break;
                }
            }
        }
        let Some((found, why)) = failed else { return Ok(written) };
        let what = format!("set {}: {}", found.knob, found.path.display());
        match self.finish() {
            None => {
                let why = format!("{why}; everything was rolled back");
                Err(Error::new(ExitCode::RolledBack, what, why))
            }
            Some(left) => Err(incomplete(&format!("{what}: {why}"), &left)),
        }
    }

    /// The settings that are not what the candidate of that name asks for, right now.
    ///
    /// # Errors
    /// An error of usage for a name that the session was not opened with.
    pub fn differing(&self, name: &str) -> Result<Vec<String>> {
        let Some((_, targets)) = self.candidates.iter().find(|(n, _)| n == name) else {
            return Err(Error::usage(format!("check {name}"), "no candidate has that name"));
        };
        let differs = |target: &Target| match read_text(self.host, &target.path) {
            Err(e) => Some(format!("{}: {}", target.knob, e.reason())),
            Ok(text) => {
                let actual = super::meaning(&target.knob, &text);
                let fits = actual.as_ref().is_ok_and(|a| same(&target.knob, &target.wanted, a));
                (!fits).then(|| {
                    let told = super::knob::told(&target.knob, &text);
                    format!("{} is {told} instead of {}", target.knob, target.wanted)
                })
            }
        };
        Ok(targets.iter().filter_map(differs).collect())
    }

    /// The settings that the candidate of that name asks for, as they read right now; none for a
    /// name that the session was not opened with.
    #[must_use]
    pub fn read_back(&self, name: &str) -> Vec<ReadBack> {
        let targets = self.candidates.iter().filter(|(n, _)| n == name).flat_map(|(_, all)| all);
        let read = |target: &Target| ReadBack {
            name: target.knob.to_string(),
            text: read_text(self.host, &target.path).ok(),
        };
        targets.map(read).collect()
    }

    /// Makes everything what it was before the session, and ends it.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8) with the list of what is left; the journal stays then.
    pub fn restore(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        match self.finish() {
            None => Ok(()),
            Some(left) => Err(incomplete("restore the settings", &left)),
        }
    }

    /// Restores, and gives what could not be.
    fn finish(&mut self) -> Option<Vec<Left>> {
        let journal = self.journal.take()?;
        let left = put_back(self.host, &journal);
        (!left.is_empty()).then_some(left)
    }
}

/// Brings one setting to `wanted`; whether that took a write.
fn bring(
    host: &dyn HostWrite,
    journal: &mut Writer,
    number: usize,
    found: &Write,
    touched: &mut bool,
    wanted: &str,
) -> std::result::Result<bool, String> {
    let now = read_text(host, &found.path)
        .map_err(|e| format!("failed: it can't be read ({})", e.reason()))?;
    if same_text(&found.knob, wanted, &now) {
        return Ok(false);
    }
    // Once is enough: from then on any of the session's values may be found there.
    if !*touched {
        journal.step(JournalLine::Begin(number)).map_err(|e| e.to_string())?;
    }
    set(host, &found.knob, &found.path, wanted).map_err(|trouble| trouble.to_string())?;
    if !std::mem::replace(touched, true) {
        journal.step(JournalLine::Done(number)).map_err(|e| e.to_string())?;
    }
    Ok(true)
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            // Nobody is left to return it to; the journal stays for the next run.
            log::error!("{e}");
        }
    }
}

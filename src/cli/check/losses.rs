//! `linerate check --losses`: where packets are lost, from the wire to the wire.

use std::time::Duration;

use super::{Context, ExitCode, Result, interrupt};
use crate::decide::losses::{Balance, Entry, Ledger, ledger};
use crate::machine::discover;
use crate::machine::host::clock;
use crate::model::snapshot::{Gap, Snapshot};
use crate::report::losses as report;

/// Runs `check --losses`: the counters since boot and, with seconds, what rises in that time.
pub(super) fn run(context: &Context, seconds: Option<f64>) -> Result<ExitCode> {
    let out = &context.out;
    let host = context.reader();
    let snapshot = discover::snapshot(host);
    let first = discover::losses(host, &snapshot);
    let found = match seconds {
        None => ledger(&first, None),
        Some(seconds) => {
            // The counters of a capture stand still.
            let host = context.live("check --losses S")?;
            let stop = interrupt::stop_flag()?;
            let begun = clock::monotonic();
            let until = begun + Duration::from_secs_f64(seconds);
            out.say(format_args!("watching for {seconds} s; traffic should flow meanwhile"));
            if !clock::wait_until(until, Duration::from_millis(200), &stop) {
                out.say("interrupted: nothing was changed");
                return Ok(ExitCode::Interrupted);
            }
            let now = discover::losses(host, &snapshot);
            let passed = clock::monotonic().saturating_sub(begun).as_secs_f64();
            ledger(&now, Some((&first, passed)))
        }
    };
    if out.json {
        out.json(&LossesDocument::of(&snapshot, &found))?;
    } else {
        out.document(&report::document(&snapshot, &found))?;
    }
    Ok(ExitCode::Done)
}

/// `check --losses --json`: docs/losses.schema.json.
#[derive(serde::Serialize)]
struct LossesDocument<'a> {
    format: &'static str,
    version: u32,
    hostname: &'a str,
    kernel: &'a str,
    #[serde(flatten)]
    told: Told<'a>,
}

/// The ledger in `check --load --json` as well.
#[derive(serde::Serialize)]
pub(super) struct Told<'a> {
    /// Seconds that it was watched for; null for the counters since boot.
    seconds: Option<f64>,
    /// Packets lost, those that rules drop on purpose left out.
    lost: u64,
    dropped_by_rules: u64,
    entries: &'a [Entry],
    balance: &'a Balance,
    gaps: &'a [Gap],
}

impl<'a> From<&'a Ledger> for Told<'a> {
    fn from(ledger: &'a Ledger) -> Self {
        let (dropped_by_rules, lost) = ledger.lost();
        Self {
            seconds: ledger.seconds,
            lost,
            dropped_by_rules,
            entries: &ledger.entries,
            balance: &ledger.balance,
            gaps: &ledger.gaps,
        }
    }
}

impl<'a> LossesDocument<'a> {
    fn of(snapshot: &'a Snapshot, ledger: &'a Ledger) -> Self {
        Self {
            format: "linerate-losses",
            version: 1,
            hostname: &snapshot.machine.hostname,
            kernel: &snapshot.machine.kernel,
            told: ledger.into(),
        }
    }
}

//! What a transaction costs the disk: flash wears, and each flush takes milliseconds.

use super::kernel::skip;
use super::prelude::*;

const SETTINGS: &str = "LINERATE_TEST_SETTINGS";

/// What the tracer of the next test runs: a plan of so many settings, applied and rolled back.
#[test]
fn child_that_applies_and_rolls_back() {
    let Some(count) = std::env::var(SETTINGS).ok().and_then(|n| n.parse().ok()) else { return };
    let (fake, scratch) = (FakeHost::router(4, &[("eth0", count)]), Scratch::new());
    let plan = (0..count).map(|queue| (rps("eth0", queue), cpus("2-3"))).collect();
    do_apply(&fake, &fake, &candidate("wide", plan), &scratch).unwrap();
    do_rollback(&fake, &scratch).unwrap();
}

/// Flushes to the disk while the child runs.
fn flushes(settings: u32) -> Option<usize> {
    let log = Scratch::new();
    let trace = log.0.join("trace");
    let done = std::process::Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,sync,syncfs", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "cost::child_that_applies_and_rolls_back"])
        .env(SETTINGS, settings.to_string())
        .output()
        .ok()?;
    let text = fs::read_to_string(&trace).unwrap_or_default();
    // Killed or forbidden to trace: strace itself says so, and nothing ran.
    if !done.status.success() && text.is_empty() {
        return None;
    }
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    Some(text.lines().filter(|line| line.contains("sync")).count())
}

#[test]
fn more_settings_take_no_more_flushes() {
    let (Some(few), Some(many)) = (flushes(2), flushes(64)) else {
        skip("strace is not here, or may not trace");
        return;
    };
    assert!(few >= 2, "the journal and its directory have to be on the disk: {few}");
    assert_eq!(few, many, "settings are flushed together");
    assert!(many <= 8, "{many}");
}

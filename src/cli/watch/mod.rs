//! `linerate watch`: looks at the router every few seconds for as long as it runs, tells what happens,
//! and puts back what the owner wants put back.
//!
//! ```text
//!   netlink (links), signals ─▶ poll ─▶ look ─▶ decide/watch ─▶ events ─▶ log, programs, state
//!                                                     └───────▶ settings to put back ─▶ change/apply
//! ```
//!
//! One thread. What is dear to read has a pace of its own ([`Watcher`]); programs of the owner run beside
//! it, and nobody waits for them.

mod events;
mod exposed;
mod put_back;
mod wan;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;

use self::events::Told;
use self::exposed::Exposed;
use self::wan::Wan;
use super::context::Context;
use super::interrupt::Signals;
use super::shared::watching::{Extent, Watcher};
use super::shared::{seconds, waiting};
use crate::change::apply::Drifted;
use crate::change::verify;
use crate::decide::diagnose::{self, Subject};
use crate::decide::watch::{self as decided, Changed, Links, Look, Sign, Watch};
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::{HostRead, Live, clock};
use crate::machine::store;
use crate::machine::store::StateDir;
use crate::machine::store::disk::Root;
use crate::machine::sys::link_news::LinkNews;
use crate::machine::sys::poll::{Wanted, are_ready};
use crate::machine::sys::supervisor::Supervisor;
use crate::model::finding::Severity;
use crate::model::watch::{Event, Settings};

/// Pause between two looks while something changes.
const SOON: Duration = Duration::from_secs(1);
/// Pause between two looks at programs that run.
const PROGRAMS: Duration = Duration::from_millis(200);

/// `watch`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate watch                      # tells what happens, until Ctrl-C
  linerate watch --every 5s --json    # one JSON object for each event
  linerate watch --listen 127.0.0.1:9777
  linerate status                     # since when, and what it told last")]
pub struct WatchArgs {
    /// File with the owner's wishes; SIGHUP has it read again [default: /etc/linerate/watch.toml]
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Time between two looks, 1 s to 10 min; it is 1 s while something changes [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pub every: Option<f64>,
    /// Write metrics to linerate.prom in this directory, for node_exporter's textfile collector
    #[arg(long, value_name = "DIR")]
    pub textfile: Option<String>,
    /// Answer GET with metrics at a loopback address and port, or at the path of a socket
    #[arg(long, value_name = "ADDRESS|PATH")]
    pub listen: Option<String>,
    /// End after this long; without it Ctrl-C or SIGTERM does
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
}

fn pause(text: &str) -> std::result::Result<f64, String> {
    let fits = |s: &f64| (1.0..=600.0).contains(s);
    seconds(text).and_then(|s| Some(s).filter(fits).ok_or("must be between 1 and 600".into()))
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &WatchArgs) -> Result<ExitCode> {
    let host = context.live("watch")?;
    let state = store::state_dir();
    if let Some(other) = waiting::watching(host, &state) {
        let why = format!("another one runs (pid {})", other.pid);
        return Err(Error::not_supported("watch", why).hint("linerate status tells of it"));
    }
    let signals = Signals::new()?;
    let path = args.settings.clone().unwrap_or_else(|| {
        Root::of_environment().path(std::path::Path::new(store::watch::SETTINGS))
    });
    let settings = wishes(args, &path)?;
    let news = LinkNews::open().map_err(|e| Error::not_supported("listen to links", e))?;
    let told = Told::new(context, state.clone());
    let exposed = Exposed::open(&settings.metrics)?;
    let mut router = Router {
        context,
        host,
        watcher: Watcher::start(context, "watch", &[], Extent::Sparing)?,
        watch: Watch::default(),
        links: Links::default(),
        carriers: BTreeMap::new(),
        wan: Wan::default(),
        findings: Vec::new(),
        state,
        settings,
        told,
        exposed,
    };
    router.watcher.ask_queues(router.exposed.is_on());
    // Who sees that it has begun finds it in `status` too.
    router.told.keep(&router.watch);
    let supervisor = Supervisor::of_environment();
    supervisor.tell("READY=1");
    let begun = clock::boottime();
    let end = args.seconds.map(|seconds| begun + Duration::from_secs_f64(seconds));
    context.out.say(format_args!(
        "watching every {} s; SIGHUP reads {} again",
        router.settings.every,
        path.display()
    ));
    let done = router.go(args, &path, &signals, news, &supervisor, end);
    supervisor.tell("STOPPING=1");
    router.told.end();
    done.map(|()| ExitCode::Done)
}

/// The file's wishes; the command line has the last word.
fn wishes(args: &WatchArgs, path: &std::path::Path) -> Result<Settings> {
    let mut settings = store::watch::settings(path)?;
    settings.every = args.every.unwrap_or(settings.every);
    let metrics = &mut settings.metrics;
    metrics.textfile = args.textfile.clone().or(metrics.textfile.take());
    metrics.listen = args.listen.clone().or(metrics.listen.take());
    for rule in &settings.health.rules {
        if diagnose::rules().all(|known| known.id != rule) {
            let what = format!("read settings {}", path.display());
            return Err(Error::usage(what, format!("there is no rule {rule:?}"))
                .hint("linerate check --list names them"));
        }
    }
    Ok(settings)
}

/// The router that is watched, and what is known of it from look to look.
struct Router<'a> {
    context: &'a Context,
    host: &'a Live,
    watcher: Watcher<'a>,
    watch: Watch,
    links: Links,
    /// Comings and goings of links since the last look.
    carriers: BTreeMap<String, u32>,
    wan: Wan,
    /// Findings of the last look at the router as a whole.
    findings: Vec<Sign>,
    state: StateDir,
    settings: Settings,
    told: Told<'a>,
    exposed: Exposed,
}

impl Router<'_> {
    fn go(
        &mut self,
        args: &WatchArgs,
        path: &std::path::Path,
        signals: &Signals,
        mut news: LinkNews,
        supervisor: &Supervisor,
        end: Option<Duration>,
    ) -> Result<()> {
        let mut last = clock::boottime();
        let mut due = last + SOON;
        loop {
            let now = clock::boottime();
            let mut pause = due.min(end.unwrap_or(due)).saturating_sub(now);
            if self.told.is_busy() {
                pause = pause.min(PROGRAMS);
            }
            pause = pause.min(supervisor.pace().unwrap_or(pause));
            // Without a place that is scraped there is nothing more to wait for.
            let wake = signals.wake.as_fd();
            let scraped = self.exposed.descriptor();
            let wanted = [wake, news.descriptor(), scraped.unwrap_or(wake)];
            let [woken, heard, asked] = are_ready(wanted.map(|fd| (fd, Wanted::Read)), pause)
                .map_err(|e| Error::not_supported("wait", e))?;
            if asked && scraped.is_some() {
                self.exposed.serve();
            }
            supervisor.tell("WATCHDOG=1");
            if woken {
                signals.settle();
            }
            if signals.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if signals.reload.swap(false, Ordering::Relaxed) {
                self.reload(args, path);
            }
            if heard && self.hear(&mut news)? {
                due = due.min(last + SOON);
            }
            self.told.attend(&self.settings.events);
            let now = clock::boottime();
            if end.is_some_and(|end| now >= end) {
                return Ok(());
            }
            if now >= due {
                let soon = self.look()?;
                last = clock::boottime();
                let every = Duration::from_secs_f64(self.settings.every);
                due = last + if soon { SOON.min(every) } else { every };
            }
        }
    }

    /// Takes the kernel's word on links; true if there was something in it.
    fn hear(&mut self, news: &mut LinkNews) -> Result<bool> {
        let heard = news.take().map_err(|e| Error::not_supported("listen to links", e))?;
        for (device, count) in &heard.carriers {
            *self.carriers.entry(device.clone()).or_default() += count;
        }
        if heard.overrun {
            self.told.log("more links came and went than could be told; they were listed anew");
        }
        if heard.is_any() {
            self.watcher.hurry(true);
        }
        Ok(heard.is_any())
    }

    /// Reads the owner's wishes again; those that can't be read leave the old ones in force.
    fn reload(&mut self, args: &WatchArgs, path: &std::path::Path) {
        match wishes(args, path) {
            Ok(settings) => {
                self.expose_anew(&settings);
                self.settings = settings;
                self.watch.drift.begin_anew();
                self.watcher.hurry(true);
                self.told.log(&format!("{} is read anew", path.display()));
            }
            Err(e) => {
                let words = format!("the settings stay as they were: {e}");
                let event = Event::told("settings-refused", path.display().to_string(), words);
                self.told.tell(&self.watch, vec![event], &self.settings.events);
            }
        }
    }

    /// Opens other places for metrics, where other ones are wished now.
    fn expose_anew(&mut self, settings: &Settings) {
        if settings.metrics == self.settings.metrics {
            return;
        }
        match Exposed::open(&settings.metrics) {
            Ok(exposed) => self.exposed = exposed,
            Err(e) => self.told.log(&e.to_string()),
        }
        self.watcher.ask_queues(self.exposed.is_on());
    }

    /// One look; true if the next should come soon.
    fn look(&mut self) -> Result<bool> {
        let interval = self.watcher.advance()?;
        let limits = &self.settings.health;
        let mut signs = decided::cpu_and_heat(&interval, limits);
        signs.extend(decided::losses(&self.watcher.standing().losses, limits));
        if self.watcher.take_outlined() {
            self.findings = findings(self.host, &self.watcher, &limits.rules);
        }
        signs.extend(self.findings.iter().cloned());
        let mut ports = self.watcher.standing().links.clone();
        let snapshot = self.watcher.snapshot();
        ports.retain(|link| snapshot.netdev(&link.device).is_some_and(|d| d.is_hardware()));
        signs.extend(self.links.take(&ports, &std::mem::take(&mut self.carriers)));
        if limits.gateways {
            signs.extend(self.wan.look(self.host));
        }
        let changed = self.changed();
        let at = clock::boottime();
        let outcome = self.watch.look(at, Look { signs, changed }, &self.settings);
        let mut events = outcome.events;
        let mut soon = outcome.soon;
        if !outcome.put_back.is_empty() {
            match put_back::put_back(self.context, &self.state, &outcome.put_back) {
                Ok(told) => events.extend(told),
                // Another linerate is at it: that is no time that it was put back.
                Err(e) => {
                    self.watch.drift.not_put_back(&outcome.put_back);
                    self.told.log(&format!("not put back now: {e}"));
                    soon = true;
                }
            }
        }
        if soon {
            self.watcher.hurry(false);
        }
        self.told.tell(&self.watch, events, &self.settings.events);
        let (standing, running) = (self.watcher.standing(), self.told.running());
        if let Some(words) = self.exposed.take(&interval, standing, running) {
            self.told.log(&words);
        }
        Ok(soon)
    }

    /// Settings that somebody changed, with those who may have; `None` where it was not looked, or
    /// linerate itself is changing settings.
    fn changed(&mut self) -> Option<Vec<Changed>> {
        let drifted = self.watcher.take_drifted()?;
        if put_back::is_busy(self.host, &self.state) {
            return None;
        }
        let snapshot = self.watcher.snapshot();
        let changed = |one: Drifted| Changed {
            suspects: verify::suspects(snapshot, &one.knob).into_iter().map(|s| s.who).collect(),
            knob: one.knob,
            wanted: one.wanted,
            is: one.is,
        };
        Some(drifted.into_iter().map(changed).collect())
    }
}

/// Findings of these rules of `check`, from warnings on.
fn findings(host: &dyn HostRead, watcher: &Watcher<'_>, rules: &[String]) -> Vec<Sign> {
    // None asked for would mean all.
    if rules.is_empty() {
        return Vec::new();
    }
    let snapshot = watcher.snapshot();
    let condition = discover::condition(host, snapshot);
    let told = diagnose::diagnose(&Subject::new(snapshot, &condition, None), rules);
    let grave = told.findings.into_iter().filter(|one| one.severity >= Severity::Warning);
    grave.map(|one| Sign::new(&one.rule, "", 1, one.title)).collect()
}

//! `linerate profile`: where the time of packets goes on each CPU.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::interrupt;
use super::output::Output;
use super::shared::files::Force;
use super::shared::seconds;
use crate::decide::profile::{Frame, Group, Profile, Whole};
use crate::error::{Error, ExitCode, Result, words};
use crate::machine::discover;
use crate::machine::host::{HostRead, clock};
use crate::machine::parse::kallsyms::Symbols;
use crate::machine::parse::perf::Samples;
use crate::machine::store::write_file;
use crate::machine::sys::perf::{Sampler, Source};
use crate::report::document::Table;
use crate::report::render::{Form, chart::flame};

/// `profile`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate profile                    # for ten seconds; best under load
  linerate profile 1m -o flame.html   # and a flame graph that zooms")]
pub struct ProfileArgs {
    /// Time to look; best while the router is busy
    #[arg(value_name = "TIME", default_value = "10", value_parser = seconds)]
    pub seconds: f64,
    /// File for a flame graph: a page that zooms (.html), or a drawing (.svg)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
    /// Samples per second and CPU; an odd number does not march in step with timers
    #[arg(long, value_name = "HZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub frequency: u32,
    /// Number of functions to list
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub top: usize,
}

/// Pause between two readings of the rings: at 10,000 samples a second of 200 bytes each holds 65 ms.
const PACE: Duration = Duration::from_millis(50);

/// Runs the command.
pub(super) fn run(context: &Context, args: &ProfileArgs) -> Result<ExitCode> {
    args.output.iter().try_for_each(|path| args.force.check(path))?;
    let host = context.live("profile")?;
    let out = &context.out;
    let cpus = discover::snapshot(host).cpus;
    let online: Vec<u32> = cpus.iter().filter(|c| c.online).map(|c| c.id.0).collect();
    let stop = interrupt::stop_flag()?;
    let frequency = allowed(host, args.frequency);
    if frequency < args.frequency {
        out.say(format_args!(
            "sampling {frequency} times a second: kernel.perf_event_max_sample_rate allows no more (the \
             kernel lowers it when sampling takes too long)"
        ));
    }
    // Before anybody waits for what can't be sampled or could not be named. The symbols take seconds
    // on slow machines, so the samples that count begin behind them.
    drop(open(host, &online, frequency)?);
    let symbols = symbols(host)?;
    let (mut samplers, source) = open(host, &online, frequency)?;
    out.say(match source {
        Source::Cycles => format!("looking for {} s, by the processors' cycles", args.seconds),
        _ => format!(
            "looking for {} s, by the clock: there is no counter of cycles here (usual in virtual \
             machines), so what runs with interrupts off shows at the place that lets them in again",
            args.seconds
        ),
    });
    let begun = clock::monotonic();
    let end = begun + Duration::from_secs_f64(args.seconds);
    let mut samples: Vec<Samples> = online.iter().map(|_| Samples::default()).collect();
    let mut records = Vec::new();
    let mut looking = true;
    while looking {
        let next = (clock::monotonic() + PACE).min(end);
        looking = clock::wait_until(next, PACE, &stop) && next < end;
        take(&mut samplers, &mut samples, &mut records);
    }
    let looked = (clock::monotonic() - begun).as_secs_f64();
    // That samples were lost is told with the next that there is room for.
    clock::sleep(Duration::from_secs_f64(3.0 / f64::from(frequency.max(1))));
    let kept: Vec<usize> = samples.iter().map(|s| s.kernel.len()).collect();
    let users: Vec<u64> = samples.iter().map(|s| s.user).collect();
    take(&mut samplers, &mut samples, &mut records);
    for ((samples, kept), user) in samples.iter_mut().zip(kept).zip(users) {
        samples.kernel.truncate(kept);
        samples.user = user;
    }
    drop(samplers);
    let mut profile = Profile::default();
    for (cpu, samples) in online.iter().zip(&samples) {
        let named = samples.kernel.iter().map(|chain| names(&symbols, chain));
        profile.add(*cpu, named, samples.user);
        profile.lost += samples.lost;
        profile.throttled += samples.throttled;
    }
    let look = Look { seconds: looked, source, frequency, profile };
    if let Some(path) = &args.output {
        let heading = format!("packets on {} CPUs, {looked:.1} s", online.len());
        let drawn = match Form::by_name(path) {
            Form::Html => flame::page(&look.profile, &heading),
            _ => flame::svg(&look.profile, &heading) + "\n",
        };
        write_file("flame graph", path, drawn.as_bytes())?;
        out.say(format_args!("flame graph: {}", path.display()));
    }
    if out.json {
        out.json(&look.told(args.top))?;
    } else {
        out.tell(look.text(out, args.top))?;
    }
    let stopped = stop.load(Ordering::Relaxed);
    Ok(if stopped { ExitCode::Interrupted } else { ExitCode::Done })
}

/// Empties the rings into the samples.
fn take(samplers: &mut [Sampler], samples: &mut [Samples], records: &mut Vec<u8>) {
    for (sampler, samples) in samplers.iter_mut().zip(samples) {
        records.clear();
        sampler.drain(records);
        samples.take(records);
    }
}

/// The frequency that the kernel allows: asked for more, it refuses the event (EINVAL;
/// kernel/events/core.c, perf_event_open).
fn allowed(host: &dyn HostRead, wanted: u32) -> u32 {
    let most = host.text(Path::new("/proc/sys/kernel/perf_event_max_sample_rate")).ok();
    most.and_then(|text| text.parse().ok())
        .filter(|most| *most > 0)
        .map_or(wanted, |m| wanted.min(m))
}

fn symbols(host: &dyn HostRead) -> Result<Symbols> {
    let path = Path::new("/proc/kallsyms");
    match host.read(path) {
        Err(e) if !e.is_absent() && !e.is_denied() => Err(Error::not_supported(
            format!("name the kernel's functions: {}", path.display()),
            e.reason(),
        )),
        other => {
            let symbols = Symbols::read(&other.unwrap_or_default());
            if symbols.is_empty() { Err(unnamed(host)) } else { Ok(symbols) }
        }
    }
}

fn names<'a>(symbols: &'a Symbols, chain: &[u64]) -> Vec<Frame<'a>> {
    let named = chain.iter().filter_map(|address| symbols.at(*address));
    named.map(|symbol| (symbol.name, symbol.module)).collect()
}

/// A sampler on each CPU, by cycles where there are some, else by the clock.
fn open(host: &dyn HostRead, cpus: &[u32], frequency: u32) -> Result<(Vec<Sampler>, Source)> {
    let all = |source| -> io::Result<Vec<Sampler>> {
        cpus.iter().map(|cpu| Sampler::open(*cpu, source, frequency)).collect()
    };
    match all(Source::Cycles) {
        Ok(samplers) => return Ok((samplers, Source::Cycles)),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(denied(host, &e)),
        // No such counter: the clock remains.
        Err(_) => {}
    }
    match all(Source::Clock) {
        Ok(samplers) => Ok((samplers, Source::Clock)),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(denied(host, &e)),
        Err(e) => Err(Error::not_supported("sample what the CPUs run: perf_event_open", words(&e))
            .hint("the kernel needs CONFIG_PERF_EVENTS")),
    }
}

fn unnamed(host: &dyn HostRead) -> Error {
    let hidden = host.read(Path::new("/proc/sys/kernel/kptr_restrict")).unwrap_or_default();
    let hidden = String::from_utf8_lossy(&hidden).trim().to_owned();
    let hint = match hidden.as_str() {
        "2" => "kernel.kptr_restrict is 2 here, which hides them from root too: 0 or 1".to_owned(),
        _ => {
            "run as root with sysctl kernel.kptr_restrict=0 or 1; CONFIG_KALLSYMS is needed".into()
        }
    };
    Error::not_permitted(
        "name the kernel's functions: /proc/kallsyms",
        "it is missing or hides its addresses, so nothing could be said of what is sampled",
    )
    .hint(hint)
}

fn denied(host: &dyn HostRead, e: &io::Error) -> Error {
    let level = host.read(Path::new("/proc/sys/kernel/perf_event_paranoid")).unwrap_or_default();
    let level = String::from_utf8_lossy(&level).trim().to_owned();
    Error::not_permitted("sample what the CPUs run: perf_event_open", words(e)).hint(format!(
        "run as root; kernel.perf_event_paranoid is {level} here, and containers often forbid it"
    ))
}

struct Look {
    seconds: f64,
    source: Source,
    frequency: u32,
    profile: Profile,
}

impl Look {
    /// The whole that shares of a CPU's time are taken of.
    fn whole(&self) -> Whole {
        match self.source {
            Source::Clock | Source::Tracepoint(_) => Whole::Samples,
            Source::Cycles => Whole::Expected(self.seconds * f64::from(self.frequency)),
        }
    }

    fn text(&self, out: &Output, top: usize) -> String {
        let profile = &self.profile;
        let packets = profile.packets();
        if packets == 0 {
            return "no packet was handled while it looked: try again while traffic flows"
                .to_owned();
        }
        let share =
            |part: u64, whole: u64| format!("{:.0} %", 100.0 * part as f64 / whole.max(1) as f64);
        let groups: Vec<Group> = Group::ALL.into_iter().filter(|g| profile.of(*g) > 0).collect();
        let mut heading = vec!["CPU", "packets"];
        heading.extend(groups.iter().map(|g| g.name()));
        let mut table = Table::new(&heading);
        for cpu in &profile.cpus {
            let busy = cpu.busy(self.whole()) * 100.0;
            let mut row = vec![cpu.cpu.to_string(), format!("{busy:.0} %")];
            row.extend(groups.iter().map(|g| match cpu.groups.get(g) {
                Some(count) => share(*count, cpu.packets),
                None => "-".to_owned(),
            }));
            table.row(row);
        }
        let mut all = vec!["all".to_owned(), String::new()];
        all.extend(groups.iter().map(|g| share(profile.of(*g), packets)));
        table.row(all);
        let mut lines = vec![out.bold(
            "softirq, NAPI threads and WireGuard's workers: share of the CPU, and of that what for",
        )];
        lines.extend(out.table(&table));
        lines.push(String::new());
        lines.push(out.bold("dearest functions"));
        for (name, module, count) in profile.dearest(top) {
            let group = crate::decide::profile::group_of(name, module).name();
            let place = if module.is_empty() { String::new() } else { format!(" [{module}]") };
            lines.push(format!("  {:>5}  {group:12} {name}{place}", share(count, packets)));
        }
        if profile.lost > 0 {
            let lost = profile.lost;
            lines.push(out.warn(format!("{lost} samples were lost: use a lower --frequency")));
        }
        if profile.throttled > 0 {
            let times = profile.throttled;
            lines.push(out.warn(format!(
                "the kernel stopped sampling {times} times, because it took too long: use a lower --frequency"
            )));
        }
        if packets < 100 {
            lines.push(out.warn(format!("only {packets} samples: shares are rough")));
        }
        lines.join("\n")
    }

    fn told(&self, top: usize) -> ProfileDocument<'_> {
        let of = |groups: &dyn Fn(Group) -> u64| {
            let all = Group::ALL.into_iter().map(|g| (g.name(), groups(g)));
            all.filter(|(_, count)| *count > 0).collect()
        };
        ProfileDocument {
            format: "linerate-profile",
            version: 1,
            seconds: self.seconds,
            source: match self.source {
                Source::Cycles => "cycles",
                Source::Clock | Source::Tracepoint(_) => "clock",
            },
            frequency: self.frequency,
            lost: self.profile.lost,
            throttled: self.profile.throttled,
            cpus: self
                .profile
                .cpus
                .iter()
                .map(|cpu| CpuDocument {
                    cpu: cpu.cpu,
                    samples: cpu.samples,
                    packets: cpu.packets,
                    busy: cpu.busy(self.whole()),
                    groups: of(&|g| cpu.groups.get(&g).copied().unwrap_or(0)),
                })
                .collect(),
            functions: self
                .profile
                .dearest(top)
                .into_iter()
                .map(|(name, module, samples)| Function { name, module, samples })
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct ProfileDocument<'a> {
    format: &'static str,
    version: u32,
    seconds: f64,
    source: &'static str,
    frequency: u32,
    lost: u64,
    throttled: u64,
    cpus: Vec<CpuDocument>,
    functions: Vec<Function<'a>>,
}

#[derive(Serialize)]
struct CpuDocument {
    cpu: u32,
    samples: u64,
    packets: u64,
    /// Share of the CPU's time.
    busy: f64,
    groups: std::collections::BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    module: &'a str,
    samples: u64,
}

//! `linerate top`: the router live on a terminal, or a recording of it; one look as text or JSON.

mod keys;
mod replay;
mod screen;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::interrupt;
use super::output;
use super::shared::watching::{Extent, Watcher};
use super::shared::{interval, seconds_or_zero};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::store::json;
use crate::machine::store::recording::Recording;
use crate::model::telemetry::Interval;
use crate::report::top::{Ask, Look, Shown, View, once, text};
use replay::Replay;
use screen::{Screen, Woken};

/// Longest wait before the stop flag is looked at again, where no terminal is watched.
const SLICE: Duration = Duration::from_millis(200);

/// `top`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate top                        # live; ? shows the keys
  linerate top --replay night.jsonl --from 2h --speed 10
  linerate top --once                 # one look as text
  linerate top --json --samples 60    # a minute, a JSON object on each line")]
pub struct TopArgs {
    /// Play this recording of `record` (JSON lines) instead of reading this machine
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Begin the recording at this time
    #[arg(long, value_name = "TIME", requires = "replay", value_parser = seconds_or_zero)]
    pub from: Option<f64>,
    /// Play the recording so many times as fast, 0.1 to 1000
    #[arg(long, value_name = "TIMES", requires = "replay", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// Print one look as text and end; with --json as JSON
    #[arg(long)]
    pub once: bool,
    /// Print so many looks and end
    #[arg(long, value_name = "N", conflicts_with = "once", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,
    /// Seconds between two readings, 0.1 to 10
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// Only this device; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Show the queues of each device, with their drivers' counts
    #[arg(long)]
    pub queues: bool,
}

/// Speeds that a recording is played at.
const SPEEDS: (f64, f64) = (0.1, 1000.0);

fn speed(text: &str) -> std::result::Result<f64, String> {
    let (least, most) = SPEEDS;
    let speed = text.parse::<f64>().ok().filter(|speed| (least..=most).contains(speed));
    speed.ok_or_else(|| "must be between 0.1 and 1000".to_owned())
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &TopArgs) -> Result<ExitCode> {
    let recording = match &args.replay {
        Some(path) => Some(Recording::read(path)?),
        None => None,
    };
    if let Some(damaged) = recording.as_ref().map(Recording::damaged).filter(|n| *n > 0) {
        context.out.say(format_args!("{damaged} lines of the recording are no intervals"));
    }
    if !args.once && args.samples.is_none() && !context.out.json {
        return live(context, args, recording);
    }
    let looks = args.samples.unwrap_or(1);
    match recording {
        Some(recording) => {
            let first = recording.find(recording.at(0) + args.from.unwrap_or(0.0));
            let mut view = View::default().with_queues(args.queues);
            for frame in (first..recording.len()).take(usize::try_from(looks).unwrap_or(usize::MAX))
            {
                if let Some(interval) = recording.interval(frame) {
                    print(context, &mut view, interval)?;
                }
            }
            Ok(ExitCode::Done)
        }
        None => print_live(context, args, looks),
    }
}

/// Prints one look.
fn print(context: &Context, view: &mut View, interval: Interval) -> Result<()> {
    let out = &context.out;
    if out.json {
        let line = json::line(&Shown::of(&interval))
            .map_err(|e| Error::usage("write the look as JSON", e))?;
        return out.data(line);
    }
    view.take(interval);
    let look = Look { colour: false, ascii: output::is_ascii() };
    let width = u16::try_from(out.text().width).unwrap_or(u16::MAX);
    out.tell(text(&once(view, width, look)))
}

fn print_live(context: &Context, args: &TopArgs, looks: u64) -> Result<ExitCode> {
    let stop = interrupt::stop_flag()?;
    let mut watcher = Watcher::start(context, "top", &args.device, Extent::Following)?;
    watcher.ask_queues(args.queues);
    let mut view = View::default().with_queues(args.queues);
    let step = Duration::from_secs_f64(args.interval);
    let mut due = clock::monotonic() + step;
    for _ in 0..looks {
        if !clock::wait_until(due, SLICE, &stop) {
            return Ok(ExitCode::Interrupted);
        }
        let interval = reading(&mut watcher)?;
        print(context, &mut view, interval)?;
        due = (due + step).max(clock::monotonic());
    }
    Ok(ExitCode::Done)
}

/// The latest interval with all that stands beside it.
fn reading(watcher: &mut Watcher<'_>) -> Result<Interval> {
    let mut interval = watcher.advance()?;
    interval.standing = Some(Box::new(watcher.standing().clone()));
    Ok(interval)
}

/// Source of what is shown.
enum Feed<'a> {
    /// This machine, read again at that time.
    Live(Box<Watcher<'a>>, Duration),
    /// A recording.
    Replay(Replay),
}

fn live(context: &Context, args: &TopArgs, recording: Option<Recording>) -> Result<ExitCode> {
    let mut screen = Screen::check(context.out.text().colour)?;
    let step = Duration::from_secs_f64(args.interval);
    let mut view = View::default().with_queues(args.queues);
    let mut feed = match recording {
        Some(recording) => {
            let mut replay = Replay::new(recording, args.speed);
            replay.jump(args.from.unwrap_or(0.0), &mut view);
            Feed::Replay(replay)
        }
        None => {
            let mut watcher = Watcher::start(context, "top", &args.device, Extent::Following)?;
            watcher.ask_queues(args.queues);
            Feed::Live(Box::new(watcher), clock::monotonic() + step)
        }
    };
    screen.open()?;
    let mut drawn = false;
    loop {
        if !drawn {
            screen.show(&view)?;
            drawn = true;
        }
        let due = match &feed {
            Feed::Live(_, due) => *due,
            Feed::Replay(replay) => replay.due(),
        };
        let keys = match screen.wait(due)? {
            Woken::Keys(keys) => keys,
            Woken::Redraw => {
                drawn = false;
                continue;
            }
            Woken::Stop => return Ok(ExitCode::Interrupted),
            // The terminal is gone.
            Woken::Closed => return Ok(ExitCode::Done),
        };
        for key in keys {
            drawn = false;
            match (view.key(key), &mut feed) {
                (Ask::Quit, _) => return Ok(ExitCode::Done),
                (Ask::Suspend, _) => screen.suspend()?,
                (Ask::Queues(on), Feed::Live(watcher, _)) => watcher.ask_queues(on),
                (ask, Feed::Replay(replay)) => replay.ask(ask, &mut view),
                _ => {}
            }
        }
        match &mut feed {
            Feed::Live(watcher, due) if clock::monotonic() >= *due => {
                view.take(reading(watcher)?);
                // A machine too busy to let us in leaves a longer interval, never a burst of short ones.
                *due = (*due + step).max(clock::monotonic() + step / 2);
                drawn = false;
            }
            Feed::Live(..) => {}
            Feed::Replay(replay) => drawn &= !replay.advance(&mut view),
        }
    }
}

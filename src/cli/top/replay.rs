//! A recording that is played: its own clock, its speed, and going back and forward in it.

use std::time::Duration;

use super::SPEEDS;
use crate::machine::host::clock;
use crate::machine::store::recording::Recording;
use crate::report::top::{Ask, Playing, View};

/// Seconds before a place whose intervals are read for the curves.
const CURVES: f64 = 300.0;
/// Most intervals that are read at once.
const MOST: usize = 1000;
/// Wait where nothing comes any more by itself.
const NOTHING: Duration = Duration::from_secs(3600);

/// A recording with the place that is shown.
pub(super) struct Replay {
    recording: Recording,
    speed: f64,
    paused: bool,
    /// The place at a time of the clock, in seconds of the recording.
    at: f64,
    since: Duration,
    /// Interval that is shown.
    frame: usize,
}

impl Replay {
    pub(super) fn new(recording: Recording, speed: f64) -> Self {
        let at = recording.at(0);
        Self { recording, speed, paused: false, at, since: clock::monotonic(), frame: 0 }
    }

    fn start(&self) -> f64 {
        self.recording.at(0)
    }

    fn end(&self) -> f64 {
        self.recording.at(self.recording.len() - 1)
    }

    fn place(&self) -> f64 {
        let passed = clock::monotonic().saturating_sub(self.since).as_secs_f64();
        let passed = if self.paused { 0.0 } else { passed * self.speed };
        (self.at + passed).min(self.end())
    }

    /// Time at which the next interval is to be shown.
    pub(super) fn due(&self) -> Duration {
        let now = clock::monotonic();
        if self.paused || self.frame + 1 >= self.recording.len() {
            return now + NOTHING;
        }
        let wait = (self.recording.at(self.frame + 1) - self.place()) / self.speed;
        now + Duration::from_secs_f64(wait.clamp(0.02, NOTHING.as_secs_f64()))
    }

    /// Shows what has come since; false where that is nothing.
    pub(super) fn advance(&mut self, view: &mut View) -> bool {
        let last = self.recording.find(self.place());
        if last <= self.frame {
            return false;
        }
        self.feed(self.frame + 1, last, view);
        true
    }

    /// Goes to a place, in seconds from the start.
    pub(super) fn jump(&mut self, seconds: f64, view: &mut View) {
        self.at = (self.start() + seconds).clamp(self.start(), self.end());
        self.since = clock::monotonic();
        view.forget();
        let last = self.recording.find(self.at);
        self.feed(self.recording.find(self.at - CURVES), last, view);
    }

    fn feed(&mut self, first: usize, last: usize, view: &mut View) {
        for frame in first.max((last + 1).saturating_sub(MOST))..=last {
            if let Some(interval) = self.recording.interval(frame) {
                view.take(interval);
            }
        }
        self.frame = last;
        let (at, end) = (self.recording.at(last) - self.start(), self.end() - self.start());
        view.plays(Playing { at, end, speed: self.speed });
    }

    /// Does what a key asks.
    pub(super) fn ask(&mut self, ask: Ask, view: &mut View) {
        (self.at, self.since) = (self.place(), clock::monotonic());
        let place = self.at - self.start();
        match ask {
            Ask::Pause(on) => self.paused = on,
            Ask::Seek(by) => self.jump(place + by, view),
            Ask::Edge(true) => self.jump(f64::MAX, view),
            Ask::Edge(false) => self.jump(0.0, view),
            Ask::Speed(times) => {
                self.speed = (self.speed * times).clamp(SPEEDS.0, SPEEDS.1);
                self.feed(self.frame + 1, self.frame, view);
            }
            Ask::Draw | Ask::Quit | Ask::Suspend | Ask::Queues(_) => {}
        }
    }
}

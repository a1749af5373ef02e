//! State of the live view: what is shown, in which order, what is chosen; and what each key does to it.

use super::history::History;
use crate::decide::diagnose::live::busy;
use crate::model::order::InOrder;
use crate::model::telemetry::{CpuRates, DeviceRates, Interval, Standing};
use crate::model::units::CpuId;

/// A key, whatever the terminal sends for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first.
    Home,
    /// To the last.
    End,
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Escape or Backspace.
    Back,
}

/// Demand of a key on whoever reads the router or plays the recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ask {
    /// None: the view is drawn again.
    Draw,
    /// The end.
    Quit,
    /// A stop until the shell lets go on.
    Suspend,
    /// Packets of each queue, or no longer.
    Queues(bool),
    /// A recording goes so many seconds forward or back.
    Seek(f64),
    /// A recording goes to its start or its end.
    Edge(bool),
    /// A recording stops or goes on.
    Pause(bool),
    /// A recording is played so many times as fast.
    Speed(f64),
}

/// A part of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Cpus,
    Devices,
}

/// Order of the CPUs and of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// By number, or name.
    Name,
    /// By busy time, or bits per second.
    Load,
    /// By packets per second.
    Packets,
    /// By drops per second.
    Drops,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Name, Self::Load, Self::Packets, Self::Drops];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Load => "load",
            Self::Packets => "packets",
            Self::Drops => "drops",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).map_or(0, |at| at + 1);
        Self::ALL.get(at).copied().unwrap_or(Self::Name)
    }
}

/// Place in a recording that is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Playing {
    /// Seconds from its start.
    pub at: f64,
    /// Seconds from its start to its end.
    pub end: f64,
    /// Times as fast as it was.
    pub speed: f64,
}

/// The live view.
#[derive(Debug, Clone)]
pub struct View {
    pub(super) now: Option<Interval>,
    pub(super) standing: Standing,
    pub(super) history: History,
    pub(super) playing: Option<Playing>,
    pub(super) pane: Pane,
    pub(super) sort: [Sort; 2],
    pub(super) cpu: Option<CpuId>,
    pub(super) device: Option<String>,
    /// The chosen CPU or device has the screen to itself.
    pub(super) opened: bool,
    /// First line of what is opened, or of the help.
    pub(super) scroll: usize,
    pub(super) help: bool,
    pub(super) paused: bool,
    pub(super) queues: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            now: None,
            standing: Standing::default(),
            history: History::default(),
            playing: None,
            pane: Pane::Cpus,
            sort: [Sort::Name; 2],
            cpu: None,
            device: None,
            opened: false,
            scroll: 0,
            help: false,
            paused: false,
            queues: false,
        }
    }
}

impl View {
    /// Shows the queues of each device from the start.
    #[must_use]
    pub fn with_queues(mut self, on: bool) -> Self {
        self.queues = on;
        self
    }

    /// Takes the rates of the latest interval. While it is paused they go into the curves alone.
    pub fn take(&mut self, interval: Interval) {
        self.history.take(&interval);
        if let Some(standing) = &interval.standing {
            self.standing.clone_from(standing);
        }
        if !self.paused || self.now.is_none() || self.playing.is_some() {
            self.now = Some(interval);
        }
    }

    /// Tells the place in a recording.
    pub fn plays(&mut self, playing: Playing) {
        self.playing = Some(playing);
    }

    /// Forgets the curves: a recording goes on somewhere else.
    pub fn forget(&mut self) {
        self.history = History::default();
    }

    /// True while the view stands still.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// CPUs in the order that they are shown in.
    pub(super) fn cpus(&self) -> Vec<&CpuRates> {
        let mut all: Vec<&CpuRates> = self.now.iter().flat_map(|now| &now.cpus).collect();
        let value: fn(&CpuRates) -> Option<f64> = match self.sort.first() {
            Some(Sort::Load) => busy,
            Some(Sort::Packets) => |cpu| cpu.packets,
            Some(Sort::Drops) => |cpu| cpu.dropped,
            _ => return all,
        };
        all.order_by(|a, b| descending(value(a), value(b)).then(a.cpu.cmp(&b.cpu)));
        all
    }

    /// Devices in the order that they are shown in.
    pub(super) fn devices(&self) -> Vec<&DeviceRates> {
        let mut all: Vec<&DeviceRates> = self.now.iter().flat_map(|now| &now.devices).collect();
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        let value = |device: &DeviceRates| match self.sort.last() {
            Some(Sort::Load) => sum(device.rx_bits, device.tx_bits),
            Some(Sort::Packets) => sum(device.rx_packets, device.tx_packets),
            Some(Sort::Drops) => device.dropped,
            _ => None,
        };
        all.order_by(|a, b| descending(value(a), value(b)).then_with(|| a.device.cmp(&b.device)));
        all
    }

    /// Place of the chosen one in its pane.
    pub(super) fn chosen(&self, pane: Pane) -> usize {
        let place = match pane {
            Pane::Cpus => self.cpus().iter().position(|cpu| Some(cpu.cpu) == self.cpu),
            Pane::Devices => {
                let name = self.device.as_deref();
                self.devices().iter().position(|d| Some(d.device.as_str()) == name)
            }
        };
        place.unwrap_or(0)
    }

    fn choose(&mut self, to: usize) {
        match self.pane {
            Pane::Cpus => {
                let all = self.cpus();
                self.cpu = all.get(to.min(all.len().saturating_sub(1))).map(|cpu| cpu.cpu);
            }
            Pane::Devices => {
                let all = self.devices();
                let one = all.get(to.min(all.len().saturating_sub(1)));
                self.device = one.map(|device| device.device.clone());
            }
        }
    }

    fn go(&mut self, by: isize) {
        if self.opened || self.help {
            self.scroll = self.scroll.saturating_add_signed(by).min(999);
        } else {
            self.choose(self.chosen(self.pane).saturating_add_signed(by));
        }
    }

    /// Does what a key is for.
    pub fn key(&mut self, key: Key) -> Ask {
        match key {
            Key::Char('q' | 'Q' | '\u{3}') => return Ask::Quit,
            Key::Char('\u{1a}') => return Ask::Suspend,
            Key::Back if self.help || self.opened => {
                (self.help, self.opened, self.scroll) = (false, self.opened && self.help, 0);
            }
            Key::Char('?' | 'h') => (self.help, self.scroll) = (!self.help, 0),
            Key::Char('p' | ' ') => {
                self.paused = !self.paused;
                return Ask::Pause(self.paused);
            }
            Key::Char('s') => {
                let at = usize::from(self.pane == Pane::Devices);
                if let Some(sort) = self.sort.get_mut(at) {
                    *sort = sort.next();
                }
            }
            Key::Char('u') => {
                self.queues = !self.queues;
                return Ask::Queues(self.queues);
            }
            Key::Tab if !self.opened => {
                self.pane = if self.pane == Pane::Cpus { Pane::Devices } else { Pane::Cpus };
            }
            Key::Enter => {
                self.choose(self.chosen(self.pane));
                (self.opened, self.help, self.scroll) = (!self.opened, false, 0);
            }
            Key::Up | Key::Char('k') => self.go(-1),
            Key::Down | Key::Char('j') => self.go(1),
            Key::PageUp => self.go(-10),
            Key::PageDown => self.go(10),
            Key::Home if self.playing.is_some() => return Ask::Edge(false),
            Key::End if self.playing.is_some() => return Ask::Edge(true),
            Key::Home => self.go(-9999),
            Key::End => self.go(9999),
            Key::Left if self.playing.is_some() => return Ask::Seek(-10.0),
            Key::Right if self.playing.is_some() => return Ask::Seek(10.0),
            Key::Char('<') if self.playing.is_some() => return Ask::Seek(-60.0),
            Key::Char('>') if self.playing.is_some() => return Ask::Seek(60.0),
            Key::Char('+') if self.playing.is_some() => return Ask::Speed(2.0),
            Key::Char('-') if self.playing.is_some() => return Ask::Speed(0.5),
            _ => {}
        }
        Ask::Draw
    }
}

/// The greater first, the unknown last.
fn descending(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0))
}

//! Messages between controller and agent: words, one message to a line, each line bounded.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::error::{Error, ExitCode};
use crate::measure::load::half::{HalfFlow, HalfResult, Role, Run};
use crate::measure::load::partner::Secret;
use crate::measure::load::{Datagrams, LoadSpec, RoundTrips, Sender};
use crate::model::cpuset::CpuSet;
use crate::model::histogram::Histogram;
use crate::model::measurement::{Direction, Protocol};
use crate::model::party::{Facts, WayOut};
use crate::model::units::{BitRate, CpuId};

/// Both sides must speak the same.
pub const VERSION: u32 = 5;
/// The longest line before the other side has proven anything.
pub const GREETING_BYTES: usize = 1024;
/// The longest request.
pub const REQUEST_BYTES: usize = 64 << 10;
/// The longest answer: the settings of a machine with hundreds of queues.
pub const ANSWER_BYTES: usize = 4 << 20;
/// Time within which the other side must send its part of the greeting.
pub const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// Longest that an agent keeps a connection that has proven nothing: a round trip of two seconds, and
/// a packet that is lost on the way.
pub const UNPROVEN: Duration = Duration::from_secs(5);
/// Longest silence of a controller: it asks every two seconds at least, over a line that may need
/// some for each way and lose a packet more than once.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Length of a nonce in hexadecimal digits.
const NONCE: usize = 64;

/// The agent speaks first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Version of the protocol.
    pub version: u32,
    /// Version of the program, for people.
    pub program: String,
    /// True if the controller must prove that it has the token.
    pub token: bool,
    /// 32 random bytes in hexadecimal.
    pub nonce: String,
}

/// The controller's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u32,
    /// 32 random bytes in hexadecimal.
    pub nonce: String,
    /// Proof of having the token; empty without one.
    pub proof: String,
}

/// Request of the controller.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Facts about the machine, and the devices by which it reaches these addresses.
    Facts(Vec<IpAddr>),
    /// All settings.
    Settings,
    /// Current time of the machine.
    Clock,
    /// Counters, now, of these devices among others.
    Sample(Vec<String>),
    /// Opens what a run's LAN side will connect to.
    Listen(Run),
    /// Opens the streams of a run to these ports, or takes them after `listen`.
    Open(Run, Vec<u16>),
    /// Begins, at this time in nanoseconds of the agent's monotonic clock.
    Go(u64),
    /// Says that the controller is still there.
    Watch,
    /// Stops the senders; at once is without waiting for what is under way. Answered by `later` as
    /// long as something is.
    Quiet(bool),
    /// Ends the run; at once is without waiting for what is under way.
    Finish(bool),
    /// WAN: answers probes of this run at this address, until `probed`.
    Echo(u64, IpAddr),
    /// LAN: sends probes of this run there, until `probed`.
    Probe(u64, SocketAddr),
    /// Opens or closes the window: probes that are sent from now on count only if it is open.
    Window(bool),
    /// Ends probing, or answering.
    Probed,
    /// Starts a spinner of the lowest priority on each CPU, or ends them all.
    Spin(bool),
    /// Current counts of the spinners.
    Progress,
    /// Begins to watch the set-up, until `held`; true for a router, whose interrupts count too.
    Hold(bool),
    /// Says what changed since `hold`, also if it was put back.
    Held,
}

/// Answer of the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Proof that the agent has the token as well; empty without one.
    Welcome(String),
    /// Answer to `facts`.
    Facts(Box<Facts>),
    /// Answer to `settings`: each by its name.
    Settings(BTreeMap<String, String>),
    /// Answer to `clock`: nanoseconds of the monotonic clock, milliseconds since 1970 by the wall
    /// clock.
    Clock(u64, u64),
    /// Answer to `sample`: the kernel's files that the counters are read from.
    Sample(BTreeMap<String, String>),
    /// Answer to `listen`.
    Ports(Vec<u16>),
    /// Answer to `finish`.
    Half(HalfResult),
    /// Answer to `probed`: the round trips, none from the side that answered.
    Probed(Histogram),
    /// Answer to `progress`: the agent's monotonic clock in nanoseconds, and each spinner's count.
    Progress(u64, Vec<(CpuId, u64)>),
    /// Answer to `held`: changes that forwarding may depend on, then the others.
    Changed(Vec<String>, Vec<String>),
    /// Answer to `quiet` that has to be asked again.
    Later,
    /// Answer to every other request.
    Done,
    /// The request could not be carried out.
    Failed(Failure),
}

/// An [`Error`] on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// Operation that failed, and the reason.
    pub what: String,
    /// Remedy; empty without one.
    pub hint: String,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let hint = error.remedy().unwrap_or_default().to_owned();
        Self { code: error.code() as u8, what: error.to_string(), hint }
    }
}

impl Failure {
    /// The error again, as that of `who`.
    #[must_use]
    pub fn error(&self, who: &str) -> Error {
        let codes = [
            ExitCode::Usage,
            ExitCode::NotPermitted,
            ExitCode::NotSupported,
            ExitCode::Interrupted,
        ];
        let code = codes.into_iter().find(|c| *c as u8 == self.code).unwrap_or(ExitCode::Refused);
        let error = Error::new(code, who, plain(self.what.as_bytes(), 400));
        if self.hint.is_empty() { error } else { error.hint(plain(self.hint.as_bytes(), 400)) }
    }
}

/// A message: words with a tab between them. In a word, `\\`, `\t`, `\n` and `\r` stand for those
/// characters. What may be absent is `-`.
pub trait Message: Sized {
    /// The message as words.
    fn words(&self) -> Words;
    /// Reads the message from its words.
    ///
    /// # Errors
    /// A description of the malformed part, in words.
    fn read(words: &mut Reader<'_>) -> Result<Self, String>;
}

/// The words of a message, one after the other.
#[derive(Default)]
pub struct Words(String);

impl Words {
    fn of(first: &str) -> Self {
        Self::default().text(first)
    }

    fn text(mut self, word: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push('\t');
        }
        for c in word.chars() {
            match c {
                '\\' => self.0.push_str("\\\\"),
                '\t' => self.0.push_str("\\t"),
                '\n' => self.0.push_str("\\n"),
                '\r' => self.0.push_str("\\r"),
                other => self.0.push(other),
            }
        }
        self
    }

    fn add(self, value: &dyn std::fmt::Display) -> Self {
        self.text(&value.to_string())
    }

    fn maybe(self, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.add(&value),
            None => self.text("-"),
        }
    }

    fn flag(self, value: bool) -> Self {
        self.text(if value { "yes" } else { "no" })
    }
}

/// Takes the words of a message one by one.
pub struct Reader<'a>(std::str::Split<'a, char>);

impl Reader<'_> {
    fn text(&mut self) -> Result<String, String> {
        let word = self.0.next().ok_or("it ends too early")?;
        let mut text = String::with_capacity(word.len());
        let mut chars = word.chars();
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some('\\')) => text.push('\\'),
                ('\\', Some('t')) => text.push('\t'),
                ('\\', Some('n')) => text.push('\n'),
                ('\\', Some('r')) => text.push('\r'),
                ('\\', _) => return Err("a backslash that stands for nothing".into()),
                (other, _) => text.push(other),
            }
        }
        Ok(text)
    }

    /// A text that people get to see.
    fn shown(&mut self) -> Result<String, String> {
        self.text().map(|text| plain(text.as_bytes(), 200))
    }

    fn number(&mut self) -> Result<u64, String> {
        let word = self.text()?;
        word.parse().map_err(|_| format!("no number: \"{}\"", plain(word.as_bytes(), 30)))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| format!("{number} is too large"))
    }

    fn real(&mut self) -> Result<f64, String> {
        let word = self.text()?;
        let real = word.parse().ok().filter(|real: &f64| real.is_finite());
        real.ok_or_else(|| format!("no number: \"{}\"", plain(word.as_bytes(), 30)))
    }

    fn address(&mut self) -> Result<IpAddr, String> {
        let word = self.text()?;
        word.parse().map_err(|_| format!("no address: \"{}\"", plain(word.as_bytes(), 40)))
    }

    fn flag(&mut self) -> Result<bool, String> {
        Ok(self.choice(&["no", "yes"])? == 1)
    }

    fn maybe(&mut self) -> Result<Option<u64>, String> {
        if self.0.clone().next() == Some("-") {
            self.0.next();
            return Ok(None);
        }
        self.number().map(Some)
    }

    fn cpus(&mut self) -> Result<Option<CpuSet>, String> {
        let word = self.text()?;
        if word == "-" {
            return Ok(None);
        }
        let no = |_| format!("no CPUs: \"{}\"", plain(word.as_bytes(), 30));
        word.parse::<CpuSet>().map(Some).map_err(no)
    }

    /// Index of the next word in `words`.
    fn choice(&mut self, words: &[&str]) -> Result<usize, String> {
        let word = self.text()?;
        let at = words.iter().position(|known| *known == word);
        at.ok_or_else(|| format!("unknown word \"{}\"", plain(word.as_bytes(), 30)))
    }

    fn is_over(&self) -> bool {
        self.0.clone().next().is_none()
    }

    fn ports(&mut self) -> Result<Vec<u16>, String> {
        let mut ports = Vec::new();
        while !self.is_over() {
            ports.push(self.small()?);
        }
        Ok(ports)
    }

    fn pairs(&mut self) -> Result<BTreeMap<String, String>, String> {
        let mut pairs = BTreeMap::new();
        while !self.is_over() {
            pairs.insert(self.text()?, self.text()?);
        }
        Ok(pairs)
    }

    fn direction(&mut self) -> Result<Direction, String> {
        let known = [Direction::Down, Direction::Up, Direction::Both];
        let at = self.choice(&["down", "up", "both"])?;
        known.get(at).copied().ok_or_else(String::new)
    }
}

impl Message for Greeting {
    fn words(&self) -> Words {
        let words = Words::of("linerate-agent").add(&self.version).text(&self.program);
        words.flag(self.token).text(&self.nonce)
    }

    fn read(words: &mut Reader<'_>) -> Result<Self, String> {
        words.choice(&["linerate-agent"])?;
        let version = words.small()?;
        let mut greeting =
            Self { version, program: words.text()?, token: false, nonce: String::new() };
        // What comes behind is another version's own affair.
        if version == VERSION {
            (greeting.token, greeting.nonce) = (words.flag()?, words.text()?);
        } else {
            words.0.by_ref().for_each(drop);
        }
        Ok(greeting)
    }
}

impl Message for Hello {
    fn words(&self) -> Words {
        let words = Words::of("linerate-controller").add(&self.version).text(&self.nonce);
        words.text(if self.proof.is_empty() { "-" } else { &self.proof })
    }

    fn read(words: &mut Reader<'_>) -> Result<Self, String> {
        words.choice(&["linerate-controller"])?;
        let version = words.small()?;
        let mut hello = Self { version, nonce: String::new(), proof: String::new() };
        if version == VERSION {
            (hello.nonce, hello.proof) = (words.text()?, words.text()?);
            if hello.proof == "-" {
                hello.proof.clear();
            }
        } else {
            words.0.by_ref().for_each(drop);
        }
        Ok(hello)
    }
}

fn put_run(words: Words, run: &Run) -> Words {
    let spec = &run.spec;
    let words = words.add(&run.id).add(&run.address);
    let words = words.text(if spec.protocol == Protocol::Tcp { "tcp" } else { "udp" });
    let words = words.add(&spec.direction).add(&spec.streams).add(&spec.seconds).add(&spec.omit);
    let words = match spec.rate {
        Some(rate) => words.add(&rate.0),
        None => words.text("-"),
    };
    let words = words.add(&spec.datagram);
    let words = words.text(spec.sender.word());
    words.maybe(spec.mss.map(u64::from)).flag(spec.steady)
}

fn run(words: &mut Reader<'_>) -> Result<Run, String> {
    let (id, address) = (words.number()?, words.address()?);
    let udp = words.choice(&["tcp", "udp"])? == 1;
    let (direction, streams) = (words.direction()?, words.small()?);
    let (seconds, omit) = (words.real()?, words.real()?);
    let rate = if words.0.clone().next() == Some("-") {
        words.0.next();
        None
    } else {
        Some(BitRate(words.real()?))
    };
    let datagram = words.small()?;
    let sender = words.choice(&Sender::ALL.map(Sender::word))?;
    let mss = words.maybe()?.map(|mss| u32::try_from(mss).unwrap_or(u32::MAX));
    let spec = LoadSpec {
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
        direction,
        streams,
        seconds,
        omit,
        rate,
        datagram,
        sender: Sender::ALL.get(sender).copied().unwrap_or_default(),
        mss,
        // Who measures decides that.
        stretch: false,
        steady: words.flag()?,
    };
    Ok(Run { spec, id, address, secret: Secret::default() })
}

fn put_all(words: Words, values: &[u16]) -> Words {
    values.iter().fold(words, |words, value| words.add(value))
}

fn put_pairs(words: Words, pairs: &BTreeMap<String, String>) -> Words {
    pairs.iter().fold(words, |words, (name, value)| words.text(name).text(value))
}

/// The first words of requests, in the order of [`Request::read`].
const REQUESTS: [&str; 18] = [
    "facts", "settings", "clock", "sample", "listen", "open", "go", "watch", "quiet", "finish",
    "echo", "probe", "window", "probed", "spin", "progress", "hold", "held",
];

impl Message for Request {
    fn words(&self) -> Words {
        match self {
            Self::Facts(to) => to.iter().fold(Words::of("facts"), |words, ip| words.add(ip)),
            Self::Settings => Words::of("settings"),
            Self::Clock => Words::of("clock"),
            Self::Sample(devices) => {
                devices.iter().fold(Words::of("sample"), |words, device| words.text(device))
            }
            Self::Listen(run) => put_run(Words::of("listen"), run),
            Self::Open(run, ports) => put_all(put_run(Words::of("open"), run), ports),
            Self::Go(at) => Words::of("go").add(at),
            Self::Watch => Words::of("watch"),
            Self::Quiet(at_once) => Words::of("quiet").flag(*at_once),
            Self::Finish(at_once) => Words::of("finish").flag(*at_once),
            Self::Echo(id, at) => Words::of("echo").add(id).add(at),
            Self::Probe(id, to) => Words::of("probe").add(id).add(&to.ip()).add(&to.port()),
            Self::Window(open) => Words::of("window").flag(*open),
            Self::Probed => Words::of("probed"),
            Self::Spin(on) => Words::of("spin").flag(*on),
            Self::Progress => Words::of("progress"),
            Self::Hold(router) => Words::of("hold").flag(*router),
            Self::Held => Words::of("held"),
        }
    }

    fn read(words: &mut Reader<'_>) -> Result<Self, String> {
        Ok(match words.choice(&REQUESTS)? {
            0 => {
                let mut to = Vec::new();
                while !words.is_over() {
                    to.push(words.address()?);
                }
                Self::Facts(to)
            }
            1 => Self::Settings,
            2 => Self::Clock,
            3 => {
                let mut devices = Vec::new();
                while !words.is_over() {
                    devices.push(words.text()?);
                }
                Self::Sample(devices)
            }
            4 => Self::Listen(run(words)?),
            5 => Self::Open(run(words)?, words.ports()?),
            6 => Self::Go(words.number()?),
            7 => Self::Watch,
            8 => Self::Quiet(words.flag()?),
            9 => Self::Finish(words.flag()?),
            10 => Self::Echo(words.number()?, words.address()?),
            11 => {
                let (id, ip) = (words.number()?, words.address()?);
                Self::Probe(id, SocketAddr::new(ip, words.small()?))
            }
            12 => Self::Window(words.flag()?),
            13 => Self::Probed,
            14 => Self::Spin(words.flag()?),
            15 => Self::Progress,
            16 => Self::Hold(words.flag()?),
            _ => Self::Held,
        })
    }
}

/// The first words of answers, in the order of [`Answer::read`].
const ANSWERS: [&str; 13] = [
    "welcome", "facts", "settings", "clock", "sample", "ports", "half", "done", "probed",
    "progress", "later", "changed", "failed",
];

impl Message for Answer {
    fn words(&self) -> Words {
        match self {
            Self::Welcome(proof) => {
                Words::of("welcome").text(if proof.is_empty() { "-" } else { proof })
            }
            Self::Facts(facts) => put_facts(facts),
            Self::Settings(settings) => put_pairs(Words::of("settings"), settings),
            Self::Clock(monotonic, wall) => Words::of("clock").add(monotonic).add(wall),
            Self::Sample(files) => put_pairs(Words::of("sample"), files),
            Self::Ports(ports) => put_all(Words::of("ports"), ports),
            Self::Half(half) => put_half(half),
            Self::Changed(differing, noted) => {
                let words = Words::of("changed").add(&differing.len());
                differing.iter().chain(noted).fold(words, |words, text| words.text(text))
            }
            Self::Later => Words::of("later"),
            Self::Done => Words::of("done"),
            Self::Probed(seen) => {
                let words = Words::of("probed").add(&seen.lost);
                seen.counts().fold(words, |words, (bucket, count)| words.add(&bucket).add(&count))
            }
            Self::Progress(at, counts) => {
                let words = Words::of("progress").add(at);
                counts.iter().fold(words, |words, (cpu, count)| words.add(&cpu.0).add(count))
            }
            Self::Failed(failure) => {
                Words::of("failed").add(&failure.code).text(&failure.what).text(&failure.hint)
            }
        }
    }

    fn read(words: &mut Reader<'_>) -> Result<Self, String> {
        Ok(match words.choice(&ANSWERS)? {
            0 => {
                let proof = words.text()?;
                Self::Welcome(if proof == "-" { String::new() } else { proof })
            }
            1 => Self::Facts(Box::new(facts(words)?)),
            2 => Self::Settings(words.pairs()?),
            3 => Self::Clock(words.number()?, words.number()?),
            4 => Self::Sample(words.pairs()?),
            5 => Self::Ports(words.ports()?),
            6 => Self::Half(half(words)?),
            7 => Self::Done,
            8 => {
                let mut seen = Histogram::default();
                seen.lost = words.number()?;
                while !words.is_over() {
                    let (bucket, count) = (words.small()?, words.number()?);
                    if !seen.put(bucket, count) {
                        return Err("no such bucket".into());
                    }
                }
                Self::Probed(seen)
            }
            9 => {
                let (at, mut counts) = (words.number()?, Vec::new());
                while !words.is_over() {
                    counts.push((CpuId(words.small()?), words.number()?));
                }
                Self::Progress(at, counts)
            }
            10 => Self::Later,
            11 => {
                let (mut all, differing) = (Vec::new(), words.small::<usize>()?);
                while !words.is_over() {
                    all.push(words.shown()?);
                }
                if differing > all.len() {
                    return Err("fewer changes than it says".into());
                }
                let noted = all.split_off(differing);
                Self::Changed(all, noted)
            }
            _ => {
                let (code, what) = (words.small()?, words.text()?);
                Self::Failed(Failure { code, what, hint: words.text()? })
            }
        })
    }
}

fn put_facts(facts: &Facts) -> Words {
    let texts = [
        &facts.program,
        &facts.hostname,
        &facts.kernel,
        &facts.arch,
        &facts.board,
        &facts.cpu_model,
        &facts.virtualisation,
        &facts.id,
        &facts.boot,
        &facts.snapshot,
    ];
    let words = texts.into_iter().fold(Words::of("facts"), |words, text| words.text(text));
    let words = match &facts.load_cpus {
        Some(cpus) => words.add(cpus),
        None => words.text("-"),
    };
    facts.ways.iter().fold(words.add(&facts.cpus), |words, way| {
        // No device has a slash in its name (net/core/dev.c `dev_valid_name`).
        let words = words.add(&way.to).add(&way.from).text(&way.device);
        words.text(&way.counted.join("/")).add(&way.mtu).maybe(way.speed.map(u64::from))
    })
}

fn facts(words: &mut Reader<'_>) -> Result<Facts, String> {
    let mut facts = Facts {
        program: words.shown()?,
        hostname: words.shown()?,
        kernel: words.shown()?,
        arch: words.shown()?,
        board: words.shown()?,
        cpu_model: words.shown()?,
        virtualisation: words.shown()?,
        id: words.shown()?,
        boot: words.shown()?,
        snapshot: words.shown()?,
        load_cpus: words.cpus()?,
        cpus: words.small()?,
        ways: Vec::new(),
    };
    while !words.is_over() {
        let (to, from, device) = (words.address()?, words.address()?, words.shown()?);
        let counted = words.shown()?;
        let counted = counted.split('/').filter(|d| !d.is_empty()).map(str::to_owned).collect();
        let mtu = words.small()?;
        let speed = words.maybe()?.and_then(|speed| u32::try_from(speed).ok());
        facts.ways.push(WayOut { to, from, device, counted, mtu, speed });
    }
    Ok(facts)
}

fn put_half(half: &HalfResult) -> Words {
    let words = Words::of("half").add(&half.seconds).add(&half.total_seconds).flag(half.whole);
    let words = half.pieces.iter().fold(words.add(&half.pieces.len()), |words, at| words.add(at));
    half.flows.iter().fold(words, |words, flow| {
        let words = words.add(&flow.direction).flag(flow.role == Role::Sender);
        let words = words.add(&flow.window_bytes).add(&flow.bytes).add(&flow.header_bytes);
        let words = words.maybe(flow.retransmits).maybe(flow.retransmitted_bytes);
        let trips = |value: fn(&RoundTrips) -> f64| flow.round_trips.as_ref().map(value);
        let words = words.maybe(flow.arrived);
        let micros = |time: Option<f64>| time.map(|time| (time * 1e6) as u64);
        let words = words.maybe(micros(trips(|t| t.shortest))).maybe(micros(trips(|t| t.loaded)));
        let words = words.maybe(flow.datagrams.map(|d| d.sent));
        let d = flow.datagrams.unwrap_or_default();
        let words = words.add(&d.received).add(&d.lost).add(&d.duplicates).add(&d.reordered);
        let words = words.add(&flow.acknowledged).text(flow.error.as_deref().unwrap_or_default());
        let words = words.text(flow.sent_by.as_deref().unwrap_or_default());
        let words = words.add(&flow.cpu_seconds).add(&flow.busiest_thread);
        flow.pieces.iter().fold(words.add(&flow.pieces.len()), |words, bytes| words.add(bytes))
    })
}

fn half(words: &mut Reader<'_>) -> Result<HalfResult, String> {
    let mut half = HalfResult {
        seconds: words.real()?,
        total_seconds: words.real()?,
        whole: words.flag()?,
        flows: Vec::new(),
        pieces: Vec::new(),
    };
    for _ in 0..words.number()? {
        half.pieces.push(words.real()?);
    }
    while !words.is_over() {
        let direction = words.direction()?;
        let role = if words.flag()? { Role::Sender } else { Role::Receiver };
        let (window_bytes, bytes) = (words.number()?, words.number()?);
        let header_bytes = words.number()?;
        let (retransmits, retransmitted_bytes) = (words.maybe()?, words.maybe()?);
        let arrived = words.maybe()?;
        let mut time = || Ok::<_, String>(words.maybe()?.map(|time| time as f64 / 1e6));
        let round_trips = time()?.zip(time()?);
        let round_trips = round_trips.map(|(shortest, loaded)| RoundTrips { shortest, loaded });
        let sent = words.maybe()?;
        let (received, lost) = (words.number()?, words.number()?);
        let (duplicates, reordered) = (words.number()?, words.number()?);
        let datagrams = sent.map(|sent| Datagrams { sent, received, lost, duplicates, reordered });
        let (acknowledged, error) = (words.small()?, words.text()?);
        let said = |text: String| Some(plain(text.as_bytes(), 400)).filter(|text| !text.is_empty());
        let (error, sent_by) = (said(error), said(words.text()?));
        let (cpu_seconds, busiest_thread) = (words.real()?, words.real()?);
        let mut pieces = Vec::new();
        for _ in 0..words.number()? {
            pieces.push(words.number()?);
        }
        half.flows.push(HalfFlow {
            direction,
            role,
            window_bytes,
            arrived,
            bytes,
            header_bytes,
            retransmits,
            retransmitted_bytes,
            round_trips,
            datagrams,
            acknowledged,
            sent_by,
            error,
            cpu_seconds,
            busiest_thread,
            pieces,
        });
    }
    Ok(half)
}

/// A message from a line.
///
/// # Errors
/// A description of the malformed part, in words.
pub fn parse<T: Message>(line: &[u8]) -> Result<T, String> {
    let wrong = |why: String| format!("{why}: \"{}\"", plain(line, 60));
    let text = std::str::from_utf8(line).map_err(|_| wrong("no text".into()))?;
    let mut words = Reader(text.split('\t'));
    let message = T::read(&mut words).map_err(wrong)?;
    if words.is_over() { Ok(message) } else { Err(wrong("it has too many words".into())) }
}

/// A message as a line.
#[must_use]
pub fn line<T: Message>(message: &T) -> Vec<u8> {
    let mut line = message.words().0.into_bytes();
    line.push(b'\n');
    line
}

/// Text from outside, made fit for a terminal: the first `most` characters.
#[must_use]
pub fn plain(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let cut = text.chars().nth(most).is_some();
    let shown = text.chars().take(most).map(|c| if c.is_control() { '.' } else { c });
    shown.chain(cut.then_some('…')).collect()
}

/// A new nonce.
///
/// # Errors
/// The error of the kernel's random generator.
pub fn nonce() -> io::Result<String> {
    let mut bytes = [0; NONCE / 2];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(super::token::hex(&bytes))
}

/// True if the text has the form of a nonce.
#[must_use]
pub fn is_nonce(text: &str) -> bool {
    text.len() == NONCE && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_tells_this_version_and_every_request() {
        let told = include_str!("../../../docs/agent.md");
        let version = u64::from(VERSION);
        let times = [UNPROVEN, GREETING_PATIENCE, SILENCE].map(|time| time.as_secs());
        let [proof, greeting, silence] = times;
        for (sentence, number) in [
            ("Version #. TCP", version),
            ("`linerate-agent # ", version),
            ("`linerate-controller # ", version),
            ("an agent # s for a proof", proof),
            ("a controller # s for each part", greeting),
            ("an agent # s of a controller's silence", silence),
            ("# s after the controller went silent", silence),
            ("without a word for less than # s", silence),
        ] {
            assert!(told.contains(&sentence.replace('#', &number.to_string())), "{sentence}");
        }
        let untold: Vec<&str> =
            REQUESTS.into_iter().filter(|word| !told.contains(&format!("`{word}"))).collect();
        assert_eq!(untold, [""; 0]);
    }
}

//! One controller at an agent: its greeting, its requests, its end.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::facts;
use super::limits::Limits;
use super::lines::{Lines, NoLine};
use super::protocol::{
    Answer, Failure, GREETING_BYTES, Greeting, Hello, REQUEST_BYTES, Request, SILENCE, UNPROVEN,
    VERSION, is_nonce, nonce, parse,
};
use super::token::{Prover, Token};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{Live, clock};
use crate::measure::load::half::{End, Local, Run, SocketPlace};
use crate::measure::load::latency::{Echo, Prober};
use crate::measure::load::partner::{Key, Secret};
use crate::measure::load::spinner::Spinners;
use crate::measure::sample::{Held, Settings, Watched};
use crate::model::cpuset::CpuSet;
use crate::model::histogram::Histogram;

/// Time for which a new controller waits for the one before to leave, and the pause between checks.
const LEAVING: Duration = Duration::from_secs(3);
const TURN: Duration = Duration::from_millis(20);

/// Time that a controller has to end a run in order which has lasted as long as the owner allows.
const LAST_WORD: Duration = Duration::from_secs(3);

/// State that all connections to an agent share.
pub(super) struct Shared<'a> {
    pub(super) token: Option<&'a Token>,
    /// CPUs on which the load's threads run.
    pub(super) cpus: Option<&'a CpuSet>,
    pub(super) limits: &'a Limits,
    pub(super) stop: &'a AtomicBool,
    /// Name of the controller that is served, if any.
    pub(super) served: Mutex<Option<String>>,
    pub(super) say: &'a (dyn Fn(&str) + Sync),
}

/// Serves one connection to its end; `met` is called once it has proven itself.
pub(super) fn serve(shared: &Shared<'_>, lines: &mut Lines, peer: &str, met: &dyn Fn()) {
    match greet(shared, lines) {
        Ok(()) => met(),
        Err(why) => return (shared.say)(&format!("{peer}: turned away: {why}")),
    }
    let Some(_turn) = Turn::take(shared, lines, peer) else { return };
    (shared.say)(&format!("{peer}: in control"));
    let mut session = Session::new(shared.cpus.cloned(), shared.token, shared.limits.clone());
    let why = session.requests(shared, lines);
    // Whatever was under way ends here, and its ports are free.
    drop(session);
    let why = match why {
        NoLine::Closed => "done".to_owned(),
        NoLine::Silent => format!("silent for {} s; given up", SILENCE.as_secs()),
        other => other.to_string(),
    };
    (shared.say)(&format!("{peer}: {why}"));
}

/// Both sides prove that they have the token, where one is asked for.
fn greet(shared: &Shared<'_>, lines: &mut Lines) -> std::result::Result<(), String> {
    let ours = nonce().map_err(|e| e.to_string())?;
    let greeting = Greeting {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        token: shared.token.is_some(),
        nonce: ours.clone(),
    };
    let said = |e: NoLine| match e {
        NoLine::Silent => "it did not say what it wants".to_owned(),
        other => other.to_string(),
    };
    lines.put(&greeting).map_err(said)?;
    let line = lines.next(GREETING_BYTES, UNPROVEN, shared.stop).map_err(said)?;
    let refuse = |lines: &mut Lines, error: Error, why: String| {
        // It is turned away whether or not it hears why.
        drop(lines.put(&Answer::Failed(Failure::from(&error))));
        why
    };
    let hello: Hello = parse(&line).map_err(|e| format!("no linerate: {e}"))?;
    if hello.version != VERSION {
        let why = format!("it speaks version {}, this agent {VERSION}", hello.version);
        let error = Error::new(ExitCode::NotSupported, "greeting", &why)
            .hint("put the same linerate on all machines");
        return Err(refuse(lines, error, why));
    }
    let theirs = Some(&hello.nonce).filter(|n| is_nonce(n)).ok_or("no nonce in its greeting")?;
    let mut proof = String::new();
    if let Some(token) = shared.token {
        if !token.is_proof(&hello.proof, Prover::Controller, &ours, theirs) {
            let why = if hello.proof.is_empty() { "it has no token" } else { "another token" };
            let error = Error::not_permitted("greeting", format!("{why}; the agent wants its own"))
                .hint("give the controller the agent's token: --token-file FILE");
            return Err(refuse(lines, error, why.into()));
        }
        proof = token.proof(Prover::Agent, &ours, theirs);
    }
    lines.put(&Answer::Welcome(proof)).map_err(said)
}

/// The right to be served: one controller at a time.
struct Turn<'a>(&'a Mutex<Option<String>>);

impl<'a> Turn<'a> {
    fn take(shared: &'a Shared<'_>, lines: &mut Lines, peer: &str) -> Option<Self> {
        let hold = || shared.served.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Whoever was served just now may have left without the last word.
        let patience = clock::monotonic() + LEAVING;
        let mut served = hold();
        while served.is_some() && clock::monotonic() < patience {
            drop(served);
            // Cut short, it is turned away or served as well.
            let _whole = clock::wait_until(clock::monotonic() + TURN, TURN, shared.stop);
            served = hold();
        }
        if let Some(other) = served.as_ref() {
            let error = Error::new(ExitCode::Refused, "agent", format!("busy with {other}"))
                .hint("one measurement at a time; wait for it to end");
            // It is turned away whether or not it hears why.
            drop(lines.put(&Answer::Failed(Failure::from(&error))));
            (shared.say)(&format!("{peer}: turned away: busy with {other}"));
            return None;
        }
        *served = Some(peer.to_owned());
        drop(served);
        lines.put(&Answer::Done).ok().map(|()| Self(&shared.served)).or_else(|| {
            drop(Self(&shared.served));
            None
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
}

/// Resources that a controller holds at one machine.
pub(super) struct Session {
    host: Live,
    cpus: Option<CpuSet>,
    /// Secret that the other side of a run has as well.
    secret: Secret,
    limits: Limits,
    /// The side that listens does not choose where it sends.
    listens: bool,
    /// Time at which what is under way is ended, whatever the controller does.
    until: Option<Duration>,
    end: Local,
    echo: Option<Echo>,
    prober: Option<Prober>,
    spinners: Option<Spinners>,
    /// Set-up as it was, if it is a router's, and settings that have been others since.
    held: Option<(Held, bool, BTreeSet<String>)>,
}

impl Session {
    pub(super) fn new(cpus: Option<CpuSet>, token: Option<&Token>, limits: Limits) -> Self {
        let end = Local::new(SocketPlace::default(), cpus.clone());
        let secret = token.map(Token::secret).unwrap_or_default();
        Self {
            host: Live::here(),
            cpus,
            secret,
            limits,
            listens: false,
            until: None,
            end,
            echo: None,
            prober: None,
            spinners: None,
            held: None,
        }
    }

    fn watched(&self, router: bool) -> Watched {
        Watched { name: "", host: self.host.clone(), interrupts: router }
    }

    /// Looks whether settings are others than they were, now that somebody asks for something anyway.
    fn look(&mut self) {
        if let Some((held, _, seen)) = &mut self.held
            && let Some(then) = held.settings()
        {
            seen.extend(Settings::read(&self.host).changed_since(then));
        }
    }

    /// Until the controller is gone, for whatever reason.
    fn requests(&mut self, shared: &Shared<'_>, lines: &mut Lines) -> NoLine {
        loop {
            // The agent's own clock counts, whether or not it is asked for anything.
            let left = self.until.map(|until| until.saturating_sub(clock::monotonic()));
            if left.is_some_and(|left| left.is_zero()) {
                (shared.say)("longer than --max-seconds: load and probes are ended");
                self.end_all();
            }
            let patience = left.filter(|left| !left.is_zero()).map_or(SILENCE, |l| l.min(SILENCE));
            let line = match lines.next(REQUEST_BYTES, patience, shared.stop) {
                Ok(line) => line,
                Err(NoLine::Silent) if patience < SILENCE => continue,
                Err(NoLine::Stopped) => {
                    let error = Error::interrupted("agent");
                    drop(lines.put(&Answer::Failed(Failure::from(&error))));
                    return NoLine::Stopped;
                }
                Err(why) => return why,
            };
            let answer = match parse::<Request>(&line) {
                Ok(request) => self.answer(request, shared.stop, shared.say),
                Err(why) => Err(Error::usage("request", why)),
            };
            let answer = answer.unwrap_or_else(|e| Answer::Failed(Failure::from(&e)));
            if let Err(why) = lines.put(&answer) {
                return why;
            }
        }
    }

    fn end_all(&mut self) {
        self.until = None;
        self.end = Local::new(SocketPlace::default(), self.cpus.clone());
        (self.echo, self.prober, self.spinners) = (None, None, None);
    }

    /// Ends all that works by then, if the owner has set a limit.
    fn limit(&mut self, from: Duration) {
        let most = self.limits.seconds.map(Duration::from_secs_f64);
        self.until = most.map(|most| from + most + LAST_WORD);
    }

    fn ours(&self, run: Run) -> Run {
        Run { secret: self.secret.clone(), ..run }
    }

    pub(super) fn answer(
        &mut self,
        request: Request,
        stop: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Answer> {
        match request {
            Request::Facts(to) => {
                let mut facts = facts::facts(&self.host, &to)?;
                facts.load_cpus.clone_from(&self.cpus);
                Ok(Answer::Facts(Box::new(facts)))
            }
            Request::Settings => Ok(Answer::Settings(facts::settings(&self.host))),
            Request::Clock => {
                let now = nanoseconds(clock::monotonic());
                Ok(Answer::Clock(now, clock::wall_milliseconds()))
            }
            Request::Sample(devices) => {
                self.look();
                facts::sample(&self.host, &devices).map(Answer::Sample)
            }
            Request::Hold(router) => {
                let held = Held::before(&[self.watched(router)]);
                self.held = Some((held, router, BTreeSet::new()));
                Ok(Answer::Done)
            }
            Request::Held => {
                let Some((before, router, mut seen)) = self.held.take() else {
                    return Err(Error::usage("held", "nothing was to be held"));
                };
                let not_held = Held::after(&[self.watched(router)]).since(&before);
                seen.extend(not_held.differing);
                Ok(Answer::Changed(seen.into_iter().collect(), not_held.noted))
            }
            Request::Listen(run) => {
                self.limits.check(&run)?;
                self.limit(clock::monotonic());
                self.listens = true;
                self.end.listen(&self.ours(run)).map(Answer::Ports)
            }
            Request::Open(run, ports) => {
                self.limits.check(&run)?;
                if !std::mem::take(&mut self.listens) {
                    self.limits.check_address(run.address)?;
                }
                self.limit(clock::monotonic());
                say(&describe(&run));
                self.end.open(&self.ours(run), &ports, stop).map(|()| Answer::Done)
            }
            Request::Go(at) => {
                // Further ahead than any lead: a clock that was never compared.
                let latest = clock::monotonic() + SILENCE;
                let at = Duration::from_nanos(at).min(latest);
                self.limit(at);
                self.end.go(at).map(|()| Answer::Done)
            }
            Request::Watch => Ok(Answer::Done),
            Request::Quiet(at_once) => {
                let quiet = self.end.quiet(at_once)?;
                Ok(if quiet { Answer::Done } else { Answer::Later })
            }
            Request::Finish(at_once) => {
                let half = self.end.finish(at_once).map(Answer::Half);
                self.until = None;
                if self.prober.is_some() || self.spinners.is_some() {
                    self.limit(clock::monotonic());
                }
                half
            }
            Request::Echo(run, at) => {
                let echo = Echo::start(&SocketPlace::default(), at, &Key::of(&self.secret, run))?;
                let port = echo.port();
                self.echo = Some(echo);
                Ok(Answer::Ports(vec![port]))
            }
            Request::Probe(run, to) => {
                self.limits.check_address(to.ip())?;
                let key = Key::of(&self.secret, run);
                self.limit(clock::monotonic());
                self.prober = Some(Prober::start(&SocketPlace::default(), to, &key)?);
                Ok(Answer::Done)
            }
            Request::Window(open) => {
                self.prober.iter().for_each(|prober| prober.window(open));
                Ok(Answer::Done)
            }
            Request::Probed => {
                self.echo = None;
                let seen = self.prober.take().map_or(Ok(Histogram::default()), Prober::finish);
                seen.map(Answer::Probed)
            }
            Request::Spin(true) => {
                // Of each CPU once: what another would take, the first has not.
                self.spinners = None;
                self.limit(clock::monotonic());
                self.spinners = Some(Spinners::start(&facts::cpus(&self.host))?);
                Ok(Answer::Done)
            }
            Request::Spin(false) => {
                self.spinners = None;
                Ok(Answer::Done)
            }
            Request::Progress => {
                let spinners = self.spinners.as_ref();
                let progress = spinners
                    .map(Spinners::progress)
                    .ok_or_else(|| Error::usage("progress", "nothing spins"))?;
                Ok(Answer::Progress(nanoseconds(progress.at), progress.counts))
            }
        }
    }
}

fn describe(run: &crate::measure::load::half::Run) -> String {
    let spec = &run.spec;
    let rate = spec.rate.map(|r| format!(" at {:.1} Mbit/s", r.mbps())).unwrap_or_default();
    let streams = spec.streams;
    let protocol = match spec.protocol {
        crate::model::measurement::Protocol::Tcp => "TCP",
        crate::model::measurement::Protocol::Udp => "UDP",
    };
    format!(
        "run: {protocol} {}, {streams} streams{rate}, {} s, WAN at {}",
        spec.direction,
        spec.omit + spec.seconds,
        run.address
    )
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

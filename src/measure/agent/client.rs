//! The controller's side of a connection to an agent.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::PORT;
use super::limits::Limits;
use super::lines::{Lines, NoLine};
use super::protocol::{
    ANSWER_BYTES, Answer, Failure, GREETING_BYTES, GREETING_PATIENCE, Greeting, Hello, Request,
    VERSION, is_nonce, nonce, parse,
};
use super::session::{Session, nanoseconds};
use super::token::{Prover, Token};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::measure::load::address::find;
use crate::measure::load::half::{End, HalfResult, Run};
use crate::measure::load::latency::Probing;
use crate::measure::load::spinner::{Progress, Spinning};
use crate::model::histogram::Histogram;
use crate::model::party::ClockOffset;

/// Time within which a connection must open.
const CONNECT: Duration = Duration::from_secs(10);
/// Time within which an answer must come: discovery on a slow router may take seconds, and so may
/// each way of a slow line.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for opening streams, which an agent gives up by itself.
const OPENING: Duration = Duration::from_secs(180);
/// Round trips by which clocks are compared; as many as fit in the time, and three at least.
const ROUND_TRIPS: u32 = 16;
const COMPARING: Duration = Duration::from_secs(2);
/// Time by which a run is announced before it starts, beside the round trip.
const LEAD: Duration = Duration::from_millis(50);

/// An agent, shared by those who use it: one request at a time.
#[derive(Clone)]
pub struct Agent {
    connection: Arc<Mutex<Connection>>,
    /// `wan agent 198.18.2.2:19820`: what errors call it.
    name: Arc<str>,
    peer: Option<IpAddr>,
}

/// Way to the machine that is asked: a connection to another one, or none to this one.
enum Link {
    There(Lines),
    Here(Box<Session>),
}

struct Connection {
    link: Link,
    /// Agent's clock minus ours, nanoseconds; and the round trip.
    offset: i128,
    round_trip: Duration,
    /// Once something went wrong nothing is asked any more.
    lost: Option<Error>,
}

impl Agent {
    /// Connects to `address` (`HOST[:PORT]`) and greets. `role` is what errors call it: `wan`.
    ///
    /// # Errors
    /// Refused when nobody answers, or somebody else does; not permitted with another token; not
    /// supported with another version.
    pub fn connect(
        role: &str,
        address: &str,
        token: Option<&Token>,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let name: Arc<str> = format!("{role} agent {address}").into();
        let to = find(&name, address, PORT)?;
        let socket = TcpStream::connect_timeout(&to, CONNECT).map_err(|e| {
            Error::new(ExitCode::Refused, format!("{name}: connect to {to}"), e).hint(
                "is `linerate agent` running there, does it listen on that address, and does a \
                 firewall let it through?",
            )
        })?;
        let mut lines =
            Lines::new(socket).map_err(|e| Error::not_supported(name.to_string(), e))?;
        greet(&name, &mut lines, token, to, stop)?;
        Ok(Self::over(Link::There(lines), name, Some(to.ip())))
    }

    /// This machine, without an agent of its own.
    #[must_use]
    pub fn here(role: &str, token: Option<&Token>) -> Self {
        let name = format!("{role} (this machine)").into();
        Self::over(Link::Here(Box::new(Session::new(None, token, Limits::default()))), name, None)
    }

    fn over(link: Link, name: Arc<str>, peer: Option<IpAddr>) -> Self {
        let connection = Connection { link, offset: 0, round_trip: Duration::ZERO, lost: None };
        Self { connection: Arc::new(Mutex::new(connection)), name, peer }
    }

    /// Name of the agent in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address at which the agent was found; `None` for this machine.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Bytes of all requests and answers so far; none of this machine's.
    #[must_use]
    pub fn talked(&self) -> u64 {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        match &connection.link {
            Link::There(lines) => lines.talked,
            Link::Here(_) => 0,
        }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The failure that the agent reported, or that it is gone. Once it is gone every call says so.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.ask(&self.name, request)
    }

    /// An answer of the wrong kind.
    #[must_use]
    pub fn unexpected(&self) -> Error {
        Error::new(ExitCode::Refused, self.name.to_string(), "it answered something else")
    }

    fn done(&self, request: &Request) -> Result<()> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Compares clocks; runs begin by what is found here.
    ///
    /// # Errors
    /// As [`Agent::ask`].
    pub fn compare_clocks(&self) -> Result<ClockOffset> {
        let mut best: Option<(Duration, i128, i128)> = None;
        let begun = clock::monotonic();
        for number in 0..ROUND_TRIPS {
            if number >= 3 && clock::monotonic().saturating_sub(begun) > COMPARING {
                break;
            }
            let (sent, wall_sent) = (clock::monotonic(), clock::wall_milliseconds());
            let Answer::Clock(monotonic, wall) = self.ask(&Request::Clock)? else {
                return Err(self.unexpected());
            };
            let back = clock::monotonic();
            let trip = back.saturating_sub(sent);
            let middle = i128::from(nanoseconds(sent + trip / 2));
            let wall_middle =
                i128::from(wall_sent) + i128::try_from(trip.as_millis()).unwrap_or(0) / 2;
            if best.is_none_or(|(shortest, ..)| trip < shortest) {
                let offset = i128::from(monotonic) - middle;
                best = Some((trip, offset, i128::from(wall) - wall_middle));
            }
        }
        let (trip, offset, wall) = best.ok_or_else(|| self.unexpected())?;
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        (connection.offset, connection.round_trip) = (offset, trip);
        Ok(ClockOffset {
            monotonic: offset as f64 / 1e9,
            wall: wall as f64 / 1e3,
            uncertainty: trip.as_secs_f64() / 2.0,
        })
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Connection {
    fn ask(&mut self, name: &str, request: &Request) -> Result<Answer> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        // Answers come in a moment or the agent is gone; Ctrl-C ends runs by what it asks next.
        let never = AtomicBool::new(false);
        let lines = match &mut self.link {
            Link::There(lines) => lines,
            Link::Here(session) => {
                let told = session.answer(request.clone(), &never, &|_| ());
                // As if it had come from elsewhere: errors name who failed.
                return told.map_err(|error| Failure::from(&error).error(name));
            }
        };
        let patience = if matches!(request, Request::Open(..)) { OPENING } else { PATIENCE };
        let answer = lines
            .put(request)
            .and_then(|()| lines.next(ANSWER_BYTES, patience, &never))
            .map_err(|why| match why {
                NoLine::Closed => {
                    Error::new(ExitCode::Refused, name, "it has closed the connection")
                        .hint("it was stopped, or its machine went down; look at what it said")
                }
                NoLine::Silent => Error::new(
                    ExitCode::Refused,
                    name,
                    format!("no answer for {} s", patience.as_secs()),
                )
                .hint("is its machine still up, and the way there?"),
                other => Error::new(ExitCode::Refused, name, other),
            })
            .and_then(|line| {
                parse::<Answer>(&line).map_err(|why| {
                    Error::new(ExitCode::Refused, name, format!("an answer makes no sense: {why}"))
                })
            });
        match answer {
            Ok(Answer::Failed(failure)) => {
                let error = failure.error(name);
                // It says so once, as its last word.
                if error.code() == ExitCode::Interrupted {
                    let error = Error::new(ExitCode::Refused, name, "it was stopped by its user");
                    self.lost = Some(error.clone());
                    return Err(error);
                }
                Err(error)
            }
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.lost = Some(error.clone());
                Err(error)
            }
        }
    }
}

fn greet(
    name: &str,
    lines: &mut Lines,
    token: Option<&Token>,
    to: SocketAddr,
    stop: &AtomicBool,
) -> Result<()> {
    let refused = |why: String| Error::new(ExitCode::Refused, name, why);
    let next = |lines: &mut Lines, most| {
        lines.next(most, GREETING_PATIENCE, stop).map_err(|why| match why {
            NoLine::Stopped => Error::interrupted("bench"),
            NoLine::Silent => {
                refused("something is there, but it does not greet as an agent".into())
                    .hint("is that the agent's port?")
            }
            NoLine::TooLong(start) => refused(format!("no linerate agent: it said \"{start}\"")),
            NoLine::Closed => refused("it closed the connection without a word".into()).hint(
                "is an agent listening behind the tunnel? it also turns away whoever comes \
                       when too many are connected",
            ),
            other => refused(other.to_string()),
        })
    };
    let line = next(lines, GREETING_BYTES)?;
    let greeting: Greeting = parse(&line)
        .map_err(|why| refused(format!("no linerate agent: {why}")).hint("is that its port?"))?;
    if greeting.version != VERSION {
        let why = format!(
            "it speaks version {} of the protocol (linerate {}), this is version {VERSION}",
            greeting.version,
            super::protocol::plain(greeting.program.as_bytes(), 40)
        );
        return Err(Error::not_supported(name, why).hint("put the same linerate on all machines"));
    }
    if !is_nonce(&greeting.nonce) {
        return Err(refused("no linerate agent: its greeting has no nonce".into()));
    }
    if greeting.token && token.is_none() {
        return Err(Error::not_permitted(name, "it wants a token")
            .hint("give the file that the agent was started with: --token-file FILE"));
    }
    if !greeting.token && token.is_some() && !to.ip().is_loopback() {
        return Err(Error::not_permitted(name, "a token was given, and it asks for none")
            .hint("is it the agent that you mean? agents that others can reach always ask"));
    }
    let ours = nonce().map_err(|e| Error::not_supported("make a nonce", e))?;
    let proof = match token {
        Some(token) if greeting.token => token.proof(Prover::Controller, &greeting.nonce, &ours),
        _ => String::new(),
    };
    let hello = Hello { version: VERSION, nonce: ours.clone(), proof };
    lines.put(&hello).map_err(|why| refused(why.to_string()))?;
    let mut answer = || -> Result<Answer> {
        let line = next(lines, ANSWER_BYTES)?;
        match parse(&line).map_err(|why| refused(format!("no linerate agent: {why}")))? {
            Answer::Failed(failure) => Err(failure.error(name)),
            answer => Ok(answer),
        }
    };
    let Answer::Welcome(proof) = answer()? else {
        return Err(refused("it did not greet back".into()));
    };
    if let Some(token) = token.filter(|_| greeting.token)
        && !token.is_proof(&proof, Prover::Agent, &greeting.nonce, &ours)
    {
        return Err(Error::not_permitted(name, "it does not have the token itself")
            .hint("something else answers in the agent's place"));
    }
    match answer()? {
        Answer::Done => Ok(()),
        _ => Err(refused("it did not take its turn".into())),
    }
}

impl End for Agent {
    fn listen(&mut self, run: &Run) -> Result<Vec<u16>> {
        match self.ask(&Request::Listen(run.clone()))? {
            Answer::Ports(ports) => Ok(ports),
            _ => Err(self.unexpected()),
        }
    }

    fn open(&mut self, run: &Run, ports: &[u16], _: &AtomicBool) -> Result<()> {
        self.done(&Request::Open(run.clone(), ports.to_vec()))
    }

    fn go(&mut self, start: Duration) -> Result<()> {
        let offset = {
            let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            connection.offset
        };
        let at = i128::from(nanoseconds(start)) + offset;
        self.done(&Request::Go(u64::try_from(at).unwrap_or(0)))
    }

    fn watch(&mut self) -> Result<()> {
        self.done(&Request::Watch)
    }

    fn quiet(&mut self, at_once: bool) -> Result<bool> {
        match self.ask(&Request::Quiet(at_once))? {
            Answer::Done => Ok(true),
            Answer::Later => Ok(false),
            _ => Err(self.unexpected()),
        }
    }

    fn finish(&mut self, at_once: bool) -> Result<HalfResult> {
        match self.ask(&Request::Finish(at_once))? {
            Answer::Half(half) => Ok(half),
            _ => Err(self.unexpected()),
        }
    }

    fn lead(&self) -> Duration {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        LEAD + connection.round_trip * 2
    }
}

/// Probing from one agent to another.
struct Between {
    near: Agent,
    far: Agent,
}

/// Starts probing from `near` (LAN) to `far` (WAN), which `near` finds at `address`.
///
/// # Errors
/// The failure that either agent reported, or that it is gone.
pub fn probe(near: &Agent, far: &Agent, address: IpAddr) -> Result<Box<dyn Probing>> {
    let run = fastrand::u64(..);
    let Answer::Ports(ports) = far.ask(&Request::Echo(run, address))? else {
        return Err(far.unexpected());
    };
    let between = Between { near: near.clone(), far: far.clone() };
    let port = ports.first().copied().ok_or_else(|| far.unexpected())?;
    near.done(&Request::Probe(run, SocketAddr::new(address, port)))?;
    Ok(Box::new(between))
}

impl Probing for Between {
    fn window(&self, open: bool) {
        // An agent that is gone says so at the end.
        drop(self.near.done(&Request::Window(open)));
    }

    fn finish(self: Box<Self>) -> Result<Histogram> {
        match self.near.ask(&Request::Probed)? {
            Answer::Probed(seen) => Ok(seen),
            _ => Err(self.near.unexpected()),
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        for side in [&self.near, &self.far] {
            // It ends by itself when the connection does.
            drop(side.ask(&Request::Probed));
        }
    }
}

/// Spinners on an agent's CPUs.
struct There(Agent);

/// Starts a spinner on each usable CPU of an agent's machine; they end when this is dropped, or
/// with the connection.
///
/// # Errors
/// The failure that the agent reported, or that it is gone.
pub fn spin(agent: &Agent) -> Result<Box<dyn Spinning>> {
    agent.done(&Request::Spin(true))?;
    Ok(Box::new(There(agent.clone())))
}

impl Spinning for There {
    fn progress(&self) -> Result<Progress> {
        match self.0.ask(&Request::Progress)? {
            Answer::Progress(at, counts) => Ok(Progress { at: Duration::from_nanos(at), counts }),
            _ => Err(self.0.unexpected()),
        }
    }
}

impl Drop for There {
    fn drop(&mut self) {
        // They end by themselves when the connection does.
        drop(self.0.ask(&Request::Spin(false)));
    }
}

//! Lines of known rate, delay and faults: what TCP and UDP figures of them are worth.

mod line;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use linerate::error::ExitCode;
use linerate::measure::bench::{self, Context};
use linerate::measure::lab::{Lab, LabSpec};
use linerate::measure::load::LoadSpec;
use linerate::model::measurement::{
    Direction::{self, Both, Down, Up},
    Measurement, Protocol, RefusalCode,
};
use linerate::model::units::BitRate;

use crate::alone;
pub(crate) use line::{Counts, Line, Way};

/// A line, and the load that is measured over it.
#[derive(Debug, Clone, Copy)]
struct Case {
    up: Way,
    down: Way,
    direction: Direction,
    protocol: Protocol,
    streams: u32,
    /// MTU of the router's device to the line.
    mtu: u32,
    /// UDP: Mbit/s of payload that are offered.
    offered: f64,
}

/// TCP over a line that is the same both ways.
fn tcp(mbit: f64, delay: u32, direction: Direction, streams: u32) -> Case {
    let way = Way::of(mbit, delay);
    let protocol = Protocol::Tcp;
    Case { up: way, down: way, direction, protocol, streams, mtu: 1500, offered: 0.0 }
}

impl Case {
    fn ways(self, change: impl Fn(Way) -> Way) -> Self {
        Self { up: change(self.up), down: change(self.down), ..self }
    }

    /// A line that is that fast upwards.
    fn upwards(self, mbit: f64) -> Self {
        Self { up: Way { mbit, ..self.up }, ..self }
    }

    fn loss(self, loss: f64) -> Self {
        self.ways(|way| Way { loss, ..way })
    }

    fn udp(self, offered: f64) -> Self {
        Self { protocol: Protocol::Udp, offered, ..self }
    }

    /// Mbit/s of payload that a direction of the line carries at most.
    fn capacity(&self, direction: Direction) -> f64 {
        let line = if direction == Up { &self.up } else { &self.down };
        let packet = f64::from(self.mtu);
        let header = if self.protocol == Protocol::Tcp { 52.0 } else { 28.0 };
        line.mbit * (packet - header) / (packet + 14.0)
    }

    /// True if nothing but the line's rate limits the load.
    fn fills(&self) -> bool {
        let faults = [self.up, self.down].iter().any(|way| way.loss + way.late + way.twice > 0.0);
        self.protocol == Protocol::Tcp && self.direction != Both && !faults
    }
}

/// Result of a case: for each direction the figure and the truth, in Mbit/s of payload.
struct Outcome {
    case: Case,
    run: Measurement,
    figures: Vec<(Direction, f64, f64)>,
    counts: [Counts; 2],
    omit: f64,
}

/// Puts this test's thread, and with it all that it starts, before the other programs of the machine.
fn before_others() {
    let me = rustix::thread::gettid().as_raw_nonzero().to_string();
    drop(std::process::Command::new("chrt").args(["-r", "-p", "1", &me]).output());
}

/// Measures as `bench` does with its defaults. `None` where there is no lab or no line here.
fn measure(case: Case) -> Option<Outcome> {
    let (seconds, omit) = (1.0, 0.3);
    before_others();
    let lab = match Lab::build(&LabSpec::default()) {
        Ok(lab) => lab,
        Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
            eprintln!("SKIPPED shaped: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    let Some(line) = Line::between(&lab, case.up, case.down, case.mtu) else {
        eprintln!("SKIPPED shaped: ip, ethtool or packet sockets are missing");
        return None;
    };
    let context = Context::of_lab(&lab, 1500, None);
    let spec = LoadSpec::tcp(case.direction, case.streams, seconds, omit);
    let rate = (case.offered > 0.0).then_some(BitRate(case.offered * 1e6));
    let spec = LoadSpec { protocol: case.protocol, rate, stretch: true, ..spec };
    let run = bench::measure(&context, &spec, &AtomicBool::new(false))
        .unwrap_or_else(|e| panic!("{case:?}: {e}"));
    let counts = line.counts();
    // The window that counted is the one that the last note tells of, if there is one.
    let told = run.notes.iter().rev();
    let told = told.filter_map(|note| note.split_once(": now ")?.1.split_once(" s after ")).next();
    let omit = told.map_or(omit, |(_, omit)| omit.trim_end_matches(" s").parse().unwrap());
    let figures = spec.directions().iter().zip(&run.flows).map(|(direction, flow)| {
        let counted = &counts[usize::from(*direction == Down)];
        (*direction, flow.goodput.mbps(), counted.rate(omit, run.seconds))
    });
    Some(Outcome { case, figures: figures.collect(), counts, omit, run })
}

/// Measures them, so many at a time, and tells of each as soon as it is there.
fn measure_all(cases: &[Case], at_once: usize) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { return };
                    let Some(outcome) = measure(*case) else { return };
                    eprint!("{}", outcome.rows());
                    done.lock().unwrap().insert(number, outcome);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

impl Outcome {
    fn counted(&self, direction: Direction) -> &Counts {
        &self.counts[usize::from(direction == Down)]
    }

    /// One row for each direction of a table of truth against figure.
    fn rows(&self) -> String {
        let mut text = String::new();
        let Case { up, down, streams, direction, mtu, .. } = &self.case;
        for (number, (way, figure, truth)) in self.figures.iter().enumerate() {
            let line = if *way == Up { up } else { down };
            let load = match self.case.protocol {
                Protocol::Tcp => format!("TCP {direction}, {streams}"),
                Protocol::Udp => format!("UDP {direction}, {}", self.case.offered),
            };
            let share = |share: f64| match share > 0.0 {
                true => format!("{:.1} %", share * 100.0),
                false => "-".into(),
            };
            let faults = [line.loss, line.twice, line.late].map(share).join(" / ");
            let (figure, truth, off) = match self.case.protocol {
                Protocol::Tcp => {
                    (format!("{figure:.3}"), format!("{truth:.3}"), figure / truth - 1.0)
                }
                Protocol::Udp => {
                    let (counted, flow) = (self.counted(*way), &self.run.flows[number]);
                    let (sent, lost) = (counted.offered, counted.lost + counted.dropped);
                    let told = flow.lost.unwrap_or(u64::MAX);
                    let off = (told as f64 - lost as f64) / sent as f64;
                    (format!("{told} lost"), format!("{lost} of {sent} lost"), off)
                }
            };
            let codes: Vec<String> =
                self.run.refusals.iter().map(|r| format!("{:?}", r.code)).collect();
            let verdict = if codes.is_empty() { "stands".to_owned() } else { codes.join(", ") };
            writeln!(
                text,
                "| {load} | {way} | {} | {} | {faults} | {mtu} | {:.1} after {:.1} | {:.3} \
                 | {truth} | {figure} | {:+.2} % | {verdict} |",
                line.mbit,
                line.delay,
                self.run.seconds,
                self.omit,
                self.case.capacity(*way),
                off * 100.0,
            )
            .unwrap();
        }
        text
    }

    /// Reasons why the figure is not what this line carried.
    fn wrong(&self, within: f64) -> Vec<String> {
        let refusals = self.run.refusals.iter();
        let mut wrong: Vec<String> = refusals.map(|r| format!("{:?}: {}", r.code, r.why)).collect();
        for (number, (direction, figure, truth)) in self.figures.iter().enumerate() {
            let (flow, counted) = (&self.run.flows[number], self.counted(*direction));
            if self.case.protocol == Protocol::Udp {
                // Datagrams are counted one by one, at both ends.
                let told = (flow.lost, flow.received);
                let lost = counted.lost + counted.dropped;
                if told != (Some(lost), Some(counted.offered - lost)) {
                    wrong.push(format!("{direction}: {told:?} lost and received, {counted:?}"));
                }
                continue;
            }
            if (figure / truth - 1.0).abs() > within {
                let why =
                    format!("{direction}: {figure:.4} Mbit/s, and {truth:.4} passed the line");
                wrong.push(why);
            }
            let capacity = self.case.capacity(*direction);
            if self.case.fills() && (figure / capacity - 1.0).abs() > within {
                wrong.push(format!("{direction}: {figure:.4} of {capacity:.4} Mbit/s"));
            }
            // Fragments, and packets that were merged, are not what a table of packets means.
            let most = self.case.mtu as usize + 14;
            if counted.largest > most {
                wrong.push(format!("{direction}: a frame of {} bytes, of {most}", counted.largest));
            }
        }
        wrong
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn slow_long_and_faulty_lines_are_measured_as_what_they_are() {
    let _alone = alone();
    let cases = [
        tcp(0.5, 10, Up, 1),
        tcp(1.0, 5, Up, 16),
        tcp(2.0, 20, Down, 16),
        tcp(5.0, 5, Both, 4),
        tcp(8.0, 10, Up, 16),
        tcp(20.0, 10, Up, 16),
        tcp(16.0, 10, Both, 4).upwards(1.0),
        tcp(20.0, 0, Down, 1),
        tcp(4.0, 100, Down, 4),
        tcp(10.0, 20, Up, 1).ways(|way| Way { twice: 0.01, ..way }),
        Case { mtu: 1400, ..tcp(10.0, 10, Up, 4) },
        tcp(10.0, 20, Up, 1).loss(0.05).udp(4.0),
    ];
    let told = |done: &Outcome| {
        let wrong = done.wrong(0.015);
        (!wrong.is_empty())
            .then(|| format!("{}{}\n{:?}", done.rows(), wrong.join("\n"), done.run.notes))
    };
    let wrong: Vec<String> = measure_all(&cases, cases.len()).iter().filter_map(told).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Round trips of longer than a second are no losses, and the probes are no strangers to the counters:
/// five bytes in a hundred of this load's.
#[test]
#[ignore = "slow: make test runs it"]
fn round_trips_beside_a_small_load_over_a_long_line_are_all_seen() {
    let _alone = alone();
    before_others();
    let lab = match Lab::build(&LabSpec::default()) {
        Ok(lab) => lab,
        Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
            eprintln!("SKIPPED shaped: {e}");
            return;
        }
        Err(e) => panic!("{e}"),
    };
    let way = Way::of(2.0, 700);
    let Some(line) = Line::between(&lab, way, way, 1500) else {
        eprintln!("SKIPPED shaped: ip, ethtool or packet sockets are missing");
        return;
    };
    let context = Context::of_lab(&lab, 1500, None);
    let rate = Some(BitRate(0.5e6));
    let spec = LoadSpec { rate, omit: 3.0, datagram: 1000, ..LoadSpec::udp(Up, 1, 8.0, rate) };
    let go_on = AtomicBool::new(false);
    let (run, latency) = bench::beside::with_latency(&context, &spec, &go_on).unwrap();
    let codes: Vec<RefusalCode> = run.refusals.iter().map(|r| r.code).collect();
    assert!(!codes.contains(&RefusalCode::CountersDisagree), "{:?}", run.refusals);
    let latency = latency.unwrap();
    for seen in [&latency.idle, &latency.loaded] {
        assert!(seen.lost == 0 && seen.probes > 100, "{latency:?}");
        assert!(seen.p50.is_some_and(|seconds| (1.4..3.0).contains(&seconds)), "{latency:?}");
    }
    drop(line);
}

/// By hand: writes `docs/lines.md`, in eight minutes.
#[test]
#[ignore = "slow: make test runs it"]
fn whole_table_of_lines() {
    let _alone = alone();
    let mut cases = Vec::new();
    for mbit in [0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0] {
        for (direction, streams) in [(Up, 1), (Up, 16), (Down, 16), (Both, 4)] {
            cases.push(tcp(mbit, 10, direction, streams));
        }
    }
    for delay in [0, 50, 150, 300] {
        for mbit in [1.0, 5.0, 20.0] {
            cases.push(tcp(mbit, delay, Up, 16));
        }
        cases.push(tcp(10.0, delay, Down, 1));
    }
    let far = [tcp(2.0, 1000, Up, 1), tcp(2.0, 1000, Down, 16), tcp(10.0, 1000, Up, 16)];
    cases.extend(far);
    for (down, up) in [(16.0, 1.0), (50.0, 0.5), (100.0, 20.0), (5.0, 20.0)] {
        cases.push(tcp(down, 10, Both, 4).upwards(up));
    }
    for loss in [0.001, 0.01, 0.03, 0.1] {
        cases.push(tcp(10.0, 10, Up, 4).loss(loss));
        cases.push(tcp(10.0, 10, Up, 1).loss(loss).udp(5.0));
    }
    let all = |way| Way { twice: 0.02, late: 0.02, ..way };
    cases.push(tcp(10.0, 10, Down, 1).loss(0.01).ways(all).udp(8.0));
    cases.push(tcp(5.0, 50, Up, 1).udp(7.0));
    for direction in [Up, Down] {
        cases.push(Case { mtu: 1400, ..tcp(10.0, 10, direction, 4) });
        cases.push(tcp(10.0, 20, direction, 4).ways(|way| Way { twice: 0.01, ..way }));
        cases.push(tcp(10.0, 20, direction, 4).ways(|way| Way { late: 0.01, ..way }));
    }
    let mut done = measure_all(&cases, 12);
    done.extend(measure_all(&[50.0, 100.0, 200.0, 500.0].map(|mbit| tcp(mbit, 5, Down, 4)), 1));
    let mut rows: String = done.iter().map(Outcome::rows).collect();
    let near = done.iter().filter(|one| one.wrong(0.015).is_empty()).count();
    writeln!(rows, "\n{near} of {} lines stand and are within 1.5 %.", done.len()).unwrap();
    let text = std::fs::read_to_string("docs/lines.md").unwrap();
    let (head, _) = text.split_once("|---").unwrap();
    let rule = "|---".repeat(12);
    std::fs::write("docs/lines.md", format!("{head}{rule}|\n{rows}")).unwrap();
}

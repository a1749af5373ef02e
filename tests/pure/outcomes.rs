//! Settings that somebody measured on a real router and published, against what the planner's model
//! says of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;

use linerate::decide::plan::{self, Candidates, Profile, Request, Traffic, cost};
use linerate::machine::discover;
use linerate::machine::host::Tree;
use linerate::model::knob::{Knob, Value};
use linerate::model::measurement::Direction;
use linerate::model::plan::Candidate;
use linerate::model::snapshot::{Movable, Snapshot};

#[derive(Debug, Deserialize)]
struct File {
    case: Vec<Case>,
}

#[derive(Debug, Clone, Deserialize)]
struct Case {
    id: String,
    source: String,
    direction: Direction,
    profile: String,
    line: Option<f64>,
    flows: Option<u32>,
    setting: Vec<Setting>,
}

#[derive(Debug, Clone, Deserialize)]
struct Setting {
    name: String,
    figure: f64,
    host: String,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/outcomes")
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(fixtures().join("outcomes.toml")).unwrap();
    let file: File = toml::from_str(&text).unwrap();
    file.case
}

/// The trees, unpacked once.
pub(crate) fn trees() -> &'static Path {
    static TREES: OnceLock<PathBuf> = OnceLock::new();
    TREES.get_or_init(|| {
        let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outcomes");
        let _gone = std::fs::remove_dir_all(&into);
        std::fs::create_dir_all(&into).unwrap();
        let status = Command::new("tar")
            .arg("-xzf")
            .arg(fixtures().join("hosts.tar.gz"))
            .arg("-C")
            .arg(&into)
            .status()
            .unwrap();
        assert!(status.success());
        into
    })
}

fn look(setting: &Setting) -> Snapshot {
    discover::snapshot(&Tree::open(&trees().join(&setting.host)).unwrap())
}

/// A machine with what it is planned for, and its candidates.
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) snapshot: Snapshot,
    pub(crate) request: Request,
    pub(crate) found: Candidates,
}

impl Planned {
    pub(crate) fn of(name: String, snapshot: Snapshot, request: Request) -> Self {
        let found = plan::candidates_for(&snapshot, &request);
        Self { name, snapshot, request, found }
    }

    /// The candidate that `linerate plan` writes.
    pub(crate) fn chosen(&self) -> &Candidate {
        self.found.get(&self.found.preferred).unwrap()
    }

    /// First line of the plan.
    pub(crate) fn headline(&self) -> String {
        plan::headline(&self.snapshot, &self.request, &self.found, self.chosen()).unwrap()
    }
}

/// A machine that is looked at and planned for when somebody asks, once.
pub(crate) type Lazy = LazyLock<Planned, Box<dyn FnOnce() -> Planned + Send>>;

/// The machine of every setting, by name.
pub(crate) fn planned() -> &'static [(String, Lazy)] {
    static ALL: OnceLock<Vec<(String, Lazy)>> = OnceLock::new();
    let of = |case: Case| {
        let request = request(&case);
        let of = move |setting: Setting| {
            let (name, request) = (setting.host.clone(), request.clone());
            let plan = move || Planned::of(setting.host.clone(), look(&setting), request);
            let plan: Box<dyn FnOnce() -> Planned + Send> = Box::new(plan);
            (name, LazyLock::new(plan))
        };
        case.setting.into_iter().map(of).collect::<Vec<_>>()
    };
    ALL.get_or_init(|| cases().into_iter().flat_map(of).collect())
}

fn planned_for(setting: &Setting) -> &'static Planned {
    &planned().iter().find(|(name, _)| *name == setting.host).unwrap().1
}

fn nothing() -> Candidate {
    Candidate {
        name: String::new(),
        title: String::new(),
        reason: String::new(),
        settings: Vec::new(),
    }
}

fn request(case: &Case) -> Request {
    let traffic = Traffic { flows: case.flows, ..Traffic::default() };
    Request { profile: case.profile.parse::<Profile>().unwrap(), traffic }
}

/// What the model says of each setting.
fn predictions(case: &Case) -> Vec<Option<cost::Prediction>> {
    let request = request(case);
    let of = |setting: &Setting| {
        let snapshot = look(setting);
        cost::Model::new(&snapshot, &request.traffic, request.profile).predict(&nothing()).unwrap()
    };
    case.setting.iter().map(of).collect()
}

/// What a case's line allows: figures near it are lower bounds.
fn at_line(case: &Case, figure: f64) -> bool {
    case.line.is_some_and(|line| figure > 0.93 * line)
}

/// A pair of settings, the worse first.
struct Pair {
    case: Case,
    worse: Setting,
    better: Setting,
    measured: f64,
    /// Ratio by the model, capped by the line.
    predicted: f64,
    range: cost::Range,
    right: bool,
    inside: bool,
    /// The ratio over the worlds as it is; `None` where the range does not matter.
    raw: Option<cost::Range>,
}

impl Pair {
    /// True if the measured ratio lies in the range that is made so much wider at each end.
    fn is_within(&self, factor: f64) -> bool {
        self.raw.is_none_or(|raw| {
            let range = plan::widened(raw, factor);
            let bounded = at_line(&self.case, self.better.figure);
            (range.low..=range.high).contains(&self.measured)
                || (bounded && range.high >= self.measured)
        })
    }
}

/// Calibrated on all cases but one, how many ratios of that one lie in their ranges; summed over the
/// cases, with the least and the largest factor.
fn left_out(pairs: &[Pair]) -> (usize, f64, f64) {
    let mut cases: Vec<&str> = pairs.iter().map(|p| p.case.id.as_str()).collect();
    cases.dedup();
    let (mut inside, mut least, mut most) = (0, f64::INFINITY, 0.0_f64);
    for case in cases {
        let (own, others): (Vec<_>, Vec<_>) = pairs.iter().partition(|p| p.case.id == case);
        let enough = |factor: &f64| {
            others.iter().filter(|p| p.is_within(*factor)).count() * 10 >= others.len() * 8
        };
        let factor = (0..100).map(|n| 1.0 + f64::from(n) * 0.02).find(enough).unwrap();
        (least, most) = (least.min(factor), most.max(factor));
        inside += own.iter().filter(|p| p.is_within(factor)).count();
    }
    (inside, least, most)
}

fn pairs() -> Vec<Pair> {
    let mut all = Vec::new();
    for case in cases() {
        let told = predictions(&case);
        for i in 0..told.len() {
            for j in i + 1..told.len() {
                let (a, b) =
                    if case.setting[i].figure <= case.setting[j].figure { (i, j) } else { (j, i) };
                let (worse, better) = (case.setting[a].clone(), case.setting[b].clone());
                // Of two figures at the end of the line nobody knows which is the larger.
                if at_line(&case, worse.figure) {
                    continue;
                }
                let (Some(x), Some(y)) = (&told[a], &told[b]) else {
                    panic!("{}: nothing is predicted", case.id);
                };
                let directions = [case.direction, Direction::Both, Direction::Down];
                let ratio = directions.into_iter().find_map(|d| y.ratio(x, d)).unwrap();
                let measured = better.figure / worse.figure;
                let bounded = at_line(&case, better.figure);
                let line = case.line.map_or(f64::INFINITY, |line| line / worse.figure);
                let predicted = match bounded {
                    true if ratio.mid > measured => measured,
                    _ => ratio.mid.min(line),
                };
                let none = measured <= 1.05;
                let carried = x.carried;
                let one = cost::Range { low: 1.0, mid: 1.0, high: 1.0 };
                let range = plan::calibrated(if carried { one } else { ratio });
                let right = if none { carried || ratio.mid < 1.1 } else { ratio.mid > 1.03 };
                let predicted = if none && carried { 1.0 } else { predicted };
                let raw = (!(none && carried)).then_some(if carried { one } else { ratio });
                let inside = (range.low..=range.high).contains(&measured)
                    || (bounded && range.high >= measured)
                    || (none && carried);
                let case = case.clone();
                let pair =
                    Pair { case, worse, better, measured, predicted, range, right, inside, raw };
                all.push(pair);
            }
        }
    }
    all
}

const MODEL: &str = include_str!("planning.md");

/// `docs/planning.md`: the model in words, and how it did. `LINERATE_DOCS=write` writes it
/// (`LINERATE_DOCS=write cargo test --test pure outcomes:: -- --include-ignored`).
#[test]
#[ignore = "slow: make test runs it"]
fn published_outcomes_are_in_the_right_order_and_the_document_says_so() {
    let pairs = pairs();
    let mut text = MODEL.to_owned();
    text += "| case | from | to | measured | predicted | range | order | plan for the first |\n";
    text += "|---|---|---|---|---|---|---|---|\n";
    let (mut errors, mut free) = (Vec::new(), Vec::new());
    for pair in &pairs {
        let at = |bounded: bool| if bounded { "at least " } else { "" };
        text += &format!(
            "| [{}]({}) | {} | {} | {}{:.2} | {:.2} | {:.2} to {:.2} | {} | {} |\n",
            pair.case.id,
            if pair.case.source.starts_with("http") {
                pair.case.source.as_str()
            } else {
                "../fixtures/outcomes/outcomes.toml"
            },
            pair.worse.name,
            pair.better.name,
            at(at_line(&pair.case, pair.better.figure)),
            pair.measured,
            pair.predicted,
            pair.range.low,
            pair.range.high,
            if pair.right { "right" } else { "**wrong**" },
            planned_for(&pair.worse).headline().trim_start_matches("expected gain: ")
        );
        let error = (pair.predicted / pair.measured).ln().abs().exp();
        errors.push(error);
        if !at_line(&pair.case, pair.better.figure) {
            free.push((error, pair.inside));
        }
    }
    errors.sort_by(f64::total_cmp);
    free.sort_by(|a, b| a.0.total_cmp(&b.0));
    let right = pairs.iter().filter(|p| p.right).count();
    let inside = pairs.iter().filter(|p| p.inside).count();
    let median = errors[errors.len() / 2];
    text += &format!(
        "\n{right} of {} pairs are in the right order; the median error of a ratio is {median:.2}; \
         {inside} of the measured ratios lie in their range.\n",
        pairs.len()
    );
    text += &format!(
        "\nWhere the better figure is the end of the line, the prediction ends there too and its error \
         says little: of the {} other pairs the median error is {:.2}, and {} lie in their range.\n",
        free.len(),
        free[free.len() / 2].0,
        free.iter().filter(|(_, inside)| *inside).count()
    );
    let (unseen, least, most) = left_out(&pairs);
    text += &format!(
        "\nThe ranges were widened on these very figures. Widened on all cases but one, so that eight \
         of ten of those lie inside, {unseen} of {} ratios of the case that was left out do (the \
         factor at the ends is {least:.2} to {most:.2} then; the program's is {:.2}).\n",
        pairs.len(),
        plan::LEAST
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/planning.md");
    if std::env::var_os("LINERATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let wrong: Vec<String> = pairs
        .iter()
        .filter(|p| !p.right)
        .map(|p| format!("{}: {} -> {} {:.2}", p.case.id, p.worse.name, p.better.name, p.predicted))
        .collect();
    assert!(right * 100 >= pairs.len() * 95, "{wrong:?}");
    assert!(median <= 1.25, "{median}");
    assert!(inside * 10 >= pairs.len() * 8, "{inside} of {}", pairs.len());
    assert!(unseen * 10 >= pairs.len() * 7, "{unseen} of {}", pairs.len());
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == text,
        "docs/planning.md is not what the model says today: LINERATE_DOCS=write"
    );
}

/// Settings in which two machines differ: a change from the first to the second. `None` where they
/// differ in what no plan sets.
fn differences(one: &Snapshot, other: &Snapshot) -> Option<Vec<(Knob, Value)>> {
    let mut all = Vec::new();
    let names = |s: &Snapshot| -> Vec<(String, usize)> {
        s.netdevs.iter().map(|d| (d.name.clone(), d.rx_queues.len())).collect()
    };
    if names(one) != names(other) {
        return None;
    }
    for line in &one.irqs {
        let then = other.irqs.iter().find(|i| i.id == line.id);
        if let Some(then) = then.filter(|then| then.lands_on() != line.lands_on()) {
            if line.movable != Movable::Presumed {
                return None;
            }
            let knob = Knob::IrqAffinity { irq: line.id.clone() };
            all.push((knob, Value::Cpus(then.lands_on().unwrap().clone())));
        }
    }
    for (device, then) in one.netdevs.iter().filter_map(|d| Some((d, other.netdev(&d.name)?))) {
        for (rx, then) in device.rx_queues.iter().zip(&then.rx_queues) {
            if rx.rps != then.rps {
                let knob = Knob::RpsCpus { device: device.name.clone(), queue: rx.index };
                all.push((knob, Value::Cpus(then.rps.clone().unwrap())));
            }
        }
        for (tx, then) in device.tx_queues.iter().zip(&then.tx_queues) {
            if tx.xps != then.xps {
                let knob = Knob::XpsCpus { device: device.name.clone(), queue: tx.index };
                all.push((knob, Value::Cpus(then.xps.clone().unwrap())));
            }
        }
    }
    let pollers =
        |s: &Snapshot| -> Vec<_> { s.evidence.iter().flat_map(|e| e.pollers.clone()).collect() };
    for (poller, then) in pollers(one).into_iter().zip(pollers(other)) {
        if let Some(knob) = poller.knob().filter(|_| poller.cpus != then.cpus) {
            all.push((knob, Value::Cpus(then.cpus.unwrap())));
        }
    }
    let offload = |s: &Snapshot| {
        let tables = s.path.nftables.iter().flat_map(|n| &n.flowtables);
        let modes: Vec<bool> = tables.map(|t| t.hardware).collect();
        match modes.first() {
            None => "off",
            Some(false) => "software",
            Some(true) => "hardware",
        }
    };
    if offload(one) != offload(other) {
        all.push((Knob::FlowOffload, Value::Word(offload(other).into())));
    }
    Some(all)
}

#[test]
#[ignore = "slow: make test runs it"]
fn no_plan_keeps_or_recommends_a_setting_that_was_published_as_the_worse_one() {
    let mut wrong = Vec::new();
    for pair in pairs() {
        let (worse, better) = (planned_for(&pair.worse), planned_for(&pair.better));
        let Some(back) = differences(&better.snapshot, &worse.snapshot) else { continue };
        if pair.measured < 1.05 || back.is_empty() {
            continue;
        }
        let request = request(&pair.case);
        let rate = |snapshot: &Snapshot| {
            let model = cost::Model::new(snapshot, &request.traffic, request.profile);
            model.predict(&nothing()).unwrap().unwrap().largest
        };
        for from in [worse, better] {
            let line = from.headline();
            let then = plan::in_force(&from.snapshot, from.chosen());
            let left = differences(&then, &worse.snapshot).unwrap();
            let kept = back.iter().all(|(knob, _)| left.iter().all(|(other, _)| other != knob));
            // What the better setting does may be done in another place.
            let otherwise = rate(&then) < rate(&better.snapshot) * 1.05;
            if kept && !otherwise && !line.contains("larger step") {
                wrong.push(format!("{}: {} kept: {line}", pair.case.id, pair.worse.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

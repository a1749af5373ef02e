//! What people get to read: goldens of the text forms, structure of the page, odd runs.

use crate::field;
use crate::program;
use crate::simulated::{Shape, Truth, refuse, simulate};
use linerate::decide::experiment::{Analysis, analyse};
use linerate::machine::store::measured::{Measured, from_json};
use linerate::model::ethernet::PacketRate;
use linerate::model::goal::{Combination, Design, Factor, Predicted, Varied};
use linerate::model::measurement::{Direction, Ended, Experiment, Piece, RefusalCode};
use linerate::model::sweep::{GoalOutcome, KneeVerdict, Sweep, SweepKind, SweepPoint};
use linerate::model::units::CpuId;
use linerate::report::render::{Form, Render};
use linerate::report::{sweep, tune};

/// The report in one form.
pub(crate) fn form(form: Form, experiment: &Experiment, analysis: &Analysis) -> String {
    form.render(&tune::document(experiment, analysis))
}

fn text(experiment: &Experiment, analysis: &Analysis) -> String {
    form(Form::Text, experiment, analysis)
}

fn markdown(experiment: &Experiment, analysis: &Analysis) -> String {
    form(Form::Markdown, experiment, analysis)
}

fn html(experiment: &Experiment, analysis: &Analysis) -> String {
    form(Form::Html, experiment, analysis)
}

/// The usual end of a run: four candidates, two refused cells.
fn usual() -> Experiment {
    let mut experiment = simulate(&Truth::default());
    refuse(&mut experiment.cells[5], RefusalCode::Throttled, "CPU0 at 600 of 1500 MHz");
    refuse(&mut experiment.cells[40], RefusalCode::CountersDisagree, "lan0 counted 3.1 % more");
    experiment
}

fn as_text(experiment: &Experiment) -> String {
    text(experiment, &analyse(experiment))
}

pub(crate) fn as_html(experiment: &Experiment) -> String {
    html(experiment, &analyse(experiment))
}

#[test]
fn text_of_a_usual_run() {
    insta::assert_snapshot!(as_text(&usual()));
}

#[test]
fn markdown_of_a_usual_run() {
    let experiment = usual();
    insta::assert_snapshot!(markdown(&experiment, &analyse(&experiment)));
}

#[test]
fn text_of_odd_runs() {
    let two = vec![("as-found", 1.0), ("again", 1.0)];
    let steady = Truth { candidates: two.clone(), cv: 0.003, ..Truth::default() };
    insta::assert_snapshot!("equal_and_steady", as_text(&simulate(&steady)));

    let noisy = Truth { candidates: two, cv: 0.05, ..Truth::default() };
    insta::assert_snapshot!("equal_and_noisy", as_text(&simulate(&noisy)));

    let mut quick = simulate(&Truth { blocks: 5, ..Truth::default() });
    quick.quick = true;
    let gain = vec![("one-cpu", 1.0), ("rps-other", 1.7), ("rps-all", 1.9)];
    let gain = Truth { candidates: gain, ..Truth::default() };
    insta::assert_snapshot!("gain", as_text(&simulate(&gain)));
    insta::assert_snapshot!("quick", as_text(&quick));

    let mut interrupted = usual();
    interrupted.cells.truncate(50);
    interrupted.ended = Ended::Interrupted;
    insta::assert_snapshot!("interrupted", as_text(&interrupted));

    let one_block = simulate(&Truth { blocks: 1, ..Truth::default() });
    insta::assert_snapshot!("one_block", as_text(&one_block));

    let single = Truth { candidates: vec![("as-found", 1.0)], ..Truth::default() };
    insta::assert_snapshot!("single_candidate", as_text(&simulate(&single)));

    let mut none_valid = usual();
    for cell in &mut none_valid.cells {
        refuse(cell, RefusalCode::NoAcknowledgement, "the receiver closed without a report");
    }
    insta::assert_snapshot!("no_valid_cells", as_text(&none_valid));

    let mut not_restored = usual();
    not_restored.settings[1].after = "3".into();
    insta::assert_snapshot!("not_restored", as_text(&not_restored));
}

/// Who reads one sentence must not be misled by it.
#[test]
fn the_first_line_compares_with_what_was_found_and_says_what_would_settle_it() {
    let line = |candidates: &[(&'static str, f64)], cv: f64, blocks: u32| {
        let candidates = candidates.to_vec();
        let experiment = simulate(&Truth { candidates, cv, blocks, ..Truth::default() });
        tune::headline(&experiment, &analyse(&experiment))
    };
    // A candidate that nobody has is no yardstick.
    let faster = line(&[("as-found", 1.0), ("one-cpu", 0.5), ("rps-all", 1.5)], 0.02, 10);
    assert!(faster.starts_with("rps-all: down ") && faster.contains(" instead of "), "{faster}");
    assert!(faster.contains(" Mbit/s (1.") && faster.contains(" times as-found"), "{faster}");
    // Also where another one is the baseline.
    let other = line(&[("one-cpu", 1.0), ("as-found", 2.0), ("rps-all", 3.0)], 0.02, 10);
    assert!(other.contains(" times as-found") && !other.contains("one-cpu"), "{other}");
    let not = line(&[("one-cpu", 1.0), ("as-found", 2.0), ("rps-all", 1.9)], 0.02, 10);
    assert!(!not.starts_with("rps-all"), "slower than what is there: {not}");
    let same = line(&[("as-found", 1.0), ("again", 1.0)], 0.003, 10);
    assert!(same.starts_with("no practical difference between as-found and again"), "{same}");
    let noisy = line(&[("as-found", 1.0), ("again", 1.0)], 0.2, 10);
    assert!(noisy.starts_with("nothing was shown to be faster than as-found"), "{noisy}");
    assert!(noisy.contains("would settle it"), "{noisy}");
    for sentence in [faster, other, not, same, noisy] {
        assert!(!sentence.contains("tied") && !sentence.contains("best"), "{sentence}");
    }
}

/// One figure for one thing: in the table, the first line, the drawing and the JSON.
#[test]
fn all_forms_tell_the_same_rate() {
    for shape in [Shape::Normal, Shape::Dips] {
        let candidates = vec![("as-found", 1.0), ("rps-all", 1.5)];
        let experiment = simulate(&Truth { candidates, shape, ..Truth::default() });
        let analysis = analyse(&experiment);
        let told = serde_json::to_value(&analysis).unwrap();
        let json = told["candidates"][1]["rates"][0]["mean"].as_f64().unwrap();
        let shown = format!("{:.0}", json / 1e6);
        let (text, page) = (as_text(&experiment), as_html(&experiment));
        let line = tune::headline(&experiment, &analysis);
        assert!(line.contains(&format!("down {shown} instead of")), "{shown}: {line}");
        assert!(text.lines().any(|l| l.starts_with("* rps-all") && l.contains(&shown)), "{text}");
        assert!(page.contains(&format!("{shown} (")), "{shown} in the drawing");
    }
}

/// Two factors with two levels each, and what the model said of three of the four.
fn predicted() -> Experiment {
    let mut experiment = simulate(&Truth::default());
    let factor = |name: &str, levels: [&str; 2]| Factor {
        name: name.into(),
        levels: levels.map(str::to_owned).to_vec(),
    };
    let combination = |(name, levels): (&str, [&str; 2])| Combination {
        candidate: name.into(),
        levels: levels.map(str::to_owned).to_vec(),
    };
    experiment.design = Design::Factorial(Varied {
        factors: vec![factor("rps", ["off", "all"]), factor("cpus", ["both", "one"])],
        combinations: [
            ("as-found", ["off", "both"]),
            ("one-cpu", ["off", "one"]),
            ("rps-other", ["all", "one"]),
            ("rps-all", ["all", "both"]),
        ]
        .map(combination)
        .to_vec(),
    });
    type Said = (&'static str, f64, u32, &'static [(Direction, f64)]);
    let said = |(name, largest, cpu, rates): Said| Predicted {
        candidate: name.into(),
        largest,
        bottleneck: CpuId(cpu),
        rates: rates.iter().copied().collect(),
    };
    let predictions: [Said; 3] = [
        ("as-found", 1.6, 0, &[(Direction::Down, 2.2e9), (Direction::Up, 2.2e9)]),
        ("one-cpu", 3.0, 0, &[(Direction::Down, 1.2e9)]),
        ("rps-other", 1.7, 1, &[]),
    ];
    experiment.predictions = predictions.map(said).to_vec();
    experiment
}

#[test]
fn what_was_predicted_stands_beside_what_came_out() {
    insta::assert_snapshot!("predicted", as_text(&predicted()));
    let page = as_html(&predicted());
    for part in ["Predicted and measured", "What each factor does", "off by"] {
        assert!(page.contains(part), "the page lacks: {part}");
    }
    let analysis = analyse(&predicted());
    assert!(markdown(&predicted(), &analysis).contains("## Predicted and measured"));
}

pub(crate) fn odd_runs() -> Vec<(&'static str, Experiment)> {
    let mut runs = vec![("usual", usual())];
    let gain = Truth {
        candidates: vec![("one-cpu", 1.0), ("rps-other", 1.7), ("rps-all", 1.9), ("again", 1.0)],
        ..Truth::default()
    };
    runs.push(("gain", simulate(&gain)));
    runs.push(("predicted", predicted()));
    for name in ["fg50e-2x2x2", "r4s-placement", "cm4-placement", "r76s-steps"] {
        runs.push((name, field::field(name)));
    }
    let mut empty = usual();
    empty.cells.clear();
    runs.push(("no cells", empty));
    let mut bare = usual();
    bare.cells.clear();
    bare.candidates.clear();
    bare.directions.clear();
    bare.settings.clear();
    bare.cpus.clear();
    bare.command.clear();
    runs.push(("nothing at all", bare));
    let mut refused = usual();
    for cell in &mut refused.cells {
        refuse(cell, RefusalCode::Throttled, "hot");
    }
    runs.push(("all refused", refused));
    for blocks in 1..4 {
        runs.push(("few blocks", simulate(&Truth { blocks, ..Truth::default() })));
    }
    let mut interrupted = usual();
    interrupted.cells.truncate(37);
    interrupted.ended = Ended::Interrupted;
    runs.push(("interrupted", interrupted));
    let mut broken = usual();
    for (n, cell) in broken.cells.iter_mut().enumerate() {
        let m = &mut cell.measurement;
        match n % 7 {
            0 => m.flows[0].goodput.0 = f64::NAN,
            1 => m.flows[0].goodput.0 = f64::INFINITY,
            2 => m.flows.clear(),
            3 => m.seconds = 0.0,
            4 => m.cpus[0].softirq = f64::NAN,
            5 => m.cpus.clear(),
            _ => {}
        }
    }
    runs.push(("broken figures", broken));
    let mut no_baseline = usual();
    no_baseline.baseline = "gone".into();
    runs.push(("baseline not among the candidates", no_baseline));
    let same = Truth { cv: 0.0, block_cv: 0.0, ..Truth::default() };
    runs.push(("no noise at all", simulate(&same)));
    runs
}

/// A run whose windows were recorded in pieces; under rps-all the rate falls.
pub(crate) fn over_time() -> Experiment {
    let mut experiment = simulate(&Truth::default());
    for cell in &mut experiment.cells {
        let whole = cell.measurement.flows[0].goodput.0 / 8.0;
        let falls = if cell.candidate == "rps-all" { 0.04 } else { 0.0 };
        let piece = |n: u32| Piece {
            at: f64::from(n + 1) * 0.2,
            seconds: 0.2,
            bytes: vec![(whole * 0.2 * (1.2 - falls * f64::from(n))) as u64],
            busy: Vec::new(),
            softirq: Vec::new(),
            packets: Vec::new(),
            rx_packets: Vec::new(),
            tx_packets: Vec::new(),
            dropped: Vec::new(),
        };
        cell.measurement.series = (0..10).map(piece).collect();
    }
    experiment
}

#[test]
fn a_page_draws_the_rate_over_time_where_it_was_recorded() {
    let page = as_html(&over_time());
    let drawings = page.matches("over seconds").count();
    assert_eq!(drawings, 8, "each of four candidates down and up");
    assert!(page.contains("Rate down under rps-all over time"));
    let without = as_html(&usual());
    assert!(!without.contains("Rate over time"), "nothing was recorded");
}

#[test]
fn the_page_begins_with_a_plain_bar_for_each_candidate_and_folds_what_is_behind_it() {
    let page = as_html(&usual());
    let (top, folded) = page.split_once("<details").unwrap();
    for candidate in ["as-found", "one-cpu", "rps-other", "rps-all"] {
        assert!(top.contains(&format!(">{candidate} down</text>")), "{candidate}: {top}");
    }
    assert_eq!(top.matches("<line class=\"bar").count(), 8, "down and up");
    assert_eq!(top.matches("<line class=\"bar best").count(), 2, "as-found stays");
    for part in ["Ratio to as-found", "What each CPU did", "settings before and after", "Machine"] {
        assert!(!top.contains(part) && folded.contains(part), "{part}");
    }
}

#[test]
fn no_form_shows_a_figure_that_is_no_number() {
    for (name, experiment) in odd_runs() {
        let analysis = analyse(&experiment);
        for form in
            [text(&experiment, &analysis), markdown(&experiment, &analysis), as_html(&experiment)]
        {
            for bad in ["NaN", "inf ", "inf)", "inf%", "-0.0 "] {
                assert!(!form.contains(bad), "{name}: {bad} in\n{form}");
            }
        }
        let json = serde_json::to_string(&analysis).unwrap();
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }
}

#[test]
fn names_cannot_steer_a_terminal() {
    let mut experiment = usual();
    experiment.notes.push("lan0\x1b[2J\x07\r".into());
    let text = as_text(&experiment);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn the_page_is_whole_and_needs_no_network() {
    let experiment = usual();
    let page = as_html(&experiment);
    assert!(page.starts_with("<!DOCTYPE html>"));
    for part in [
        "nothing was shown to be faster than as-found: rps-all is not shown to differ",
        "Ratio to as-found",
        "What each CPU did",
        "The router&#39;s settings before and after",
        "Settings: all 2 as before the run",
        "Refused measurements",
        "CPU0 at 600 of 1500 MHz",
        "CONFIG_IRQ_TIME_ACCOUNTING is off",
        "Evidence: lab: network namespaces and veth on one machine",
        "linerate tune nat --rules 300 --seed 1",
    ] {
        let part = part.replace("&#39;", "'");
        assert!(page.contains(&part), "the page lacks: {part}");
    }
    // One drawing of bars, one of ratios, one of rates per direction, one of CPUs per candidate and one of
    // all of them, one of drift; each with its
    // text for those who do not see it.
    for (tag, expected) in [("<svg", 10), ("role=\"img\"", 10), ("<desc>", 10), ("<figure", 10)] {
        assert_eq!(page.matches(tag).count(), expected, "{tag}");
    }
    let cells = experiment.cells.iter().filter(|c| c.measurement.is_valid()).count();
    let dots = page.matches("class=\"dot\"").count() + page.matches("class=\"ends\"").count();
    assert_eq!(dots, cells, "every valid cell is a dot");
    assert_self_contained(&page);
}

fn assert_self_contained(page: &str) {
    for outside in ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link"]
    {
        assert!(!page.contains(outside), "{outside} in the page");
    }
}

#[test]
fn the_page_says_when_something_was_not_put_back() {
    let mut experiment = usual();
    experiment.settings[1].after = "3".into();
    let page = as_html(&experiment);
    assert!(page.contains("Settings NOT as before the run: RPS of wan0 rx-0 was 0 and is 3"));
    assert!(page.contains("DIFFERENT") && !page.contains("router as before"));
}

#[test]
fn names_cannot_become_markup() {
    let mut experiment = usual();
    let evil = "<script>alert('x')</script>|`**_[x](y)\"";
    experiment.machine.hostname = evil.into();
    experiment.machine.board = Some(evil.into());
    experiment.notes.push(evil.into());
    experiment.settings[0].name = evil.into();
    experiment.settings[0].path = evil.into();
    experiment.command.push(evil.into());
    refuse(&mut experiment.cells[7], RefusalCode::LinkChanged, evil);
    experiment.baseline = evil.into();
    for candidate in &mut experiment.candidates {
        if candidate.name == "as-found" {
            candidate.name = evil.into();
            candidate.title = evil.into();
            candidate.reason = evil.into();
        }
    }
    for cell in &mut experiment.cells {
        if cell.candidate == "as-found" {
            cell.candidate = evil.into();
        }
    }
    let page = as_html(&experiment);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(!page.contains("y)\"\""), "quotes stay within attributes");
    let analysis = analyse(&experiment);
    let markdown = markdown(&experiment, &analysis);
    let (prose, _code) = markdown.split_once("```").unwrap();
    assert!(!prose.contains("<script") && !prose.contains("|`**"), "{prose}");
}

#[test]
fn odd_runs_make_whole_pages() {
    for (name, experiment) in odd_runs() {
        let page = as_html(&experiment);
        assert!(page.ends_with("</html>"), "{name}");
        for tag in ["section", "table", "svg", "figure", "ul", "li", "text", "g"] {
            assert_eq!(
                page.matches(&format!("<{tag} ")).count()
                    + page.matches(&format!("<{tag}>")).count(),
                page.matches(&format!("</{tag}>")).count(),
                "{name}: <{tag}>"
            );
        }
        assert_self_contained(&page);
    }
}

/// Writes the pages for a look in a browser: `LINERATE_PAGES=dir cargo test --test pure pages`.
#[test]
fn pages_to_look_at() {
    let Some(dir) = std::env::var_os("LINERATE_PAGES") else { return };
    let dir = std::path::PathBuf::from(dir);
    for (name, experiment) in odd_runs() {
        std::fs::write(dir.join(format!("{name}.html")), as_html(&experiment)).unwrap();
    }
}

#[test]
fn a_combination_is_found_again_by_the_name_that_the_report_gives_it() {
    use linerate::decide::plan::factor::combination;
    let (factors, levels) =
        combination("rps=all sysctl.net.ipv4.tcp_rmem=4096 87380 irq=0+2").unwrap();
    let names: Vec<&str> = factors.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["rps", "sysctl.net.ipv4.tcp_rmem", "irq"]);
    assert_eq!(levels, ["all", "4096 87380", "0+2"]);
    for none in ["", "rps-all", "planned again"] {
        assert_eq!(combination(none), None, "{none}");
    }
    // What the page tells to type names the winner; a placement of the lab's devices it does not.
    let with = |name: &'static str| {
        let candidates = vec![("rps=off", 1.0), (name, 1.9)];
        as_html(&simulate(&Truth { candidates, ..Truth::default() }))
    };
    let page = with("rps=all irq=0");
    assert!(page.contains("linerate plan --candidate 'rps=all irq=0' -o plan.toml"), "{page}");
    let page = with("rps:wan0/0=all");
    assert!(page.contains("linerate plan -o plan.toml") && !page.contains("plan --candidate"));
}

#[test]
fn compares_page_and_drawing_hold_the_figures_that_it_prints() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("compare-drawn");
    std::fs::create_dir_all(&directory).unwrap();
    let at = |name: &str| directory.join(name);
    for (name, level, seed) in [("a.json", 1.9, 1), ("b.json", 1.4, 2)] {
        let candidates = vec![("one-cpu", 1.0), ("rps-all", level)];
        let experiment = simulate(&Truth { candidates, seed, ..Truth::default() });
        std::fs::write(at(name), linerate::machine::store::result::to_json(&experiment).unwrap())
            .unwrap();
    }
    let compare = |more: &[&str]| {
        let mut command = std::process::Command::new(program::path());
        let out = command.current_dir(&directory).args(["compare", "a.json", "b.json"]).args(more);
        let out = out.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let told: serde_json::Value = serde_json::from_str(&compare(&["--json"])).unwrap();
    compare(&["--force", "-o", "c.html"]);
    compare(&["--force", "-o", "c.svg"]);
    let [page, drawing] = ["c.html", "c.svg"].map(|f| std::fs::read_to_string(at(f)).unwrap());
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{told}");
    for row in rows {
        let name = row["name"].as_str().unwrap();
        let ratio = format!("{:.3}", row["ratio"].as_f64().unwrap());
        let low = format!("{:.3} to ", row["interval"][0].as_f64().unwrap());
        for text in [&page, &drawing] {
            for part in [name, ratio.as_str(), low.as_str(), "a.json", "b.json"] {
                assert!(text.contains(part), "{name} lacks {part}: {text}");
            }
        }
        for value in ["a", "b"] {
            let value = format!("{:.0} (mean of", row[value].as_f64().unwrap());
            assert!(page.contains(&value), "{name} lacks {value}: {page}");
        }
    }
}

#[test]
fn a_fleet_is_told_by_its_machines_and_what_cant_be_read_is_left_out() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet");
    std::fs::create_dir_all(directory.join("site")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    // Four machines before and after an upgrade, which takes a tenth of all of them.
    for (n, name) in ["a", "b", "c", "site/d"].iter().enumerate() {
        for (kernel, share) in [("6.6.52", 1.0), ("6.12.8", 0.9)] {
            let own = 1.0 + 0.01 * n as f64;
            let level = 1.4 + 0.02 * n as f64;
            let candidates = vec![("as-found", own * share), ("rps-all", own * share * level)];
            let truth = Truth { candidates, seed: n as u64, ..Truth::default() };
            let mut experiment = simulate(&truth);
            experiment.machine.id = Some(format!("machine-{n}"));
            experiment.machine.compatible = vec!["a,board".into(), "mediatek,mt7621-soc".into()];
            experiment.machine.kernel = kernel.into();
            let text = linerate::machine::store::result::to_json(&experiment).unwrap();
            write(&format!("{name}-{kernel}.json"), &text);
        }
    }
    write("cut.json", "{\"format\": \"linerate-result\", ");
    write("other.tar.gz", "no archive");
    write("notes.txt", "not ours");
    let fleet = |more: &[&str]| {
        let mut command = std::process::Command::new(program::path());
        command.env("COLUMNS", "200").args(["compare", "--fleet"]).arg(&directory).args(more);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let text = fleet(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("linerate: 4 machines with 1 processor"), "{text}");
    assert!(text.contains("mediatek,mt7621-soc (4 machines)"), "{text}");
    assert!(text.contains("rps-all gives 1.4"), "{text}");
    assert!(text.contains("Kernel 6.12 is "), "{text}");
    assert!(text.contains(" slower than the one before ("), "{text}");
    assert!(text.contains("on 4 of 4 machines"), "{text}");
    for left_out in ["cut.json", "other.tar.gz"] {
        assert!(text.contains(left_out), "{text}");
    }
    assert!(!text.contains("notes.txt"));
    let told: serde_json::Value = serde_json::from_str(&fleet(&["--json"])).unwrap();
    crate::schema::assert_fits("fleet", &told);
    for kernel in told["kinds"][0]["kernels"].as_array().unwrap() {
        assert!((kernel["ratio"].as_f64().unwrap() - 0.9).abs() < 0.03, "{kernel}");
        assert_eq!((&kernel["machines"], &kernel["slower"]), (&4.into(), &4.into()), "{kernel}");
    }
    let page = directory.with_extension("html");
    fleet(&["--force", "-o", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(page).unwrap().contains("rps-all gives 1.4"));
}

/// A recorded sweep, with a router that forwards 31000 packets a second and no more.
pub(crate) fn swept() -> Sweep {
    let recorded = include_bytes!("../../fixtures/formats/sweep-v1.json");
    let Measured::Sweep(mut sweep) = from_json(recorded, "sweep").unwrap() else {
        panic!("a sweep")
    };
    let point = sweep.points[0].clone();
    let of = |rate: f64| {
        let forwarded = rate.min(31_000.0);
        let (sent, lost) = (rate as u64, (rate - forwarded) as u64);
        SweepPoint {
            asked: Some(PacketRate(rate)),
            offered: Some(PacketRate(rate)),
            achieved: PacketRate(forwarded),
            sent: Some(sent),
            lost: Some(lost),
            ..point.clone()
        }
    };
    sweep.points = (1..=10).map(|n| of(f64::from(n) * 5000.0)).collect();
    let search = &mut sweep.searches[0];
    search.trials = [50_000.0, 31_500.0, 30_000.0].map(of).to_vec();
    for (result, lower) in search.results.iter_mut().zip([30_000.0, 31_100.0]) {
        (result.outcome, result.lower) = (GoalOutcome::Found, Some(lower));
    }
    let knee = sweep.knee.as_mut().unwrap();
    knee.verdict = KneeVerdict::Found;
    (knee.holds_up_to, knee.fails_at, knee.estimate) =
        (Some(30_000.0), Some(35_000.0), Some(31_000.0));
    sweep.notes.push("a note with <b>tags</b> and \u{1b}[31mred".into());
    *sweep
}

#[test]
fn a_sweep_is_a_page_with_its_curves_and_what_was_found_marked() {
    let page = Form::Html.render(&sweep::document(&swept()));
    // 30000 and 31100 packets of 1472 bytes.
    for mark in ["NDR 353 Mbit/s", "PDR 366 Mbit/s", "knee: between 353.3 Mbit/s"] {
        assert!(page.contains(mark), "{mark}");
    }
    let count = |what: &str| page.matches(what).count();
    // Each run is in both drawings, a trial of the search in that of the loss.
    assert_eq!((count("class=\"dot\""), count("class=\"ends\"")), (20, 3));
    assert_eq!(count("class=\"band\""), 2, "the knee");
    assert!(page.contains("38 %") || page.contains("38.00 %"), "half of what is offered is lost");
    assert!(!page.contains("<b>tags") && page.contains("&lt;b&gt;tags"));
    assert!(!page.contains("<script") && !page.contains("://"), "nothing from the network");
    assert!(!page.contains('\u{1b}') && !page.contains("NaN"), "{page}");
}

#[test]
fn a_sweep_of_nothing_but_refused_runs_is_a_page_too() {
    let mut sweep = swept();
    for point in &mut sweep.points {
        (point.sent, point.lost, point.offered) = (None, None, None);
    }
    (sweep.searches, sweep.knee) = (Vec::new(), None);
    for kind in [SweepKind::Rate, SweepKind::Frame, SweepKind::Mss, SweepKind::Mtu] {
        sweep.kind = kind;
        let page = Form::Html.render(&sweep::document(&sweep));
        assert!(page.ends_with("</html>") && !page.contains("NaN"), "{page}");
    }
    sweep.points.clear();
    assert!(Form::Html.render(&sweep::document(&sweep)).contains("Nothing was searched for"));
}

#[test]
fn a_sweep_in_markdown() {
    insta::assert_snapshot!(Form::Markdown.render(&sweep::document(&swept())));
}

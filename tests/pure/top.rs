//! The live view: its screens on made samples, keys, names that would steer the terminal, and its JSON.
//! A screen is a grid of characters; the snapshots are what a person sees.

use linerate::decide::diagnose::live;
use linerate::machine::discover;
use linerate::machine::host::Tree;
use linerate::model::telemetry::{
    CpuRates, DeviceRates, Drift, Interval, IrqRates, Link, Loss, QueueRates, Sensor, Serves,
    Standing, Way,
};
use linerate::model::units::CpuId;
use linerate::report::top::{Ask, Key, Look, Playing, Shown, View, draw, once, text};
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;

use crate::schema::Schema;

fn cpu(n: u32, busy: [f64; 4], packets: f64, rps: f64) -> CpuRates {
    let [softirq, irq, system, user] = busy.map(Some);
    CpuRates {
        cpu: CpuId(n),
        user,
        system,
        irq,
        softirq,
        idle: Some(1.0 - busy.iter().sum::<f64>()),
        net_rx: Some(packets / 60.0),
        net_tx: Some(120.0),
        packets: Some(packets),
        dropped: Some(0.0),
        squeezed: Some(12.0),
        received_rps: Some(rps),
    }
}

fn device(name: &str, rx: f64, tx: f64, drops: f64) -> DeviceRates {
    DeviceRates {
        device: name.into(),
        rx_bits: Some(rx),
        rx_packets: Some(rx / 12_000.0),
        tx_bits: Some(tx),
        tx_packets: Some(tx / 12_000.0),
        dropped: Some(drops),
    }
}

/// A router with four CPUs and two ports, downloading: CPU0 takes the packets, CPU2 and CPU3 get them by
/// RPS.
fn router(second: u32) -> Interval {
    let swing = f64::from(second % 7) / 100.0;
    let serves = |cpu, device: &str, by, irq: Option<&str>| Serves {
        cpu: CpuId(cpu),
        device: device.into(),
        queue: 0,
        by,
        irq: irq.map(str::to_owned),
    };
    let link = |device: &str, speed| Link { device: device.into(), speed, state: "up".into() };
    let irq = |name: &str, total, on| IrqRates {
        irq: name.into(),
        total: Some(total),
        by_cpu: vec![(CpuId(on), total)],
    };
    let sensor = |name: &str, value| Sensor { name: name.into(), value: Some(value) };
    Interval {
        utc: format!("2026-11-22T12:00:{:02}Z", second % 60),
        at: f64::from(second),
        seconds: 1.0,
        cpus: vec![
            cpu(0, [0.91 - swing, 0.04, 0.03, 0.01], 81_300.0, 0.0),
            cpu(1, [0.02, 0.0, 0.1, 0.2 + swing], 120.0, 0.0),
            cpu(2, [0.45 + swing, 0.0, 0.01, 0.0], 40_650.0, 40_600.0),
            cpu(3, [0.44 - swing, 0.0, 0.0, 0.02], 40_650.0, 40_600.0),
        ],
        devices: vec![
            device("br-lan", 2.1e7, 6.0e8, 0.0),
            device("eth0", (7.0 + swing * 10.0) * 1e8, 2.2e7, 512.0),
            device("eth1", 2.2e7, 7.0e8, 0.0),
        ],
        irqs: vec![irq("eth0-rx-0", 12_300.0, 0), irq("eth1-0", 8_100.0, 0)],
        sensors: vec![
            sensor("policy0 MHz", 1416.0),
            sensor("policy4 MHz", 1800.0),
            sensor("thermal_zone0 cpu C", 61.6),
        ],
        standing: (second == 1).then(|| {
            Box::new(Standing {
                hostname: "r5s".into(),
                kernel: "6.6.86".into(),
                links: vec![
                    link("br-lan", None),
                    link("eth0", Some(1e9)),
                    link("eth1", Some(2.5e9)),
                ],
                serves: vec![
                    serves(0, "eth0", Way::Irq, Some("eth0-rx-0")),
                    serves(0, "eth1", Way::Irq, Some("eth1-0")),
                    serves(2, "eth0", Way::Rps, None),
                    serves(3, "eth0", Way::Rps, None),
                ],
                applied: vec!["apply rps-2".into()],
                persisted: None,
                drift: vec![Drift {
                    setting: "rps eth1 rx-0".into(),
                    wanted: "2-3".into(),
                    is: Some("off".into()),
                }],
                losses: vec![Loss {
                    stage: "receive ring".into(),
                    place: "eth0".into(),
                    counter: "rx_missed_errors".into(),
                    per_second: 512.0,
                }],
            })
        }),
        ..Interval::default()
    }
}

fn running(seconds: u32) -> View {
    let mut view = View::default();
    (1..=seconds).for_each(|second| view.take(router(second)));
    view
}

fn press(mut view: View, keys: &[Key]) -> View {
    for key in keys {
        view.key(*key);
    }
    view
}

const PLAIN: Look = Look { colour: false, ascii: false };

/// The screen as a terminal of that size gets it.
fn screen_of(view: &View, size: (u16, u16), look: Look) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| draw(view, frame.buffer_mut(), look)).unwrap();
    terminal.backend().buffer().clone()
}

fn screen(view: &View, size: (u16, u16)) -> String {
    text(&screen_of(view, size, PLAIN))
}

#[test]
fn the_screen_at_each_size() {
    let view = running(150);
    for size in [(80, 24), (60, 20), (132, 43), (40, 10)] {
        insta::assert_snapshot!(format!("top {}x{}", size.0, size.1), screen(&view, size));
    }
    let ascii = text(&screen_of(&view, (80, 24), Look { colour: false, ascii: true }));
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!("top in ASCII", ascii);
    assert!(screen(&view, (39, 24)).starts_with("needs 40 columns"));
    // Every other size is drawn as well.
    for width in [1, 39, 40, 47, 59, 61, 69, 75, 79, 81, 100, 250] {
        for height in [1, 7, 8, 9, 11, 16, 25, 40] {
            screen(&view, (width, height));
            screen(&press(view.clone(), &[Key::Enter]), (width, height));
            screen(&press(view.clone(), &[Key::Char('?')]), (width, height));
        }
    }
}

#[test]
fn colours_only_repeat_what_signs_say() {
    let view = running(150);
    let coloured = screen_of(&view, (80, 24), Look { colour: true, ascii: false });
    let plain = screen_of(&view, (80, 24), PLAIN);
    assert_eq!(text(&coloured), text(&plain));
    assert!(coloured.content.iter().any(|cell| cell.fg == Color::Red), "softirq is red");
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn a_cpu_a_device_and_the_help_are_opened_by_keys() {
    let view = running(150);
    let one = press(view.clone(), &[Key::Down, Key::Down, Key::Enter]);
    insta::assert_snapshot!("top one CPU", screen(&one, (80, 24)));
    let keys = [Key::Tab, Key::Char('s'), Key::Enter];
    insta::assert_snapshot!("top one device", screen(&press(view.clone(), &keys), (80, 24)));
    insta::assert_snapshot!("top help", screen(&press(view.clone(), &[Key::Char('?')]), (80, 24)));
    // Escape leads back, one step each.
    let back = press(one, &[Key::Char('?'), Key::Back]);
    assert!(screen(&back, (80, 24)).contains("CPU2  49 % busy"), "{}", screen(&back, (80, 24)));
    let back = press(back, &[Key::Back]);
    assert!(screen(&back, (80, 24)).contains("serves"), "the panes again");
    let mut view = view;
    assert_eq!(view.key(Key::Char('q')), Ask::Quit);
    assert_eq!(view.key(Key::Char('\u{3}')), Ask::Quit);
    assert_eq!(view.key(Key::Char('\u{1a}')), Ask::Suspend);
    assert_eq!(view.key(Key::Char('x')), Ask::Draw);
}

/// First word of each row of the pane under that heading.
fn order(screen: &str, heading: &str) -> Vec<String> {
    let rows = screen.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let rows = rows.take_while(|line| !line.is_empty() && !line.starts_with("q quit"));
    rows.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn panes_are_sorted_and_the_chosen_one_stays_chosen() {
    let view = press(running(5), &[Key::Down, Key::Char('s')]);
    assert_eq!(order(&screen(&view, (80, 24)), "CPU "), ["CPU0", "CPU2", "CPU3", "CPU1"]);
    let chosen = press(view, &[Key::Enter]);
    assert!(screen(&chosen, (80, 24)).contains("CPU1  "), "CPU1 was chosen, wherever it stands");
    let view = press(running(5), &[Key::Tab, Key::Char('s')]);
    assert_eq!(order(&screen(&view, (80, 24)), "device "), ["eth0", "eth1", "br-lan"]);
}

#[test]
fn a_pause_holds_the_screen_and_the_time_after_it_is_in_the_curves() {
    let mut view = running(20);
    assert_eq!(view.key(Key::Char('p')), Ask::Pause(true));
    let held = screen(&view, (80, 24));
    view.take(router(21));
    let after = screen(&view, (80, 24));
    assert!(held.contains("paused  12:00:20") && after.contains("paused  12:00:20"), "{after}");
    view.key(Key::Char(' '));
    view.take(router(22));
    assert!(screen(&view, (80, 24)).contains(" 12:00:22"));
}

#[test]
fn a_replay_tells_its_place_and_asks_to_go_elsewhere() {
    let mut view = running(30);
    assert_eq!(view.key(Key::Right), Ask::Draw, "live there is nowhere to go");
    view.plays(Playing { at: 29.0, end: 3725.0, speed: 2.0 });
    assert!(screen(&view, (80, 24)).contains("replay 0:29 of 1:02:05, x2"));
    assert_eq!(view.key(Key::Right), Ask::Seek(10.0));
    assert_eq!(view.key(Key::Char('<')), Ask::Seek(-60.0));
    assert_eq!(view.key(Key::Home), Ask::Edge(false));
    assert_eq!(view.key(Key::Char('+')), Ask::Speed(2.0));
}

#[test]
fn queues_are_shown_under_their_devices_when_asked() {
    let mut view = press(running(3), &[Key::Tab, Key::Char('u')]);
    let mut next = router(4);
    let queue = |queue, rx| QueueRates {
        device: "eth0".into(),
        queue,
        rx_packets: Some(rx),
        tx_packets: None,
    };
    next.queues = vec![queue(0, 58_000.0), queue(1, 0.0)];
    view.take(next);
    insta::assert_snapshot!("top queues", screen(&view, (80, 24)));
}

#[test]
fn one_cpu_and_ninety_six_with_forty_devices_fit() {
    let mut view = View::default();
    let standing = Standing { hostname: "one".into(), ..Standing::default() };
    view.take(Interval {
        utc: "2026-11-22T12:00:00Z".into(),
        seconds: 1.0,
        cpus: vec![cpu(0, [0.1, 0.0, 0.1, 0.1], 10.0, 0.0)],
        devices: vec![device("eth0", 1e6, 1e6, 0.0)],
        standing: Some(Box::new(standing)),
        ..Interval::default()
    });
    insta::assert_snapshot!("top one CPU machine", screen(&view, (80, 24)));
    let mut view = View::default();
    let many: Vec<CpuRates> =
        (0..96).map(|n| cpu(n, [f64::from(n) / 100.0, 0.0, 0.0, 0.0], 1e6, 0.0)).collect();
    let devices: Vec<_> = (0..40)
        .map(|n| device(&format!("enp129s0f{n}np0"), 1e9 * f64::from(n), 1e9, 0.0))
        .collect();
    let utc = "2026-11-22T12:00:00Z".to_owned();
    view.take(Interval { utc, seconds: 1.0, cpus: many, devices, ..Interval::default() });
    let view = press(view, &[Key::Char('s'), Key::PageDown, Key::PageDown]);
    insta::assert_snapshot!("top 96 CPUs", screen(&view, (80, 24)));
    let last = press(view.clone(), &[Key::End]);
    assert!(screen(&last, (80, 24)).contains("\nCPU0 "), "{}", screen(&last, (80, 24)));
    // One look has them all.
    let all = text(&once(&view, 80, PLAIN));
    assert_eq!(all.lines().skip(2).filter(|line| line.starts_with("CPU")).count(), 97);
    assert_eq!(all.lines().filter(|line| line.starts_with("enp129s0f")).count(), 40);
}

#[test]
fn no_name_of_the_machine_steers_the_terminal() {
    let evil = "\u{1b}[2J\u{7}\r\u{9b}\u{202e}x";
    let mut interval = router(1);
    interval.utc = evil.into();
    interval.throttled = vec![format!("{evil}: hot")];
    interval.devices[0].device = evil.into();
    interval.irqs[0].irq = evil.into();
    let standing = interval.standing.as_mut().unwrap();
    standing.hostname = evil.into();
    standing.kernel = evil.into();
    standing.applied = vec![evil.into()];
    standing.links[0] = Link { device: evil.into(), speed: Some(1e6), state: evil.into() };
    standing.serves[0].device = evil.into();
    standing.serves[0].irq = Some(evil.into());
    standing.drift[0].setting = evil.into();
    standing.losses[0].place = evil.into();
    standing.losses[0].counter = evil.into();
    let mut view = View::default();
    view.take(interval);
    let harmless = |c: char| c == '\n' || !linerate::report::render::terminal::steers(c);
    for keys in [
        &[][..],
        &[Key::Enter],
        &[Key::Tab, Key::Enter],
        &[Key::Tab, Key::Home, Key::Enter],
        &[Key::Char('u')],
    ] {
        for size in [(80, 24), (200, 50)] {
            let shown = screen(&press(view.clone(), keys), size);
            assert!(shown.chars().all(harmless), "{keys:?}: {shown:?}");
            assert!(shown.contains("\\u001b"), "{keys:?}: the names are there: {shown}");
        }
    }
    // Wide characters, and names as long as the kernel allows.
    let mut view = View::default();
    let mut interval = router(1);
    interval.devices[0].device = "\u{6771}\u{4eac}\u{6771}\u{4eac}\u{6771}".into();
    interval.devices[1].device = "abcdefghijklmno".into();
    view.take(interval);
    for line in screen(&view, (60, 20)).lines() {
        let wide = line.chars().filter(|c| ('\u{4e00}'..'\u{9fff}').contains(c)).count();
        assert!(line.chars().count() + wide <= 60, "{line}");
    }
}

#[test]
fn what_is_not_known_is_not_told_as_nothing() {
    let mut view = View::default();
    let mut interval = router(1);
    interval.cpus[1] = CpuRates {
        user: None,
        system: None,
        irq: None,
        softirq: None,
        idle: None,
        packets: None,
        ..interval.cpus[1].clone()
    };
    interval.devices[0] =
        DeviceRates { rx_bits: None, dropped: None, ..interval.devices[0].clone() };
    view.take(interval);
    let shown = screen(&view, (80, 24));
    assert!(shown.lines().any(|l| l.starts_with("CPU1") && l.contains("offline")), "{shown}");
    let line = shown.lines().find(|line| line.starts_with("br-lan")).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("-"), "{line}");
}

#[test]
fn its_json_fits_the_schema_and_describes_every_field() {
    let schema = Schema::new("top");
    let mut interval = router(1);
    interval.queues = vec![QueueRates {
        device: "eth0".into(),
        queue: 0,
        rx_packets: Some(1.0),
        tx_packets: None,
    }];
    interval.throttled = vec!["cpu0: hot".into()];
    let value = serde_json::to_value(Shown::of(&interval)).unwrap();
    assert_eq!(schema.check(&value), Vec::<String>::new());
    assert_eq!(value["bottleneck"]["kind"], "cpu", "{value}");
    let bare = serde_json::to_value(Shown::of(&Interval {
        standing: Some(Box::default()),
        ..Interval::default()
    }));
    assert_eq!(schema.check(&bare.unwrap()), Vec::<String>::new());
    let mut wrong = value;
    wrong["bottleneck"]["kind"] = "tired".into();
    wrong["cpus"][0]["new"] = 1.into();
    assert_eq!(schema.check(&wrong).len(), 2);
}

#[test]
fn each_cpu_serves_what_the_settings_of_a_captured_machine_say() {
    let hosts = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts");
    let mut told = 0;
    for entry in std::fs::read_dir(hosts).unwrap() {
        let path = entry.unwrap().path();
        if path.join("capture.tar.gz").exists() {
            continue;
        }
        let snapshot = discover::snapshot(&Tree::open(&path).unwrap());
        for one in live::serves(&snapshot) {
            let device = snapshot.netdev(&one.device).unwrap();
            let queue = device.rx_queues.iter().find(|q| q.index == one.queue).unwrap();
            match one.by {
                Way::Rps => assert!(queue.rps.as_ref().unwrap().contains(one.cpu), "{one:?}"),
                Way::Irq => {
                    let name = one.irq.as_deref();
                    let line = snapshot.irqs.iter().find(|irq| Some(irq.action.as_str()) == name);
                    assert!(line.unwrap().lands_on().unwrap().contains(one.cpu), "{one:?}");
                }
                Way::Thread => assert_eq!(device.threaded, Some(true), "{one:?}"),
            }
            told += 1;
        }
    }
    assert!(told > 10, "{told}");
}

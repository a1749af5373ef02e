//! Counters from made-up machines: what a wrap, an old kernel, a lost link and a hot CPU do to a
//! figure.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::machine::host::{Captured, Tree};
use crate::model::units::IrqLine;

/// A directory that stands for a machine, removed at the end.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("linerate-sample-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("proc/net")).unwrap();
        fs::create_dir_all(dir.join("sys")).unwrap();
        Self(dir)
    }

    fn file(&self, path: &str, content: &str) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn host(&self) -> Captured {
        Tree::open(&self.0).unwrap()
    }

    fn cpus(&self, stat: &str, softnet: &str) -> CpuCounters {
        self.file("proc/stat", stat).file("proc/net/softnet_stat", softnet);
        CpuCounters::read(&self.host()).unwrap()
    }

    fn device(&self, name: &str, bytes: u64, carrier_changes: u64, ifindex: u64) {
        for file in NetCounters::FILES {
            self.file(&format!("sys/class/net/{name}/statistics/{file}"), &format!("{bytes}\n"));
        }
        self.file(
            &format!("sys/class/net/{name}/carrier_changes"),
            &format!("{carrier_changes}\n"),
        );
        self.file(&format!("sys/class/net/{name}/ifindex"), &format!("{ifindex}\n"));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn shares_are_of_the_window_and_softnet_counters_wrap() {
    let m = Machine::new("wrap");
    let before =
        m.cpus("cpu0 100 0 100 1000 0 0 100 0\n", "fffffffe 0 0 0 0 0 0 0 0 0 0 0 00000000\n");
    // Idle went back by one tick, as the kernel's does.
    let after =
        m.cpus("cpu0 110 0 120 999 0 0 170 0\n", "00000008 1 2 0 0 0 0 0 0 0 0 0 00000000\n");
    let used = after.since(&before);
    assert_eq!(used.len(), 1);
    let cpu = &used[0];
    assert_eq!((cpu.packets, cpu.dropped, cpu.squeezed), (10, 1, 2));
    assert_eq!((cpu.user, cpu.system, cpu.softirq, cpu.idle), (0.1, 0.2, 0.7, 0.0));
    assert!((after.busy_seconds_since(&before) - 1.0).abs() < 1e-9);
}

#[test]
fn before_kernel_5_10_rows_belong_to_the_online_cpus_in_order() {
    // CPU1 is offline.
    let m = Machine::new("old");
    let stat = "cpu0 1 1 1 1\ncpu2 1 1 1 1\n";
    let before = m.cpus(stat, "0 0 0 0 0 0 0 0 0 0 0\n0 0 0 0 0 0 0 0 0 0 0\n");
    let after = m.cpus(stat, "1 0 0 0 0 0 0 0 0 0 0\n5 0 0 0 0 0 0 0 0 0 0\n");
    let packets: Vec<_> = after.since(&before).iter().map(|c| (c.cpu, c.packets)).collect();
    assert_eq!(packets, [(CpuId(0), 1), (CpuId(2), 5)]);
}

#[test]
fn a_cpu_that_came_or_went_is_left_out() {
    let m = Machine::new("hotplug");
    let before = m.cpus("cpu0 1 1 1 1\ncpu1 1 1 1 1\n", "");
    let after = m.cpus("cpu0 2 1 1 1\ncpu2 1 1 1 1\n", "");
    assert_eq!(after.since(&before).iter().map(|c| c.cpu).collect::<Vec<_>>(), [CpuId(0)]);
}

#[test]
fn a_flapped_renewed_or_lost_device_is_told() {
    let m = Machine::new("links");
    for name in ["same", "flapped", "renewed", "lost"] {
        m.device(name, 1000, 2, 7);
    }
    let names = ["same", "flapped", "renewed", "lost", "never"];
    let before = DeviceCounters::read(&m.host(), &names).unwrap();
    m.device("same", 1500, 2, 7);
    m.device("flapped", 1500, 4, 7);
    m.device("renewed", 1500, 2, 9);
    fs::remove_dir_all(m.0.join("sys/class/net/lost")).unwrap();
    let moved = DeviceCounters::read(&m.host(), &names).unwrap().since(&before);
    assert_eq!(
        moved.changed,
        ["flapped: the link changed 2 times", "renewed was made anew", "lost vanished"]
    );
    assert_eq!(moved.devices[0].rx_bytes, 500);
    assert_eq!(moved.devices[0].dropped, 1000, "both ways");
}

#[test]
fn heat_and_a_lowered_limit_are_throttling_and_a_fan_is_not() {
    let m = Machine::new("heat");
    let cpu = "sys/devices/system/cpu/cpu0";
    m.file(&format!("{cpu}/thermal_throttle/core_throttle_count"), "5\n");
    m.file(&format!("{cpu}/cpufreq/scaling_max_freq"), "1800000\n");
    m.file("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
    m.file("sys/class/thermal/thermal_zone0/temp", "80100\n");
    for (n, kind) in [(0, "pwm-fan"), (1, "cpufreq-cpu0")] {
        m.file(&format!("sys/class/thermal/cooling_device{n}/type"), kind);
        m.file(&format!("sys/class/thermal/cooling_device{n}/cur_state"), "0\n");
    }
    let before = Health::read(&m.host());
    assert_eq!(before.throttled_since(&before), Vec::<String>::new());
    m.file(&format!("{cpu}/thermal_throttle/core_throttle_count"), "8\n");
    m.file(&format!("{cpu}/cpufreq/scaling_max_freq"), "1400000\n");
    m.file("sys/class/thermal/cooling_device0/cur_state", "3\n");
    m.file("sys/class/thermal/cooling_device1/cur_state", "2\n");
    assert_eq!(
        Health::read(&m.host()).throttled_since(&before),
        [
            "cpu0 core: throttled for heat 3 times",
            "cpu0: frequency limit fell from 1800000 to 1400000 kHz",
            "cooling_device1 cpufreq-cpu0: holds the CPU back by 2 steps \
             at 80.1 C (thermal_zone0 cpu-thermal)"
        ]
    );
}

#[test]
fn a_machine_that_tells_nothing_is_not_throttled() {
    let m = Machine::new("silent");
    let health = Health::read(&m.host());
    assert_eq!(health, Health::default());
    assert!(health.throttled_since(&health).is_empty());
}

const STAT: &str = "cpu0 100 0 0 0 0 0 0 0\ncpu1 100 0 0 0 0 0 0 0\n";

fn watched(irqs: &[(u32, &str)]) -> Watch {
    Watch {
        cpus: vec![CpuId(0), CpuId(1)],
        devices: vec!["eth0".into()],
        irqs: irqs.iter().map(|(n, name)| (IrqLine(*n), (*name).to_owned())).collect(),
        queues: false,
    }
}

fn interrupt_table(rows: &[(u32, u64, u64, &str)]) -> String {
    let row = |(line, a, b, name): &(u32, u64, u64, &str)| {
        format!(" {line}: {a} {b}  GICv3  44 Level     {name}\n")
    };
    format!("      CPU0  CPU1\n{}", rows.iter().map(row).collect::<String>())
}

#[test]
fn a_recording_survives_wraps_resets_and_a_cpu_that_goes_away() {
    let m = Machine::new("recording");
    m.file("proc/stat", STAT);
    m.file("proc/softirqs", "  CPU0 CPU1\nNET_TX: 0 0\nNET_RX: 4294967290 5\n");
    m.device("eth0", 1000, 2, 7);
    m.file("proc/interrupts", &interrupt_table(&[(27, 4_294_967_290, 5, "eth0"), (9, 1, 1, "x")]));
    m.file("sys/class/thermal/thermal_zone0/type", "cpu\n");
    m.file("sys/class/thermal/thermal_zone0/temp", "-5500\n");
    let host = m.host();
    let mut telemetry = Telemetry::start(&host, watched(&[(27, "eth0")])).unwrap();
    let around = |rate: Option<f64>, count: f64, seconds: f64| {
        let count_seen = rate.unwrap() * seconds;
        assert!((count_seen - count).abs() < 1e-6, "{count_seen} instead of {count}");
    };

    // 32-bit counters wrap; the line is known by name although its number is another.
    m.file("proc/stat", &STAT.replace("cpu1 100", "cpu1 150"));
    m.file("proc/softirqs", "  CPU0 CPU1\nNET_TX: 0 3\nNET_RX: 4 5\n");
    m.device("eth0", 1500, 2, 7);
    m.file("proc/interrupts", &interrupt_table(&[(30, 4, 5, "eth0")]));
    let first = telemetry.advance().unwrap();
    around(first.cpus[0].net_rx, 10.0, first.seconds);
    around(first.cpus[1].net_tx, 3.0, first.seconds);
    assert_eq!(first.cpus[1].user, Some(1.0));
    around(first.devices[0].rx_packets, 500.0, first.seconds);
    around(first.irqs[0].total, 10.0, first.seconds);
    assert_eq!(first.irqs[0].by_cpu.iter().map(|(cpu, _)| cpu.0).collect::<Vec<_>>(), [0]);
    assert_eq!(first.sensors[0].name, "thermal_zone0 cpu C");
    assert_eq!(first.sensors[0].value, Some(-5.5));

    // CPU1 goes offline, the device is made anew, its line asked for again from 0.
    m.file("proc/stat", "cpu0 200 0 0 0 0 0 0 0\n");
    m.device("eth0", 40, 2, 8);
    m.file("proc/interrupts", &interrupt_table(&[(30, 1, 0, "eth0")]));
    fs::remove_file(m.0.join("sys/class/thermal/thermal_zone0/temp")).unwrap();
    let second = telemetry.advance().unwrap();
    assert_eq!(second.cpus[1].cpu, CpuId(1), "columns stay");
    assert_eq!((second.cpus[1].idle, second.cpus[1].net_rx), (None, None));
    assert_eq!(second.devices[0].rx_packets, None, "what it counted before is lost");
    around(second.irqs[0].total, 0.0, second.seconds);
    assert_eq!(second.sensors[0].value, None);

    // And without its line.
    m.file("proc/interrupts", &interrupt_table(&[(9, 1, 1, "x")]));
    assert_eq!(telemetry.advance().unwrap().irqs[0].total, None);
}

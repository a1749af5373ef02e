//! How fast the CPUs may run.

use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::Policy;
use crate::model::cpuset::CpuSet;
use crate::model::finding::{Confidence, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "governor",
        what: "a frequency governor that keeps CPUs slow, or sees no packets",
        costs: "`powersave` on most drivers means the lowest frequency always; those that follow the \
                load see softirq time badly and ramp up late. On a NanoPi R76S the last step to \
                2162 Mbit/s was the interrupts' spread and the governor",
        source: "Documentation/admin-guide/pm/cpufreq.rst; field report R76S",
        reads: "cpufreq policies",
        load: Load::Apart,
        look: governor,
    },
    Rule {
        id: "frequency-limit",
        what: "CPUs that may not run as fast as they can",
        costs: "the forwarding rate goes with the frequency of the busiest CPU",
        source: "Documentation/admin-guide/pm/cpufreq.rst (scaling_max_freq)",
        reads: "scaling_max_freq, cpuinfo_max_freq",
        load: Load::Apart,
        look: limit,
    },
    Rule {
        id: "throttled",
        what: "CPUs held back by heat",
        costs: "a CM4 with a passive heatsink reached 80 C within minutes of two-way gigabit and then \
                slowed down; a figure taken meanwhile says nothing",
        source: "field report CM4; Documentation/driver-api/thermal/sysfs-api.rst",
        reads: "cooling devices of CPUs, thermal zones, thermal_throttle counts",
        load: Load::Better,
        look: throttled,
    },
    Rule {
        id: "under-voltage",
        what: "the Raspberry Pi's supply voltage is too low",
        costs: "the firmware slows the CPU down to keep it alive, and USB devices drop out",
        source: "drivers/hwmon/raspberrypi-hwmon.c; Raspberry Pi documentation, power supply",
        reads: "hwmon rpi_volt, in0_lcrit_alarm",
        load: Load::Apart,
        look: under_voltage,
    },
    Rule {
        id: "stolen-time",
        what: "a virtual machine whose CPUs the hypervisor gives to others",
        costs: "packets wait while the CPU is elsewhere, and nothing that is set in the machine helps",
        source: "Documentation/filesystems/proc.rst (/proc/stat: steal)",
        reads: "/proc/stat since boot",
        load: Load::Apart,
        look: stolen,
    },
    Rule {
        id: "slow-clock",
        what: "a clock that is read over a bus (hpet, acpi_pm) instead of in the CPU",
        costs: "every reading of the time goes out to the chipset, one CPU after the other: packets are \
                stamped, paced and accounted by it; how much that costs here was not measured",
        source: "Documentation/timers/hpet.rst; drivers/clocksource/acpi_pm.c; \
                 kernel/time/clocksource.c (the watchdog takes the TSC away when it drifts)",
        reads: "current_clocksource, available_clocksource",
        load: Load::Apart,
        look: clock,
    },
];

fn policies<'a>(subject: &Subject<'a>) -> Result<Vec<(&'a String, &'a Policy)>, String> {
    let condition = subject.condition;
    if condition.policies.is_empty() {
        return Err("the kernel shows no frequency policies here".into());
    }
    Ok(condition.policies.iter().collect())
}

const DIR: &str = "/sys/devices/system/cpu/cpufreq";

/// Policies with one fault, as one finding.
struct Alike<'a> {
    policies: Vec<(&'a String, &'a Policy)>,
}

impl<'a> Alike<'a> {
    /// Policies that fit, if any does.
    fn of(subject: &Subject<'a>, fits: impl Fn(&Policy) -> bool) -> Option<Self> {
        let all = subject.condition.policies.iter().filter(|(_, policy)| fits(policy));
        let policies: Vec<_> = all.collect();
        (!policies.is_empty()).then_some(Self { policies })
    }

    /// CPUs of all of them.
    fn cpus(&self) -> String {
        let all = self.policies.iter().flat_map(|(_, policy)| policy.cpus.split_whitespace());
        let sets = all.map(|cpus| cpus.parse::<CpuSet>().ok()).collect::<Option<Vec<_>>>();
        match sets {
            Some(sets) => sets.iter().flat_map(CpuSet::iter).collect::<CpuSet>().to_string(),
            None => listed(self.policies.iter().map(|(_, policy)| policy.cpus.as_str())),
        }
    }

    /// A file of the first few, and how many there are.
    fn seen<V: ToString>(
        &self,
        found: Found,
        file: &str,
        of: impl Fn(&Policy) -> Option<V>,
    ) -> Found {
        const FEW: usize = 4;
        let known = self.policies.iter().filter_map(|(name, p)| Some((name, of(p)?)));
        let mut found = known
            .take(FEW)
            .fold(found, |found, (name, value)| found.seen(format!("{DIR}/{name}/{file}"), value));
        if self.policies.len() > FEW {
            found = found.seen(
                format!("{DIR}/policy*/{file}"),
                format!("{} policies in all", self.policies.len()),
            );
        }
        found
    }

    /// The step that writes a value to the file of each.
    fn write(&self, value: impl ToString, file: &str) -> String {
        let value = value.to_string();
        match self.policies.as_slice() {
            [(name, _)] => format!("echo {value} > {DIR}/{name}/{file}"),
            _ => format!("for f in {DIR}/policy*/{file}; do echo {value} > $f; done"),
        }
    }

    /// Least share of the rate that its CPUs make.
    fn share(&self, of: impl Fn(&Policy) -> Option<f64>) -> Option<f64> {
        self.policies.iter().filter_map(|(_, policy)| of(policy)).reduce(f64::min)
    }
}

/// Part of the highest frequency.
fn part(of: Option<u64>, policy: &Policy) -> Option<f64> {
    Some(of? as f64 / policy.hardware_max?.max(1) as f64)
}

/// CPUs kept at their lowest frequency. Some drivers' powersave is a hint to the hardware, which speeds
/// up by itself; on x86 it is one of those unless the driver says otherwise.
fn lowest(subject: &Subject<'_>) -> Option<Found> {
    let x86 = subject.snapshot.machine.arch == "x86_64";
    let by_hardware = |p: &Policy| match p.driver.as_deref() {
        Some(driver) => matches!(driver, "intel_pstate" | "amd-pstate-epp" | "amd_pstate_epp"),
        None => x86,
    };
    let slow = |p: &Policy| part(p.min, p).is_none_or(|share| share < 0.95);
    let alike = Alike::of(subject, |p| {
        p.governor.as_deref() == Some("powersave") && !by_hardware(p) && slow(p)
    })?;
    let share = alike.share(|p| part(p.min, p));
    // How far down that is can't be told without its limits.
    let (severity, confidence) = match share {
        Some(_) => (Severity::Warning, Confidence::Certain),
        None => (Severity::Warning, Confidence::Likely),
    };
    let title = format!("CPU {} run at their lowest frequency always", alike.cpus());
    let mut found = Found::new(severity, title).sure(confidence);
    found = alike.seen(found, "scaling_governor", |p| p.governor.clone());
    found = alike.seen(found, "scaling_driver", |p| p.driver.clone());
    found = alike.seen(found, "scaling_min_freq", |p| p.min);
    found = alike.seen(found, "cpuinfo_max_freq", |p| p.hardware_max);
    found = found.cost(share.map_or(0.0, |share| 1.0 - share));
    Some(found.remedy(alike.write("performance", "scaling_governor")))
}

/// Under `userspace` a CPU stays where a program, or the boot loader, has put it.
fn left_slow(subject: &Subject<'_>) -> Option<Found> {
    let slow = |p: &Policy| part(p.asked, p).is_some_and(|share| share < 0.9);
    let alike = Alike::of(subject, |p| p.governor.as_deref() == Some("userspace") && slow(p))?;
    let share = alike.share(|p| part(p.asked, p))?;
    let title = format!(
        "CPU {} stay at {:.0} % of their frequency: nothing sets it",
        alike.cpus(),
        share * 100.0
    );
    let severity = if share < 0.75 { Severity::Warning } else { Severity::Notice };
    let mut found = Found::new(severity, title).cost(1.0 - share);
    found = alike.seen(found, "scaling_governor", |p| p.governor.clone());
    found = alike.seen(found, "scaling_setspeed", |p| p.asked);
    found = alike.seen(found, "cpuinfo_max_freq", |p| p.hardware_max);
    Some(found.remedy(alike.write("performance", "scaling_governor")))
}

fn governor(subject: &Subject<'_>) -> Looked {
    let mut found: Vec<Found> = Vec::new();
    let mut followers: Vec<(&String, &str, &Policy)> = Vec::new();
    for (name, policy) in policies(subject)? {
        if let Some(now @ ("ondemand" | "conservative" | "schedutil")) = policy.governor.as_deref()
        {
            followers.push((name, now, policy));
        }
    }
    found.extend(lowest(subject));
    found.extend(left_slow(subject));
    if let Some((_, now, _)) = followers.first() {
        let title = format!("CPU frequency follows the load ({now})");
        // Where the way up is long, and no hardware helps, it has cost others half of the rate.
        let arch = subject.snapshot.machine.arch.as_str();
        let far = |p: &Policy| {
            let able = p.hardware_max.or(p.max);
            p.min.zip(able).is_some_and(|(min, max)| min.saturating_mul(2) <= max)
        };
        let slow = arch != "x86_64" && followers.iter().any(|(_, _, policy)| far(policy));
        let severity = if slow { Severity::Notice } else { Severity::Info };
        let mut one = Found::new(severity, title).sure(Confidence::Possible);
        one = one.rank(if slow { 0.05 } else { 0.0 });
        for (name, now, policy) in followers.iter().take(4) {
            one = one.seen(format!("{DIR}/{name}/scaling_governor"), now);
            if let Some(min) = policy.min.filter(|_| far(policy)) {
                one = one.seen(format!("{DIR}/{name}/scaling_min_freq"), min);
            }
        }
        let words = match slow {
            true => {
                "packets wait while a CPU speeds up, and softirq time is seen badly: on a Raspberry \
                 Pi 4 `ondemand` made 480 instead of 940 Mbit/s after some days (openmptcprouter \
                 issue 1059), on IPQ40xx a ping took 2.0 instead of 0.5 ms (openwrt pull request \
                 13709). It depends on the board: measure, and watch the heat"
            }
            false => {
                "packets wait while a CPU speeds up, and softirq time is seen badly; how much that \
                 is depends on the board: measure, and watch the heat"
            }
        };
        found.push(one.consequence(words).remedy(
            "echo performance > scaling_governor of each policy, where the board can be \
                         cooled",
        ));
    }
    Ok(found)
}

fn limit(subject: &Subject<'_>) -> Looked {
    policies(subject)?;
    let share = |p: &Policy| part(p.max, p);
    let Some(alike) = Alike::of(subject, |p| share(p).is_some_and(|share| share < 0.95)) else {
        return Ok(Vec::new());
    };
    let least = alike.share(share).unwrap_or(1.0);
    let severity = if least < 0.75 { Severity::Warning } else { Severity::Notice };
    let title =
        format!("CPU {} may run at {:.0} % of their frequency", alike.cpus(), least * 100.0);
    let mut found = Found::new(severity, title).cost(1.0 - least);
    found = alike.seen(found, "scaling_max_freq", |p| p.max);
    found = alike.seen(found, "cpuinfo_max_freq", |p| p.hardware_max);
    found = found
        .remedy("look who set it: heat (linerate check throttled), a power profile, or a script");
    let able = alike.policies.iter().filter_map(|(_, policy)| policy.hardware_max).max();
    Ok(vec![match able {
        Some(able) => found.remedy(alike.write(able, "scaling_max_freq")),
        None => found,
    }])
}

fn throttled(subject: &Subject<'_>) -> Looked {
    let condition = subject.condition;
    if condition.cooling.is_empty() && condition.throttled.is_none() && condition.zones.is_empty() {
        return Err("the kernel shows no temperatures here".into());
    }
    let hottest = condition.zones.iter().max_by_key(|(_, t)| **t);
    let heat = |found: Found| match hottest {
        Some((zone, t)) => found.seen(
            format!("/sys/class/thermal/{}/temp", zone.split(' ').next().unwrap_or(zone)),
            format!("{:.1} C ({zone})", *t as f64 / 1000.0),
        ),
        None => found,
    };
    let remedy = |found: Found| {
        heat(found).remedy(
            "a fan or a larger heatsink, free air around it, dust out; then a lower \
                            highest frequency beats throttling",
        )
    };
    let held: Vec<_> = condition.cooling.iter().filter(|(_, state)| **state > 0).collect();
    if !held.is_empty() {
        let mut one =
            Found::new(Severity::Critical, "the CPUs are held back because of heat").rank(0.3);
        for (place, state) in held {
            one = one.seen(place, state);
        }
        return Ok(vec![remedy(one)]);
    }
    if let Some(words) = subject.window.map(|w| &w.rates.throttled).filter(|t| !t.is_empty()) {
        let mut one =
            Found::new(Severity::Critical, "the CPUs were held back during the window").rank(0.3);
        for word in words {
            one = one.seen("telemetry", word);
        }
        return Ok(vec![remedy(one)]);
    }
    let since = condition.throttled.filter(|count| *count > 0);
    Ok(since
        .map(|count| {
            let title = format!("the CPUs were throttled for heat {count} times since boot");
            let one = Found::new(Severity::Notice, title)
                .seen("/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count", count)
                .rank(0.05)
                .sure(Confidence::Likely);
            remedy(one)
        })
        .into_iter()
        .collect())
}

fn under_voltage(subject: &Subject<'_>) -> Looked {
    let Some((file, low)) = &subject.condition.under_voltage else {
        let raspberry =
            subject.snapshot.machine.compatible.iter().any(|c| c.contains("raspberrypi"));
        return if raspberry { Err("there is no rpi_volt sensor".into()) } else { Ok(Vec::new()) };
    };
    if !low {
        return Ok(Vec::new());
    }
    Ok(vec![
        Found::new(Severity::Critical, "the supply voltage is too low")
            .seen(file, 1)
            .rank(0.4)
            .remedy("the supply that is made for this board (5.1 V), a short and thick cable, USB devices \
                     on a hub with power of its own")
            .remedy("vcgencmd get_throttled  # 0x50005: now and since boot"),
    ])
}

fn stolen(subject: &Subject<'_>) -> Looked {
    let Some((ran, stolen)) = subject.condition.stolen else {
        return Err("/proc/stat can't be read".into());
    };
    let share = stolen as f64 / (ran + stolen).max(1) as f64;
    let severity = match share {
        0.25.. => Severity::Warning,
        0.05.. => Severity::Notice,
        _ => return Ok(Vec::new()),
    };
    let title =
        format!("the hypervisor took {:.0} % of the time that this machine wanted", share * 100.0);
    Ok(vec![
        Found::new(subject.on_router(severity), title)
            .seen("/proc/stat since boot: steal", format!("{stolen} ticks, beside {ran} that ran"))
            .cost(share)
            .sure(Confidence::Likely)
            .remedy(
                "CPUs of its own for this machine (pinned, not shared), or a less crowded host",
            ),
    ])
}

fn clock(subject: &Subject<'_>) -> Looked {
    const DIR: &str = "/sys/devices/system/clocksource/clocksource0";
    let Some(now) = subject.condition.clocksource.as_deref() else {
        return Err("current_clocksource can't be read".into());
    };
    if !matches!(now, "hpet" | "acpi_pm" | "pit") {
        return Ok(Vec::new());
    }
    let others = &subject.condition.clocksources;
    let better = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
    let better = better.into_iter().find(|name| others.iter().any(|other| other == name));
    let title = format!("the time is read from {now}");
    let found = Found::new(subject.on_router(Severity::Notice), title)
        .seen(format!("{DIR}/current_clocksource"), now)
        .seen(format!("{DIR}/available_clocksource"), others.join(" "))
        .sure(Confidence::Likely);
    Ok(vec![match better {
        Some(better) => found.remedy(format!("echo {better} > {DIR}/current_clocksource")).remedy(
            "and look for clocksource= and notsc in /proc/cmdline",
        ),
        None => found
            .remedy("dmesg | grep -i tsc  # why the kernel does not trust it")
            .remedy(
                "a newer firmware, or on a CPU with constant_tsc and nonstop_tsc boot with tsc=reliable",
            ),
    }])
}

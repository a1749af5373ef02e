//! How fast the CPUs may run.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::Policy;
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
];

fn policies<'a>(subject: &Subject<'a>) -> Result<Vec<(&'a String, &'a Policy)>, String> {
    let condition = subject.condition;
    if condition.policies.is_empty() {
        return Err("the kernel shows no frequency policies here".into());
    }
    Ok(condition.policies.iter().collect())
}

const DIR: &str = "/sys/devices/system/cpu/cpufreq";

fn governor(subject: &Subject<'_>) -> Looked {
    let mut found = Vec::new();
    let mut followers: Vec<(&String, &str, &Policy)> = Vec::new();
    for (name, policy) in policies(subject)? {
        let Some(now) = policy.governor.as_deref() else { continue };
        // These drivers' powersave is a hint to the hardware, which speeds up by itself.
        let driver = policy.driver.as_deref().unwrap_or("");
        let by_hardware = matches!(driver, "intel_pstate" | "amd-pstate-epp" | "amd_pstate_epp");
        match now {
            "powersave" if !by_hardware => {
                let slow =
                    policy.min.filter(|min| policy.hardware_max.is_none_or(|max| *min < max));
                let title = format!("CPU {} run at their lowest frequency always", policy.cpus);
                let mut one = Found::new(Severity::Warning, title)
                    .seen(format!("{DIR}/{name}/scaling_governor"), now)
                    .seen(format!("{DIR}/{name}/scaling_driver"), driver);
                if let (Some(min), Some(max)) = (slow, policy.hardware_max) {
                    one = one
                        .seen(format!("{DIR}/{name}/scaling_min_freq"), min)
                        .seen(format!("{DIR}/{name}/cpuinfo_max_freq"), max)
                        .cost(1.0 - min as f64 / max.max(1) as f64);
                }
                found.push(one.remedy(format!("echo performance > {DIR}/{name}/scaling_governor")));
            }
            "userspace" => found.extend(left_slow(name, policy)),
            "ondemand" | "conservative" | "schedutil" => followers.push((name, now, policy)),
            _ => {}
        }
    }
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
        one = one.cost(if slow { 0.05 } else { 0.0 });
        for (name, now, policy) in &followers {
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

/// Under `userspace` a CPU stays where a program, or the boot loader, has put it.
fn left_slow(name: &str, policy: &Policy) -> Option<Found> {
    let (asked, able) = (policy.asked?, policy.hardware_max?);
    let share = asked as f64 / able.max(1) as f64;
    (share < 0.9).then(|| {
        let title = format!(
            "CPU {} stay at {:.2} of {:.2} GHz: nothing sets their frequency",
            policy.cpus,
            asked as f64 / 1e6,
            able as f64 / 1e6
        );
        let severity = if share < 0.75 { Severity::Warning } else { Severity::Notice };
        Found::new(severity, title)
            .seen(format!("{DIR}/{name}/scaling_governor"), "userspace")
            .seen(format!("{DIR}/{name}/scaling_setspeed"), asked)
            .seen(format!("{DIR}/{name}/cpuinfo_max_freq"), able)
            .cost(1.0 - share)
            .remedy(format!("echo performance > {DIR}/{name}/scaling_governor"))
    })
}

fn limit(subject: &Subject<'_>) -> Looked {
    let mut found = Vec::new();
    for (name, policy) in policies(subject)? {
        let (Some(max), Some(able)) = (policy.max, policy.hardware_max) else { continue };
        let share = max as f64 / able.max(1) as f64;
        if share >= 0.95 {
            continue;
        }
        let severity = if share < 0.75 { Severity::Warning } else { Severity::Notice };
        let title = format!(
            "CPU {} may run at {:.2} of {:.2} GHz",
            policy.cpus,
            max as f64 / 1e6,
            able as f64 / 1e6
        );
        found.push(
            Found::new(severity, title)
                .seen(format!("{DIR}/{name}/scaling_max_freq"), max)
                .seen(format!("{DIR}/{name}/cpuinfo_max_freq"), able)
                .cost(1.0 - share)
                .remedy("look who set it: heat (linerate check throttled), a power profile, or a script")
                .remedy(format!("echo {able} > {DIR}/{name}/scaling_max_freq")),
        );
    }
    Ok(found)
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
            Found::new(Severity::Critical, "the CPUs are held back because of heat").cost(0.3);
        for (place, state) in held {
            one = one.seen(place, state);
        }
        return Ok(vec![remedy(one)]);
    }
    if let Some(words) = subject.window.map(|w| &w.rates.throttled).filter(|t| !t.is_empty()) {
        let mut one =
            Found::new(Severity::Critical, "the CPUs were held back during the window").cost(0.3);
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
                .cost(0.05)
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
            .cost(0.4)
            .remedy("the supply that is made for this board (5.1 V), a short and thick cable, USB devices \
                     on a hub with power of its own")
            .remedy("vcgencmd get_throttled  # 0x50005: now and since boot"),
    ])
}

//! What must hold of every parser of outside bytes, whatever the bytes are. The fuzz targets look
//! for bytes that break it, and `tests/pure/corpus.rs` holds it over those that were found before.
//!
//! No parser may panic, and none may take more than linear time: libFuzzer stops at an input that
//! takes seconds.

use std::collections::BTreeSet;
use std::path::Path;

use flate2::Crc;
use linerate::change::apply::knob;
use linerate::decide::kernel::diff::diff;
use linerate::decide::kernel::mixed::Choices;
use linerate::machine::capture::redact::Redactor;
use linerate::machine::host::tar::{self, Kind, Limits};
use linerate::machine::host::{Archive, HostRead, Setting};
use linerate::machine::parse::config;
use linerate::machine::parse::irq_name::{of_device, of_switch, queue_and_role};
use linerate::machine::parse::thread_name::ThreadName;
use linerate::machine::parse::uci_edit::{self, OptionPlace, Origin};
use linerate::machine::parse::{
    cmdline, cpuinfo, cpumask, crypto, gzip, interrupts, kallsyms, keyvalue, modules, net_counters,
    net_dev, net_tcp, packet_sockets, per_cpu, perf, pppoe, preempt, queue_counters, route, snmp,
    softirqs, softnet, stat, task, thread_name, tracepoint, uci, vlan,
};
use linerate::machine::store::journal::Journal;
use linerate::machine::store::{plan, result};
use linerate::measure::agent::protocol;
use linerate::measure::load::{LoadSpec, iperf3};
use linerate::model::cpuset::CpuSet;
use linerate::model::knob::{Knob, rows};
use linerate::model::measurement::Direction;
use linerate::model::snapshot::Snapshot;

use super::scene;

/// A property by the name of its target.
pub(crate) type Property = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const ALL: &[Property] = &[
    ("agent", agent),
    ("archive", archive),
    ("cmdline", of_cmdline),
    ("counters", counters),
    ("cpu_list", cpu_list),
    ("cpuinfo", of_cpuinfo),
    ("cpumask", of_cpumask),
    ("crypto", of_crypto),
    ("interrupts", of_interrupts),
    ("iperf3", of_iperf3),
    ("irq_name", irq_name),
    ("journal", journal),
    ("kernel_config", kernel_config),
    ("modules", of_modules),
    ("net_dev", of_net_dev),
    ("netlink", netlink),
    ("plan_file", plan_file),
    ("per_cpu", of_per_cpu),
    ("pppoe", of_pppoe),
    ("preempt", of_preempt),
    ("queue_counters", of_queue_counters),
    ("redact", redact),
    ("result_file", result_file),
    ("route", of_route),
    ("scene", of_scene),
    ("setting", setting),
    ("small_files", small_files),
    ("snmp", of_snmp),
    ("softirqs", of_softirqs),
    ("state_files", state_files),
    ("sysctl", of_sysctl),
    ("tar", tar),
    ("task", of_task),
    ("tracepoint", of_tracepoint),
    ("uci", of_uci),
    ("vlan", of_vlan),
    ("xtables", xtables),
];

/// Holds the property of that name.
#[allow(dead_code, reason = "the replay goes over all of them")]
pub(crate) fn hold(name: &str, bytes: &[u8]) {
    let (_, property) = ALL.iter().find(|(n, _)| *n == name).expect("a target has a property");
    property(bytes);
}

/// What anybody may send to an agent's port, or a controller find behind one: read or refused in
/// words that fit a terminal; what is read is written so that it can be read again.
fn agent(bytes: &[u8]) {
    fn again<T: protocol::Message + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
        match protocol::parse::<T>(bytes) {
            Err(why) => {
                assert!(why.len() < 1000 && !why.contains('\n'), "{why:?}");
                None
            }
            Ok(message) => {
                let line = protocol::line(&message);
                assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1, "one line");
                assert_eq!(protocol::parse::<T>(&line[..line.len() - 1]).as_ref(), Ok(&message));
                Some(message)
            }
        }
    }
    if let Some(hello) = again::<protocol::Hello>(bytes) {
        assert!(!protocol::is_nonce(&hello.nonce) || hello.nonce.is_ascii());
    }
    again::<protocol::Greeting>(bytes);
    if let Some(protocol::Request::Listen(run) | protocol::Request::Open(run, _)) = again(bytes) {
        drop(run.spec.check());
    }
    let told = match again::<protocol::Answer>(bytes) {
        Some(protocol::Answer::Failed(failure)) => failure.error("agent").to_string(),
        Some(protocol::Answer::Facts(facts)) => {
            let devices = facts.ways.iter().map(|way| way.device.as_str());
            devices.chain([facts.hostname.as_str(), &facts.kernel, &facts.program]).collect()
        }
        _ => String::new(),
    };
    assert!(!told.contains(char::is_control), "{told:?}");
}

fn lines(bytes: &[u8]) -> usize {
    bytes.split(|b| *b == b'\n').count()
}

/// A gzip file of `bytes` as they are: compressing them would cost more than all that is tested.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(bytes);
    // RFC 1952: magic, deflate, no flags, no time, no extra flags, unknown system.
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    for piece in bytes.chunks(usize::from(u16::MAX)) {
        let length = u16::try_from(piece.len()).expect("pieces are short");
        // RFC 1951: a block that is stored and not the last; its length, and that complemented.
        out.push(0);
        out.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()));
        out.extend(piece);
    }
    // The last block, which is empty.
    out.extend([1, 0, 0, 0xff, 0xff]);
    out.extend(crc.sum().to_le_bytes());
    out.extend(crc.amount().to_le_bytes());
    out
}

/// A capture from anywhere: opened or refused, never more. Most bytes are no gzip stream, so the
/// input is packed first; what is packed badly is left to tests/pure/archive.rs. What discovery makes of
/// files is the property `scene`.
fn archive(bytes: &[u8]) {
    if let Ok(host) = Archive::from_bytes(&packed(bytes)) {
        drop(host.read(Path::new("/sys/a")));
        drop(host.list(Path::new("/sys/class/net")));
        drop(host.resolve(Path::new("/sys/a/b/../c")));
        for name in host.list(Path::new("/")).unwrap_or_default() {
            let path = Path::new("/").join(name);
            drop((host.list(&path), host.read(&path), host.resolve(&path)));
        }
    }
}

/// Headers whose check sums are right, which no mutation makes by itself: they are set first. What
/// is read is written so that it reads the same.
fn tar(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(512) {
        // Only blocks that look like headers: others are contents.
        if block.get(257..262) == Some(b"ustar") {
            let (before, after) = (&block[..148], &block[156..]);
            let sum: u32 = before.iter().chain(after).map(|b| u32::from(*b)).sum();
            let text = format!("{:06o}\0 ", sum + 8 * 32);
            block[148..156].copy_from_slice(text.as_bytes());
        }
    }
    let entries = |bytes: &[u8]| {
        let limits = Limits { entries: 1000, total: 1 << 20, file: 1 << 18 };
        let mut reader = tar::Reader::new(bytes, limits);
        let mut entries = Vec::new();
        while let Ok(Some(entry)) = reader.next(|name| name.starts_with(b"skip")) {
            entries.push(entry);
        }
        entries
    };
    let mut read = entries(&bytes);
    // What we write has neither devices nor names that only an extended header can hold.
    read.retain(|e| e.kind != Kind::Other && !e.name.is_empty() && !e.name.contains(&0));
    let mut written = Vec::new();
    for entry in &read {
        tar::append(&mut written, &entry.name, &entry.kind).expect("memory takes it");
    }
    tar::end(&mut written).expect("memory takes it");
    assert_eq!(entries(&written), read);
}

/// What is taken out of files that others will see: twice is as once.
fn redact(bytes: &[u8]) {
    let mut redactor = Redactor::new("attic", []);
    let (name, content) = match bytes.iter().position(|b| *b == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (&b"/etc/config/network"[..], bytes),
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let once = redactor.file(Path::new(&name), content);
    drop(redactor.file(Path::new("/proc/net/route"), &once));
}

/// /proc/cmdline: every parameter that is there is found.
fn of_cmdline(bytes: &[u8]) {
    for word in cmdline::words(bytes).iter().take(4) {
        let name = word.split('=').next().unwrap_or_default();
        assert!(cmdline::parameter(bytes, name).is_some());
    }
}

/// CPU lists (`0-3,6`), as the kernel and plan files write them.
fn cpu_list(bytes: &[u8]) {
    if let Ok(set) = String::from_utf8_lossy(bytes).parse::<CpuSet>() {
        assert_eq!(set.to_string().parse::<CpuSet>().ok(), Some(set));
    }
}

/// CPU masks: what is understood is written back so that it means the same.
fn of_cpumask(bytes: &[u8]) {
    if let Ok(set) = cpumask::mask(bytes) {
        assert_eq!(cpumask::mask(set.to_mask().as_bytes()).ok(), Some(set));
    }
}

/// /proc/cpuinfo: no more CPUs than lines.
fn of_cpuinfo(bytes: &[u8]) {
    assert!(cpuinfo::cpuinfo(bytes).cpus.len() <= lines(bytes));
}

/// /proc/crypto: an implementation that is named was in the file.
fn of_crypto(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (name, driver) in crypto::chosen(bytes).iter().take(64) {
        assert!(text.contains(name) && text.contains(driver));
    }
}

/// /proc/interrupts: every row has as many counts as there are columns.
fn of_interrupts(bytes: &[u8]) {
    let table = interrupts::interrupts(bytes);
    for row in &table.rows {
        assert_eq!(row.counts(table.cpus.len()).count(), table.cpus.len());
    }
}

/// A driver's counters: no more groups of loss than counters.
fn counters(bytes: &[u8]) {
    assert!(linerate::machine::sys::decode_counters(bytes) <= lines(bytes));
}

/// /proc/net/dev: no more devices than lines, each with a name.
fn of_net_dev(bytes: &[u8]) {
    let found = net_dev::devices(bytes);
    assert!(found.len() <= lines(bytes));
    assert!(found.iter().all(|(name, _)| !name.is_empty()));
}

/// Counters of queues, a name and a number on each line: each queue once, in order.
fn of_queue_counters(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let counters = text.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name, value.parse().ok()?))
    });
    let found = queue_counters::queues(counters);
    assert!(found.len() <= lines(bytes));
    assert!(found.windows(2).all(|pair| pair[0].index < pair[1].index));
    assert!(found.iter().all(|queue| queue.rx.is_some() || queue.tx.is_some()));
}

/// Reports of iperf3, read as one kind of test or another.
fn of_iperf3(bytes: &[u8]) {
    let direction = [Direction::Down, Direction::Up, Direction::Both][bytes.len() % 3];
    let spec = match bytes.len() % 2 {
        0 => LoadSpec::tcp(direction, 1, 1.0, 0.0),
        _ => LoadSpec::udp(direction, 1, 1.0, None),
    };
    if let Ok(report) = iperf3::parse(bytes, &spec) {
        assert!(report.flows.iter().all(|f| f.goodput.0.is_finite() && f.goodput.0 > 0.0));
    }
}

/// Action names of interrupt lines, against a device name: two lines.
fn irq_name(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (action, name) = text.split_once('\n').unwrap_or((&text, "eth0"));
    let found = of_device(action, &[name]);
    // A name that does not occur can't be the device's.
    assert!(found.is_none() || action.contains(name));
    assert_eq!(of_device(action, &[""]), None);
    let _known = (queue_and_role(action), of_switch(action));
}

/// Journals: nothing that is not in the header counts as done.
fn journal(bytes: &[u8]) {
    if let Ok(journal) = Journal::parse(1, bytes) {
        assert_eq!(journal.progress.len(), journal.header.entries.len());
    }
}

/// Kernel configurations: both readers agree.
fn kernel_config(bytes: &[u8]) {
    let set = config::values(bytes, &["HZ", "PREEMPT"]);
    assert_eq!(set.is_some(), config::option(bytes, "HZ").is_some());
    if config::option(bytes, "PREEMPT") == Some(config::Setting::Module) {
        assert!(set.is_some_and(|s| s.contains_key("PREEMPT")));
    }
    let Some(whole) = config::read(bytes) else { return };
    let report = linerate::decide::kernel::check::check(&whole, "fuzz", None);
    assert!(report.findings.iter().all(|f| !f.evidence.is_empty()));
    // Halves of it against each other, and what lies between them.
    let (a, b) = bytes.split_at(bytes.len() / 2);
    let (Some(a), Some(b)) = (config::read(a), config::read(b)) else { return };
    let differences = diff(&a, &b);
    let choices = Choices::of(&differences, &BTreeSet::new());
    let setup: Vec<bool> = (0..choices.groups.len()).map(|i| i % 2 == 0).collect();
    let between = config::read(choices.text(&a, &b, &setup).as_bytes()).expect("it is one");
    assert_eq!(choices.built(&between), Ok(setup), "what was asked for is what is there");
}

/// /proc/modules: names hold no blanks.
fn of_modules(bytes: &[u8]) {
    assert!(modules::names(bytes).iter().all(|n| !n.contains(char::is_whitespace)));
}

/// Answers of the kernel over netlink.
fn netlink(bytes: &[u8]) {
    linerate::machine::sys::decode_answers(bytes);
}

/// Plans: what loads is written so that it means the same.
fn plan_file(bytes: &[u8]) {
    if let Ok(read) = plan::parse(&String::from_utf8_lossy(bytes)) {
        let text = plan::to_text(&read).expect("what was read can be written");
        assert_eq!(plan::parse(&text).ok(), Some(read));
    }
}

/// /proc/net/pppoe: no more sessions than lines.
fn of_pppoe(bytes: &[u8]) {
    assert!(pppoe::devices(bytes).len() <= lines(bytes));
}

/// Texts that tell the preemption model.
fn of_preempt(bytes: &[u8]) {
    assert_ne!(preempt::in_force(bytes).as_deref(), Some(""));
    let _model = preempt::of_version(bytes);
}

/// Result files: what loads is written so that it loads again, everything else is an error.
fn result_file(bytes: &[u8]) {
    if let Ok(experiment) = result::from_json(bytes, "fuzz") {
        let text = result::to_json(&experiment).expect("what was read can be written");
        assert!(result::from_json(text.as_bytes(), "again").is_ok());
    }
}

/// /proc/net/route, ipv6_route and if_inet6: no more devices than lines.
fn of_route(bytes: &[u8]) {
    let lines = lines(bytes);
    assert!(route::defaults(bytes).len() <= lines && route::defaults_v6(bytes).len() <= lines);
    assert!(route::devices(bytes).len() <= lines && route::devices_v6(bytes).len() <= lines);
}

/// A whole machine: discovered, planned for, and written as JSON that says the same.
fn of_scene(bytes: &[u8]) {
    let Ok(nodes) = scene::read(&String::from_utf8_lossy(bytes)) else { return };
    if nodes.len() > 500 {
        return;
    }
    let Ok(host) = Archive::from_bytes(&packed(&scene::tar(&nodes))) else { return };
    let snapshot = linerate::machine::discover::snapshot(&host);
    let usable = snapshot.usable_cpus();
    for change in
        linerate::decide::plan::candidates(&snapshot).list.iter().flat_map(|c| c.changes())
    {
        if let linerate::model::knob::Value::Cpus(cpus) = &change.after {
            assert!(cpus.is_subset(&usable), "{change:?}");
        }
    }
    let text = serde_json::to_vec(&snapshot).expect("a snapshot can be written");
    assert_eq!(serde_json::from_slice::<Snapshot>(&text).ok(), Some(snapshot));
}

/// Addresses of settings, which journals and plans hold: one of ours is written as it was read, but
/// for zeros before a number.
fn setting(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(setting) = Setting::at(Path::new(text.as_ref())) {
        assert_eq!(Setting::at(&setting.address()), Some(setting));
    }
}

/// The parsers of small or line-wise files; the first line of the input is a key, the rest a file.
fn small_files(bytes: &[u8]) {
    let _number = net_counters::number(bytes);
    assert!(softnet::softnet(bytes).len() <= lines(bytes));
    assert!(stat::cpu_ticks(bytes).len() <= lines(bytes));
    let text = String::from_utf8_lossy(bytes);
    if let Some((key, file)) = text.split_once('\n') {
        let _option = config::option(file.as_bytes(), key);
        let _value = keyvalue::value(file.as_bytes(), key);
    }
    assert!(packet_sockets::taps(bytes).is_none_or(|taps| taps.len() < lines(bytes).max(1)));
    let symbols = kallsyms::Symbols::read(bytes);
    assert!(symbols.at(0).is_none() && (!symbols.is_empty() || symbols.at(u64::MAX).is_none()));
    let far = std::net::SocketAddr::from(([198, 18, 0, 1], 1));
    let _owner = net_tcp::owner(bytes, far, far);
    let unpacked = gzip::unpack(bytes, 1 << 16).unwrap_or_default();
    assert!(unpacked.len() <= 1 << 16);
}

/// An option that is written is read again, and putting back what was there gives the text as it was.
fn uci_edits(text: &str) {
    let place = OptionPlace { kind: "defaults".into(), option: "flow_offloading".into() };
    let before = uci_edit::look(text, &place);
    let wanted = Origin::Line(uci_edit::line(&place, "1"));
    let written = uci_edit::put(text, &place, &wanted);
    match uci_edit::look(&written, &place) {
        Origin::Line(line) => assert!(uci_edit::says(&line, "1"), "{line:?}"),
        other => panic!("written, and then {other:?}"),
    }
    let _back = uci_edit::put(&written, &place, &before);
}

/// /proc/net/stat/*: no more names than the first line has words.
fn of_per_cpu(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let words = text.lines().next().unwrap_or_default().split_whitespace().count();
    assert!(per_cpu::sums(bytes).len() <= words);
}

/// /proc/net/snmp, netstat and snmp6: no more counters than words.
fn of_snmp(bytes: &[u8]) {
    let words = String::from_utf8_lossy(bytes).split_whitespace().count();
    assert!(snmp::counters(bytes, "Ip").len() + snmp::flat(bytes).len() <= 2 * words);
}

/// The format of an event, and behind a line of three dots a record of it.
fn of_tracepoint(bytes: &[u8]) {
    let at = bytes.windows(5).position(|w| w == b"\n...\n").unwrap_or(bytes.len());
    let (format, record) = bytes.split_at(at);
    if let Some(event) = tracepoint::Event::read(format, "reason") {
        let _name = event.name(record.get(5..).unwrap_or_default());
    }
    let mut taken = 0;
    let _lost = perf::raw(bytes, |data| taken += data.len());
    assert!(taken <= bytes.len());
}

/// /proc/softirqs: no more CPUs than words.
fn of_softirqs(bytes: &[u8]) {
    let words = String::from_utf8_lossy(bytes).split_ascii_whitespace().count();
    assert!(softirqs::net_softirqs(bytes).len() <= words);
}

/// Small JSON files of the state directory: the dead-man's guard and named labs.
fn state_files(bytes: &[u8]) {
    drop(serde_json::from_slice::<linerate::machine::store::deadman::Armed>(bytes));
    drop(serde_json::from_slice::<linerate::machine::store::labs::LabRecord>(bytes));
    drop(serde_json::from_slice::<linerate::machine::host::Manifest>(bytes));
}

/// Texts of files under /proc/sys: what is understood is the same as itself.
fn of_sysctl(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for name in rows("sysctl").filter_map(|row| row.name) {
        let knob = Knob::Sysctl { name: name.to_owned() };
        if let Ok(value) = knob::meaning(&knob, &text) {
            assert!(knob::same(&knob, &value, &value), "{name} {value:?}");
            assert!(knob::same_text(&knob, &text, &text), "{name}");
        }
    }
}

/// /proc/PID/status of a kernel thread: CPUs are those of a list that is there.
fn of_task(bytes: &[u8]) {
    if let Some(stat) = task::stat(bytes) {
        assert!(stat.cpu_seconds >= 0.0 && stat.cpu_seconds.is_finite());
    }
    let name = String::from_utf8_lossy(bytes);
    if let Some(ThreadName::Napi { device, number }) = thread_name::read(&name) {
        assert!(name.starts_with(&format!("napi/{device}-")) && name.contains(&number.to_string()));
    }
    if task::cpus_allowed(bytes).is_some() {
        assert!(bytes.windows(18).any(|w| w == b"Cpus_allowed_list:"));
    }
}

/// OpenWrt's configuration files: every option of every section can be asked for.
fn of_uci(bytes: &[u8]) {
    uci_edits(&String::from_utf8_lossy(bytes));
    for section in uci::sections(bytes) {
        assert!(!section.kind.is_empty() || bytes.contains(&b'\'') || bytes.contains(&b'"'));
        let _values = (section.option("name"), section.list("network").count());
    }
}

/// /proc/net/vlan/config: no more devices than lines.
fn of_vlan(bytes: &[u8]) {
    assert!(vlan::config(bytes).len() <= lines(bytes));
}

/// Tables of the old iptables: a rule that is reached is one of all.
fn xtables(bytes: &[u8]) {
    for (reached, all) in linerate::machine::sys::decode_tables(bytes) {
        assert!(reached <= all);
    }
}

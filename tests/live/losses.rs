//! Packets that are lost on purpose, and where the ledger finds each.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;

use linerate::decide::losses::{Entry, Kind, Ledger, Stage, ledger};
use linerate::machine::discover::{losses, snapshot};
use linerate::machine::sys::netns::NetnsThread;
use linerate::measure::lab::{ROUTER_LAN_ADDRESS, WAN_ADDRESS};
use linerate::model::loss::{Reading, Source};

use crate::router::{Router, need_root};

/// Sends so many datagrams of 500 bytes from a namespace.
fn send(from: &Arc<NetnsThread>, to: Ipv4Addr, port: u16, count: usize, ttl: u32) {
    let sent = from.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_ttl(ttl).unwrap();
        for n in 0..count {
            // An error of ICMP that came back is told by the next send, which then did not happen.
            let to = SocketAddr::from((to, port));
            if socket.send_to(&[0; 500], to).is_err() {
                socket.send_to(&[0; 500], to).unwrap();
            }
            if n % 20 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    });
    sent.unwrap();
}

/// A lab's router, and an open port behind it, so that no ICMP comes back.
fn router(name: &str) -> (Router, UdpSocket) {
    let router = Router::new(name);
    let open = router.lab.wan.run(|| UdpSocket::bind("0.0.0.0:9").unwrap()).unwrap();
    // Neighbours are known, connections tracked.
    send(&router.lab.lan, WAN_ADDRESS, 9, 1, 64);
    (router, open)
}

fn read(router: &Router) -> Reading {
    let host = router.lab.router_host();
    losses(&host, &snapshot(&host))
}

/// The ledger of what happens in `during`.
fn watch(router: &Router, during: impl FnOnce()) -> (Ledger, u64) {
    let before = read(router);
    during();
    // The last packet has been through the router's softirq.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let now = read(router);
    let multicast = |reading: &Reading| {
        let of = reading.counts.iter().filter(|(c, _)| c.name.ends_with("InMcastPkts"));
        of.map(|(_, n)| *n).sum::<u64>()
    };
    let strangers = multicast(&now) - multicast(&before);
    (ledger(&now, Some((&before, 1.0))), strangers)
}

#[track_caller]
fn entry<'a>(ledger: &'a Ledger, stage: Stage, counter: &str) -> &'a Entry {
    let is_it = |e: &&Entry| e.stage == stage && e.counter == counter && e.count() > 0;
    ledger
        .entries
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("no {counter} of {stage:?} in {:#?}", ledger.entries))
}

/// Every packet that came to the router is accounted for; multicast of IPv6 that nobody listens to
/// (the namespaces' own) has no counter.
#[track_caller]
fn balanced((ledger, strangers): &(Ledger, u64)) {
    let balance = &ledger.balance;
    let most = i64::try_from(*strangers).unwrap();
    assert!((0..=most).contains(&balance.unexplained), "{balance:#?}, {strangers} of multicast");
}

fn run(router: &Router, words: &str) -> bool {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stderr(std::process::Stdio::null());
    let status = router.lab.router.run(move || command.status()).unwrap();
    status.is_ok_and(|status| status.success())
}

#[test]
fn each_way_to_lose_a_packet_is_named_by_its_place_with_its_count() {
    need_root!();
    let (router, _open) = router("losses");
    let lan = &router.lab.lan;

    let seen = watch(&router, || send(lan, Ipv4Addr::new(198, 19, 7, 7), 9, 50, 64));
    let no_route = entry(&seen.0, Stage::Routing, "InNoRoutes");
    assert_eq!((no_route.watched, no_route.kind), (Some(50), Kind::Lost));
    assert_eq!(seen.0.balance.lost, 50);
    balanced(&seen);

    let seen = watch(&router, || send(lan, WAN_ADDRESS, 9, 30, 1));
    assert_eq!(entry(&seen.0, Stage::Ip, "InHdrErrors").watched, Some(30), "TTL 1");
    balanced(&seen);

    let seen = watch(&router, || send(lan, ROUTER_LAN_ADDRESS, 9, 20, 64));
    let closed = entry(&seen.0, Stage::Socket, "NoPorts");
    assert_eq!((closed.watched, closed.kind), (Some(20), Kind::Consumed));
    assert_eq!((seen.0.balance.delivered, seen.0.balance.lost), (20, 0), "consumed, not lost");
    balanced(&seen);

    let seen = watch(&router, || send(lan, WAN_ADDRESS, 9, 60, 64));
    assert_eq!((seen.0.balance.forwarded, seen.0.lost()), (60, (0, 0)), "{:#?}", seen.0);
    balanced(&seen);

    // A neighbour that never answers: three packets may wait for it. The counter is the whole
    // machine's, so that others' packets may be in it.
    assert!(run(&router, "sysctl -qw net.ipv4.neigh.wan0.unres_qlen=3"));
    let seen = watch(&router, || send(lan, Ipv4Addr::new(198, 18, 2, 77), 9, 200, 64));
    let unresolved = entry(&seen.0, Stage::Neighbour, "unresolved_discards");
    assert!(unresolved.machine_wide && unresolved.watched.unwrap() >= 150, "{unresolved:?}");
    balanced(&seen);
}

#[test]
fn rules_that_drop_are_named_with_what_they_dropped() {
    need_root!();
    let (router, _open) = router("losses-rules");
    let lan = &router.lab.lan;
    let table = "nft add table inet losses";
    if !run(&router, table) {
        eprintln!("SKIPPED rules_that_drop_are_named_with_what_they_dropped: no nft here");
        return;
    }
    for rule in [
        "nft add chain inet losses f { type filter hook forward priority 0 ; }",
        "nft add chain inet losses i { type filter hook input priority 0 ; }",
        "nft add chain inet losses sub",
        "nft add rule inet losses f udp dport 7 jump sub",
        "nft add rule inet losses sub counter drop",
        "nft add rule inet losses i udp dport 7 counter reject",
        "nft add rule inet losses f udp dport 8 drop",
    ] {
        assert!(run(&router, rule), "{rule}");
    }
    let seen = watch(&router, || {
        send(lan, WAN_ADDRESS, 7, 40, 64);
        send(lan, ROUTER_LAN_ADDRESS, 7, 15, 64);
        send(lan, WAN_ADDRESS, 9, 10, 64);
    });
    let dropped = entry(&seen.0, Stage::Netfilter, "forward");
    assert!(dropped.place.starts_with("nft inet losses sub handle "), "{dropped:?}");
    assert_eq!((dropped.watched, dropped.kind), (Some(40), Kind::ByRule));
    assert_eq!(entry(&seen.0, Stage::Netfilter, "in").watched, Some(15));
    assert_eq!((seen.0.balance.forwarded, seen.0.balance.lost), (10, 55), "{:#?}", seen.0.balance);
    assert_eq!(seen.0.lost().0, 55, "what other tests of this machine lose is beside it");
    balanced(&seen);
    // A named counter, and a map whose elements count.
    for rule in [
        "nft add counter inet losses gone",
        "nft add rule inet losses f udp dport 5 counter name gone drop",
        "nft add rule inet losses f udp dport 4 counter name gone drop",
        "nft add map inet losses ports { type inet_service : verdict ; counter ; }",
        "nft add element inet losses ports { 3 : drop , 2 : jump sub }",
        "nft add rule inet losses f udp dport vmap @ports",
    ] {
        assert!(run(&router, rule), "{rule}");
    }
    let seen = watch(&router, || {
        for (port, count) in [(5, 6), (4, 7), (3, 8), (2, 9)] {
            send(lan, WAN_ADDRESS, port, count, 64);
        }
    });
    let by = |end: &str| {
        let one = seen.0.entries.iter().find(|e| e.place.ends_with(end) && e.count() > 0);
        one.unwrap_or_else(|| panic!("no {end} in {:#?}", seen.0.entries)).watched
    };
    assert_eq!((by("counter gone"), by("map ports")), (Some(13), Some(8)));
    assert_eq!((seen.0.balance.forwarded, seen.0.balance.lost), (0, 30), "{:#?}", seen.0.balance);
    balanced(&seen);
    // The old iptables counts by itself; not every kernel has it.
    if run(&router, "iptables-legacy -A FORWARD -p udp --dport 6 -j DROP") {
        let seen = watch(&router, || send(lan, WAN_ADDRESS, 6, 12, 64));
        let dropped = entry(&seen.0, Stage::Netfilter, "forward");
        let place = "iptables filter FORWARD rule 1";
        assert_eq!((dropped.place.as_str(), dropped.watched), (place, Some(12)));
        balanced(&seen);
    }
    // A rule that counts nothing leaves a hole, which is said with the rule's name.
    let seen = watch(&router, || send(lan, WAN_ADDRESS, 8, 25, 64));
    let balance = &seen.0.balance;
    assert_eq!((balance.forwarded, balance.lost), (0, 0), "{balance:#?}");
    assert!(balance.unexplained >= 25, "{balance:#?}");
    assert!(
        balance.may_be.iter().any(|m| m.starts_with("nft inet losses f handle ")),
        "{balance:#?}"
    );
}

#[test]
fn a_forgotten_shaper_is_named_with_its_rate_and_what_it_dropped() {
    need_root!();
    let (router, _open) = router("losses-shaper");
    let lan = &router.lab.lan;
    if !run(&router, "tc qdisc add dev wan0 root tbf rate 160kbit burst 3000 limit 4000") {
        eprintln!("SKIPPED a_forgotten_shaper: no tc, or no tbf in this kernel");
        return;
    }
    let seen = watch(&router, || send(lan, WAN_ADDRESS, 9, 100, 64));
    let dropped = entry(&seen.0, Stage::Qdisc, "drops");
    assert_eq!(dropped.place, "wan0 root tbf 160 kbit/s");
    let shown = router.lab.router.run(|| {
        let shown =
            Command::new("tc").args(["-s", "qdisc", "show", "dev", "wan0", "root"]).output();
        String::from_utf8(shown.unwrap().stdout).unwrap()
    });
    let shown = shown.unwrap();
    let words: Vec<&str> = shown.split([' ', ',', '\n']).collect();
    let at = words.iter().position(|word| *word == "(dropped").unwrap();
    assert_eq!(dropped.since_boot.to_string(), words[at + 1], "{shown}");
    assert!(dropped.watched.unwrap() > 50, "{dropped:?}");
    assert!(entry(&seen.0, Stage::Qdisc, "overlimits").watched.unwrap() > 0);
    assert_eq!(seen.0.balance.lost_behind, dropped.watched.unwrap(), "{:#?}", seen.0.balance);
    balanced(&seen);
}

#[test]
fn a_shaper_in_a_class_is_named_with_its_class() {
    need_root!();
    let (router, _open) = router("losses-class");
    let lan = &router.lab.lan;
    let tbf = "tc qdisc add dev wan0 parent 1:3 tbf rate 160kbit burst 3000 limit 4000";
    let all = "tc filter add dev wan0 parent 1: matchall classid 1:3";
    if !(run(&router, "tc qdisc add dev wan0 root handle 1: prio")
        && run(&router, tbf)
        && run(&router, all))
    {
        eprintln!(
            "SKIPPED (optional) a_shaper_in_a_class: this kernel has no prio, tbf or matchall"
        );
        return;
    }
    let seen = watch(&router, || send(lan, WAN_ADDRESS, 9, 100, 64));
    let lost: Vec<_> = seen.0.entries.iter().filter(|e| e.kind == Kind::Lost).collect();
    let [one] = lost.as_slice() else { panic!("{lost:#?}") };
    assert_eq!(one.place, "wan0 class 1:3 tbf 160 kbit/s inner");
    assert!(one.watched.unwrap() > 50, "{one:?}");
    assert_eq!(seen.0.balance.lost_behind, one.watched.unwrap(), "{:#?}", seen.0.balance);
    balanced(&seen);
}

#[test]
fn the_program_tells_the_ledger_since_boot_and_of_a_while() {
    need_root!();
    let router = Router::new("losses-program");
    send(&router.lab.lan, Ipv4Addr::new(198, 19, 7, 7), 9, 33, 64);
    let told = router.run(&["check", "--losses", "--json"]);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&told["format"], &told["seconds"]), (&"linerate-losses".into(), &().into()));
    let entries = told["entries"].as_array().unwrap();
    let lost = entries.iter().find(|e| e["counter"] == "InNoRoutes").unwrap();
    assert_eq!((&lost["since_boot"], &lost["stage"]), (&33.into(), &"routing".into()));

    let lab = &router.lab;
    let lan = Arc::clone(&lab.lan);
    let traffic = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        send(&lan, Ipv4Addr::new(198, 19, 7, 7), 9, 44, 64);
    });
    let told = router.run(&["check", "--losses", "4"]);
    traffic.join().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    let row =
        text.lines().find(|line| line.contains("InNoRoutes")).unwrap_or_else(|| panic!("{text}"));
    let figures: Vec<&str> = row.split_whitespace().rev().take(3).collect();
    assert_eq!((figures[0], figures[2]), ("77", "44"), "since boot, and watched: {text}");
    assert!(text.contains("the routing table has no way to the destination"), "{text}");

    // A capture tells the same, and lacks nothing of it.
    let captured = router.run(&["capture", "-o", "c.tar.gz", "--samples", "1"]);
    assert!(captured.status.success(), "{}", String::from_utf8_lossy(&captured.stderr));
    let told = router.place.run(&["check", "--losses", "--json", "--host", "c.tar.gz"]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let entries = told["entries"].as_array().unwrap();
    let lost = entries.iter().find(|e| e["counter"] == "InNoRoutes").unwrap();
    assert_eq!((&lost["since_boot"], &told["gaps"]), (&77.into(), &serde_json::json!([])));

    let reading = read(&router);
    assert!(reading.counts.keys().any(|c| c.source == Source::Qdisc), "noqueue is there");
    assert_eq!(reading.gaps, []);
}

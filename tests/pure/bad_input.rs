//! Kernel files as they are never written, and as broken tools hand them on: cut anywhere, lines
//! ended by CR LF, columns lost or doubled, bytes that are no UTF-8, numbers beyond 64 bits.

use std::fmt::Debug;

use linerate::machine::parse::{
    cmdline, config, cpuinfo, cpumask, crypto, interrupts, keyvalue, modules, net_counters, pppoe,
    preempt, route, softnet, stat, uci, vlan,
};

fn told(value: impl Debug) -> String {
    format!("{value:?}")
}

type Parser = fn(&[u8]) -> String;

fn counts(bytes: &[u8]) -> String {
    let table = interrupts::interrupts(bytes);
    let of_row = |row: &interrupts::Row<'_>| {
        let counts: Vec<u64> = row.counts(table.cpus.len()).collect();
        told((row.line, counts, &row.chip, row.trigger, &row.actions))
    };
    told((&table.cpus, table.skipped, table.rows.iter().map(of_row).collect::<Vec<_>>()))
}

/// Each parser with a good file of its kind.
fn files() -> Vec<(&'static str, Parser, Vec<u8>)> {
    let fixture = |path: &str| {
        let path = format!("{}/fixtures/{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let r76s = |path: &str| fixture(&format!("hosts/rk3576-8-r8169x2-6.1/{path}"));
    let pi = |path: &str| fixture(&format!("hosts/bcm2711-4-bcmgenet+wireguard-6.1/{path}"));
    vec![
        ("interrupts", counts, fixture("proc/interrupts-r4s")),
        ("interrupts of a guest", counts, fixture("proc/interrupts-x86-virtio")),
        ("softnet_stat", |b| told(softnet::softnet(b)), fixture("proc/softnet_stat-6.18")),
        ("old softnet_stat", |b| told(softnet::softnet(b)), fixture("proc/softnet_stat-5.4")),
        ("stat", |b| told(stat::cpu_ticks(b)), fixture("proc/stat-6.18")),
        ("cpuinfo", |b| told(cpuinfo::cpuinfo(b)), pi("proc/cpuinfo")),
        ("crypto", |b| told(crypto::chosen(b)), pi("proc/crypto")),
        ("modules", |b| told(modules::names(b)), pi("proc/modules")),
        ("route", |b| told((route::defaults(b), route::devices(b))), r76s("proc/net/route")),
        ("vlan/config", |b| told(vlan::config(b)), r76s("proc/net/vlan/config")),
        ("pppoe", |b| told(pppoe::devices(b)), r76s("proc/net/pppoe")),
        ("network", |b| told(uci::sections(b)), r76s("etc/config/network")),
        ("firewall", |b| told(uci::sections(b)), r76s("etc/config/firewall")),
        (
            "openwrt_release",
            |b| told(keyvalue::value(b, "DISTRIB_DESCRIPTION")),
            r76s("etc/openwrt_release"),
        ),
        (
            "configuration",
            |b| told((config::values(b, &["HZ", "PREEMPT"]), config::option(b, "PREEMPT"))),
            b"CONFIG_HZ=250\n# CONFIG_SMP is not set\nCONFIG_PREEMPT=y\n".to_vec(),
        ),
        (
            "cmdline",
            |b| told((cmdline::words(b), cmdline::parameter(b, "isolcpus"))),
            b"quiet isolcpus=2-3 x=\"a b\"\n".to_vec(),
        ),
        (
            "preempt",
            |b| told((preempt::in_force(b), preempt::of_version(b))),
            b"none voluntary (full)\n".to_vec(),
        ),
        ("mask", |b| told(cpumask::mask(b).ok()), b"00000001,0000000f\n".to_vec()),
        ("number", |b| told(net_counters::number(b)), b"4294967295\n".to_vec()),
    ]
}

fn replaced(bytes: &[u8], with: impl Fn(usize, u8) -> Vec<u8>) -> Vec<u8> {
    bytes.iter().enumerate().flat_map(|(at, byte)| with(at, *byte)).collect()
}

#[test]
fn lines_that_end_in_cr_lf_mean_the_same() {
    for (name, parser, good) in files() {
        let dos = replaced(&good, |_, b| if b == b'\n' { b"\r\n".to_vec() } else { vec![b] });
        assert_eq!(parser(&dos), parser(&good), "{name}");
    }
}

#[test]
fn a_file_cut_anywhere_is_read_as_far_as_it_goes() {
    for (name, parser, good) in files() {
        let mut longest = 0;
        for cut in 0..good.len() {
            longest = longest.max(parser(&good[..cut]).len());
        }
        let whole = parser(&good).len();
        assert!(longest <= 2 * whole + 64, "{name}: a part says far more than the whole");
    }
}

#[test]
fn columns_lost_or_doubled_are_survived() {
    for (_, parser, good) in files() {
        let text = String::from_utf8(good).unwrap();
        let columns = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let most = text.lines().map(|l| columns(l).len()).max().unwrap_or(0);
        for at in 0..most.min(40) {
            for twice in [false, true] {
                let changed = text.lines().map(|line| {
                    let mut words = columns(line);
                    match (words.get(at).cloned(), twice) {
                        (Some(word), true) => words.insert(at, word),
                        (Some(_), false) => drop(words.remove(at)),
                        (None, _) => {}
                    }
                    words.join(" ")
                });
                parser(changed.collect::<Vec<_>>().join("\n").as_bytes());
            }
        }
    }
}

#[test]
fn bytes_that_are_no_utf8_and_nuls_are_survived() {
    for (_, parser, good) in files() {
        for bad in [0xff, 0x00, 0xc3, b':', b'='] {
            for nth in [2, 3, 5, 7] {
                parser(&replaced(&good, |at, b| vec![if at % nth == 0 { bad } else { b }]));
            }
            parser(&replaced(&good, |_, b| vec![if b.is_ascii_alphabetic() { bad } else { b }]));
        }
    }
}

#[test]
fn numbers_beyond_64_bits_are_survived() {
    for (_, parser, good) in files() {
        for more in ["99999999999999999999", "ffffffffffffffffffff", "-1", "0x10"] {
            parser(&replaced(&good, |at, b| {
                let after_digit = at > 0 && good[at - 1].is_ascii_digit();
                match b.is_ascii_digit() && !after_digit {
                    true => more.as_bytes().to_vec(),
                    false => vec![b],
                }
            }));
        }
    }
    assert_eq!(net_counters::number(b"18446744073709551616"), None);
}

//! Queueing disciplines through rtnetlink: setting the root of a device, and the counters of all.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket, attribute, text, u32_at};
use super::rtnl::{RTM_GETQDISC, TC_H_ROOT, TCA_KIND, TCMSG, index_of, links};
use crate::model::loss::QdiscCounts;

// linux/rtnetlink.h
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
/// TCA_STATS_QUEUE, `struct gnet_stats_queue`: qlen, backlog, drops, requeues, overlimits.
const STATS_QUEUE: u16 = 3;
/// TC_H_INGRESS, which is clsact's parent as well.
const TC_H_INGRESS: u32 = 0xffff_fff1;
/// TCA_TBF_PARMS begins with `struct tc_ratespec`, whose last word is the rate in bytes a second;
/// TCA_TBF_RATE64 is there for rates that this word has no room for.
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;

/// Puts a queueing discipline of `kind` at the root of `device`. With handle 0 the kernel gives it
/// one; `options` are its attributes as a dump has them, none for its defaults.
///
/// # Errors
/// ENOENT for a kind that this kernel lacks; EINVAL for options that it does not take; ENODEV;
/// EPERM.
pub fn replace(device: &str, kind: &str, handle: u32, options: &[u8]) -> io::Result<()> {
    let attrs = Attrs::new().text(TCA_KIND, kind);
    let attrs = if options.is_empty() { attrs } else { attrs.bytes(TCA_OPTIONS, options) };
    ask(device, RTM_NEWQDISC, NlmF::CREATE | NlmF::REPLACE, handle, &attrs)
}

/// Takes the root queueing discipline away; the kernel then puts its default there, which is what
/// it was before anybody asked for another.
///
/// # Errors
/// ENODEV; EPERM.
pub fn reset(device: &str) -> io::Result<()> {
    match ask(device, RTM_DELQDISC, NlmF::empty(), 0, &Attrs::new()) {
        // The default itself can't be taken away (net/sched/sch_api.c, __tc_get_qdisc: handle 0).
        Err(e) if e.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(()),
        other => other,
    }
}

fn ask(device: &str, kind: u16, flags: NlmF, handle: u32, attrs: &Attrs) -> io::Result<()> {
    // struct tcmsg: family and padding, interface index, handle, parent, info.
    let words = [0, index_of(device)?, handle, TC_H_ROOT, 0];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Socket::open(NlFamily::Route)?.ask(Message::new(kind, flags, &header, attrs)).map(drop)
}

/// Counters of all queueing disciplines in the calling thread's network namespace, those that stand
/// under classes of others included.
///
/// # Errors
/// What the kernel answered.
pub fn counts() -> io::Result<Vec<QdiscCounts>> {
    let message = Message::new(RTM_GETQDISC, NlmF::empty(), &[0; TCMSG], &Attrs::new());
    Ok(tell(&Socket::open(NlFamily::Route)?.dump(message)?, &links()?))
}

pub(super) fn tell(answers: &[Vec<u8>], links: &BTreeMap<u32, String>) -> Vec<QdiscCounts> {
    // Handle of the root by device, where the root stands for the queues and sums them up.
    let kind = |body: &[u8]| Some(text(attribute(body.get(TCMSG..)?, TCA_KIND)?));
    let root = |body: &&Vec<u8>| u32_at(body, 12) == Some(TC_H_ROOT);
    let mut roots: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
    for body in answers.iter().filter(root) {
        if let (Some(index), Some(handle), Some(kind)) =
            (u32_at(body, 4), u32_at(body, 8), kind(body))
        {
            roots.insert(index, (handle, kind.starts_with("mq")));
        }
    }
    let one = |body: &Vec<u8>| {
        let (index, parent) = (u32_at(body, 4)?, u32_at(body, 12)?);
        let attrs = body.get(TCMSG..)?;
        let queue = attribute(attribute(attrs, TCA_STATS2)?, STATS_QUEUE)?;
        let kind = kind(body)?;
        let root = roots.get(&index);
        let multi = root.is_some_and(|(_, multi)| *multi);
        let (major, minor) = (parent >> 16, parent & 0xffff);
        let of_queue = multi && root.is_some_and(|(handle, _)| handle >> 16 == major) && minor > 0;
        let place = match parent {
            TC_H_ROOT => "root".to_owned(),
            TC_H_INGRESS => "ingress".to_owned(),
            _ if of_queue => format!("queue {}", minor - 1),
            _ => format!("class {major:x}:{minor:x}"),
        };
        let options = attribute(attrs, TCA_OPTIONS).filter(|_| kind == "tbf");
        let rate = options.and_then(|o| {
            let large = attribute(o, TBF_RATE64).and_then(|b| b.first_chunk().copied());
            let small = || attribute(o, TBF_PARMS).and_then(|p| u32_at(p, 8)).map(u64::from);
            large.map(u64::from_ne_bytes).or_else(small)
        });
        Some(QdiscCounts {
            device: links.get(&index)?.clone(),
            // What a queue lost is in the sum of its mq; what an inner one lost, in its root.
            inner: (parent != TC_H_ROOT && parent != TC_H_INGRESS && !of_queue)
                || (parent == TC_H_ROOT && multi),
            kind,
            place,
            rate: rate.map(|bytes| bytes.saturating_mul(8)),
            drops: u32_at(queue, 8)?,
            requeues: u32_at(queue, 12)?,
            overlimits: u32_at(queue, 16)?,
        })
    };
    answers.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(handle: u32, parent: u32, kind: &str, queue: [u32; 5], options: &Attrs) -> Vec<u8> {
        let words = [0, 2, handle, parent, 0];
        let mut body: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        let queue: Vec<u8> = queue.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let stats = Attrs::new().bytes(STATS_QUEUE, &queue);
        let attrs = Attrs::new().text(TCA_KIND, kind).nest(TCA_OPTIONS, options);
        body.extend(attrs.nest(TCA_STATS2, &stats).as_slice());
        body
    }

    #[test]
    fn a_shaper_is_told_with_its_rate_and_what_stands_in_it_is_not_counted_twice() {
        let links = BTreeMap::from([(2, "eth0".to_owned())]);
        // struct tc_ratespec: 8 bytes, then 125,000 bytes a second.
        let parms = [&[0; 8], 125_000_u32.to_ne_bytes().as_slice()].concat();
        let shaper = Attrs::new().bytes(TBF_PARMS, &parms);
        let none = Attrs::new();
        let found = tell(
            &[
                answer(0x8001_0000, TC_H_ROOT, "tbf", [1, 2, 30, 4, 50], &shaper),
                answer(0x8002_0000, 0x8001_0001, "bfifo", [1, 2, 30, 0, 0], &none),
                answer(0xffff_0000, TC_H_INGRESS, "clsact", [0, 0, 7, 0, 0], &none),
                vec![1, 2],
            ],
            &links,
        );
        let told: Vec<_> = found
            .iter()
            .map(|q| (q.place.as_str(), q.inner, q.rate, q.drops, q.requeues, q.overlimits))
            .collect();
        assert_eq!(
            told,
            [
                ("root", false, Some(1_000_000), 30, 4, 50),
                ("class 8001:1", true, None, 30, 0, 0),
                ("ingress", false, None, 7, 0, 0),
            ]
        );
    }

    #[test]
    fn queues_of_mq_are_counted_one_by_one_and_mq_itself_is_their_sum() {
        let links = BTreeMap::from([(2, "eth0".to_owned())]);
        let none = Attrs::new();
        let found = tell(
            &[
                answer(0, TC_H_ROOT, "mq", [0, 0, 5, 0, 0], &none),
                answer(0, 1, "fq_codel", [0, 0, 2, 0, 0], &none),
                answer(0, 2, "fq_codel", [0, 0, 3, 0, 0], &none),
            ],
            &links,
        );
        let told: Vec<_> = found.iter().map(|q| (q.place.as_str(), q.inner, q.drops)).collect();
        assert_eq!(told, [("root", true, 5), ("queue 0", false, 2), ("queue 1", false, 3)]);
    }
}

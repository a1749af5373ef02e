//! The root queueing discipline of a device, through rtnetlink.

use std::io;

use rustix::io::Errno;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Socket};
use super::rtnl::{TC_H_ROOT, TCA_KIND, index_of};

// linux/rtnetlink.h
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const TCA_OPTIONS: u16 = 2;

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

//! Links that come and go, as the kernel announces them, for somebody who listens for months.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::netlink::{Attrs, Message, NlFamily, NlmF, Notice, Socket, attribute, text, u32_at};

// linux/rtnetlink.h, linux/if_link.h, linux/if.h
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTNLGRP_LINK: u32 = 1;
const IFINFOMSG: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFF_LOWER_UP: u32 = 1 << 16;

/// Changes of the links since they were last asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// Times that the carrier of each device came or went.
    pub carriers: BTreeMap<String, u32>,
    /// True if a device was made, removed or renamed.
    pub devices: bool,
    /// True if there was more than the socket's buffer holds; the links were listed anew then.
    pub overrun: bool,
}

impl News {
    /// True if there is any.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}

/// Name, and whether there is a carrier, by the device's number.
type Links = BTreeMap<u32, (String, bool)>;

/// Listens in the network namespace of the thread that opened it.
pub struct LinkNews {
    socket: Socket,
    links: Links,
}

impl LinkNews {
    /// Listens from now on.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::listen(NlFamily::Route, RTNLGRP_LINK)?;
        Ok(Self { socket, links: all()? })
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// News since the last call, in the thread that opened it. It never waits.
    ///
    /// # Errors
    /// What the kernel answered when the links had to be listed anew.
    pub fn take(&mut self) -> io::Result<News> {
        let mut news = News::default();
        loop {
            match self.socket.news() {
                Ok(notices) => {
                    notices.iter().for_each(|notice| heard(&mut self.links, notice, &mut news));
                    break;
                }
                Err(e) if e.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                    news.overrun = true;
                }
                Err(e) => return Err(e),
            }
        }
        if news.overrun {
            let now = all()?;
            differ(&self.links, &now, &mut news);
            self.links = now;
        }
        Ok(news)
    }
}

fn all() -> io::Result<Links> {
    let all = Message::new(RTM_GETLINK, NlmF::empty(), &[0; IFINFOMSG], &Attrs::new());
    let links = Socket::open(NlFamily::Route)?.dump(all)?;
    Ok(links.iter().filter_map(|body| link(body)).collect())
}

/// Number, name and carrier, from a message about a link.
fn link(body: &[u8]) -> Option<(u32, (String, bool))> {
    let name = attribute(body.get(IFINFOMSG..)?, IFLA_IFNAME).map(text)?;
    Some((u32_at(body, 4)?, (name, u32_at(body, 8)? & IFF_LOWER_UP != 0)))
}

fn heard(links: &mut Links, notice: &Notice, news: &mut News) {
    // A bridge's word on one of its ports is of another family.
    let body = notice.body.as_slice();
    let Some((index, now)) = link(body).filter(|_| body.first() == Some(&0)) else { return };
    match notice.kind {
        RTM_NEWLINK => {
            let then = links.insert(index, now.clone());
            changed(then.as_ref(), &now, news);
        }
        RTM_DELLINK => news.devices |= links.remove(&index).is_some(),
        _ => {}
    }
}

fn changed(then: Option<&(String, bool)>, (name, up): &(String, bool), news: &mut News) {
    match then {
        Some((before, was_up)) => {
            news.devices |= before != name;
            if was_up != up {
                *news.carriers.entry(name.clone()).or_default() += 1;
            }
        }
        None => news.devices = true,
    }
}

fn differ(then: &Links, now: &Links, news: &mut News) {
    news.devices |= then.keys().any(|index| !now.contains_key(index));
    now.iter().for_each(|(index, link)| changed(then.get(index), link, news));
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use super::super::netns::NetnsThread;
    use super::super::rtnl::{self, VethEnd};
    use super::*;

    #[test]
    fn a_link_that_flaps_and_an_overrun_are_told_and_the_state_is_right_afterwards() {
        let Ok(netns) = NetnsThread::create() else {
            eprintln!("SKIPPED a_link_that_flaps_and_an_overrun: no namespace can be made here");
            return;
        };
        let end = |name| VethEnd { name, netns: None };
        netns.run(move || rtnl::create_veth(end("a"), end("b"), 1500)).unwrap().unwrap();
        let news = Arc::new(Mutex::new(netns.run(LinkNews::open).unwrap().unwrap()));
        // Links are listed where it was opened.
        let take = || {
            let news = Arc::clone(&news);
            netns.run(move || news.lock().unwrap().take().unwrap()).unwrap()
        };
        assert!(!take().is_any());
        let set = |up: &'static [bool]| {
            let flags = |name: &str| format!("/sys/class/net/{name}/flags");
            let write = move || {
                up.iter().try_for_each(|up| {
                    let value = if *up { "0x1003" } else { "0x1002" };
                    std::fs::write(flags("a"), value)
                        .and_then(|()| std::fs::write(flags("b"), value))
                })
            };
            netns.run(write).unwrap().unwrap();
        };
        // The kernel tells of carriers up to a second later (net/core/link_watch.c).
        let up = || {
            let mut all = News::default();
            let deadline = Instant::now() + Duration::from_secs(60);
            while !news.lock().unwrap().links.values().any(|(name, up)| name == "a" && *up) {
                assert!(Instant::now() < deadline, "a never came up: {all:?}");
                let told = take();
                all.overrun |= told.overrun;
                all.carriers.extend(told.carriers);
                std::thread::sleep(Duration::from_millis(20));
            }
            all
        };
        set(&[true]);
        let told = up();
        assert!(told.carriers.contains_key("a") && !told.overrun, "{told:?}");
        // More than the buffer of a socket holds.
        set(Vec::leak((0..6000).map(|n| n % 2 == 1).collect()));
        assert!(take().overrun);
        up();
        set(&[false]);
        let told = take();
        assert_eq!(told.carriers.get("a"), Some(&1), "known to be up before: {told:?}");
        netns.run(|| rtnl::delete("a")).unwrap().unwrap();
        assert!(take().devices);
    }
}

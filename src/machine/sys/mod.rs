//! System calls that need `unsafe` or raw netlink; the only place where `unsafe` is allowed.
//!
//! In come names, addresses and values; out go the kernel's answers, or plain [`std::io::Error`]s to
//! which `host` and `lab` add the path or device. Functions touch the network namespace of the
//! calling thread and nothing else.

pub mod affinity;
pub mod clock;
pub mod conntrack;
mod decode;
pub mod device;
pub mod echo;
pub mod ethtool;
pub mod ethtool_ioctl;
pub mod fd;
mod genl;
pub mod link_news;
pub mod links;
pub mod monitor;
pub mod napi;
pub mod neighbour;
mod netlink;
pub mod netns;
pub mod nft;
pub mod nft_drop;
pub mod nft_flow;
pub mod nft_list;
pub mod nic;
mod nic_counters;
pub mod nic_set;
pub mod packet;
pub mod perf;
pub mod pinned;
pub mod poll;
pub mod process;
pub mod qdisc;
pub mod route;
pub mod rtnl;
mod rule_walk;
pub mod sandbox;
pub mod sched;
pub mod scrape;
pub mod socket;
pub mod spawn;
pub mod supervisor;
pub mod wireguard;
pub mod xsk;
pub mod xtables;

#[doc(hidden)]
pub use decode::{decode_answers, decode_counters, decode_tables};

//! The rules, one file for each subject.
//!
//! In comes the subject that all rules look at; out go findings, or the facts that a rule lacks.
//! Nothing is read or written.

mod bus;
mod clocks;
mod conntrack;
mod crypto;
mod flow_offload;
mod inert;
mod interrupts;
mod kernel;
mod limits;
mod link;
mod mtu;
mod netfilter;
mod offloads;
mod placement;
pub(super) mod regression;
mod rings;
mod routing;
mod rss;
mod services;
mod softnet;
mod spread;
mod steering;
mod tracing;
mod transmit;

use super::Rule;

/// All of them; within a severity and a cost, the order in which findings are told.
pub(super) const ALL: &[&[Rule]] = &[
    placement::RULES,
    spread::RULES,
    steering::RULES,
    rss::RULES,
    flow_offload::RULES,
    netfilter::RULES,
    conntrack::RULES,
    softnet::RULES,
    limits::RULES,
    rings::RULES,
    routing::RULES,
    interrupts::RULES,
    offloads::RULES,
    link::RULES,
    transmit::RULES,
    mtu::RULES,
    bus::RULES,
    clocks::RULES,
    services::RULES,
    crypto::RULES,
    tracing::RULES,
    kernel::RULES,
    regression::RULES,
    inert::RULES,
];

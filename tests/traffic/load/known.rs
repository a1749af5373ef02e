//! Routers whose capacity and loss are known, because a token bucket or a random drop of this kernel
//! makes them: what a search finds must be the truth, within stated errors.

use linerate::measure::bench::sweep::Sweeper;
use linerate::model::ethernet::{Frame, PacketRate};
use linerate::model::sweep::{Goal, GoalOutcome, SweepPoint};

use super::*;

const PAYLOAD: f64 = 1472.0;

fn packets(mbit: f64) -> PacketRate {
    PacketRate(mbit * 1e6 / 8.0 / PAYLOAD)
}

fn sweeper<'a>(
    context: &'a Context,
    stop: &'a AtomicBool,
    on: &'a mut dyn FnMut(&SweepPoint),
) -> Sweeper<'a> {
    Sweeper {
        bed: context,
        direction: Direction::Up,
        streams: 1,
        sender: Sender::Socket,
        sent_by: None,
        deadline: None,
        stop,
        on,
    }
}

fn goal(loss_ratio: f64) -> Goal {
    Goal {
        name: "known".into(),
        loss_ratio,
        exceed_ratio: 0.5,
        initial_trial: 0.2,
        final_trial: 1.0,
        duration_sum: 2.0,
        width: 0.04,
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_search_finds_the_capacity_of_a_token_bucket() {
    // Mbit/s of payload; the bucket counts 1514 bytes for 1472 of payload (tbf takes
    // `qdisc_pkt_len`, without the FCS).
    const CAPACITY: f64 = 4.0;
    /// Bytes that pass at once, and that wait.
    const BURST: f64 = 4000.0;
    const QUEUE: f64 = 16_000.0;
    let _alone = alone();
    // Where it can't, the test needs a quieter machine.
    before_others();
    let lab = lab!();
    let bucket = "tc qdisc add dev wan0 root tbf rate 4114kbit burst 4000 limit 16000";
    if !command(&lab.router, bucket) {
        skip!("no tc with tbf here to make a narrow path with");
    }
    // What stands in the bucket and before it when a trial of a second ends arrives too.
    let credit = (BURST + QUEUE) / 1514.0 * PAYLOAD / (CAPACITY * 1e6 / 8.0);
    let (context, stop) = (context(&lab), go_on());
    let mut seen = Vec::new();
    let mut on = |point: &SweepPoint| seen.push(format!("{point:?}"));
    let goals = [goal(0.0), goal(0.005)];
    let found = sweeper(&context, &stop, &mut on)
        .search(Frame(1518), &goals, Some(packets(2.0 * CAPACITY)))
        .unwrap();
    for result in &found.results {
        assert_eq!(result.outcome, GoalOutcome::Found, "{result:?}\n{}", seen.join("\n"));
        let share = |rate: Option<f64>| rate.unwrap() / packets(CAPACITY).0;
        let (lower, upper) = (share(result.lower), share(result.upper));
        // A trial may be 2 % short of what it was asked for and still count.
        assert!(lower <= 1.02 + credit, "{lower} to {upper}\n{}", seen.join("\n"));
        assert!(upper >= 0.98, "{lower} to {upper}\n{}", seen.join("\n"));
        assert!(upper - lower <= 0.041 * upper, "{lower} to {upper}");
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_known_share_lost_comes_out_at_every_rate() {
    const DROP: f64 = 0.1;
    let _alone = alone();
    before_others();
    let lab = lab!();
    let rules = [
        "nft add table ip loss",
        "nft add chain ip loss forward { type filter hook forward priority 1; }",
        "nft add rule ip loss forward udp length > 1000 numgen random mod 10 0 drop",
    ];
    if !rules.into_iter().all(|rule| command(&lab.router, rule)) {
        skip!("no nft with random numbers here to lose packets with");
    }
    let (context, stop) = (context(&lab), go_on());
    let mut on = |_: &SweepPoint| ();
    let mut sweeper = sweeper(&context, &stop, &mut on);
    for mbit in [2.0, 8.0] {
        let point = sweeper.offer(Frame(1518), Some(packets(mbit)), 1.0).unwrap();
        let (sent, lost) = (point.sent.unwrap() as f64, point.lost.unwrap() as f64);
        // Five standard errors of a share.
        let error = 5.0 * (DROP * (1.0 - DROP) / sent).sqrt();
        assert!(sent > 100.0 && (lost / sent - DROP).abs() < error, "{point:?}");
    }
    let found = sweeper.search(Frame(1518), &[goal(0.0)], Some(packets(4.0))).unwrap();
    let outcome = found.results[0].outcome;
    assert_eq!(outcome, GoalOutcome::BelowMinimum, "nothing holds: {found:?}");
}

//! Machines far larger than a router: discovery's work grows with them, not with their square.
//! Counted, not timed: time says little on a shared machine. `cargo bench` prints time and memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::scene;
use crate::scene::big::{Size, machine};
use linerate::decide::plan;
use linerate::machine::discover;
use linerate::machine::host::{Archive, Captured, FakeHost, HostRead, HostResult, Query, Tree};
use linerate::model::cpuset::CpuSet;
use linerate::model::identity::HostIdentity;
use linerate::model::snapshot::{IrqRole, Snapshot};

/// A door that counts what goes through it.
struct Counting {
    host: Captured,
    questions: AtomicUsize,
    bytes: AtomicUsize,
}

impl Counting {
    fn count<T>(&self, answer: HostResult<T>, size: impl FnOnce(&T) -> usize) -> HostResult<T> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        if let Ok(value) = &answer {
            self.bytes.fetch_add(size(value), Ordering::Relaxed);
        }
        answer
    }
}

impl HostRead for Counting {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        self.count(self.host.read(path), Vec::len)
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        self.count(self.host.list(path), |names| names.iter().map(String::len).sum())
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.count(self.host.resolve(path), |_| 0)
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        self.count(self.host.query(query), Vec::len)
    }

    fn arch(&self) -> String {
        self.host.arch()
    }

    fn identity(&self) -> HostIdentity {
        self.host.identity()
    }
}

/// Questions asked, bytes answered, and what was made of them.
fn look(size: Size) -> (usize, usize, Snapshot) {
    let host = Archive::from_bytes(&scene::archive(&machine(size), 1)).unwrap();
    let host = Counting { host, questions: AtomicUsize::new(0), bytes: AtomicUsize::new(0) };
    let snapshot = discover::snapshot(&host);
    (host.questions.into_inner(), host.bytes.into_inner(), snapshot)
}

#[test]
fn twice_the_machine_is_twice_the_work() {
    let sizes = [1, 2, 4].map(|n| Size { cpus: 32, cards: 2 * n, queues: 16, lines: 200 * n });
    let [one, two, four] = sizes.map(look);
    // From 2 to 4 is twice the step from 1 to 2; what does not grow falls out of differences.
    for count in [|l: &(usize, usize, Snapshot)| l.0, |l: &(usize, usize, Snapshot)| l.1] {
        let (first, second) = (count(&two) - count(&one), count(&four) - count(&two));
        assert!(
            second <= 2 * first + first / 10,
            "{} {} {}: more than linear",
            count(&one),
            count(&two),
            count(&four)
        );
    }
    // And by CPUs.
    let sizes = [1, 2, 4].map(|n| Size { cpus: 32 * n, cards: 2, queues: 16, lines: 200 });
    let [one, two, four] = sizes.map(|size| look(size).0);
    assert!(four - two <= 2 * (two - one) + (two - one) / 10, "{one} {two} {four}");
}

#[test]
fn every_line_of_a_large_machine_goes_to_its_card_and_queue() {
    let size = Size { cpus: 128, cards: 4, queues: 32, lines: 600 };
    let nodes = machine(size);
    let name = format!("linerate-size-{}", std::process::id());
    let root = std::env::temp_dir().join(name);
    scene::unpack(&nodes, &root).unwrap();
    let snapshot = discover::snapshot(&Tree::open(&root).unwrap());
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(snapshot, look(size).2, "directory and archive say the same");
    assert_eq!(snapshot.cpus.len(), 128);
    assert_eq!(snapshot.cpus[77].l3, "72-79".parse::<CpuSet>().unwrap());
    assert_eq!((snapshot.cpus[77].package, snapshot.cpus[77].node), (Some(1), Some(1)));
    assert_eq!(snapshot.irqs.len(), 4 * 32, "storage has the others");
    for irq in &snapshot.irqs {
        let (card, queue) = (irq.line.0 / 32, irq.line.0 % 32);
        assert_eq!((irq.id.device.as_str(), irq.id.queue), (&*format!("ens{card}"), queue));
        assert_eq!(irq.id.role, IrqRole::Combined);
        assert_eq!(irq.effective.as_ref().unwrap().first().unwrap().0, irq.line.0 % 128);
        assert_eq!(
            irq.counts.iter().map(|(_, n)| n).sum::<u64>(),
            1_000_000 + u64::from(irq.line.0)
        );
    }
}

/// A judgement for the reason of each setting grows with the square of the machine.
#[test]
fn the_settings_of_a_large_machine_are_not_judged_one_by_one() {
    let snapshot = FakeHost::router(16, &[("eth0", 64), ("eth1", 64)]).snapshot();
    let made = plan::planned(&snapshot, &plan::Traffic::default(), plan::Profile::Router).unwrap();
    let changes = made.candidate.changes().count();
    assert!(changes > 100 && made.explained == 64, "{changes} settings, {}", made.explained);
    assert!(made.candidate.settings.iter().all(|change| !change.reason.is_empty()));
}

//! Random plans.

use super::prelude::*;

/// Small routers and large ones.
const DEVICES: [&str; 8] =
    ["eth0", "eth1", "br-lan", "eth0.7", "pppoe-wan", "wlan0", "lan1", "lan2"];

fn any_plan() -> impl Strategy<Value = (u32, Vec<(u8, u32, u64)>)> {
    (1u32..70, prop::collection::vec((0u8..5, 0u32..3, any::<u64>()), 1..40))
}

fn plan_of(count: u32, picks: &[(u8, u32, u64)]) -> Candidate {
    let mut settings: BTreeMap<Knob, Value> = BTreeMap::new();
    for &(kind, queue, seed) in picks {
        let device = DEVICES[usize::try_from(seed % 8).unwrap()];
        let mut random = fastrand::Rng::with_seed(seed);
        let mut set: CpuSet = (0..count).filter(|_| random.bool()).map(CpuId).collect();
        let (knob, value) = match kind {
            0 => {
                set.insert(CpuId(random.u32(0..count)));
                (irq(device, queue), Value::Cpus(set))
            }
            1 => (rps(device, queue), Value::Cpus(set)),
            2 => (Knob::XpsCpus { device: device.into(), queue }, Value::Cpus(set)),
            3 => {
                let flows = Value::Count(random.u64(0..40_000));
                (Knob::RpsFlowCnt { device: device.into(), queue }, flows)
            }
            _ => {
                let word = ["performance", "schedutil", "powersave"][random.usize(0..3)];
                (Knob::Governor { policy: "policy0".into() }, Value::Word(word.into()))
            }
        };
        settings.insert(knob, value);
    }
    candidate("random", settings.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn apply_then_rollback_is_identity(
        first in any_plan(),
        second in prop::collection::vec((0u8..5, 0u32..3, any::<u64>()), 1..40),
        fault in prop::option::of((0usize..60, prop::sample::select(every_fault()))),
    ) {
        let (count, picks) = first;
        let fake = FakeHost::router(count, &DEVICES.map(|device| (device, 3)));
        let scratch = Scratch::new();
        let old = fake.content();
        let one = plan_of(count, &picks);
        do_apply(&fake, &fake, &one, &scratch).unwrap();
        prop_assert!(verify(&fake, &fake.snapshot(), &one).in_force());
        let between = fake.content();
        let other = plan_of(count, &second);
        let door = Faulty::new(&fake, fault.into_iter().collect());
        match do_apply(&door, &fake, &other, &scratch) {
            Ok(_) => prop_assert!(verify(&fake, &fake.snapshot(), &other).in_force()),
            Err(e) if e.code() == ExitCode::RollbackIncomplete => {}
            Err(_) => prop_assert_eq!(fake.content(), between),
        }
        do_rollback(&fake, &scratch).unwrap();
        prop_assert_eq!(fake.content(), old);
        prop_assert!(scratch.is_clean());
    }
}

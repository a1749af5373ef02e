//! Factors that an experiment can vary, and settings that it must not.

use super::*;
use crate::decide::plan::factor::*;
use crate::model::goal::Factor;
use crate::model::knob::Shape;

/// A router whose settings are all 0, off or no CPU, as far as it has them.
fn with<T>(snapshot: &Snapshot, look: impl FnOnce(&Ground<'_>) -> T) -> T {
    let candidates = candidates(snapshot);
    let current = |knob: &Knob| match (knob, knob.shape()?) {
        (Knob::Service { .. } | Knob::Coalesce { .. } | Knob::Ring { .. }, _) => None,
        (Knob::FlowOffload, _) => Some(Value::Word("off".into())),
        (_, Shape::Cpus) => Some(Value::Cpus(CpuSet::empty())),
        (_, Shape::Count) => Some(Value::Count(0)),
        (_, Shape::Switch) => Some(Value::Switch(false)),
        (_, Shape::Word) => Some(Value::Word("default".into())),
        _ => None,
    };
    look(&Ground { snapshot, current: &current, candidates: &candidates })
}

fn factor(name: &str, levels: &[&str]) -> Factor {
    Factor { name: name.into(), levels: levels.iter().map(|l| (*l).to_owned()).collect() }
}

fn lab() -> Snapshot {
    crate::decide::plan::tests::lab(2)
}

#[test]
fn every_combination_is_there_once_and_states_all_that_any_of_them_steers() {
    let snapshot = lab();
    with(&snapshot, |ground| {
        let factors = [factor("rps", &["off", "one", "all"]), factor("gro", &["on", "off"])];
        let (list, varied, left) = ground.factorial(&factors).unwrap();
        let names: Vec<&str> = list.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "rps=off gro=on",
                "rps=off gro=off",
                "rps=one gro=on",
                "rps=one gro=off",
                "rps=all gro=on",
                "rps=all gro=off",
            ]
        );
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(varied.combinations[3].levels, ["one", "off"]);
        let knobs = |c: &Candidate| {
            c.settings.iter().map(|s| s.knob.clone()).collect::<std::collections::BTreeSet<_>>()
        };
        assert!(list.iter().all(|c| knobs(c) == knobs(&list[0]) && !c.settings.is_empty()));
    });
}

#[test]
fn what_cant_be_had_is_left_out_with_its_reason_and_what_cant_be_meant_is_refused() {
    let snapshot = lab();
    with(&snapshot, |ground| {
        let factors = [
            factor("rps", &["off", "all"]),
            factor("irqbalance", &["off", "on"]),
            factor("irq", &["one", "spread"]),
        ];
        let (list, varied, left) = ground.factorial(&factors).unwrap();
        assert_eq!((list.len(), varied.factors.len()), (2, 1));
        assert!(
            left.iter()
                .any(|(what, why)| what == "irqbalance=on" && why.contains("no such setting")),
            "{left:?}"
        );
        assert!(left.iter().any(|(what, _)| what == "irq=spread"), "{left:?}");
        let unfit = |factors: &[Factor]| ground.factorial(factors).unwrap_err();
        for (factors, why) in [
            (vec![factor("speed", &["1", "2"])], "no factor"),
            (vec![factor("rps", &["nonsense"])], "rps=nonsense: \"nonsense\" is no list of CPUs"),
            (vec![factor("rps", &["off", "all", "most"])], "rps=most"),
            (vec![factor("placement", &["as-found", "nonsense"])], "no candidate nonsense"),
            (vec![factor("steering", &["3"])], "no level of steering"),
            (vec![factor("rps", &["off", "off"])], "twice"),
            (vec![factor("rps", &["off", "all"]), factor("rps", &["off", "one"])], "twice"),
            (
                vec![factor("rps", &["off", "all"]), factor("placement", &["as-found", "one-cpu"])],
                "both set",
            ),
        ] {
            let Unfit::Usage(told) = unfit(&factors) else { panic!("{factors:?}") };
            assert!(told.contains(why), "{told}");
        }
        assert!(matches!(unfit(&[factor("rps", &["0", "7"])]), Unfit::NotHere(_)));
    });
}

#[test]
fn the_usual_factors_are_few_and_all_of_their_levels_can_be_had() {
    let snapshot = lab();
    with(&snapshot, |ground| {
        let usual: Vec<Factor> = ground.usual().into_iter().map(|(f, _)| f).collect();
        assert!(!usual.is_empty());
        let (list, _, left) = ground.factorial(&usual).unwrap();
        assert!(list.len() <= 12 && left.is_empty(), "{left:?}");
        let offers = ground.offers();
        assert!(offers.iter().all(|o| o.levels.len() > 1 || o.why.is_some()));
    });
}

#[test]
fn every_row_of_the_table_is_a_factor_by_its_name_and_unknown_ones_are_told_apart() {
    use crate::model::knob::KNOBS;
    let snapshot = lab();
    with(&snapshot, |ground| {
        for row in KNOBS {
            let own = row.name.map(|name| format!("{}.{name}", row.kind));
            for name in [row.factor(), own.unwrap_or_else(|| row.kind.to_owned())] {
                if let Err(Unfit::Usage(why)) = ground.possible(&[factor(&name, &["as-found"])]) {
                    panic!("{name}: {why}");
                }
            }
        }
        let set = ground.level("offload.tx-nocache-copy", "on").unwrap();
        assert!(set.iter().all(|c| c.knob.to_string().starts_with("tx-nocache-copy of ")));
        let space = ground.placements();
        let one = ground.level(&space[0].name, &space[0].levels[1]).unwrap();
        assert_eq!(one.len(), 1);
        for (name, why) in [
            ("sysctl.kernel.core_pattern", "there are net.core.default_qdisc"),
            ("coalesce.warp", "there are rx-usecs"),
            ("channels", "come and go with it"),
            ("channels.combined", "come and go with it"),
            ("rps:lan9/7", "no such queue"),
            ("warp", "there is no factor"),
        ] {
            let told = ground.level(name, "1").unwrap_err().to_string();
            assert!(told.contains(why), "{name}: {told}");
        }
    });
}

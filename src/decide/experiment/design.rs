//! The order in which cells run.

use crate::model::measurement::{CellRole, Direction};

/// One candidate's turn in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Place within the block from 0; the cells of all directions of a step share it.
    pub position: u32,
    /// Role of the place.
    pub role: CellRole,
    /// Candidate name.
    pub candidate: String,
    /// Directions in the order to measure them.
    pub directions: Vec<Direction>,
}

/// Every candidate once, between two measurements of the baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Number from 0.
    pub number: u32,
    /// Runs, in order.
    pub steps: Vec<Turn>,
}

/// Why no order can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// Nothing to compare.
    #[error("there is no candidate to measure")]
    NoCandidates,
    /// Nothing to measure.
    #[error("there is no direction to measure")]
    NoDirections,
    /// The baseline must be measured too.
    #[error("the baseline \"{0}\" is not among the candidates")]
    UnknownBaseline(String),
    /// Names must tell candidates apart.
    #[error("two candidates are called \"{0}\"")]
    DuplicateName(String),
}

/// Lays out `blocks` blocks. The same seed gives the same order, and asking for more blocks keeps
/// the order of the first ones.
///
/// # Errors
/// See [`DesignError`].
pub fn design(
    candidates: &[String],
    baseline: &str,
    directions: &[Direction],
    blocks: u32,
    seed: u64,
) -> Result<Vec<Block>, DesignError> {
    if candidates.is_empty() {
        return Err(DesignError::NoCandidates);
    }
    if directions.is_empty() {
        return Err(DesignError::NoDirections);
    }
    if !candidates.iter().any(|name| name == baseline) {
        return Err(DesignError::UnknownBaseline(baseline.to_owned()));
    }
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = candidates.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(DesignError::DuplicateName(twice.clone()));
    }

    let mut rng = fastrand::Rng::with_seed(seed);
    Ok((0..blocks)
        .map(|number| {
            let mut order: Vec<&str> = candidates.iter().map(String::as_str).collect();
            rng.shuffle(&mut order);
            let turns = std::iter::once((CellRole::Open, baseline))
                .chain(order.into_iter().map(|name| (CellRole::Body, name)))
                .chain(std::iter::once((CellRole::Close, baseline)));
            let steps = turns
                .zip(0..)
                .map(|((role, candidate), position)| {
                    let mut directions = directions.to_vec();
                    rng.shuffle(&mut directions);
                    Turn { position, role, candidate: candidate.to_owned(), directions }
                })
                .collect();
            Block { number, steps }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("c{n}")).collect()
    }

    fn bodies(block: &Block) -> Vec<&str> {
        block
            .steps
            .iter()
            .filter(|s| s.role == CellRole::Body)
            .map(|s| s.candidate.as_str())
            .collect()
    }

    const BOTH_WAYS: [Direction; 2] = [Direction::Down, Direction::Up];

    proptest! {
        #[test]
        fn every_block_holds_every_candidate_once_between_two_baselines(
            count in 1_usize..9, blocks in 1_u32..12, seed: u64, base in 0_usize..8,
        ) {
            let names = names(count);
            let baseline = &names[base % count];
            let plan = design(&names, baseline, &BOTH_WAYS, blocks, seed).unwrap();
            prop_assert_eq!(plan.len(), blocks as usize);
            for (number, block) in (0..).zip(&plan) {
                prop_assert_eq!(block.number, number);
                let mut body = bodies(block);
                body.sort_unstable();
                prop_assert_eq!(body, names.iter().map(String::as_str).collect::<Vec<_>>());
                let (first, last) = (&block.steps[0], &block.steps[count + 1]);
                prop_assert_eq!((first.role, &first.candidate), (CellRole::Open, baseline));
                prop_assert_eq!((last.role, &last.candidate), (CellRole::Close, baseline));
                prop_assert_eq!(block.steps.len(), count + 2);
                for (position, step) in (0..).zip(&block.steps) {
                    prop_assert_eq!(step.position, position);
                    prop_assert_eq!(
                        step.directions.iter().copied().collect::<BTreeSet<_>>(),
                        BTreeSet::from(BOTH_WAYS)
                    );
                }
            }
        }

        #[test]
        fn order_differs_between_blocks(count in 5_usize..9, seed: u64) {
            let names = names(count);
            let plan = design(&names, "c0", &BOTH_WAYS, 10, seed).unwrap();
            let orders: BTreeSet<_> = plan.iter().map(bodies).collect();
            prop_assert!(orders.len() > 1, "ten blocks all in one order");
            let ways: BTreeSet<_> =
                plan.iter().flat_map(|b| &b.steps).map(|s| s.directions.clone()).collect();
            prop_assert_eq!(ways.len(), 2, "directions always in one order");
        }

        #[test]
        fn same_seed_same_order_and_more_blocks_keep_the_first(seed: u64, blocks in 1_u32..9) {
            let names = names(4);
            let few = design(&names, "c1", &BOTH_WAYS, blocks, seed).unwrap();
            let again = design(&names, "c1", &BOTH_WAYS, blocks, seed).unwrap();
            prop_assert_eq!(&few, &again);
            let many = design(&names, "c1", &BOTH_WAYS, blocks + 3, seed).unwrap();
            prop_assert_eq!(&few[..], &many[..few.len()]);
        }
    }

    #[test]
    fn each_candidate_visits_each_place_about_equally_often() {
        let names = names(4);
        let plan = design(&names, "c0", &BOTH_WAYS, 4000, 7).unwrap();
        for place in 0..4 {
            let first = plan.iter().filter(|b| bodies(b)[place] == "c2").count();
            assert!((900..1100).contains(&first), "c2 was {first} times of 4000 in place {place}");
        }
    }

    #[test]
    fn impossible_designs_are_refused() {
        let two = names(2);
        assert_eq!(design(&[], "c0", &BOTH_WAYS, 1, 1), Err(DesignError::NoCandidates));
        assert_eq!(design(&two, "c0", &[], 1, 1), Err(DesignError::NoDirections));
        assert_eq!(
            design(&two, "c9", &BOTH_WAYS, 1, 1),
            Err(DesignError::UnknownBaseline("c9".into()))
        );
        let same = vec!["c0".to_owned(), "c0".to_owned()];
        assert_eq!(
            design(&same, "c0", &BOTH_WAYS, 1, 1),
            Err(DesignError::DuplicateName("c0".into()))
        );
    }
}

//! Sorting without a sorting routine for each type: on a router's flash the sixty copies that the
//! standard library's would make take more room than its speed is worth on lists of a few hundred.

use std::cmp::Ordering;

/// Stable sorting by one routine for all types.
pub trait InOrder<T> {
    /// As [`slice::sort_by`].
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// As [`slice::sort_by_key`].
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let order = permutation(self.len(), &mut |a, b| match (self.get(a), self.get(b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        });
        // Each place gets its element along the cycle that it is on.
        let mut order = order;
        for start in 0..order.len() {
            let mut place = start;
            while let Some(from) = order.get(place).copied() {
                if let Some(done) = order.get_mut(place) {
                    *done = place;
                }
                if from == start || from == place {
                    break;
                }
                self.swap(place, from);
                place = from;
            }
        }
    }
}

/// Collecting without sorting first, which is what the standard library's ordered maps do when
/// they are collected into: one more copy of the sorting routine for each type.
pub trait OneByOne: Iterator + Sized {
    /// As [`Iterator::collect`], by inserting.
    fn one_by_one<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: Iterator> OneByOne for I {}

/// Which element belongs at each place.
fn permutation(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_standard_librarys_order(list: Vec<(u8, u32)>) {
            let (mut ours, mut theirs) = (list.clone(), list);
            ours.order_by_key(|(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(ours, theirs);
        }
    }
}

//! Indices with types. A CPU's place, a line, a queue and a way of the traffic each have an index of
//! their own, and none can be used for another's list. An index out of range is a bug of the
//! planner: it ends the computation with an error, for a default in its place would end in a wrong
//! plan.

use std::marker::PhantomData;

/// A bug of the planner: an index that its list does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bug {
    what: &'static str,
    index: usize,
    len: usize,
}

impl std::fmt::Display for Bug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, index, len } = self;
        write!(f, "internal error of the planner: {what} {index} of {len}; please report it")
    }
}

impl From<Bug> for String {
    fn from(bug: Bug) -> Self {
        bug.to_string()
    }
}

/// A kind of list, by what it holds.
pub(crate) trait Kind: Copy + Ord {
    /// Name of one element, for an error.
    const NAME: &'static str;
}

/// Declares a kind of list and its index.
macro_rules! kind {
    ($kind:ident, $index:ident, $name:literal) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum $kind {}
        impl Kind for $kind {
            const NAME: &'static str = $name;
        }
        pub(crate) type $index = Ix<$kind>;
    };
}

kind!(OfPlaces, PlaceIx, "place");
kind!(OfLines, LineIx, "line");
kind!(OfQueues, QueueIx, "queue");
kind!(OfUppers, UpperIx, "upper device");
kind!(OfWays, WayIx, "way");
kind!(OfRoots, RootIx, "shaper");

/// Place of an element in a list of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ix<K> {
    at: u32,
    kind: PhantomData<K>,
}

impl<K> Ix<K> {
    fn new(at: usize) -> Self {
        // A list of more than 2^32 elements does not fit into a router.
        Self { at: u32::try_from(at).unwrap_or(u32::MAX), kind: PhantomData }
    }

    /// The index as a plain number, for those that have a list of their own beside this one.
    pub(crate) fn number(self) -> usize {
        self.at as usize
    }
}

/// A list whose elements are found by an index of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IxVec<K, T> {
    items: Vec<T>,
    kind: PhantomData<K>,
}

impl<K, T> Default for IxVec<K, T> {
    fn default() -> Self {
        Self { items: Vec::new(), kind: PhantomData }
    }
}

impl<K: Kind, T> IxVec<K, T> {
    /// So many elements, each made from its index.
    pub(crate) fn from_fn(len: usize, make: impl FnMut(Ix<K>) -> T) -> Self {
        (0..len).map(Ix::new).map(make).collect()
    }

    pub(crate) fn push(&mut self, item: T) -> Ix<K> {
        self.items.push(item);
        Ix::new(self.items.len() - 1)
    }

    /// The element.
    ///
    /// # Errors
    /// An error if the list has no such index.
    pub(crate) fn at(&self, index: Ix<K>) -> Result<&T, Bug> {
        let (index, len) = (index.number(), self.items.len());
        self.items.get(index).ok_or(Bug { what: K::NAME, index, len })
    }

    /// The element, to change.
    ///
    /// # Errors
    /// An error if the list has no such index.
    pub(crate) fn at_mut(&mut self, index: Ix<K>) -> Result<&mut T, Bug> {
        let (index, len) = (index.number(), self.items.len());
        self.items.get_mut(index).ok_or(Bug { what: K::NAME, index, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Every index, ascending.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = Ix<K>> + Clone + use<K, T> {
        (0..self.items.len()).map(Ix::new)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Elements with their indices.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Ix<K>, &T)> {
        self.ids().zip(&self.items)
    }

    /// The first element that is so.
    pub(crate) fn find(&self, is: impl Fn(&T) -> bool) -> Option<Ix<K>> {
        self.items.iter().position(is).map(Ix::new)
    }
}

impl<K, T> FromIterator<T> for IxVec<K, T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self { items: items.into_iter().collect(), kind: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_a_list_does_not_have_stops_with_its_name() {
        let long: IxVec<OfLines, u8> = [1, 2, 3].into_iter().collect();
        let mut short: IxVec<OfLines, u8> = [1].into_iter().collect();
        let last = long.ids().next_back().unwrap();
        assert_eq!(long.at(last), Ok(&3));
        let bug = short.at(last).unwrap_err();
        assert!(bug.to_string().contains("line 2 of 1"), "{bug}");
        assert_eq!(short.at_mut(last), Err(bug));
    }
}

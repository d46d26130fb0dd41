//! A set of grants, by their positions in file order.

/// Positions of grants. Sets of the same policy are equal when they hold the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GrantSet(Box<[u64]>);

impl GrantSet {
    /// The empty set, with room for so many grants.
    pub fn for_grants(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)].into())
    }

    /// Adds one; what there is no room for is left out.
    pub fn insert(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Whether it is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// The first in file order that is in both.
    pub fn first_common(&self, other: &Self) -> Option<usize> {
        let both = self.0.iter().zip(&other.0).map(|(a, b)| a & b);
        both.enumerate()
            .find(|(_, word)| *word != 0)
            .map(|(at, word)| at * 64 + word.trailing_zeros() as usize)
    }

    /// Those in the set, in file order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(|index| self.contains(*index))
    }

    /// Whether none is in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Bytes in memory.
    pub const fn size(&self) -> usize {
        size_of::<Self>() + self.0.len() * 8
    }
}

//! Dense numbers for records, so that models can keep their state in arrays instead of hash tables.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::{Error, Key, Result};

/// Ranges of up to this many keys are looked up key by key, even if few records exist.
const FEW: u64 = 64;

/// Gives each key the next free number when it first occurs. The table has only the numbers: at most 12 bytes per record,
/// and 8 for the key of a number, plus spare capacity of the vector.
#[derive(Debug, Default)]
pub struct Intern {
    numbers: HashTable<u32>,
    keys: Vec<Key>,
}

impl Intern {
    /// The keys so far, by their numbers.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.numbers.allocation_size() + self.keys.capacity() * 8
    }

    /// The number of `key`; a new key gets the next free number.
    ///
    /// # Errors
    /// [`Error::TooManyRecords`](crate::Error::TooManyRecords) if all numbers are taken.
    #[inline]
    pub fn number(&mut self, key: Key) -> Result<u32> {
        let Intern { numbers, keys } = self;
        let hash = FxBuildHasher.hash_one(key);
        if let Some(number) = numbers.find(hash, |number| keys[*number as usize] == key) {
            return Ok(*number);
        }
        self.insert(hash, key)
    }

    #[cold]
    fn insert(&mut self, hash: u64, key: Key) -> Result<u32> {
        let Intern { numbers, keys } = self;
        let number =
            u32::try_from(keys.len()).ok().filter(|n| *n != u32::MAX).ok_or(Error::TooManyRecords)?;
        numbers.insert_unique(hash, number, |number| FxBuildHasher.hash_one(keys[*number as usize]));
        keys.push(key);
        Ok(number)
    }

    /// The number of `key`, if it has one.
    pub fn find(&self, key: Key) -> Option<u32> {
        self.numbers.find(FxBuildHasher.hash_one(key), |number| self.keys[*number as usize] == key).copied()
    }

    /// The numbers of the known keys in `first..=last`, in any order.
    pub fn range(&self, first: Key, last: Key) -> Vec<u32> {
        // Looks up each key of a short range; filters all keys for a long one.
        if last - first < FEW.max(self.keys.len() as u64) {
            return (first..=last).filter_map(|key| self.find(key)).collect();
        }
        let keys = self.keys.iter().enumerate();
        keys.filter(|(_, key)| (first..=last).contains(*key)).map(|(number, _)| number as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_stay() {
        let mut intern = Intern::default();
        let keys: Vec<u64> = (0..10_000u64).map(|n| n * 4096).chain([u64::MAX, 0]).collect();
        for (n, &key) in keys.iter().enumerate().take(10_001) {
            assert_eq!(intern.number(key).unwrap() as usize, n);
        }
        assert_eq!(intern.number(0).unwrap(), 0);
        assert_eq!(intern.number(4096 * 9_999).unwrap(), 9_999);
        assert_eq!(intern.keys().len(), 10_001);
        assert_eq!((intern.find(4096 * 9_999), intern.find(u64::MAX)), (Some(9_999), Some(10_000)));
        assert_eq!(intern.find(1), None);
        assert_eq!(intern.range(4095, 8192), [1, 2]);
        assert_eq!(intern.range(4096 * 9_998, u64::MAX), [9_998, 9_999, 10_000]);
        assert!(intern.memory() <= 32 * intern.keys().len());
    }
}

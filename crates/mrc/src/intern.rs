//! Dense numbers for records, so that a model keeps its state in plain arrays and hashes nothing.

use crate::{Error, Key, Result};

const EMPTY: u32 = u32::MAX;

/// Up to this many keys of a range are looked up one by one, however few were seen.
const FEW: u64 = 64;

/// Multiplier of Fibonacci hashing: 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Gives each key the next free number the first time it is seen. Open addressing with linear probing, at most three
/// quarters full: 4 bytes a slot and 8 for the key by its number, so at most 19 bytes a record and the room a vector
/// grows by.
#[derive(Debug)]
pub struct Intern {
    numbers: Vec<u32>,
    keys: Vec<Key>,
    shift: u32,
}

impl Default for Intern {
    fn default() -> Intern {
        Intern::with_slots(1 << 10)
    }
}

impl Intern {
    fn with_slots(slots: usize) -> Intern {
        Intern { numbers: vec![EMPTY; slots], keys: Vec::new(), shift: 64 - slots.trailing_zeros() }
    }

    /// The keys seen, by their numbers.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.numbers.len() * 4 + self.keys.capacity() * 8
    }

    fn slot(&self, key: Key) -> usize {
        (key.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    /// The number of `key`; the next free one if it is new.
    pub fn number(&mut self, key: Key) -> Result<u32> {
        let mask = self.numbers.len() - 1;
        let mut slot = self.slot(key);
        loop {
            let number = self.numbers[slot];
            if number == EMPTY {
                return self.insert(slot, key);
            }
            if self.keys[number as usize] == key {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The number of `key`, if it was seen.
    pub fn find(&self, key: Key) -> Option<u32> {
        let mask = self.numbers.len() - 1;
        let mut slot = self.slot(key);
        loop {
            let number = self.numbers[slot];
            if number == EMPTY {
                return None;
            }
            if self.keys[number as usize] == key {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The numbers of the keys seen in `first..=last`, in no order.
    pub fn range(&self, first: Key, last: Key) -> Vec<u32> {
        // A short range is looked up, a long one picked out of all.
        if last - first < FEW.max(self.keys.len() as u64) {
            return (first..=last).filter_map(|key| self.find(key)).collect();
        }
        let keys = self.keys.iter().enumerate();
        keys.filter(|(_, key)| (first..=last).contains(*key)).map(|(number, _)| number as u32).collect()
    }

    #[cold]
    fn insert(&mut self, slot: usize, key: Key) -> Result<u32> {
        let number =
            u32::try_from(self.keys.len()).ok().filter(|n| *n != EMPTY).ok_or(Error::TooManyRecords)?;
        self.numbers[slot] = number;
        self.keys.push(key);
        if self.keys.len() * 4 > self.numbers.len() * 3 {
            self.grow();
        }
        Ok(number)
    }

    fn grow(&mut self) {
        let mut larger = Intern::with_slots(self.numbers.len() * 2);
        let mask = larger.numbers.len() - 1;
        for (number, &key) in self.keys.iter().enumerate() {
            let mut slot = larger.slot(key);
            while larger.numbers[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            larger.numbers[slot] = number as u32;
        }
        self.numbers = larger.numbers;
        self.shift = larger.shift;
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

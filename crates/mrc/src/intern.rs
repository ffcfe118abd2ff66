//! Dense numbers for records, so that models can keep their state in arrays instead of hash tables.

use crate::{Error, Key, Result};

const EMPTY: u32 = u32::MAX;

/// Ranges of up to this many keys are looked up key by key, even if few records exist.
const FEW: u64 = 64;

/// Number of keys that are looked up together.
const BATCH: usize = 64;

/// Multiplier of Fibonacci hashing: 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Gives each key the next free number when it first occurs. Open addressing with linear probing, at most three
/// quarters full: 4 bytes for a slot and 8 for the key of a number, so at most 19 bytes per record, plus spare capacity
/// of the vectors.
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

    /// The keys so far, by their numbers.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.numbers.len() * 4 + self.keys.capacity() * 8
    }

    /// The slot at which a search for `key` starts. Four neighbouring keys, which traces often use one after another,
    /// share a cache line of slots. The hash determines the order within the line, so that keys at equal distances are
    /// spread too.
    fn slot(&self, key: Key) -> usize {
        ((key >> 2).wrapping_mul(GOLDEN) >> self.shift) as usize ^ (key & 3) as usize
    }

    /// The slot of `key`, or the one for inserting it, and the number there: [`EMPTY`] if the key is new.
    #[inline]
    fn probe(&self, key: Key) -> (usize, u32) {
        let mask = self.numbers.len() - 1;
        let mut slot = self.slot(key);
        loop {
            let number = self.numbers[slot];
            if number == EMPTY || self.keys[number as usize] == key {
                return (slot, number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The number of `key`; a new key gets the next free number.
    ///
    /// # Errors
    /// [`Error::TooManyRecords`](crate::Error::TooManyRecords) if all numbers are taken.
    pub fn number(&mut self, key: Key) -> Result<u32> {
        match self.probe(key) {
            (slot, EMPTY) => self.insert(slot, key),
            (_, number) => Ok(number),
        }
    }

    /// Calls `found` with the number of each of `keys`, as [`Intern::number`] would return it. Several times faster for
    /// many keys, because the processor loads the slots of a batch in parallel, and then their keys.
    ///
    /// # Errors
    /// [`Error::TooManyRecords`](crate::Error::TooManyRecords) if all numbers are taken.
    pub fn number_all(&mut self, keys: &[Key], mut found: impl FnMut(u32)) -> Result<()> {
        let mut guesses = [EMPTY; BATCH];
        for keys in keys.chunks(BATCH) {
            for (guess, &key) in guesses.iter_mut().zip(keys) {
                *guess = self.numbers[self.slot(key)];
            }
            for (&guess, &key) in guesses.iter().zip(keys) {
                let is_right = self.keys.get(guess as usize) == Some(&key);
                found(if is_right { guess } else { self.number(key)? });
            }
        }
        Ok(())
    }

    /// The number of `key`, if it has one.
    pub fn find(&self, key: Key) -> Option<u32> {
        Some(self.probe(key).1).filter(|number| *number != EMPTY)
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
    fn batches_get_the_same_numbers() {
        let keys: Vec<u64> = (0..100_000u64).map(|n| (((n * n) % 30_011) << 12) | (n % 3)).collect();
        let (mut one, mut all, mut found) = (Intern::default(), Intern::default(), Vec::new());
        all.number_all(&keys, |number| found.push(number)).unwrap();
        let expected: Vec<u32> = keys.iter().map(|&key| one.number(key).unwrap()).collect();
        assert_eq!(found, expected);
        assert_eq!(one.keys(), all.keys());
    }

    /// Neighbours, equal distances, many files, object ids: no pattern clusters in the slots.
    #[test]
    fn slots_are_spread() {
        let patterns: [fn(u64) -> u64; 7] = [
            |n| n,
            |n| n * 16,
            |n| n * 4096,
            |n| n << 40,
            |n| ((n % 1000) << 40) | (n / 1000),
            |n| n.wrapping_mul(0x2545_f491_4f6c_dd1d),
            |n| ((n / 4).wrapping_mul(0x2545_f491_4f6c_dd1d) << 2) | (n % 4),
        ];
        for (at, pattern) in patterns.iter().enumerate() {
            let mut intern = Intern::default();
            let keys: Vec<u64> = (0..98_000).map(pattern).collect();
            intern.number_all(&keys, |_| ()).unwrap();
            let mask = intern.numbers.len() - 1;
            let held = intern.numbers.iter().enumerate().filter(|(_, number)| **number != EMPTY);
            let steps: usize = held
                .map(|(slot, &number)| slot.wrapping_sub(intern.slot(intern.keys[number as usize])) & mask)
                .sum();
            let mean = steps as f64 / keys.len() as f64;
            // Linear probing at three quarters: 1.5 on average (Knuth, TAOCP 3, 6.4, theorem K), or 6 for groups of
            // four.
            println!("pattern {at}: {mean:.2}");
            assert!(mean < 8.0, "pattern {at}: {mean} slots too far");
        }
    }

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

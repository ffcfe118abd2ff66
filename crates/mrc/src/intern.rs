//! Dense numbers for records, so that a model keeps its state in plain arrays and hashes nothing.

use crate::{Error, Key, Result};

const EMPTY: u32 = u32::MAX;

/// Up to this many keys of a range are looked up one by one, however few were seen.
const FEW: u64 = 64;

/// Keys whose slots are looked up together.
const BATCH: usize = 64;

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

    /// Four neighbours, which traces like to ask for one after another, share a cache line of slots. Which of them is first
    /// hangs on the hash too, so that keys at equal distances are spread as well.
    fn slot(&self, key: Key) -> usize {
        ((key >> 2).wrapping_mul(GOLDEN) >> self.shift) as usize ^ (key & 3) as usize
    }

    /// Where `key` is, or would be put, and its number there: [`EMPTY`] if it was not seen.
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

    /// The number of `key`; the next free one if it is new.
    pub fn number(&mut self, key: Key) -> Result<u32> {
        match self.probe(key) {
            (slot, EMPTY) => self.insert(slot, key),
            (_, number) => Ok(number),
        }
    }

    /// Gives `found` the number of each of `keys`, as [`Intern::number`] would one after another. Several times as fast where
    /// they are many: the processor waits for the slots of a batch all at once, and then for their keys.
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

    /// The number of `key`, if it was seen.
    pub fn find(&self, key: Key) -> Option<u32> {
        Some(self.probe(key).1).filter(|number| *number != EMPTY)
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
    fn many_at_once_get_the_same_numbers() {
        let keys: Vec<u64> = (0..100_000u64).map(|n| (((n * n) % 30_011) << 12) | (n % 3)).collect();
        let (mut one, mut all, mut found) = (Intern::default(), Intern::default(), Vec::new());
        all.number_all(&keys, |number| found.push(number)).unwrap();
        let expected: Vec<u32> = keys.iter().map(|&key| one.number(key).unwrap()).collect();
        assert_eq!(found, expected);
        assert_eq!(one.keys(), all.keys());
    }

    /// Neighbours, equal distances, many files, object ids: none piles up in the slots.
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
            // Linear probing at three quarters: 1.5 on average (Knuth, TAOCP 3, 6.4, theorem K), of fours 6.
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

//! A stack of accesses, one slot for each. A record is live at the slot of its last access. The live slots after an
//! access are the records used since.
//!
//! A tree holds sums over the slots. One walk from a leaf to the root removes a record and counts the live slots after
//! it. Unused slots count as live, which makes no difference to any count, so a new access needs no walk. A full stack
//! is rebuilt from the live slots in the same order.

use super::tree::Tree;
use crate::list::NONE;

/// Slots of the smallest stack. Few, so that short traces in tests rebuild it.
const MIN_SLOTS: usize = 1 << 8;
/// Slots of a leaf of [`Ones`]: bits of a word.
const BITS: usize = u128::BITS as usize;
/// Slots of a leaf of [`Weights`]: one cache line.
const WEIGHTS: usize = 16;

/// For each slot of a leaf of [`Weights`], all ones for the slots before it and zero for the others.
static BEFORE: [[u32; WEIGHTS]; WEIGHTS] = {
    let mut masks = [[0; WEIGHTS]; WEIGHTS];
    let mut n = 0;
    while n < WEIGHTS * WEIGHTS {
        masks[n / WEIGHTS][n % WEIGHTS] = if n % WEIGHTS < n / WEIGHTS { u32::MAX } else { 0 };
        n += 1;
    }
    masks
};

pub(super) trait StackDistance {
    /// The weight of a record of `bytes` on this stack.
    fn weigh(&self, bytes: u32) -> u32;

    /// The weight at `slot`.
    fn weight(&self, slot: u32) -> u32;

    /// Returns the weight at `slot` and after it. Then removes `amount` at `slot`, which must have as much.
    fn take(&mut self, slot: u32, amount: u32) -> u64;

    /// [`StackDistance::take`] of the whole weight at `slot`.
    fn take_all(&mut self, slot: u32) -> u64 {
        self.take(slot, self.weight(slot))
    }

    /// Adds a record at the end, and returns its slot. The stack must not be full.
    fn push(&mut self, bytes: u32) -> u32;

    /// Whether all slots are used.
    fn is_full(&self) -> bool;

    /// Rebuilds the stack. `slots` contains every live slot, in any order and mixed with [`NONE`]; it receives the new
    /// slots.
    fn compact(&mut self, slots: &mut [&mut Vec<u32>; 2]);

    /// Bytes of memory held.
    fn memory(&self) -> usize;
}

/// Slots for `times` as many accesses as live records.
fn slots_for(live: usize, times: usize) -> usize {
    (live * times).next_power_of_two().clamp(MIN_SLOTS, 1 << 32)
}

/// A stack of records of weight 1: one bit per slot.
#[derive(Debug)]
pub(super) struct Ones {
    /// Live and unused slots.
    bits: Vec<u128>,
    tree: Tree<u32>,
    next: usize,
    live: u64,
}

impl Default for Ones {
    fn default() -> Ones {
        Ones::with_live(0)
    }
}

impl Ones {
    fn with_live(live: usize) -> Ones {
        let leaves = slots_for(live, 4) / BITS;
        Ones {
            bits: vec![u128::MAX; leaves],
            tree: Tree::new(vec![BITS as u32; leaves]),
            next: live,
            live: live as u64,
        }
    }
}

impl StackDistance for Ones {
    fn weigh(&self, _bytes: u32) -> u32 {
        1
    }

    fn weight(&self, slot: u32) -> u32 {
        (self.bits[slot as usize / BITS] >> (slot as usize % BITS)) as u32 & 1
    }

    fn take_all(&mut self, slot: u32) -> u64 {
        self.take(slot, 1)
    }

    #[inline]
    fn take(&mut self, slot: u32, amount: u32) -> u64 {
        let (leaf, at) = (slot as usize / BITS, slot as usize % BITS);
        let bits = &mut self.bits[leaf];
        let before = u64::from((*bits & ((1u128 << at) - 1)).count_ones());
        *bits ^= u128::from(amount) << at;
        let before = before + u64::from(self.tree.take(leaf, amount));
        let after = self.live - before;
        self.live -= u64::from(amount);
        after
    }

    fn push(&mut self, _bytes: u32) -> u32 {
        let slot = self.next as u32;
        self.next += 1;
        self.live += 1;
        slot
    }

    fn is_full(&self) -> bool {
        self.next >= (self.bits.len() * BITS).min(NONE as usize)
    }

    fn compact(&mut self, slots: &mut [&mut Vec<u32>; 2]) {
        let mut live = 0u32;
        let before: Vec<u32> = self.bits.iter().map(|bits| add(&mut live, bits.count_ones())).collect();
        for slot in slots.iter_mut().flat_map(|slots| slots.iter_mut()).filter(|slot| **slot != NONE) {
            let (leaf, at) = (*slot as usize / BITS, *slot as usize % BITS);
            *slot = before[leaf] + (self.bits[leaf] & ((1u128 << at) - 1)).count_ones();
        }
        *self = Ones::with_live(self.live as usize);
    }

    fn memory(&self) -> usize {
        self.bits.capacity() * 16 + self.tree.memory()
    }
}

/// Adds to `sum`, and returns the sum before.
fn add(sum: &mut u32, amount: u32) -> u32 {
    let before = *sum;
    *sum = before.wrapping_add(amount);
    before
}

/// A stack of records of any size: the bytes at each slot, 0 if it is not live.
#[derive(Debug, Default)]
pub(super) struct Weights {
    weights: Vec<[u32; WEIGHTS]>,
    tree: Tree<u64>,
    next: usize,
    /// Bytes live on the stack.
    live: u64,
    /// Bytes in the last leaf. They are added to the tree when the leaf is full.
    pending: u64,
}

impl Weights {
    /// Converts a stack of records of `bytes` bytes each.
    pub(super) fn from_ones(ones: &Ones, bytes: u32) -> Weights {
        let mut weights = vec![[0; WEIGHTS]; ones.bits.len() * BITS / WEIGHTS];
        for slot in 0..ones.next {
            weights[slot / WEIGHTS][slot % WEIGHTS] = bytes * ones.weight(slot as u32);
        }
        Weights::of(weights, ones.next)
    }

    /// A stack of these slots, of which the first `next` are used. Their number is a power of two.
    fn of(weights: Vec<[u32; WEIGHTS]>, next: usize) -> Weights {
        let sum = |leaf: &[u32; WEIGHTS]| leaf.iter().map(|weight| u64::from(*weight)).sum();
        let mut sums: Vec<u64> = weights.iter().map(sum).collect();
        let live = sums.iter().sum();
        let pending = sums.get_mut(next / WEIGHTS).map_or(0, std::mem::take);
        Weights { weights, tree: Tree::new(sums), next, live, pending }
    }
}

impl StackDistance for Weights {
    fn weigh(&self, bytes: u32) -> u32 {
        // Weight 0 marks a free slot, so an empty record counts one byte.
        bytes.max(1)
    }

    fn weight(&self, slot: u32) -> u32 {
        self.weights[slot as usize / WEIGHTS][slot as usize % WEIGHTS]
    }

    #[inline]
    fn take(&mut self, slot: u32, amount: u32) -> u64 {
        let (leaf, at) = (slot as usize / WEIGHTS, slot as usize % WEIGHTS);
        let weights = &mut self.weights[leaf];
        let mut before = 0u64;
        for (&weight, &mask) in weights.iter().zip(&BEFORE[at]) {
            before += u64::from(weight & mask);
        }
        weights[at] -= amount;
        let before = before.wrapping_add(self.tree.take(leaf, u64::from(amount)));
        let after = self.live - before;
        self.live -= u64::from(amount);
        after
    }

    fn push(&mut self, bytes: u32) -> u32 {
        let slot = self.next;
        let bytes = self.weigh(bytes);
        self.weights[slot / WEIGHTS][slot % WEIGHTS] = bytes;
        self.pending += u64::from(bytes);
        self.live += u64::from(bytes);
        self.next += 1;
        if self.next.is_multiple_of(WEIGHTS) {
            self.tree.add(slot / WEIGHTS, std::mem::take(&mut self.pending));
        }
        slot as u32
    }

    fn is_full(&self) -> bool {
        self.next >= (self.weights.len() * WEIGHTS).min(NONE as usize)
    }

    fn compact(&mut self, slots: &mut [&mut Vec<u32>; 2]) {
        let count = |leaf: &[u32; WEIGHTS], masks: &[u32; WEIGHTS]| {
            leaf.iter().zip(masks).map(|(weight, mask)| u32::from(weight & mask != 0)).sum::<u32>()
        };
        let (mut live, all) = (0u32, [u32::MAX; WEIGHTS]);
        let before: Vec<u32> = self.weights.iter().map(|leaf| add(&mut live, count(leaf, &all))).collect();
        for slot in slots.iter_mut().flat_map(|slots| slots.iter_mut()).filter(|slot| **slot != NONE) {
            let (leaf, at) = (*slot as usize / WEIGHTS, *slot as usize % WEIGHTS);
            *slot = before[leaf] + count(&self.weights[leaf], &BEFORE[at]);
        }
        let mut kept = vec![[0; WEIGHTS]; slots_for(live as usize, 2) / WEIGHTS];
        let mut next = 0;
        for &weight in self.weights.iter().flatten() {
            // If the slot is not live, the next one overwrites it. Live slots are distributed almost randomly, so this
            // avoids a branch that would often be mispredicted.
            kept[next / WEIGHTS][next % WEIGHTS] = weight;
            next += usize::from(weight != 0);
        }
        *self = Weights::of(kept, next);
    }

    fn memory(&self) -> usize {
        self.weights.capacity() * 4 * WEIGHTS + self.tree.memory()
    }
}

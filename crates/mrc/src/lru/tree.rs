//! Prefix sums over an array that changes.

/// Children of a node: a node's sums fill two or four of the smallest vectors of x86-64.
const FAN: usize = 8;

/// A number that a tree sums. Arithmetic wraps, so that an amount may be subtracted before it is added.
pub(super) trait Sum: Copy {
    const ZERO: Self;
    /// For each child, all ones for the children after it and zero for the others.
    const AFTER: [[Self; FAN]; FAN];

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn and(self, mask: Self) -> Self;
}

macro_rules! sum {
    ($number:ty) => {
        impl Sum for $number {
            const ZERO: Self = 0;
            const AFTER: [[Self; FAN]; FAN] = {
                let mut masks = [[0; FAN]; FAN];
                let mut n = 0;
                while n < FAN * FAN {
                    masks[n / FAN][n % FAN] = if n % FAN > n / FAN { <$number>::MAX } else { 0 };
                    n += 1;
                }
                masks
            };

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn and(self, mask: Self) -> Self {
                self & mask
            }
        }
    };
}

sum!(u32);
sum!(u64);

/// A tree over leaves. A node has, for each child, the sum of the children before it. A walk from a leaf to the root
/// reads one number per node, and changes those of the later children all at once.
#[derive(Debug, Default)]
pub(super) struct Tree<T> {
    nodes: Vec<[T; FAN]>,
    /// The first node of each level, from the leaves' parents upwards.
    levels: Vec<usize>,
}

impl<T: Sum> Tree<T> {
    pub(super) fn new(leaves: Vec<T>) -> Tree<T> {
        let (mut nodes, mut levels) = (Vec::with_capacity(leaves.len().div_ceil(FAN - 1)), Vec::new());
        let mut sums = leaves;
        while sums.len() > 1 {
            levels.push(nodes.len());
            let parents = sums.chunks(FAN).map(|children| {
                let (mut before, mut sum) = ([T::ZERO; FAN], T::ZERO);
                for (before, &child) in before.iter_mut().zip(children) {
                    *before = sum;
                    sum = sum.plus(child);
                }
                nodes.push(before);
                sum
            });
            sums = parents.collect();
        }
        Tree { nodes, levels }
    }

    /// Subtracts `amount` from `leaf`, and returns the sum of all leaves before it.
    #[inline]
    pub(super) fn take(&mut self, leaf: usize, amount: T) -> T {
        let mut at = leaf;
        let mut before = T::ZERO;
        for &level in &self.levels {
            let child = at % FAN;
            at /= FAN;
            let node = &mut self.nodes[level + at];
            before = before.plus(node[child]);
            for (sum, &mask) in node.iter_mut().zip(&T::AFTER[child]) {
                *sum = sum.minus(amount.and(mask));
            }
        }
        before
    }

    pub(super) fn add(&mut self, leaf: usize, amount: T) {
        self.take(leaf, T::ZERO.minus(amount));
    }

    pub(super) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<[T; FAN]>()
    }
}

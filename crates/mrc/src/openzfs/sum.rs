//! Sums of bytes, counted as the engine counts them.

/// Sixteen (`aggsum_borrow_shift`), in units of 2^-32.
const ADVANCE: f64 = 16.0 * 4_294_967_296.0;

/// A sum with per-processor additions (`aggsum`). The cheap way to read it gives a lower bound: an addition borrows
/// sixteen times its size in advance, so the ARC may be larger by that. Models one processor.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// The factor of an addition's size that it borrows, in units of 2^-32.
    advance: i64,
    value: i64,
    /// The lower bound that the cheap way to read returns.
    pub lower: i64,
    borrowed: i64,
    delta: i64,
}

impl Sum {
    /// An empty sum. `share` scales what is borrowed in a sample, because the additions themselves do not shrink.
    pub fn new(share: f64) -> Sum {
        Sum { advance: (share * ADVANCE).ceil() as i64, value: 0, lower: 0, borrowed: 0, delta: 0 }
    }

    pub fn value(&self) -> i64 {
        self.value
    }

    pub fn add(&mut self, delta: i64) {
        self.value += delta;
        if (self.delta + delta).abs() <= self.borrowed {
            self.delta += delta;
            return;
        }
        let wanted = ((i128::from(delta.abs()) * i128::from(self.advance)) >> 32) as i64;
        let more =
            if wanted >= self.borrowed { wanted - self.borrowed } else { (wanted - self.borrowed) / 4 };
        self.lower += self.delta + delta - more;
        self.borrowed += more;
        self.delta = 0;
    }

    /// Cancels what was borrowed, and returns the exact value.
    pub fn settle(&mut self) -> i64 {
        (self.lower, self.borrowed, self.delta) = (self.value, 0, 0);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowing_in_advance_shrinks_with_the_share() {
        for (share, borrowed) in [(1.0, 16 * 8192), (0.125, 2 * 8192), (1.0 / 64.0, 2048)] {
            let mut sum = Sum::new(share);
            sum.add(8192);
            assert_eq!((sum.value(), sum.lower), (8192, 8192 - borrowed), "{share}");
            assert_eq!((sum.settle(), sum.lower), (8192, 8192), "{share}");
        }
    }
}

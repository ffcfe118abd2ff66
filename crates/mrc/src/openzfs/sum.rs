//! How the engine counts bytes.

/// A sum that is added to on every processor (`aggsum`). Whoever asks cheaply gets a lower bound: an addition borrows
/// sixteen times its size in advance, so the ARC is that much larger than it takes itself to be. One processor's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    value: i64,
    /// What whoever asks cheaply is told.
    pub lower: i64,
    borrowed: i64,
    delta: i64,
}

impl Sum {
    pub fn value(&self) -> i64 {
        self.value
    }

    pub fn add(&mut self, delta: i64) {
        self.value += delta;
        if (self.delta + delta).abs() <= self.borrowed {
            self.delta += delta;
            return;
        }
        let wanted = delta.abs() << 4;
        let more =
            if wanted >= self.borrowed { wanted - self.borrowed } else { (wanted - self.borrowed) / 4 };
        self.lower += self.delta + delta - more;
        self.borrowed += more;
        self.delta = 0;
    }

    /// Asked for exactly, what was borrowed is given back.
    pub fn settle(&mut self) -> i64 {
        (self.lower, self.borrowed, self.delta) = (self.value, 0, 0);
        self.value
    }
}

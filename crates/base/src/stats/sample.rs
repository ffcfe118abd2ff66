//! Random samples for the tests of coverage.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// A nearly normal value of mean 0 and variance 1: the sum of twelve uniform values (Irwin–Hall).
pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

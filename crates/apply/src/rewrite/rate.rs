//! Limits the rate of copying, in bytes per second.

use std::time::{Duration, Instant};

/// Delays a copy so that it exceeds a rate only for a short time.
#[derive(Debug)]
pub struct Rate {
    bytes_s: Option<u64>,
    /// When the bytes so far would have been copied at the rate.
    due: Instant,
}

/// Time for which unused rate is kept.
const BURST: Duration = Duration::from_millis(100);

impl Rate {
    /// At most this number of bytes a second; `None` for unlimited copying.
    pub fn new(bytes_s: Option<u64>) -> Rate {
        Rate { bytes_s: bytes_s.filter(|rate| *rate > 0), due: Instant::now() }
    }

    /// Waits until this number of bytes may be copied.
    pub fn wait(&mut self, bytes: u64) {
        let Some(rate) = self.bytes_s else { return };
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        std::thread::sleep(self.due.saturating_duration_since(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_not_exceeded() {
        let start = Instant::now();
        let mut rate = Rate::new(Some(10 << 20));
        (0..5).for_each(|_| rate.wait(1 << 20));
        assert!(start.elapsed() >= Duration::from_millis(400), "{:?}", start.elapsed());
        let start = Instant::now();
        let mut unlimited = Rate::new(None);
        (0..1000).for_each(|_| unlimited.wait(u64::MAX));
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

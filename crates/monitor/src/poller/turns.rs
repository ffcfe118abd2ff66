//! Limits how many sources read at the same time, and thereby the memory for new readings that exist together with the old ones.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of sources that read at the same time.
const TURNS: usize = 4;
/// A source that has been reading for this long does not keep others waiting: it may hang.
const LONGEST: Duration = Duration::from_millis(250);

/// The turns of the sources of a poller.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The start of each turn.
    running: Mutex<Vec<Instant>>,
    ended: Condvar,
}

/// A turn, which ends when this is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    began: Instant,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    pub(super) fn wait(&self) -> Turn<'_> {
        let mut running = self.lock();
        loop {
            let now = Instant::now();
            let mut counted: Vec<Instant> = running.iter().map(|began| *began + LONGEST).collect();
            counted.retain(|end| *end > now);
            if counted.len() < TURNS {
                running.push(now);
                return Turn { turns: self, began: now };
            }
            let first = counted.into_iter().min().map_or(LONGEST, |end| end - now);
            running = self.ended.wait_timeout(running, first).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut running = self.turns.lock();
        if let Some(at) = running.iter().position(|began| *began == self.began) {
            running.swap_remove(at);
        }
        self.turns.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_takes_too_long_keeps_no_other_waiting() {
        let turns = Turns::default();
        let began = Instant::now();
        let mut held: Vec<Turn<'_>> = (0..TURNS).map(|_| turns.wait()).collect();
        held.pop();
        held.push(turns.wait());
        assert_eq!(turns.lock().len(), TURNS, "a turn that ended was counted");
        held.extend((0..TURNS).map(|_| turns.wait()));
        assert!(began.elapsed() >= LONGEST);
        drop(held);
        assert!(turns.lock().is_empty());
    }
}

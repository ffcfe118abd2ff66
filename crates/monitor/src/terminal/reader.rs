//! The thread that runs the poller.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Poller;
use poolwright_base::time::unix_seconds;

use crate::terminal::sample::{MonitorSample, MonitorSampler};
use crate::{Error, Result};

/// How long a round waits for the sources, so that a slow one does not delay the others. Readings that arrive later are in the next
/// sample.
const ROUND_LIMIT: Duration = Duration::from_secs(1);

/// Reads the sources periodically in a separate thread.
#[derive(Debug)]
pub struct SampleReader {
    samples: Receiver<Result<MonitorSample>>,
}

impl SampleReader {
    /// Starts the thread. It ends with its next round after the reader has been dropped.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(poller: Poller, every: Duration) -> Result<SampleReader> {
        let (sender, samples) = channel();
        let thread = thread::Builder::new().name("reader".to_owned());
        thread.spawn(move || read(&poller, every, &sender)).map_err(Error::Terminal)?;
        Ok(SampleReader { samples })
    }

    /// The newest sample that has not been returned yet.
    ///
    /// # Errors
    /// If a source could not be started, or the thread has ended.
    pub fn newest(&self) -> Result<Option<MonitorSample>> {
        let mut newest = None;
        loop {
            match self.samples.try_recv() {
                Ok(sample) => newest = Some(sample?),
                Err(TryRecvError::Empty) => return Ok(newest),
                Err(TryRecvError::Disconnected) => return Err(Error::ReaderEnded),
            }
        }
    }
}

fn read(poller: &Poller, every: Duration, to: &Sender<Result<MonitorSample>>) {
    let mut sampler = MonitorSampler::default();
    let mut next = Instant::now();
    loop {
        let read = poller.refresh(every.min(ROUND_LIMIT));
        let sample = read.map(|read| sampler.sample(&read, Instant::now(), unix_seconds()));
        if to.send(sample).is_err() {
            return;
        }
        let now = Instant::now();
        next = (next + every).max(now); // skip rounds that were missed
        thread::sleep(next - now);
    }
}

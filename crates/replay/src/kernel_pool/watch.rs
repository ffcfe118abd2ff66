//! The parent's duties for a trial on a pool of the kernel: destroying the trial's datasets, however both processes end, and stopping a
//! trial that slows down the pool's other users.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use poolwright_base::Guardian;
use poolwright_zfs::kernel::command::histogram::{HistogramKind, VdevHistogram};
use poolwright_zfs::kernel::{CommandOptions, Kstats, PoolLeaves, ZfsCommands};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KernelPoolOptions, MARK, PREFIX};
use crate::error::host;
use crate::{Error, Result};

/// Destroys the dataset `$1` if its mark `$2` is `$3`. A process of the trial may use it for a moment longer.
const DESTROY: &str = r#"PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin
n=0
while [ "$(zfs get -H -o value "$2" "$1" 2>/dev/null)" = "$3" ]; do
    zfs destroy -r "$1" && exit 0
    n=$((n + 1))
    [ $n -lt 120 ] || exit 1
    sleep 0.5
done"#;

/// The interval between two readings of the pool's counters.
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of intervals in a row in which the latency must be above the limit.
const PATIENCE: u32 = 3;
/// The minimum number of I/Os in an interval for a meaningful median.
const MIN_IOS: u64 = 20;
/// The columns of the histogram that count: the time that the devices take for an I/O.
const COLUMNS: [&str; 2] = ["disk_read", "disk_write"];

/// The load of a pool during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolLoad {
    /// Bytes that others read from the pool's datasets.
    pub others_read_bytes: u64,
    /// Bytes that others wrote to them.
    pub others_written_bytes: u64,
    /// The longest median time of a device's I/O in a second of the trial, in nanoseconds; 0 if there was none.
    pub worst_device_ns: u64,
}

/// Watches a trial, and destroys its datasets when it has ended, even if this process is killed.
#[derive(Debug)]
pub struct PoolWatch<'a> {
    options: &'a KernelPoolOptions,
    dataset: String,
    guardian: Option<Guardian>,
    commands: ZfsCommands,
    kstats: Kstats,
    leaves: Option<PoolLeaves>,
    /// Bytes that the pool's devices had written at the start.
    written_before: u64,
    last: PoolReadings,
    next: Instant,
    above: u32,
    /// Readings in a row that failed.
    failed: u32,
    load: PoolLoad,
}

/// Counters at the last reading.
#[derive(Debug, Default)]
struct PoolReadings {
    /// The number of I/Os by the longest time in the bucket.
    times: BTreeMap<u64, u64>,
    others_read: u64,
    others_written: u64,
}

impl<'a> PoolWatch<'a> {
    /// From now on, the datasets of the trial that runs in the process `trial` are destroyed when this is dropped, which must not be before
    /// the trial has ended.
    ///
    /// # Errors
    /// If the shell that destroys the datasets cannot be started.
    pub fn start(options: &'a KernelPoolOptions, trial: u32) -> Result<PoolWatch<'a>> {
        let dataset = options.dataset_of(trial);
        let arguments = [dataset.clone(), MARK.to_owned(), trial.to_string()];
        let guardian = Guardian::start(DESTROY, arguments).map_err(host("start", "/bin/sh"))?;
        Ok(PoolWatch {
            options,
            dataset,
            guardian: Some(guardian),
            commands: ZfsCommands::of_pool(CommandOptions::default(), options.pool()),
            kstats: Kstats::default(),
            leaves: None,
            written_before: 0,
            last: PoolReadings::default(),
            next: Instant::now() + INTERVAL,
            above: 0,
            failed: 0,
            load: PoolLoad::default(),
        })
    }

    /// Reads the counters from which the load is counted.
    ///
    /// # Errors
    /// If the pool's counters cannot be read.
    pub fn begin(&mut self) -> Result<()> {
        self.leaves = PoolLeaves::of(&self.commands, self.options.pool())?;
        self.written_before = self.device_written()?;
        self.last = self.read()?;
        self.next = Instant::now() + INTERVAL;
        Ok(())
    }

    fn device_written(&self) -> Result<u64> {
        let totals = self.leaves.as_ref().map(|leaves| leaves.totals(&self.commands)).transpose()?.flatten();
        let not_counted = || Error::NoVdevCounters { pool: self.options.pool().to_owned() };
        Ok(totals.ok_or_else(not_counted)?.write_bytes)
    }

    /// Reads the pool when the interval has passed. Returns an error if the trial must be stopped.
    pub fn overstepped(&mut self) -> Option<Error> {
        if Instant::now() < self.next {
            return None;
        }
        let result = self.advance();
        self.next = Instant::now() + INTERVAL;
        match result {
            Ok(()) => self.failed = 0,
            Err(error @ Error::SlowsOthers { .. }) => return Some(error),
            // One command may take too long on a busy pool.
            Err(_) if self.failed + 1 < PATIENCE => self.failed += 1,
            Err(error) => return Some(error),
        }
        None
    }

    fn advance(&mut self) -> Result<()> {
        let now = self.read()?;
        let median = median_of(&self.last.times, &now.times);
        let others_read = now.others_read.saturating_sub(self.last.others_read);
        let others_written = now.others_written.saturating_sub(self.last.others_written);
        self.last = now;
        self.load.others_read_bytes += others_read;
        self.load.others_written_bytes += others_written;
        let median = median.unwrap_or(0);
        self.load.worst_device_ns = self.load.worst_device_ns.max(median);
        let disturbs = others_read + others_written > 0 && median > self.options.latency_limit_ns;
        self.above = if disturbs { self.above + 1 } else { 0 };
        if self.above < PATIENCE {
            return Ok(());
        }
        Err(Error::SlowsOthers {
            pool: self.options.pool().to_owned(),
            median_ns: median,
            limit_ns: self.options.latency_limit_ns,
        })
    }

    fn read(&self) -> Result<PoolReadings> {
        let mut readings = PoolReadings::default();
        for of in self.commands.histograms(HistogramKind::Latency)?.iter().filter(|of| of.vdev.is_none()) {
            add_times(&mut readings.times, of);
        }
        for pool in self.kstats.pools()?.iter().filter(|pool| pool.name() == self.options.pool()) {
            pool.for_each_objset(["nread", "nwritten"], |dataset, [read, written]| {
                // Neither this trial nor another one.
                if !dataset.contains(PREFIX) {
                    readings.others_read += read.unwrap_or(0);
                    readings.others_written += written.unwrap_or(0);
                }
            })?;
        }
        Ok(readings)
    }

    /// The bytes that the pool's devices have written since [`PoolWatch::begin`]: those of the trial and of others.
    ///
    /// # Errors
    /// If the pool's counters cannot be read.
    pub fn device_written_bytes(&self) -> Result<u64> {
        Ok(self.device_written()?.saturating_sub(self.written_before))
    }

    /// Destroys the trial's datasets, after its process has ended; returns the load during the trial.
    ///
    /// # Errors
    /// [`Error::DatasetLeft`] if a dataset could not be destroyed.
    pub fn finish(mut self) -> Result<PoolLoad> {
        let guardian = self.guardian.take().expect("only this function takes it");
        let status = guardian.finish().map_err(host("wait for", "/bin/sh"))?;
        if status.success() { Ok(self.load) } else { Err(Error::DatasetLeft(self.dataset.clone())) }
    }
}

/// Adds the times of the device I/O of one histogram.
fn add_times(times: &mut BTreeMap<u64, u64>, histogram: &VdevHistogram) {
    for column in histogram.columns.iter().filter(|column| COLUMNS.contains(&column.name)) {
        for (bound, count) in histogram.bounds.iter().zip(&column.counts) {
            *times.entry(*bound).or_default() += count;
        }
    }
}

/// The bound of the bucket with the median of the I/Os between two readings. `None` if there were too few.
fn median_of(before: &BTreeMap<u64, u64>, now: &BTreeMap<u64, u64>) -> Option<u64> {
    let counts: Vec<(u64, u64)> = now
        .iter()
        .map(|(bound, count)| (*bound, count.saturating_sub(before.get(bound).copied().unwrap_or(0))))
        .collect();
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    if total < MIN_IOS {
        return None;
    }
    let mut seen = 0;
    counts.into_iter().find_map(|(bound, count)| {
        seen += count;
        (seen * 2 >= total).then_some(bound)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_the_interval() {
        let times = |counts: &[(u64, u64)]| -> BTreeMap<u64, u64> { counts.iter().copied().collect() };
        let before = times(&[(1023, 1000), (2047, 10)]);
        assert_eq!(median_of(&before, &before), None, "no I/O");
        let few = times(&[(1023, 1000), (2047, 10), (4095, MIN_IOS - 1)]);
        assert_eq!(median_of(&before, &few), None);
        let now = times(&[(1023, 1009), (2047, 21), (4095, 1)]);
        assert_eq!(median_of(&before, &now), Some(2047));
    }

    #[test]
    fn only_the_times_of_devices_count() {
        let column = |name, counts: [u64; 2]| poolwright_zfs::kernel::command::histogram::HistogramColumn {
            name,
            counts: counts.to_vec(),
        };
        let columns =
            vec![column("total_read", [100, 100]), column("disk_read", [1, 2]), column("disk_write", [4, 8])];
        let histogram = VdevHistogram { pool: "tank".to_owned(), vdev: None, bounds: vec![1, 3], columns };
        let mut times = BTreeMap::new();
        add_times(&mut times, &histogram);
        assert_eq!(times, BTreeMap::from([(1, 5), (3, 10)]));
    }
}

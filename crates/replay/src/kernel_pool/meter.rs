//! The counters of a trial on a pool of the kernel.

use std::collections::BTreeMap;

use poolwright_base::cpu::kernel_ticks;
use poolwright_base::process;
use poolwright_openzfs::{ArcStats, ZilStats};
use poolwright_zfs::kernel::kstat::NamedKstat;
use poolwright_zfs::kernel::{Kstats, PoolLeaves, ZfsCommands};

use super::role_of;
use crate::{Counters, Error, Result};

/// Reads the counters. Those of the vdevs are the pool's and those of the ARC are the host's, other users included; those of the
/// intent logs are the trial's.
#[derive(Debug)]
pub(super) struct PoolMeter {
    pool: String,
    dataset: String,
    leaves: PoolLeaves,
    kstats: Kstats,
}

impl PoolMeter {
    /// The meter of a trial whose datasets are `dataset` and those below.
    pub fn of(commands: &ZfsCommands, pool: &str, dataset: &str) -> Result<PoolMeter> {
        let leaves = PoolLeaves::of(commands, pool)?;
        let leaves = leaves.ok_or_else(|| Error::NoVdevCounters { pool: pool.to_owned() })?;
        Ok(PoolMeter {
            pool: pool.to_owned(),
            dataset: dataset.to_owned(),
            leaves,
            kstats: Kstats::default(),
        })
    }

    /// Reads all counters.
    pub fn read(&self, commands: &ZfsCommands) -> Result<Counters> {
        let vdev = self.leaves.totals(commands)?;
        Ok(Counters {
            vdev: vdev.ok_or_else(|| Error::NoVdevCounters { pool: self.pool.clone() })?,
            arc: self.kstats.named("arcstats")?.map(|arc| arc_stats(&arc)).unwrap_or_default(),
            zil: self.zil()?,
            cpu_seconds: cpu_seconds(),
        })
    }

    fn zil(&self) -> Result<ZilStats> {
        let mut sum = ZilStats::default();
        self.for_each_zil(|_, counters| add(&mut sum, counters))?;
        Ok(sum)
    }

    /// The counters of the intent log of each role's dataset.
    pub fn zil_by_role(&self) -> Result<BTreeMap<String, ZilStats>> {
        let mut all: BTreeMap<String, ZilStats> = BTreeMap::new();
        self.for_each_zil(|role, counters| add(all.entry(role.to_owned()).or_default(), counters))?;
        Ok(all)
    }

    fn for_each_zil(&self, mut take: impl FnMut(&str, [u64; ZIL.len()])) -> Result<()> {
        let below = format!("{}/", self.dataset);
        for pool in self.kstats.pools()?.iter().filter(|pool| pool.name() == self.pool) {
            let unusable = pool.for_each_objset(ZIL, |dataset, counters| {
                if let Some(role) = dataset.strip_prefix(&below) {
                    take(role_of(role), counters.map(|value| value.unwrap_or(0)));
                }
            })?;
            // It may be one of the trial's, whose counters would be too low.
            unusable.into_iter().next().map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}

/// The counters of an intent log that [`ZilStats`] has, in the order of [`add`].
const ZIL: [&str; 14] = [
    "zil_commit_count",
    "zil_itx_count",
    "zil_itx_indirect_count",
    "zil_itx_indirect_bytes",
    "zil_itx_copied_count",
    "zil_itx_copied_bytes",
    "zil_itx_needcopy_count",
    "zil_itx_needcopy_bytes",
    "zil_itx_metaslab_normal_bytes",
    "zil_itx_metaslab_normal_write",
    "zil_itx_metaslab_normal_alloc",
    "zil_itx_metaslab_slog_bytes",
    "zil_itx_metaslab_slog_write",
    "zil_itx_metaslab_slog_alloc",
];

fn add(sum: &mut ZilStats, values: [u64; ZIL.len()]) {
    let fields = [
        &mut sum.commits,
        &mut sum.itxs,
        &mut sum.indirect_count,
        &mut sum.indirect_bytes,
        &mut sum.copied_count,
        &mut sum.copied_bytes,
        &mut sum.needcopy_count,
        &mut sum.needcopy_bytes,
        &mut sum.normal_bytes,
        &mut sum.normal_write,
        &mut sum.normal_alloc,
        &mut sum.slog_bytes,
        &mut sum.slog_write,
        &mut sum.slog_alloc,
    ];
    for (field, value) in fields.into_iter().zip(values) {
        *field += value;
    }
}

/// The kernel's `arcstats`. A counter that the release of OpenZFS does not have is 0.
fn arc_stats(kstat: &NamedKstat) -> ArcStats {
    let of = |name: &str| kstat.unsigned(name).unwrap_or(0);
    ArcStats { target: of("c"), max: of("c_max"), ..ArcStats::from_names(of) }
}

/// CPU time in seconds of this process, of the kernel's threads and of interrupts. Only differences have a meaning.
fn cpu_seconds() -> f64 {
    let ticks = kernel_ticks(&[std::process::id() as i32]).unwrap_or(0);
    ticks as f64 / process::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_this_process_counts_and_that_of_others_does_not() {
        let (before, began) = (cpu_seconds(), std::time::Instant::now());
        let mut other = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut work = 0u64;
        // Other tests of this process may have used CPU time before.
        let until = crate::clock::cpu_seconds() + 0.5;
        while crate::clock::cpu_seconds() < until {
            work = std::hint::black_box(work + 1);
        }
        let (used, wall) = (cpu_seconds() - before, began.elapsed().as_secs_f64());
        let alone = process::ProcessStat::read(other.id() as i32).unwrap().own.total();
        other.kill().unwrap();
        other.wait().unwrap();
        // Other processes of the machine that end meanwhile may add to it; at most one CPU for each.
        assert!(used > 0.2, "{used} s in {wall} s; the other process used {alone} ticks");
    }

    #[test]
    fn each_counter_of_the_intent_log_has_its_field() {
        let mut sum = ZilStats::default();
        add(&mut sum, std::array::from_fn(|at| at as u64 + 1));
        assert_eq!((sum.commits, sum.copied_bytes, sum.normal_write, sum.slog_alloc), (1, 6, 10, 14));
        add(&mut sum, [1; ZIL.len()]);
        assert_eq!((sum.itxs, sum.needcopy_bytes), (3, 9));
    }
}

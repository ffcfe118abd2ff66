//! Vdevs: sector sizes, and vdevs of special classes that are missing, unused or misused.

use poolwright_base::units::format_size;
use poolwright_trace::layout::Role;
use poolwright_zfs::kernel::command::status::VdevClass;

use super::{names, on_datasets, on_pools, sources};
use crate::facts::{DiskFacts, MachineFacts};
use crate::rule::FindingSeverity::{Advice, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[
    InspectionRule {
        name: "ashift",
        severity: Warning,
        title: "a vdev with smaller sectors than its disk",
        reason: "The disk reads and rewrites a whole physical sector for each smaller write. The ashift of a vdev cannot be changed.",
        source: &sources::SECTORS,
        find: ashift,
    },
    InspectionRule {
        name: "special-takes-all",
        severity: Advice,
        title: "special_small_blocks of at least the size of most blocks",
        reason: "Most data of the dataset goes to the special vdev until three quarters of that are used, not only its small blocks. The size \
                 after compression counts.",
        source: &sources::SPECIAL_SMALL_BLOCKS,
        find: special_takes_all,
    },
    InspectionRule {
        name: "special-missing",
        severity: Advice,
        title: "special_small_blocks in a pool without a special vdev",
        reason: "The property has no effect.",
        source: &sources::SPECIAL_SMALL_BLOCKS,
        find: special_missing,
    },
    InspectionRule {
        name: "log-vdev-unused",
        severity: Warning,
        title: "logbias=throughput for a database's log, in a pool with a log vdev",
        reason: "The data of a sync goes to the data vdevs, not to the log vdev, so that each sync waits for them.",
        source: &sources::LOGBIAS,
        find: log_vdev_unused,
    },
];

/// The largest sector for which OpenZFS chooses an ashift itself (`zfs_vdev_max_auto_ashift`). Arrays report larger ones.
const MAX_SECTOR: u64 = 1 << 14;

/// The physical sectors of a disk.
fn sector_of(disk: &DiskFacts) -> Option<u64> {
    Some(disk.sector?.min(MAX_SECTOR))
}

fn ashift(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_pools(facts, |pool| {
        let is_small = |disk: &&DiskFacts| {
            disk.ashift.zip(sector_of(disk)).is_some_and(|(ashift, sector)| 1_u64 << ashift < sector)
        };
        let mut small = pool.disks.iter().filter(is_small).peekable();
        let first = *small.peek()?;
        let (sector, name) = (1_u64 << first.ashift?, &pool.space.name);
        let evidence = small.filter_map(|disk| {
            Some(format!(
                "{}: ashift {}, physical sectors of {}",
                disk.name,
                disk.ashift?,
                format_size(disk.sector?)
            ))
        });
        Some(RuleMatch {
            subject: name.clone(),
            problem: format!("{} has larger physical sectors than {}", first.name, format_size(sector)),
            evidence: evidence.collect(),
            remedy: format!(
                "move the data to a new pool with ashift={}; vdevs with another ashift in this pool could not be removed again",
                sector_of(first)?.ilog2()
            ),
            effect: "the disk writes whole sectors; blocks compress to multiples of the larger sector"
                .to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn special_takes_all(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let (limit, block) = (dataset.number("special_small_blocks")?, dataset.block_size()?);
        let pool = facts.pool_of(dataset)?;
        let special = pool.vdevs(VdevClass::Special).next()?;
        let ratio = dataset.sampled_today().map(|today| today.ratio).filter(|ratio| ratio.is_finite());
        let stored = block as f64 / ratio.unwrap_or(1.0);
        (limit as f64 >= stored).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!("most blocks of {} go to the special vdev", names(databases)),
            evidence: vec![
                dataset.evidence("special_small_blocks"),
                dataset.evidence(dataset.block_property()),
                format!("zpool status {}: special {}", pool.space.name, special.name),
            ],
            remedy: dataset.set("special_small_blocks", "0"),
            effect: "new blocks go to the data vdevs; rewrite the files to move the others. Keep it if the special vdev is meant for the database"
                .to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn special_missing(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        let pool = facts.pool_of(dataset).filter(|pool| pool.status.is_some())?;
        let is_set = dataset.number("special_small_blocks").is_some_and(|limit| limit > 0);
        (is_set && pool.vdevs(VdevClass::Special).next().is_none()).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: "special_small_blocks has no effect, because the pool has no special vdev".to_owned(),
            evidence: vec![dataset.evidence("special_small_blocks")],
            remedy: dataset.set("special_small_blocks", "0"),
            effect: "nothing changes now; with a special vdev, small blocks would go there".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn log_vdev_unused(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let pool = facts.pool_of(dataset)?;
        let log = pool.vdevs(VdevClass::Log).next()?;
        // OpenZFS's guide recommends it for data that has its log on another dataset.
        let has_log =
            databases.iter().flat_map(|of| of.files_on(dataset)).any(|group| group.role == Role::Wal);
        (has_log && dataset.has("logbias", "throughput")).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!("logbias=throughput: syncs of {} do not use the log vdev", names(databases)),
            evidence: vec![
                dataset.evidence("logbias"),
                format!("zpool status {}: log {}", pool.space.name, log.name),
            ],
            remedy: dataset.set("logbias", "latency"),
            effect: "syncs wait for the log vdev instead of the data vdevs; `poolwright tune` measures both"
                .to_owned(),
            ..RuleMatch::default()
        })
    })
}

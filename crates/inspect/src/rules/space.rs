//! Free space and snapshots.

use poolwright_base::units::format_size;

use super::{names, on_datasets, on_pools, sources};
use crate::facts::{DatasetKind, MachineFacts, PoolFacts};
use crate::rule::FindingSeverity::{Advice, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[
    InspectionRule {
        name: "pool-nearly-full",
        severity: Advice,
        title: "a pool beyond 80 % of its capacity; beyond 90 %, a warning",
        reason: "Free space is scattered, so that allocations take longer and blocks are no longer written in sequence. Copy on write needs \
                 free space for every change.",
        source: &sources::CAPACITY,
        find: nearly_full,
    },
    InspectionRule {
        name: "dataset-nearly-full",
        severity: Warning,
        title: "a dataset that has used 90 % of what it may use",
        reason: "At its limit, the database stops, and with copy on write even deleting rows needs space.",
        source: &sources::QUOTA,
        find: dataset_nearly_full,
    },
    InspectionRule {
        name: "snapshots",
        severity: Advice,
        title: "snapshots that hold more than the database",
        reason: "Blocks of old snapshots are not freed. A database that rewrites its files fills them quickly.",
        source: &sources::SNAPSHOTS,
        find: snapshots,
    },
];

/// The percentage of the capacity from which a pool is nearly full.
const FULL: u64 = 80;
/// The percentage from which OpenZFS's guide warns.
const VERY_FULL: u64 = 90;
/// A dataset is nearly full if less than this part of what it may use is available.
const LITTLE: u64 = 10;
/// Snapshots matter from this part of the pool's size.
const MUCH: u64 = 20;

/// The part of a pool that is allocated.
fn percent_full(pool: &PoolFacts) -> Option<u64> {
    let size = pool.space.size.filter(|size| *size > 0)?;
    Some((u128::from(pool.space.allocated?) * 100 / u128::from(size)) as u64)
}

fn nearly_full(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_pools(facts, |pool| {
        let space = &pool.space;
        let (size, allocated, percent) = (space.size?, space.allocated?, percent_full(pool)?);
        let fragmentation = space.fragmentation.map(|of| format!("; the free space is fragmented to {of} %"));
        (percent > FULL).then(|| RuleMatch {
            subject: space.name.clone(),
            problem: format!("the pool is {percent} % full"),
            evidence: vec![format!(
                "zpool list {}: {} of {} allocated{}",
                space.name,
                format_size(allocated),
                format_size(size),
                fragmentation.unwrap_or_default()
            )],
            remedy: "destroy snapshots or data that is not needed, or add vdevs".to_owned(),
            effect: "new blocks find large free segments".to_owned(),
            severity: (percent > VERY_FULL).then_some(Warning),
            source: (percent > VERY_FULL).then_some(&sources::FREE_SPACE),
        })
    })
}

fn dataset_nearly_full(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let space = dataset.space.as_ref().filter(|_| dataset.kind == DatasetKind::FileSystem)?;
        // The pool limits it, which is another finding.
        if facts.pool_of(dataset).and_then(percent_full).is_some_and(|percent| percent > FULL) {
            return None;
        }
        let (available, used) = (space.available?, space.used?);
        let limit = available.saturating_add(used);
        (available < limit / LITTLE).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!("{} can use only {} more", names(databases), format_size(available)),
            evidence: vec![
                format!(
                    "zfs list {}: used {}, available {}",
                    dataset.name,
                    format_size(used),
                    format_size(available)
                ),
                dataset.evidence("quota"),
                dataset.evidence("refquota"),
            ],
            remedy: "raise the quota, destroy snapshots, or add vdevs".to_owned(),
            effect: "the database does not stop for want of space".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn snapshots(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        let (space, all) = (dataset.space.as_ref()?, dataset.snapshots.as_ref()?);
        let (held, referenced) = (space.used_by_snapshots?, space.referenced?);
        let size = facts.pool_of(dataset)?.space.size?;
        (held > referenced && held > size / MUCH).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "{} snapshots hold {}, the data itself {}",
                all.count,
                format_size(held),
                format_size(referenced)
            ),
            evidence: vec![format!(
                "zfs list {}: usedbysnapshots {}, referenced {}",
                dataset.name,
                format_size(held),
                format_size(referenced)
            )],
            remedy: format!("zfs list -t snapshot -o name,used,creation -s creation {}", dataset.name),
            effect: "destroying the oldest snapshots frees what only they hold".to_owned(),
            ..RuleMatch::default()
        })
    })
}

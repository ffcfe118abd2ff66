//! The ARC and the caches of databases.

use poolwright_base::units::format_size;

use super::{on_datasets, sources};
use crate::facts::{DatabaseFacts, MachineFacts};
use crate::rule::FindingSeverity::{Advice, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[
    InspectionRule {
        name: "primarycache",
        severity: Warning,
        title: "the ARC does not cache data that the database does not cache either",
        reason: "Each read that the database's own cache does not answer reads a whole block from disk.",
        source: &sources::PRIMARYCACHE,
        find: primarycache,
    },
    InspectionRule {
        name: "memory-overcommitted",
        severity: Warning,
        title: "a limit of the ARC that leaves no room for the caches of the databases",
        reason: "When both are full, the kernel takes memory from the ARC under pressure, or kills a process.",
        source: &sources::PARAMETERS,
        find: overcommitted,
    },
    InspectionRule {
        name: "arc-limit-small",
        severity: Advice,
        title: "a small limit of the ARC beside free memory",
        reason: "Memory that no program uses could answer reads.",
        source: &sources::PARAMETERS,
        find: small_limit,
    },
];

/// The smallest limit of the ARC that the module accepts: this part of the memory, and [`MIN_LIMIT`].
const MIN_PART: u64 = 32;
const MIN_LIMIT: u64 = 64 << 20;
/// A limit of the ARC below this part of the memory is small. OpenZFS's default is half of the memory or more.
const SMALL: u64 = 8;

fn primarycache(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let value = dataset.value("primarycache").filter(|value| ["none", "metadata"].contains(value))?;
        let data = |of: &DatabaseFacts| of.page_bytes_on(dataset);
        // These rely on the file system's cache beside their own. What is unknown about InnoDB is not reported.
        const RELY_ON_FILE_CACHE: [&str; 6] = ["postgresql", "sqlite", "lmdb", "etcd", "bbolt", "rocksdb"];
        let is_uncached = |of: &&&DatabaseFacts| match (of.is("mariadb"), of.cache()) {
            (true, cache) => cache.is_some_and(|cache| data(of) > cache),
            (false, cache) => {
                RELY_ON_FILE_CACHE.iter().any(|layout| of.is(layout)) && data(of) > cache.unwrap_or(0)
            }
        };
        let of = databases.iter().find(is_uncached)?;
        let cache = of.cache().map(|cache| format!("the database's cache: {}", format_size(cache)));
        let evidence =
            [dataset.evidence("primarycache"), format!("tables and indexes: {}", format_size(data(of)))];
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "primarycache={value}: reads of {} that its own cache does not answer go to disk",
                of.describe()
            ),
            evidence: evidence.into_iter().chain(cache).collect(),
            remedy: dataset.set("primarycache", "all"),
            effect: "the ARC answers repeated reads; `poolwright mrc` shows how many at each size".to_owned(),
            // OpenZFS's guide recommends it for InnoDB with a large buffer pool.
            severity: of.is("mariadb").then_some(Advice),
            ..RuleMatch::default()
        })
    })
}

/// The databases with a known cache, and the sum of the caches.
fn caches(facts: &MachineFacts) -> (Vec<String>, u64) {
    let cached = || facts.databases.iter().filter_map(|of| Some((of, of.cache()?)));
    let evidence = cached().map(|(of, cache)| format!("cache of {}: {}", of.describe(), format_size(cache)));
    (evidence.collect(), cached().map(|(_, cache)| cache).sum())
}

fn overcommitted(facts: &MachineFacts) -> Vec<RuleMatch> {
    let host = &facts.host;
    let found = || {
        // Without a limit that was set, the ARC gives memory back as programs need it.
        host.parameter("zfs_arc_max").filter(|limit| *limit > 0)?;
        let (memory, arc) = (host.memory?, host.arc_max?);
        let (evidence, caches) = caches(facts);
        let limit = memory.saturating_sub(caches) / 10 * 8;
        let remedy = match limit >= MIN_LIMIT.max(memory / MIN_PART) {
            true => format!(
                "echo {limit} > /sys/module/zfs/parameters/zfs_arc_max (at most; and in /etc/modprobe.d), or make the databases' caches smaller"
            ),
            false => "make the databases' caches smaller".to_owned(),
        };
        (caches > 0 && arc + caches > memory).then(|| RuleMatch {
            subject: "memory".to_owned(),
            problem: format!(
                "the ARC ({}) and the databases' caches ({}) can grow beyond the memory ({})",
                format_size(arc),
                format_size(caches),
                format_size(memory)
            ),
            evidence: [format!("arcstats c_max: {arc}"), format!("MemTotal: {memory}")].into_iter().chain(evidence).collect(),
            remedy,
            effect: "the ARC does not grow into memory that the database will use; `poolwright mrc` shows which division is best".to_owned(),
            ..RuleMatch::default()
        })
    };
    found().into_iter().collect()
}

fn small_limit(facts: &MachineFacts) -> Vec<RuleMatch> {
    let host = &facts.host;
    let found = || {
        let (memory, arc, size) = (host.memory?, host.arc_max?, host.arc_size?);
        let available = host.memory_available?;
        let (evidence, _) = caches(facts);
        let cached = facts
            .used_datasets()
            .filter(|(dataset, _)| dataset.is_of_kernel && dataset.has("primarycache", "all"));
        let data: u64 =
            cached.flat_map(|(dataset, of)| of.into_iter().map(|of| of.page_bytes_on(dataset))).sum();
        let is_full = size >= arc / 10 * 9;
        (arc < memory / SMALL && data > arc && is_full && available > memory / 2).then(|| RuleMatch {
            subject: "memory".to_owned(),
            problem: format!(
                "the ARC is full at its limit of {}, {} of tables and indexes do not fit, and {} of memory are available",
                format_size(arc),
                format_size(data),
                format_size(available)
            ),
            evidence: [format!("arcstats c_max: {arc}, size: {size}"), format!("MemAvailable: {available} of {memory}")].into_iter().chain(evidence).collect(),
            remedy: "poolwright mrc".to_owned(),
            effect: "it shows how many reads a larger ARC would answer, before zfs_arc_max is changed".to_owned(),
            ..RuleMatch::default()
        })
    };
    found().into_iter().collect()
}

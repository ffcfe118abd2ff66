//! Known defects of OpenZFS releases that concern databases: one table.

use poolwright_tune::advice::Publication;
use poolwright_zfs::kernel::command::version::Release;

use super::sources;
use crate::facts::{DatabaseFacts, DatasetFacts, DatasetKind, MachineFacts};
use crate::rule::FindingSeverity;
use crate::rule::FindingSeverity::{Advice, Critical, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[InspectionRule {
    name: "known-defect",
    severity: Warning,
    title: "a defect of this release of OpenZFS that concerns these databases",
    reason: "A later release of OpenZFS does not have the defect. A distribution may have corrected it without a new number.",
    source: &sources::RELEASES,
    find: known_defects,
}];

/// A defect of some releases.
#[derive(Debug)]
pub struct Defect {
    /// What happens: a phrase without a final period.
    pub title: &'static str,
    /// How much it matters.
    pub severity: FindingSeverity,
    /// The affected releases of each branch.
    branches: &'static [Branch],
    /// Where the defect concerns this machine: the subject and the evidence.
    applies: fn(&MachineFacts) -> Option<(String, String)>,
    /// What avoids it without another release; empty if nothing does.
    workaround: &'static str,
    /// The report of the defect.
    pub source: Publication,
}

/// The affected releases of one branch, such as 2.3: `from` is the third number of the first of them, `fixed` that of the first without the
/// defect; `None` if the branch has none.
#[derive(Debug)]
struct Branch {
    minor: u32,
    from: u32,
    fixed: Option<u32>,
}

/// The first number of all releases in the table.
const MAJOR: u32 = 2;
/// The branches that the table covers.
const BRANCHES: std::ops::RangeInclusive<u32> = 1..=4;

const fn branch(minor: u32, from: u32, fixed: Option<u32>) -> Branch {
    Branch { minor, from, fixed }
}

/// Why the defects of a release are unknown; `None` if the table covers it.
pub fn not_covered(release: &Release) -> Option<String> {
    let is_covered = release.major == MAJOR && BRANCHES.contains(&release.minor);
    (!is_covered).then(|| {
        format!("the known defects of OpenZFS {}: the table has the releases 2.1 to 2.4", release.text)
    })
}

const fn report(title: &'static str, url: &'static str) -> Publication {
    Publication { title, url }
}

/// The table of defects. The first release without a defect is that whose history contains the correction.
pub const DEFECTS: &[Defect] = &[
    Defect {
        title: "syncs of volumes do not wait until their data is on disk",
        severity: Critical,
        branches: &[branch(2, 7, Some(8)), branch(3, 0, Some(2))],
        applies: |facts| volume(facts, |of| !of.has("sync", "always")),
        workaround: "set sync=always on the volume",
        source: report("OpenZFS pull request 17131", "https://github.com/openzfs/zfs/pull/17131"),
    },
    Defect {
        title: "with zvol_use_blk_mq=1, syncs of volumes do not wait until their data is on disk",
        severity: Critical,
        branches: &[branch(2, 1, Some(9)), branch(3, 0, Some(5))],
        applies: |facts| {
            let is_set = facts.host.parameter("zvol_use_blk_mq") == Some(1);
            is_set.then(|| volume(facts, |of| !of.has("sync", "always")))?
        },
        workaround: "set zvol_use_blk_mq=0 and import the pool again",
        source: report("OpenZFS issue 17761", "https://github.com/openzfs/zfs/issues/17761"),
    },
    Defect {
        title: "a copy of a file that was just written can contain zeros in place of data",
        severity: Critical,
        branches: &[branch(1, 0, Some(14)), branch(2, 0, Some(2))],
        applies: any_database,
        workaround: "do not copy files that are being written, for example for backups",
        source: report("OpenZFS issue 15526", "https://github.com/openzfs/zfs/issues/15526"),
    },
    Defect {
        title: "cloned blocks can have wrong content",
        severity: Critical,
        branches: &[branch(2, 0, Some(2))],
        applies: |facts| {
            // 2.2.0 has no parameter that turns cloning off.
            let is_on = facts.host.parameter("zfs_bclone_enabled").is_none_or(|value| value != 0);
            is_on.then(|| any_database(facts))?
        },
        workaround: "do not use tools that clone files (cp --reflink, copy_file_range)",
        source: report("OpenZFS pull request 15566", "https://github.com/openzfs/zfs/pull/15566"),
    },
    Defect {
        title: "after a clone over a part of a file that was truncated before, reads can return wrong data until it is written to disk",
        severity: Warning,
        branches: &[branch(3, 0, Some(9)), branch(4, 0, Some(4))],
        applies: |facts| {
            let is_on = facts.host.parameter("zfs_bclone_enabled").is_some_and(|value| value != 0);
            is_on.then(|| any_database(facts))?
        },
        workaround: "set the module's parameter zfs_bclone_enabled=0",
        source: report("OpenZFS pull request 18724", "https://github.com/openzfs/zfs/pull/18724"),
    },
    Defect {
        title: "with deduplication, a block can be lost and read as zeros",
        severity: Critical,
        branches: &[branch(4, 0, Some(4))],
        applies: |facts| {
            on_dataset(facts, "dedup", |of| of.value("dedup").is_some_and(|value| value != "off"))
        },
        workaround: "set dedup=off",
        source: report("OpenZFS pull request 18544", "https://github.com/openzfs/zfs/pull/18544"),
    },
    Defect {
        title: "a read can return a part of a page that another process is mapping",
        severity: Critical,
        branches: &[branch(1, 0, Some(12))],
        applies: |facts| of_layout(facts, &["lmdb", "etcd", "bbolt", "sqlite"], "it maps its files"),
        workaround: "",
        source: report("OpenZFS issue 13608", "https://github.com/openzfs/zfs/issues/13608"),
    },
    Defect {
        title: "with compression=zstd on 64-bit ARM, the kernel damages registers of programs",
        severity: Critical,
        branches: &[branch(2, 0, Some(9)), branch(3, 0, Some(5))],
        applies: |facts| {
            let is_zstd =
                |of: &DatasetFacts| of.value("compression").is_some_and(|value| value.starts_with("zstd"));
            (facts.host.architecture == "aarch64").then(|| on_dataset(facts, "compression", is_zstd))?
        },
        workaround: "use compression=lz4",
        source: report("OpenZFS issue 17852", "https://github.com/openzfs/zfs/issues/17852"),
    },
    Defect {
        title: "a read of a mapped file that another process truncates overwrites memory of the kernel",
        severity: Warning,
        branches: &[branch(1, 12, None), branch(2, 0, None), branch(3, 0, Some(9)), branch(4, 0, Some(4))],
        applies: |facts| of_layout(facts, &["lmdb", "etcd", "bbolt", "sqlite"], "it maps its files"),
        workaround: "",
        source: report("OpenZFS pull request 18715", "https://github.com/openzfs/zfs/pull/18715"),
    },
    Defect {
        title: "the first connection to a SQLite database in WAL mode can wait for seconds",
        severity: Warning,
        branches: &[branch(1, 0, None), branch(2, 0, None), branch(3, 0, Some(4))],
        applies: |facts| {
            let is_wal = |of: &&DatabaseFacts| of.is("sqlite") && of.setting("journal_mode") == Some("wal");
            let of = kernel_databases(facts).find(is_wal)?;
            Some((of.describe(), "a file has journal_mode=wal".to_owned()))
        },
        workaround: "keep one connection open",
        source: report("OpenZFS issue 14290", "https://github.com/openzfs/zfs/issues/14290"),
    },
    Defect {
        title: "direct I/O that is not aligned to pages fails with EINVAL, for example in mariadb-backup --prepare",
        severity: Warning,
        branches: &[branch(3, 0, None)],
        applies: |facts| {
            let is_direct = |of: &DatasetFacts| of.value("direct").is_some_and(|value| value != "disabled");
            let opens =
                |of: &&DatabaseFacts| of.server.as_ref().is_some_and(|server| server.direct_files > 0);
            let of = kernel_databases(facts)
                .find(opens)
                .filter(|_| facts.host.parameter("zfs_dio_enabled") != Some(0))?;
            let dataset =
                of.files.iter().filter_map(|group| facts.dataset_of(group)).find(|of| is_direct(of))?;
            Some((of.describe(), dataset.evidence("direct")))
        },
        workaround: "set direct=disabled on the dataset",
        source: report("OpenZFS issue 18051", "https://github.com/openzfs/zfs/issues/18051"),
    },
    Defect {
        title: "zfs send without --raw of an encrypted dataset lets later reads of its snapshots fail",
        severity: Warning,
        branches: &[branch(1, 0, None), branch(2, 0, Some(8)), branch(3, 0, Some(3))],
        applies: |facts| {
            let is_encrypted = |of: &DatasetFacts| {
                of.value("encryption").is_some_and(|value| value != "off") && of.snapshots.is_some()
            };
            on_dataset(facts, "encryption", is_encrypted)
        },
        workaround: "send with --raw",
        source: report("OpenZFS issue 12014", "https://github.com/openzfs/zfs/issues/12014"),
    },
    Defect {
        title: "the ARC returns memory more slowly than the kernel needs it, so that the kernel kills processes",
        severity: Advice,
        branches: &[branch(1, 0, None), branch(2, 0, None)],
        applies: |facts| {
            let limit = facts.host.parameter("zfs_arc_shrinker_limit").filter(|limit| *limit > 0)?;
            any_database(facts)?;
            Some(("OpenZFS module".to_owned(), format!("zfs_arc_shrinker_limit: {limit}")))
        },
        workaround: "set the module's parameter zfs_arc_shrinker_limit=0, and a limit of the ARC",
        source: report("OpenZFS pull request 16909", "https://github.com/openzfs/zfs/pull/16909"),
    },
    Defect {
        title: "a server that is killed while it writes can loop for ever in the kernel",
        severity: Advice,
        branches: &[branch(2, 0, None), branch(3, 0, Some(9)), branch(4, 0, Some(4))],
        applies: |facts| any_database(facts).filter(|_| facts.databases.iter().any(|of| of.server.is_some())),
        workaround: "stop the server by its service instead of SIGKILL",
        source: report("OpenZFS issue 17129", "https://github.com/openzfs/zfs/issues/17129"),
    },
];

/// The databases on datasets or volumes of the kernel.
fn kernel_databases(facts: &MachineFacts) -> impl Iterator<Item = &DatabaseFacts> {
    let is_on_kernel = |of: &&DatabaseFacts| {
        of.files.iter().any(|group| group.is_of_kernel && facts.dataset_of(group).is_some())
    };
    facts.databases.iter().filter(is_on_kernel)
}

fn any_database(facts: &MachineFacts) -> Option<(String, String)> {
    let of = kernel_databases(facts).next()?;
    let dataset = &of.files.first()?.dataset;
    Some(("OpenZFS module".to_owned(), format!("{} on {dataset}", of.describe())))
}

fn of_layout(facts: &MachineFacts, layouts: &[&str], evidence: &str) -> Option<(String, String)> {
    let of = kernel_databases(facts).find(|of| layouts.iter().any(|layout| of.is(layout)))?;
    Some((of.describe(), evidence.to_owned()))
}

fn volume(facts: &MachineFacts, is_affected: impl Fn(&DatasetFacts) -> bool) -> Option<(String, String)> {
    let found = facts.datasets.iter().find(|of| of.kind == DatasetKind::Volume && is_affected(of))?;
    Some((found.name.clone(), found.evidence("sync")))
}

/// The first dataset of the kernel with a database, for which a property has the condition.
fn on_dataset(
    facts: &MachineFacts,
    property: &str,
    is_affected: impl Fn(&DatasetFacts) -> bool,
) -> Option<(String, String)> {
    let (found, _) = facts.used_datasets().find(|(of, _)| of.is_of_kernel && is_affected(of))?;
    Some((found.name.clone(), found.evidence(property)))
}

impl Branch {
    fn has(&self, release: &Release) -> bool {
        (release.major, release.minor) == (MAJOR, self.minor)
            && release.patch >= self.from
            && self.fixed.is_none_or(|fixed| release.patch < fixed)
    }

    fn text(&self) -> String {
        let Branch { minor, from, fixed } = self;
        match fixed {
            Some(fixed) if from + 1 == *fixed => format!("{MAJOR}.{minor}.{from}"),
            Some(fixed) => format!("{MAJOR}.{minor}.{from} to {MAJOR}.{minor}.{}", fixed - 1),
            None => format!("{MAJOR}.{minor}.{from} and later"),
        }
    }
}

impl Defect {
    /// The affected releases: `2.2.0 to 2.2.1, 2.3.0 and later`, where "later" means those of the same branch.
    pub fn releases(&self) -> String {
        self.branches.iter().map(Branch::text).collect::<Vec<_>>().join(", ")
    }

    /// The first release of a branch without the defect.
    fn fixed_in(&self, release: &Release) -> Option<String> {
        let branch = self.branches.iter().find(|branch| branch.has(release))?;
        Some(format!("{MAJOR}.{}.{}", branch.minor, branch.fixed?))
    }
}

fn known_defects(facts: &MachineFacts) -> Vec<RuleMatch> {
    let Some(release) = &facts.host.module else { return Vec::new() };
    // A distribution's package of an older number can have the correction: `2.1.11-1+deb12u1`.
    let is_of_distribution = release.text.split_once('-').is_some_and(|(_, package)| package != "1");
    let affected = DEFECTS.iter().filter(|defect| defect.branches.iter().any(|branch| branch.has(release)));
    let found = affected.filter_map(|defect| {
        let (subject, evidence) = (defect.applies)(facts)?;
        let update = match defect.fixed_in(release) {
            Some(fixed) => format!("update OpenZFS to {fixed} or later"),
            None => "update OpenZFS to a branch without the defect".to_owned(),
        };
        let unless = if is_of_distribution { ", unless your distribution has corrected it" } else { "" };
        Some(RuleMatch {
            subject,
            problem: format!("{}{unless}", defect.title),
            evidence: vec![format!("OpenZFS {}; affected: {}", release.text, defect.releases()), evidence],
            remedy: match defect.workaround {
                "" => update,
                workaround => format!("{update}; until then, {workaround}"),
            },
            effect: "the defect can no longer occur".to_owned(),
            severity: Some(if is_of_distribution { defect.severity.max(Warning) } else { defect.severity }),
            source: Some(&defect.source),
        })
    });
    found.collect()
}

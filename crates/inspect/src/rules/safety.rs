//! Settings that can lose or damage data.

use poolwright_zfs::kernel::HealthState;
use poolwright_zfs::kernel::command::status::{VdevClass, VdevNode};

use super::{names, on_databases, on_datasets, on_pools, sources};
use crate::facts::{DatabaseFacts, MachineFacts, is_redundant};
use crate::rule::FindingSeverity::{Advice, Critical, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[
    InspectionRule {
        name: "sync-disabled",
        severity: Critical,
        title: "sync=disabled under a database",
        reason: "The database reports commits that are not on disk. A crash of the host loses those of the last seconds; replicas and other \
                 systems may have seen them.",
        source: &sources::SYNC,
        find: sync_disabled,
    },
    InspectionRule {
        name: "innodb-doublewrite",
        severity: Critical,
        title: "InnoDB without its doublewrite buffer",
        reason: "OpenZFS's guide advises it, because a record is never written in part. But the intent log divides the record of one write \
                 between two log blocks, so that a crash of the host can tear a page even if pages and records have the same size. InnoDB \
                 cannot repair a torn page without the doublewrite buffer.",
        source: &sources::TORN,
        find: doublewrite_off,
    },
    InspectionRule {
        name: "full-page-writes",
        severity: Critical,
        title: "PostgreSQL with full_page_writes=off",
        reason: "The guides of OpenZFS and PostgreSQL permit it, because a record is never written in part. But the intent log divides the \
                 record of one write between two log blocks, so that a crash of the host can tear a page even if pages and records have \
                 the same size. PostgreSQL cannot repair a torn page without its full image in the WAL.",
        source: &sources::TORN,
        find: full_page_writes_off,
    },
    InspectionRule {
        name: "postgresql-fsync",
        severity: Critical,
        title: "PostgreSQL with fsync=off",
        reason: "The order of writes is lost: after a crash of the host, the database can be damaged beyond repair.",
        source: &sources::POSTGRESQL_WAL,
        find: postgresql_fsync_off,
    },
    InspectionRule {
        name: "innodb-fsync",
        severity: Critical,
        title: "InnoDB that does not sync its tables: innodb_flush_method=O_DIRECT_NO_FSYNC, nosync or littlesync, innodb_doublewrite=fast",
        reason: "A write with O_DIRECT is durable on OpenZFS only after a sync. The checkpoint in the log, which is synced, can be newer than the \
                 tables after a crash of the host: changes are lost, and the database can be damaged beyond repair.",
        source: &sources::INNODB_FLUSH,
        find: innodb_fsync_off,
    },
    InspectionRule {
        name: "flushes-off",
        severity: Critical,
        title: "OpenZFS does not flush the write caches of disks",
        reason: "A power failure loses what a disk has only in its volatile cache: with zil_nocacheflush, syncs that were acknowledged; with \
                 zfs_nocacheflush, also blocks without which the pool cannot be read. It is safe only if all write caches are protected \
                 against power failures.",
        source: &sources::PARAMETERS,
        find: flushes_off,
    },
    InspectionRule {
        name: "checksum-off",
        severity: Critical,
        title: "checksum=off under a database",
        reason: "OpenZFS returns damaged blocks as if they were right, and neither repairs them from a mirror nor finds them in a scrub.",
        source: &sources::CHECKSUM,
        find: checksum_off,
    },
    InspectionRule {
        name: "special-vdev-redundancy",
        severity: Critical,
        title: "a special or dedup vdev without redundancy in a redundant pool",
        reason: "The loss of this one device loses the whole pool.",
        source: &sources::SPECIAL,
        find: special_not_redundant,
    },
    InspectionRule {
        name: "pool-state",
        severity: Critical,
        title: "a pool that is not ONLINE",
        reason: "The pool has lost redundancy, or does not work.",
        source: &sources::POOL_STATE,
        find: pool_state,
    },
    InspectionRule {
        name: "pool-errors",
        severity: Critical,
        title: "a pool with errors",
        reason: "Blocks could not be read or repaired, or a device returns errors.",
        source: &sources::POOL_STATE,
        find: pool_errors,
    },
    InspectionRule {
        name: "redundant-metadata",
        severity: Warning,
        title: "redundant_metadata=some or none without redundant vdevs",
        reason: "Metadata has one copy, so that one unreadable sector can lose many blocks of data.",
        source: &sources::REDUNDANT_METADATA,
        find: redundant_metadata,
    },
    InspectionRule {
        name: "swap-on-volume",
        severity: Warning,
        title: "swap on a volume",
        reason: "To free memory, the kernel writes to the volume, and OpenZFS needs memory for that write: the host can hang.",
        source: &sources::SWAP,
        find: swap_on_volume,
    },
    InspectionRule {
        name: "relaxed-commit",
        severity: Advice,
        title: "the database does not sync each commit",
        reason: "A crash of the host loses commits of the last moments. The database stays consistent, so this can be intended.",
        source: &sources::POSTGRESQL_WAL,
        find: relaxed_commit,
    },
];

fn sync_disabled(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        dataset.has("sync", "disabled").then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "sync=disabled: a crash of the host loses what {} has just synced",
                names(databases)
            ),
            evidence: vec![dataset.evidence("sync")],
            remedy: dataset.set("sync", "standard"),
            effect: "each commit waits until it is on disk; a fast log vdev makes that wait short".to_owned(),
            ..RuleMatch::default()
        })
    })
}

/// A match of a setting of a database that lies on a dataset or volume.
fn setting(
    of: &DatabaseFacts,
    name: &str,
    problem: &str,
    (value, effect): (&str, &str),
) -> Option<RuleMatch> {
    let found = of.setting(name)?;
    (!of.files.is_empty()).then(|| RuleMatch {
        subject: of.describe(),
        problem: format!("{name}={found}: {problem}"),
        evidence: vec![format!("the server reports {name} = {found}")],
        remedy: format!("set {name}={value} in the server's configuration"),
        effect: effect.to_owned(),
        ..RuleMatch::default()
    })
}

/// Whether a setting has one of these values, in any case.
fn is_one_of(of: &DatabaseFacts, name: &str, values: &[&str]) -> bool {
    of.setting(name).is_some_and(|found| values.iter().any(|value| found.eq_ignore_ascii_case(value)))
}

fn is_off(of: &DatabaseFacts, name: &str) -> bool {
    is_one_of(of, name, &["off", "0", "no", "false"])
}

fn doublewrite_off(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_databases(facts, |of| {
        let effect = "InnoDB writes each page twice, and can repair a torn one; restart the server";
        // MySQL's `DETECT_ONLY` finds torn pages, but does not repair them.
        let detects_only = is_one_of(of, "innodb_doublewrite", &["DETECT_ONLY"]);
        (detects_only || is_off(of, "innodb_doublewrite")).then(|| {
            setting(of, "innodb_doublewrite", "a crash of the host can damage pages", ("ON", effect))
        })?
    })
}

fn full_page_writes_off(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_databases(facts, |of| {
        let effect = "the WAL has a full image of each page that is changed first after a checkpoint; a reload suffices";
        is_off(of, "full_page_writes").then(|| {
            setting(of, "full_page_writes", "a crash of the host can damage pages", ("on", effect))
        })?
    })
}

fn postgresql_fsync_off(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_databases(facts, |of| {
        let effect = "commits and checkpoints wait until their data is on disk; a reload suffices";
        is_off(of, "fsync")
            .then(|| setting(of, "fsync", "a crash of the host can destroy the database", ("on", effect)))?
    })
}

fn innodb_fsync_off(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_databases(facts, |of| {
        let problem = "a crash of the host can destroy the database";
        let effect = "InnoDB syncs its tables before each checkpoint; restart the server";
        if is_one_of(of, "innodb_doublewrite", &["fast"]) {
            return setting(of, "innodb_doublewrite", problem, ("ON", effect));
        }
        is_one_of(of, "innodb_flush_method", &["nosync", "littlesync", "O_DIRECT_NO_FSYNC"])
            .then(|| setting(of, "innodb_flush_method", problem, ("fsync", effect)))?
    })
}

fn flushes_off(facts: &MachineFacts) -> Vec<RuleMatch> {
    ["zfs_nocacheflush", "zil_nocacheflush"]
        .into_iter()
        .filter(|name| facts.host.parameter(name).is_some_and(|value| value != 0))
        .map(|name| RuleMatch {
            subject: "OpenZFS module".to_owned(),
            problem: format!("{name}=1: writes that were acknowledged can be lost in a power failure"),
            evidence: vec![format!("/sys/module/zfs/parameters/{name}: {}", facts.host.parameters[name])],
            remedy: format!(
                "echo 0 > /sys/module/zfs/parameters/{name}, and remove it from /etc/modprobe.d; keep it only if all write caches are protected \
                 against power failures"
            ),
            effect: "syncs wait for the disks' write caches".to_owned(),
            ..RuleMatch::default()
        })
        .collect()
}

fn checksum_off(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        dataset.has("checksum", "off").then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!("checksum=off: damaged blocks of {} are not detected", names(databases)),
            evidence: vec![dataset.evidence("checksum")],
            remedy: format!(
                "{}; rewrite the files, because blocks keep the checksum with which they were written",
                dataset.set("checksum", "on")
            ),
            effect: "new blocks are checked at each read".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn special_not_redundant(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_pools(facts, |pool| {
        pool.is_redundant().filter(|is_redundant| *is_redundant)?;
        let classes = [VdevClass::Special, VdevClass::Dedup];
        let vdev =
            classes.into_iter().flat_map(|class| pool.vdevs(class)).find(|vdev| !is_redundant(vdev))?;
        let (pool, class) = (&pool.space.name, vdev.class.as_str());
        Some(RuleMatch {
            subject: pool.clone(),
            problem: format!("the {class} vdev {} has no redundancy: its loss loses the pool", vdev.name),
            evidence: vec![format!("zpool status {pool}: {class} {}", vdev.name)],
            remedy: format!("zpool attach {pool} {} NEW-DEVICE", vdev.name),
            effect: format!("the {class} vdev becomes a mirror"),
            ..RuleMatch::default()
        })
    })
}

fn pool_state(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_pools(facts, |pool| {
        let (name, state) = (&pool.space.name, &pool.space.health);
        (*state != HealthState::Online).then(|| RuleMatch {
            subject: name.clone(),
            problem: format!("the pool is {state}"),
            evidence: vec![format!("zpool list {name}: health {state}")],
            remedy: format!("zpool status -v {name}"),
            effect: "it shows the device and what to do".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn pool_errors(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_pools(facts, |pool| {
        let status = pool.status.as_ref()?;
        let data = status.data_errors.filter(|errors| *errors > 0);
        let failed = |vdev: &VdevNode| {
            let counts = [vdev.read_errors, vdev.write_errors, vdev.checksum_errors];
            counts.iter().flatten().any(|count| *count > 0)
        };
        let vdevs: Vec<&VdevNode> = status
            .walk()
            .map(|(_, vdev)| vdev)
            .filter(|vdev| vdev.children.is_empty() && failed(vdev))
            .collect();
        if data.is_none() && vdevs.is_empty() {
            return None;
        }
        let counts = |vdev: &&VdevNode| {
            let count = |errors: Option<u64>| errors.unwrap_or(0);
            format!(
                "zpool status {}: {}: {} read, {} write, {} checksum errors",
                status.name,
                vdev.name,
                count(vdev.read_errors),
                count(vdev.write_errors),
                count(vdev.checksum_errors)
            )
        };
        let evidence = data.map(|errors| format!("zpool status {}: {errors} data errors", status.name));
        Some(RuleMatch {
            subject: status.name.clone(),
            problem: match data {
                Some(errors) => format!("{errors} blocks could not be read or repaired"),
                None => format!("{} of the devices had errors, which OpenZFS has repaired", vdevs.len()),
            },
            evidence: evidence.into_iter().chain(vdevs.iter().map(counts)).collect(),
            remedy: format!("zpool status -v {}", status.name),
            effect: "it shows the files and devices; restore the files, check the devices, then run zpool clear and zpool scrub".to_owned(),
            severity: data.is_none().then_some(Warning),
            ..RuleMatch::default()
        })
    })
}

fn redundant_metadata(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        let value = dataset.value("redundant_metadata").filter(|value| ["some", "none"].contains(value))?;
        (!facts.pool_of(dataset)?.is_redundant()?).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!("redundant_metadata={value} on a pool without redundancy"),
            evidence: vec![dataset.evidence("redundant_metadata")],
            remedy: dataset.set("redundant_metadata", "most"),
            effect: "metadata that is written from now on has a second copy, except indirect blocks of the lowest level".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn swap_on_volume(facts: &MachineFacts) -> Vec<RuleMatch> {
    let volumes = facts.host.swap_volumes.iter();
    volumes
        .map(|device| RuleMatch {
            subject: device.clone(),
            problem: "the host swaps to a volume, and can hang when memory is short".to_owned(),
            evidence: vec![format!("/proc/swaps: {device}")],
            remedy: format!(
                "with enough free memory, swapoff {device}, and swap on a partition instead (/etc/fstab)"
            ),
            effect: "swapping needs no memory of OpenZFS".to_owned(),
            ..RuleMatch::default()
        })
        .collect()
}

fn relaxed_commit(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_databases(facts, |of| {
        let problem = "a crash of the host loses commits of the last moments";
        let effect = "each commit waits until it is on disk";
        if is_off(of, "synchronous_commit") {
            return setting(of, "synchronous_commit", problem, ("on", effect));
        }
        // 3, of MariaDB, syncs at each commit.
        let is_lax = is_one_of(of, "innodb_flush_log_at_trx_commit", &["0", "2"]);
        let found =
            is_lax.then(|| setting(of, "innodb_flush_log_at_trx_commit", problem, ("1", effect)))??;
        Some(RuleMatch { source: Some(&sources::INNODB_COMMIT), ..found })
    })
}

//! Other properties of datasets.

use super::{names, on_datasets, sources};
use crate::facts::MachineFacts;
use crate::rule::FindingSeverity::{Advice, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[
    InspectionRule {
        name: "dedup",
        severity: Warning,
        title: "deduplication under a database",
        reason: "Each write looks up the table of checksums, which needs memory. Pages of a database are rarely equal.",
        source: &sources::DEDUP,
        find: dedup,
    },
    InspectionRule {
        name: "atime",
        severity: Advice,
        title: "atime=on without relatime",
        reason: "Each first read of a file in a transaction group writes its access time.",
        source: &sources::RELATIME,
        find: atime,
    },
    InspectionRule {
        name: "xattr",
        severity: Advice,
        title: "extended attributes in hidden directories, where the host uses them",
        reason: "Each file with an ACL has a hidden directory and file, so that opening it reads several blocks.",
        source: &sources::XATTR,
        find: xattr,
    },
];

fn dedup(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let value = dataset.value("dedup").filter(|value| *value != "off")?;
        let pool = facts.pool_of(dataset);
        let ratio = pool.and_then(|pool| Some((&pool.space.name, pool.space.dedup_ratio?)));
        let ratio = ratio.map(|(pool, ratio)| format!("zpool list {pool}: dedupratio {ratio:.2}"));
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "dedup={value}: each write of {} is looked up in the table of checksums",
                names(databases)
            ),
            evidence: std::iter::once(dataset.evidence("dedup")).chain(ratio).collect(),
            remedy: dataset.set("dedup", "off"),
            effect:
                "blocks that are written from now on are not looked up; rewrite the files to shrink the table"
                    .to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn atime(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        (dataset.has("atime", "on") && dataset.has("relatime", "off")).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: "reads of files write their access times".to_owned(),
            evidence: vec![dataset.evidence("atime"), dataset.evidence("relatime")],
            remedy: dataset.set("atime", "off"),
            effect: "reads write nothing; no database needs access times".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn xattr(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        // Since 2.3, `on` means `sa`.
        let is_dir =
            dataset.has("xattr", "dir") || (dataset.has("xattr", "on") && !facts.host.is_at_least(2, 3));
        let has_acls = dataset.value("acltype").is_some_and(|value| value.starts_with("posix"));
        (is_dir && has_acls).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: "ACLs are kept in hidden directories".to_owned(),
            evidence: vec![dataset.evidence("xattr"), dataset.evidence("acltype")],
            remedy: dataset.set("xattr", "sa"),
            effect: "attributes that are set from now on are kept with the file".to_owned(),
            ..RuleMatch::default()
        })
    })
}

//! Settings of the databases themselves that suit OpenZFS: the table of `tune`.

use poolwright_tune::database::ADVICE;

use super::sources;
use crate::facts::{DatabaseFacts, MachineFacts};
use crate::rule::FindingSeverity;
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[InspectionRule {
    name: "database-setting",
    severity: FindingSeverity::Advice,
    title: "a setting of the database that does not suit copy on write",
    reason: "The setting is made for file systems that overwrite blocks in place.",
    source: &sources::POSTGRESQL_WAL,
    find: settings,
}];

fn settings(facts: &MachineFacts) -> Vec<RuleMatch> {
    let on_datasets = facts.databases.iter().filter(|of| !of.files.is_empty());
    on_datasets.flat_map(of_database).collect()
}

fn of_database(of: &DatabaseFacts) -> impl Iterator<Item = RuleMatch> {
    ADVICE.iter().filter(|advice| of.is(advice.layout)).filter_map(|advice| {
        let found = of.setting(advice.setting).filter(|found| *found != advice.value)?;
        Some(RuleMatch {
            subject: of.describe(),
            problem: format!("{}={found}: {}", advice.setting, advice.why),
            evidence: vec![format!("the server reports {} = {found}", advice.setting)],
            remedy: format!("set {}={} in the server's configuration", advice.setting, advice.value),
            effect: match advice.restart {
                true => "fewer writes; restart the server".to_owned(),
                false => "fewer writes; no restart is needed".to_owned(),
            },
            source: of.is("mariadb").then_some(&sources::INNODB_NEIGHBORS),
            ..RuleMatch::default()
        })
    })
}

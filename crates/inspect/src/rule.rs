//! The parts of a rule, and its findings.

use poolwright_tune::advice::Publication;
use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::MachineFacts;

/// How much a finding matters. The order is that of the output: the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Data can be lost or damaged.
    Critical,
    /// Speed or space is lost.
    Warning,
    /// May be worth a change, which depends on the workload.
    Advice,
}

impl FindingSeverity {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            FindingSeverity::Critical => "critical",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Advice => "advice",
        }
    }
}

/// A rule.
#[derive(Debug)]
pub struct InspectionRule {
    /// Its name: lower case, with hyphens.
    pub name: &'static str,
    /// How much its findings matter.
    pub severity: FindingSeverity,
    /// The condition in a few words, for lists.
    pub title: &'static str,
    /// What is wrong with it: one or two sentences.
    pub reason: &'static str,
    /// The publication on which the rule is based.
    pub source: &'static Publication,
    /// Finds the places to which it applies.
    pub find: fn(&MachineFacts) -> Vec<RuleMatch>,
}

/// A place to which a rule applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleMatch {
    /// The dataset, pool or database.
    pub subject: String,
    /// What is wrong here: one sentence without a final period.
    pub problem: String,
    /// The facts of this machine on which it is based.
    pub evidence: Vec<String>,
    /// What to do: commands, or a sentence.
    pub remedy: String,
    /// What the remedy would change.
    pub effect: String,
    /// The severity, if it is not the rule's.
    pub severity: Option<FindingSeverity>,
    /// The publication, if it is not the rule's.
    pub source: Option<&'static Publication>,
}

/// A problem on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The name of the rule.
    pub rule: String,
    /// How much it matters.
    pub severity: FindingSeverity,
    /// The dataset, pool or database.
    pub subject: String,
    /// What is wrong here.
    pub problem: String,
    /// Why it is wrong.
    pub reason: String,
    /// The facts of this machine on which it is based.
    pub evidence: Vec<String>,
    /// What to do.
    pub remedy: String,
    /// What the remedy would change.
    pub effect: String,
    /// The title of the publication on which the rule is based.
    pub source: String,
    /// Its address.
    pub url: String,
}

impl InspectionRule {
    /// The findings of the rule.
    pub fn findings(&self, facts: &MachineFacts) -> Vec<Finding> {
        (self.find)(facts).into_iter().map(|found| self.finding(found)).collect()
    }

    fn finding(&self, found: RuleMatch) -> Finding {
        let source = found.source.unwrap_or(self.source);
        Finding {
            rule: self.name.to_owned(),
            severity: found.severity.unwrap_or(self.severity),
            subject: found.subject,
            problem: found.problem,
            reason: self.reason.to_owned(),
            evidence: found.evidence,
            remedy: found.remedy,
            effect: found.effect,
            source: source.title.to_owned(),
            url: source.url.to_owned(),
        }
    }
}

//! The table of rules for the documentation.

use std::fmt::Write as _;

use crate::rules;

/// All rules, as Markdown: the rule, its severity, the condition, the reason and the source; then the known defects of OpenZFS.
pub fn table_of_rules() -> String {
    let mut text = "| rule | severity | finds | why | source |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for rule in rules::all() {
        let (severity, source) = (rule.severity.name(), rule.source);
        let _ = writeln!(
            text,
            "| `{}` | {severity} | {} | {} | [{}]({}) |",
            rule.name, rule.title, rule.reason, source.title, source.url
        );
    }
    text.push_str("\nThe rule `known-defect` has these entries:\n\n| defect | severity | releases | source |\n| --- | --- | --- | --- |\n");
    for defect in rules::DEFECTS {
        let _ = writeln!(
            text,
            "| {} | {} | {} | [{}]({}) |",
            defect.title,
            defect.severity.name(),
            defect.releases(),
            defect.source.title,
            defect.source.url
        );
    }
    text
}

//! An inspection as terminal text.

use std::collections::BTreeMap;

use poolwright_base::quoted;
use poolwright_base::units::format_size;
use poolwright_inspect::{Finding, FindingSeverity, InspectedDatabase, Inspection};
use poolwright_report::table::Tone;
use poolwright_report::{Terminal, TerminalText};

/// How much of an inspection is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectionDetail {
    /// The worst findings, so that the text has about this number of lines.
    Screen(usize),
    /// All findings.
    All,
    /// All findings with their reasons, evidence, effects and sources.
    Long,
}

/// The lines of the summary below the findings.
const LINES_OF_SUMMARY: usize = 3;

/// The databases, the findings and what could not be determined.
pub fn text(inspection: &Inspection, detail: InspectionDetail, terminal: Terminal) -> String {
    let mut text = TerminalText::new(terminal);
    text.paragraph("", &subject(inspection));
    for database in &inspection.databases {
        text.paragraph("  ", &line_of(database));
    }
    let shown = shown(inspection, detail, terminal);
    for finding in &inspection.findings[..shown] {
        text.gap();
        add(&mut text, finding, detail == InspectionDetail::Long);
    }
    text.gap();
    summary(&mut text, inspection, shown, detail);
    text.finish()
}

/// The number of findings that are shown: as many as fit, and at least one.
fn shown(inspection: &Inspection, detail: InspectionDetail, terminal: Terminal) -> usize {
    let all = inspection.findings.len();
    let InspectionDetail::Screen(lines) = detail else { return all };
    let mut room = lines.saturating_sub(1 + inspection.databases.len() + LINES_OF_SUMMARY);
    let mut fits = |finding: &&Finding| {
        let mut text = TerminalText::new(terminal);
        add(&mut text, finding, false);
        let needed = 1 + text.finish().lines().count();
        let fits = needed <= room;
        room = room.saturating_sub(needed);
        fits
    };
    inspection.findings.iter().take_while(|finding| fits(finding)).count().max(1).min(all)
}

fn subject(inspection: &Inspection) -> String {
    let release = match &inspection.openzfs {
        Some(release) => format!("OpenZFS {release}"),
        None => "no OpenZFS in the kernel".to_owned(),
    };
    let named = |title: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("; {title} {}", names.join(", ")),
    };
    let (pools, volumes) = (named("pools", &inspection.pools), named("volumes", &inspection.volumes));
    let databases = if inspection.databases.is_empty() { "; no database found" } else { "" };
    format!("{release}{pools}{volumes}{databases}")
}

fn line_of(database: &InspectedDatabase) -> String {
    let system = database.system.as_deref().unwrap_or("unknown files");
    let place = match &database.file_system {
        Some(file_system) => format!("on {file_system}, not on OpenZFS: not inspected further"),
        None => format!("on {}", database.datasets.join(", ")),
    };
    let server = database.server.as_ref().map_or_else(String::new, |server| format!(", {server}"));
    format!("{system} in {}, {}{server}, {place}", quoted(&database.directory), format_size(database.bytes))
}

fn tone(severity: FindingSeverity) -> Tone {
    match severity {
        FindingSeverity::Critical => Tone::Bad,
        FindingSeverity::Warning => Tone::Strong,
        FindingSeverity::Advice => Tone::Muted,
    }
}

fn add(text: &mut TerminalText, finding: &Finding, is_long: bool) {
    let label = format!("{:<8}", finding.severity.name());
    let problem = format!("{}: {}", finding.subject, finding.problem);
    text.labelled(("", &label, "  "), tone(finding.severity), &problem);
    if is_long {
        text.paragraph("  why     ", &finding.reason);
        for fact in &finding.evidence {
            text.paragraph("  found   ", fact);
        }
    }
    for line in finding.remedy.lines() {
        text.paragraph("  do      ", line);
    }
    if is_long {
        text.paragraph("  effect  ", &finding.effect);
        text.paragraph("  source  ", &format!("{}: {} (rule {})", finding.source, finding.url, finding.rule));
    }
}

fn summary(text: &mut TerminalText, inspection: &Inspection, shown: usize, detail: InspectionDetail) {
    let mut counts: BTreeMap<FindingSeverity, usize> = BTreeMap::new();
    for finding in &inspection.findings {
        *counts.entry(finding.severity).or_default() += 1;
    }
    let counted = |(severity, count): (&FindingSeverity, &usize)| match (severity, count) {
        (FindingSeverity::Warning, 2..) => format!("{count} warnings"),
        _ => format!("{count} {}", severity.name()),
    };
    let counted: Vec<String> = counts.iter().map(counted).collect();
    let counted = if counted.is_empty() { "nothing found".to_owned() } else { counted.join(", ") };
    let left = inspection.findings.len() - shown;
    let more = match (left, detail) {
        (_, InspectionDetail::Long) => String::new(),
        (0, _) if inspection.findings.is_empty() => String::new(),
        (0, _) => "; -v shows reasons, evidence and sources".to_owned(),
        (left, _) => format!("; {left} more and the evidence: -v"),
    };
    let is_elsewhere = inspection.databases.iter().all(|of| of.file_system.is_some());
    text.paragraph(
        "",
        &match is_elsewhere && inspection.pools.is_empty() {
            true => "nothing is on OpenZFS, so that no rule applies".to_owned(),
            false => format!("{} rules: {counted}{more}", inspection.rules),
        },
    );
    for unknown in &inspection.unknown {
        text.paragraph("not determined: ", unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: FindingSeverity, rule: &str) -> Finding {
        let text = |of: &str| format!("{of} of {rule}");
        Finding {
            rule: rule.to_owned(),
            severity,
            subject: "tank/db".to_owned(),
            problem: text("problem"),
            reason: text("reason"),
            evidence: vec![text("evidence")],
            remedy: format!("first of {rule}\nor second"),
            effect: text("effect"),
            source: text("source"),
            url: "https://example.org/".to_owned(),
        }
    }

    fn inspection(findings: Vec<Finding>) -> Inspection {
        Inspection {
            openzfs: Some("2.3.2-1".to_owned()),
            pools: vec!["tank".to_owned()],
            volumes: Vec::new(),
            databases: vec![InspectedDatabase {
                system: Some("PostgreSQL".to_owned()),
                directory: "/srv/pg".into(),
                datasets: vec!["tank/db".to_owned()],
                bytes: 1 << 30,
                server: Some("postgres (process 7)".to_owned()),
                file_system: None,
            }],
            findings,
            rules: 34,
            unknown: vec!["the settings of PostgreSQL: no answer".to_owned()],
        }
    }

    #[test]
    fn a_screen_has_the_worst_and_counts_the_others() {
        let findings: Vec<Finding> =
            (0..9).map(|n| finding(FindingSeverity::Warning, &format!("r{n}"))).collect();
        let short = text(&inspection(findings.clone()), InspectionDetail::Screen(24), Terminal::PLAIN);
        assert_eq!(
            short.lines().take(6).collect::<Vec<_>>(),
            [
                "OpenZFS 2.3.2-1; pools tank",
                "  PostgreSQL in /srv/pg, 1G, postgres (process 7), on tank/db",
                "",
                "warning   tank/db: problem of r0",
                "  do      first of r0",
                "  do      or second",
            ]
        );
        assert!(short.contains("34 rules: 9 warnings; 5 more and the evidence: -v\n"), "{short}");
        assert!(!short.contains("evidence of"), "{short}");
        let long = text(&inspection(findings), InspectionDetail::Long, Terminal::PLAIN);
        for part in ["problem", "reason", "evidence", "effect", "source"] {
            assert!(long.contains(&format!("{part} of r8")), "{long}");
        }
        assert!(
            long.ends_with("34 rules: 9 warnings\nnot determined: the settings of PostgreSQL: no answer\n"),
            "{long}"
        );
    }

    #[test]
    fn nothing_found_is_said() {
        let nothing = text(&inspection(Vec::new()), InspectionDetail::All, Terminal::PLAIN);
        assert!(nothing.contains("\n34 rules: nothing found\n"), "{nothing}");
    }
}

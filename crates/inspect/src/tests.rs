//! Each rule finds the fault that is made for it, and nothing in a sound set-up.

use std::collections::BTreeSet;

use poolwright_zfs::kernel::command::version::parse_release;

use crate::facts::MachineFacts;
use crate::fixture::{DEFECT_FAULTS, FAULTS, configure, set, sound};
use crate::{Finding, FindingSeverity, evaluate, rules};

fn names(facts: &MachineFacts) -> Vec<String> {
    evaluate(facts).findings.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_sound_set_up_has_no_findings() {
    let inspection = evaluate(&sound());
    assert_eq!(inspection.findings, []);
    assert!(inspection.rules >= 30 && inspection.databases.len() == 2);
    assert_eq!(evaluate(&MachineFacts::default()).findings, []);
}

#[test]
fn each_fault_is_found_by_its_rule_alone() {
    for (at, (rule, plant)) in FAULTS.iter().enumerate() {
        let mut facts = sound();
        plant(&mut facts);
        assert_eq!(names(&facts), [*rule], "fault {at}");
    }
    let planted: BTreeSet<&str> = FAULTS.iter().map(|(rule, _)| *rule).chain(["known-defect"]).collect();
    let all: BTreeSet<&str> = rules::all().map(|rule| rule.name).collect();
    assert_eq!(planted, all, "each rule has a fault");
    assert_eq!(all.len(), rules::all().count(), "names are unique");
}

#[test]
fn findings_are_complete_sentences_with_evidence_and_source() {
    let check = |finding: &Finding| {
        let texts = [&finding.subject, &finding.problem, &finding.remedy, &finding.effect, &finding.source];
        for text in texts {
            assert!(!text.trim().is_empty() && !text.ends_with('.'), "{finding:#?}");
        }
        assert!(
            !finding.evidence.is_empty() && finding.evidence.iter().all(|text| !text.is_empty()),
            "{finding:#?}"
        );
        assert!(finding.reason.ends_with('.') && finding.url.starts_with("https://"), "{finding:#?}");
    };
    for (_, plant) in FAULTS {
        let mut facts = sound();
        plant(&mut facts);
        evaluate(&facts).findings.iter().for_each(check);
    }
}

#[test]
fn the_worst_comes_first() {
    let mut facts = sound();
    set(&mut facts, 0, "relatime", "off");
    set(&mut facts, 0, "dedup", "on");
    set(&mut facts, 1, "sync", "disabled");
    assert_eq!(names(&facts), ["sync-disabled", "dedup", "atime"]);
}

#[test]
fn what_is_unknown_is_not_reported() {
    let mut facts = sound();
    facts.datasets[0].properties.clear();
    facts.databases[1].server = None;
    facts.databases[1].settings.clear();
    facts.pools.clear();
    facts.host = crate::facts::SystemFacts::default();
    assert_eq!(names(&facts), [""; 0]);
    // A database on another file system is not one of OpenZFS's.
    let mut facts = sound();
    facts.databases[1].files.clear();
    configure(&mut facts, 1, "full_page_writes", "off");
    assert_eq!(names(&facts), [""; 0]);
}

#[test]
fn direct_io_depends_on_the_release() {
    let remedy = |release: &str| {
        let mut facts = sound();
        facts.host.module = parse_release(release);
        set(&mut facts, 0, "recordsize", "131072");
        facts.databases[0].files[0].bytes_by_block = [(128 << 10, 1 << 30)].into();
        let found = evaluate(&facts).findings.into_iter().find(|finding| finding.rule == "direct-past-arc");
        found.map(|finding| finding.remedy)
    };
    assert_eq!(remedy("2.2.7"), None);
    let on_23 = remedy("2.3.99").unwrap();
    assert!(on_23.contains("direct=disabled") && on_23.contains("recordsize=16K"), "{on_23}");
    let on_24 = remedy("2.4.99").unwrap();
    assert!(!on_24.contains("direct=disabled") && on_24.contains("innodb_flush_method=fsync"), "{on_24}");
}

#[test]
fn defects_are_those_of_the_release_and_the_databases() {
    assert_eq!(DEFECT_FAULTS.len(), rules::DEFECTS.len(), "each defect has an example");
    for (defect, (affected, fixed, plant)) in rules::DEFECTS.iter().zip(DEFECT_FAULTS) {
        let found = |release: &str, plant: &dyn Fn(&mut MachineFacts)| {
            let mut facts = sound();
            facts.host.module = parse_release(release);
            plant(&mut facts);
            let findings = evaluate(&facts).findings.into_iter();
            findings.filter(|of| of.rule == "known-defect").find(|of| of.problem.starts_with(defect.title))
        };
        let finding = found(affected, plant).unwrap_or_else(|| panic!("{}", defect.title));
        let is_of_distribution = affected.contains('-');
        let severity =
            if is_of_distribution { defect.severity.max(FindingSeverity::Warning) } else { defect.severity };
        assert_eq!((finding.severity, finding.url.as_str()), (severity, defect.source.url));
        assert_eq!(finding.problem.contains("unless your distribution"), is_of_distribution);
        assert!(
            finding.evidence[0].contains(affected) && finding.remedy.starts_with("update OpenZFS to "),
            "{finding:#?}"
        );
        assert_eq!(found(fixed, plant), None);
        assert_eq!(
            found(affected, &|facts: &mut MachineFacts| facts.datasets.clear()),
            None,
            "{}",
            defect.title
        );
    }
}

/// Other set-ups in which nothing is wrong.
#[test]
fn other_sound_set_ups_have_no_findings() {
    type Change = fn(&mut MachineFacts);
    let set_ups: [(&str, Change); 7] = [
        ("OpenZFS 2.1 shows no ashift", |facts| {
            facts.host.module = parse_release("2.1.16");
            facts.pools[0].disks.iter_mut().for_each(|disk| disk.ashift = None);
            facts.databases[0].server.as_mut().unwrap().direct_files = 0;
        }),
        ("the default limit of the ARC since 2.3", |facts| {
            facts.host.arc_max = facts.host.memory.map(|memory| memory - (1 << 30));
        }),
        ("the log of InnoDB on a dataset with records of 128K, as OpenZFS's guide says", |facts| {
            let mut log = facts.datasets[0].clone();
            log.name = "tank/log".to_owned();
            facts.datasets.push(log);
            facts.databases[0].files[1].dataset = "tank/log".to_owned();
            facts.databases[0].files[1].bytes_by_block = [(128 << 10, 1 << 30)].into();
            set(facts, 3, "recordsize", "131072");
            set(facts, 0, "logbias", "throughput");
        }),
        ("a copy that is mounted read-only", |facts| {
            facts.databases[0].files.iter_mut().for_each(|group| group.is_read_only = true);
            set(facts, 0, "sync", "disabled");
        }),
        ("a pool of the user-space engine with the same name", |facts| {
            facts.databases[0].files.iter_mut().for_each(|group| group.is_of_kernel = false);
            set(facts, 0, "sync", "disabled");
        }),
        ("MariaDB syncs at each commit", |facts| configure(facts, 0, "innodb_flush_log_at_trx_commit", "3")),
        ("an array with large physical sectors", |facts| {
            facts.pools[0].disks.iter_mut().for_each(|disk| {
                disk.ashift = Some(14);
                disk.sector = Some(1 << 20);
            });
            facts.datasets.iter_mut().for_each(|dataset| dataset.sample = None);
            facts.datasets.truncate(2);
            (0..2).for_each(|at| set(facts, at, "recordsize", "65536"));
            facts
                .databases
                .iter_mut()
                .flat_map(|of| &mut of.files)
                .for_each(|group| group.bytes_by_block.clear());
            facts.databases.truncate(1);
            facts.databases[0].page = None;
        }),
    ];
    for (text, change) in set_ups {
        let mut facts = sound();
        change(&mut facts);
        assert_eq!(names(&facts), [""; 0], "{text}");
    }
}

#[test]
fn a_database_without_a_server_is_only_worth_advice() {
    let mut facts = sound();
    set(&mut facts, 1, "sync", "disabled");
    facts.databases[1].server = None;
    let found = evaluate(&facts).findings.remove(0);
    assert_eq!((found.rule.as_str(), found.severity), ("sync-disabled", FindingSeverity::Advice));
    assert!(found.problem.ends_with("(no server runs on it now)"), "{found:#?}");
    // Another user cannot see whether one runs.
    facts.databases[1].is_server_hidden = true;
    assert_eq!(evaluate(&facts).findings[0].severity, FindingSeverity::Critical);
}

#[test]
fn the_limit_of_the_arc_is_valid_or_not_named() {
    let remedy = |cache: u64| {
        let mut facts = sound();
        facts.host.parameters.insert("zfs_arc_max".to_owned(), "1".to_owned());
        configure(&mut facts, 0, "innodb_buffer_pool_size", &cache.to_string());
        let found = evaluate(&facts).findings.into_iter().find(|of| of.rule == "memory-overcommitted");
        found.unwrap().remedy
    };
    assert!(remedy(40 << 30).starts_with("echo "));
    assert!(remedy(64 << 30).starts_with("make the databases' caches smaller"));
}

#[test]
fn a_release_that_the_table_does_not_have_is_unknown() {
    let mut facts = sound();
    assert_eq!(evaluate(&facts).unknown, [""; 0]);
    facts.host.module = parse_release("2.5.0-1");
    assert!(evaluate(&facts).unknown[0].contains("known defects of OpenZFS 2.5.0"));
}

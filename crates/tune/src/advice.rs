//! Published advice on databases and OpenZFS: one table in which each rule names its source. A plan lists each rule
//! that applies and its effect on this database.

mod check;
mod trials;

use poolwright_trace::layout::Role;

/// A page that publishes advice.
#[derive(Debug, PartialEq, Eq)]
pub struct Publication {
    /// Title of the page and the section.
    pub title: &'static str,
    /// URL of the section.
    pub url: &'static str,
}

/// A published rule.
#[derive(Debug)]
pub struct Rule {
    /// Identifier in plans: lower case, with hyphens.
    pub name: &'static str,
    /// The advice as a phrase without a final period.
    pub advice: &'static str,
    /// The publication that contains the rule.
    pub source: &'static Publication,
    /// Layouts to which the rule applies; an empty list means all.
    pub layouts: &'static [&'static str],
    /// Roles to which the rule applies.
    pub roles: &'static [Role],
    /// The properties and values that the rule recommends.
    pub settings: &'static [(&'static str, &'static str)],
    /// Why trials cannot measure the rule; a rule with a reason is never tried.
    pub untried: Option<&'static str>,
}

const INNODB: Publication = Publication {
    title: "OpenZFS documentation, Workload Tuning: MySQL, InnoDB",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#innodb",
};
const POSTGRESQL: Publication = Publication {
    title: "OpenZFS documentation, Workload Tuning: PostgreSQL",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#postgresql",
};
const SQLITE: Publication = Publication {
    title: "OpenZFS documentation, Workload Tuning: SQLite",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#sqlite",
};
const DATABASES: Publication = Publication {
    title: "OpenZFS documentation, Workload Tuning: Database workloads",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#database-workloads",
};
const RECORDSIZE: Publication = Publication {
    title: "OpenZFS documentation, Workload Tuning: Dataset recordsize",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#dataset-recordsize",
};
const COMPRESSION: Publication = Publication {
    title: "OpenZFS documentation, Workload Tuning: LZ4 compression",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#lz4-compression",
};
const ATIME: Publication = Publication {
    title: "OpenZFS documentation, Workload Tuning: Atime updates",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#atime-updates",
};
const UPTRACE: Publication =
    Publication { title: "Uptrace, Tuning PostgreSQL on ZFS", url: "https://pg.uptrace.dev/zfs/" };

/// Roles whose files are read and rewritten in place.
const PAGES: &[Role] = &[Role::Data, Role::Index];
const ALL: &[Role] = &[Role::Data, Role::Index, Role::Wal, Role::Binlog, Role::Other];

const fn rule(
    name: &'static str,
    advice: &'static str,
    source: &'static Publication,
    (layouts, roles): (&'static [&'static str], &'static [Role]),
    settings: &'static [(&'static str, &'static str)],
) -> Rule {
    Rule { name, advice, source, layouts, roles, settings, untried: None }
}

/// The table of rules. A rule contains the advice of its source, without our judgement.
pub const RULES: &[Rule] = &[
    rule(
        "innodb-page",
        "recordsize equal to InnoDB's page size for its data files",
        &INNODB,
        (&["mariadb"], PAGES),
        &[("recordsize", "16K")],
    ),
    rule(
        "innodb-log",
        "recordsize=128K for InnoDB's log files",
        &INNODB,
        (&["mariadb"], &[Role::Wal]),
        &[("recordsize", "128K")],
    ),
    rule(
        "innodb-metadata-cache",
        "primarycache=metadata for data and log, so that InnoDB's buffer pool caches the data",
        &INNODB,
        (&["mariadb"], &[Role::Data, Role::Wal]),
        &[("primarycache", "metadata")],
    ),
    rule(
        "innodb-logbias",
        "logbias=throughput on the data, so that the intent log does not write it twice",
        &INNODB,
        (&["mariadb"], PAGES),
        &[("logbias", "throughput")],
    ),
    rule(
        "innodb-together",
        "all of the guide's settings for InnoDB's data together",
        &INNODB,
        (&["mariadb"], PAGES),
        &[("logbias", "throughput"), ("primarycache", "metadata"), ("recordsize", "16K")],
    ),
    rule(
        "postgresql-32k",
        "recordsize=32K with lz4 for data and WAL",
        &POSTGRESQL,
        (&["postgresql"], &[Role::Data, Role::Wal]),
        &[("compression", "lz4"), ("recordsize", "32K")],
    ),
    rule(
        "postgresql-64k",
        "recordsize=64K with lz4 for data and WAL, which also works well",
        &POSTGRESQL,
        (&["postgresql"], &[Role::Data, Role::Wal]),
        &[("compression", "lz4"), ("recordsize", "64K")],
    ),
    rule(
        "postgresql-page",
        "recordsize equal to PostgreSQL's page size, the advice from before lz4",
        &POSTGRESQL,
        (&["postgresql"], &[Role::Data, Role::Index]),
        &[("recordsize", "8K")],
    ),
    rule(
        "postgresql-logbias",
        "logbias=throughput on the data of a database with large updates, as an experiment",
        &POSTGRESQL,
        (&["postgresql"], PAGES),
        &[("logbias", "throughput")],
    ),
    rule(
        "postgresql-128k",
        "recordsize=128K with lz4 as a starting point",
        &UPTRACE,
        (&["postgresql"], PAGES),
        &[("compression", "lz4"), ("recordsize", "128K")],
    ),
    rule(
        "sqlite-64k",
        "recordsize=64K, with SQLite's page size raised to 64K (trials do not change the page size)",
        &SQLITE,
        (&["sqlite"], PAGES),
        &[("recordsize", "64K")],
    ),
    rule(
        "matching-records",
        "recordsize equal to the size of the database's writes; LMDB, bbolt, etcd and Berkeley DB have pages of 4K",
        &RECORDSIZE,
        (&["lmdb", "bbolt", "etcd", "openldap-bdb"], PAGES),
        &[("recordsize", "4K")],
    ),
    rule(
        "lz4",
        "compression=lz4 unless there is a reason against it",
        &COMPRESSION,
        (&[], ALL),
        &[("compression", "lz4")],
    ),
    rule(
        "wide-records",
        "a larger recordsize, because larger records compress better",
        &COMPRESSION,
        (&[], &[Role::Data, Role::Index, Role::Backup, Role::Binlog]),
        &[("recordsize", "1M")],
    ),
    rule(
        "redundant-metadata",
        "redundant_metadata=most for more operations per second; without a mirror or raidz, the loss of one indirect block \
         then loses data",
        &DATABASES,
        (&[], ALL),
        &[("redundant_metadata", "most")],
    ),
    Rule {
        name: "atime",
        advice: "atime=off, so that reads do not update access times",
        source: &ATIME,
        layouts: &[],
        roles: &[Role::Data],
        settings: &[("atime", "off")],
        untried: Some("the engine never updates access times, so its trials cannot measure this rule"),
    },
];

/// Returns the rules that apply to a layout and to any of `roles`, which share a dataset.
pub fn applicable(layout: Option<&str>, roles: &[Role]) -> Vec<&'static Rule> {
    let layout_fits = |r: &Rule| r.layouts.is_empty() || layout.is_some_and(|l| r.layouts.contains(&l));
    RULES.iter().filter(|r| layout_fits(r) && r.roles.iter().any(|role| roles.contains(role))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_openzfs::property;

    #[test]
    fn every_rule_can_be_set_and_cited() {
        let mut names: Vec<&str> = RULES.iter().map(|r| r.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len(), "names are unique");
        for r in RULES {
            assert!(r.source.url.starts_with("https://") && !r.source.title.is_empty(), "{}", r.name);
            assert!(!r.advice.ends_with('.') && !r.settings.is_empty(), "{}", r.name);
            for (name, value) in r.settings {
                assert!(r.untried.is_some() || property::check(name, value).is_ok(), "{}: {name}", r.name);
            }
            for layout in r.layouts {
                assert!(poolwright_trace::layout::Layout::by_name(layout).is_some(), "{layout}");
            }
        }
    }

    #[test]
    fn rules_are_for_their_systems() {
        let names =
            |layout, role| -> Vec<&str> { applicable(layout, &[role]).iter().map(|r| r.name).collect() };
        assert!(names(Some("mariadb"), Role::Wal).contains(&"innodb-log"));
        assert!(!names(Some("postgresql"), Role::Data).contains(&"innodb-page"));
        assert!(names(None, Role::Data).contains(&"wide-records"));
        assert_eq!(names(None, Role::Temp), Vec::<&str>::new());
    }
}

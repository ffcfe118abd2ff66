//! Published advice on databases and OpenZFS: one table, each rule with its source. A plan says of each that applies what it
//! does on the database at hand.

mod check;
mod trials;

/// A page that gives advice.
#[derive(Debug, PartialEq, Eq)]
pub struct Publication {
    /// Title and section.
    pub title: &'static str,
    /// Address.
    pub url: &'static str,
}

/// A published rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name in plans; lower case with hyphens.
    pub name: &'static str,
    /// What it says, in a sentence without full stop.
    pub advice: &'static str,
    /// Where it is published.
    pub source: &'static Publication,
    /// Layouts that it is for; none: all.
    pub layouts: &'static [&'static str],
    /// Roles that it is for.
    pub roles: &'static [&'static str],
    /// What to set.
    pub settings: &'static [(&'static str, &'static str)],
    /// Why trials cannot tell; with it the rule is never tried.
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
const PAGES: &[&str] = &["data", "index"];
const ALL: &[&str] = &["data", "index", "wal", "binlog", "other"];

const fn rule(
    name: &'static str,
    advice: &'static str,
    source: &'static Publication,
    (layouts, roles): (&'static [&'static str], &'static [&'static str]),
    settings: &'static [(&'static str, &'static str)],
) -> Rule {
    Rule { name, advice, source, layouts, roles, settings, untried: None }
}

/// The table. What a rule says is what its source says, with no judgement of ours.
pub const RULES: &[Rule] = &[
    rule(
        "innodb-page",
        "records of InnoDB's page size for its data files",
        &INNODB,
        (&["mariadb"], PAGES),
        &[("recordsize", "16K")],
    ),
    rule(
        "innodb-log",
        "records of 128K for InnoDB's log files",
        &INNODB,
        (&["mariadb"], &["wal"]),
        &[("recordsize", "128K")],
    ),
    rule(
        "innodb-metadata-cache",
        "only metadata in the ARC for data and log, to prefer InnoDB's own cache",
        &INNODB,
        (&["mariadb"], &["data", "wal"]),
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
        "all that the guide says of InnoDB's data, together",
        &INNODB,
        (&["mariadb"], PAGES),
        &[("logbias", "throughput"), ("primarycache", "metadata"), ("recordsize", "16K")],
    ),
    rule(
        "postgresql-32k",
        "records of 32K with lz4 for data and WAL",
        &POSTGRESQL,
        (&["postgresql"], &["data", "wal"]),
        &[("compression", "lz4"), ("recordsize", "32K")],
    ),
    rule(
        "postgresql-64k",
        "records of 64K with lz4 work well too",
        &POSTGRESQL,
        (&["postgresql"], &["data", "wal"]),
        &[("compression", "lz4"), ("recordsize", "64K")],
    ),
    rule(
        "postgresql-page",
        "records of PostgreSQL's page size, the advice from before lz4",
        &POSTGRESQL,
        (&["postgresql"], &["data", "index"]),
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
        "records of 128K with lz4 to start with",
        &UPTRACE,
        (&["postgresql"], PAGES),
        &[("compression", "lz4"), ("recordsize", "128K")],
    ),
    rule(
        "sqlite-64k",
        "records of 64K, with SQLite's page size raised to 64K (the page size is not changed here)",
        &SQLITE,
        (&["sqlite"], PAGES),
        &[("recordsize", "64K")],
    ),
    rule(
        "matching-records",
        "records of the size that the database writes in; LMDB's and Berkeley DB's pages have 4K",
        &RECORDSIZE,
        (&["lmdb", "openldap-bdb"], PAGES),
        &[("recordsize", "4K")],
    ),
    rule(
        "lz4",
        "lz4 unless there is a reason against it",
        &COMPRESSION,
        (&[], ALL),
        &[("compression", "lz4")],
    ),
    rule(
        "wide-records",
        "larger records compress better",
        &COMPRESSION,
        (&[], &["data", "index", "backup", "binlog"]),
        &[("recordsize", "1M")],
    ),
    rule(
        "redundant-metadata",
        "redundant_metadata=most for more operations a second; a lost indirect block then loses data unless vdevs are \
         mirrored or raidz",
        &DATABASES,
        (&[], ALL),
        &[("redundant_metadata", "most")],
    ),
    Rule {
        name: "atime",
        advice: "no access times",
        source: &ATIME,
        layouts: &[],
        roles: &["data"],
        settings: &[("atime", "off")],
        untried: Some("the engine never updates access times, so its trials cannot tell"),
    },
];

/// The rules for a layout and for any of these roles, which share a dataset.
pub fn applicable(layout: Option<&str>, roles: &[&str]) -> Vec<&'static Rule> {
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
            for role in r.roles {
                assert!(poolwright_trace::layout::Role::from_name(role).is_some(), "{role}");
            }
        }
    }

    #[test]
    fn rules_are_for_their_systems() {
        let names =
            |layout, role| -> Vec<&str> { applicable(layout, &[role]).iter().map(|r| r.name).collect() };
        assert!(names(Some("mariadb"), "wal").contains(&"innodb-log"));
        assert!(!names(Some("postgresql"), "data").contains(&"innodb-page"));
        assert!(names(None, "data").contains(&"wide-records"));
        assert_eq!(names(None, "temp"), Vec::<&str>::new());
    }
}

//! The database's own settings that go with a recordsize: one table, with what makes each safe.

use std::collections::BTreeMap;

use poolwright_openzfs::property::parse_size;

use crate::plan::DatabaseSetting;

/// When a setting is worth saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always on ZFS.
    Always,
    /// When every page of the database lies in one record, so that no page is ever half written.
    PageInRecord,
}

/// A row: layout, setting, value, when, why, what makes it safe, whether the server restarts.
#[derive(Debug)]
pub struct Advice {
    /// Name of the layout.
    pub layout: &'static str,
    /// As the database spells it.
    pub setting: &'static str,
    /// As it would stand in the configuration.
    pub value: &'static str,
    /// Condition.
    pub when: When,
    /// What it brings.
    pub why: &'static str,
    /// Only for protections that are turned off.
    pub safe_because: Option<&'static str>,
    /// Whether the server has to be restarted.
    pub restart: bool,
}

/// `{page}` and `{record}` are filled in.
pub const ADVICE: &[Advice] = &[
    Advice {
        layout: "mariadb",
        setting: "innodb_doublewrite",
        value: "OFF",
        when: When::PageInRecord,
        why: "every page is written twice to survive a torn write, which a record of OpenZFS cannot be",
        safe_because: Some(
            "a {page} page lies in exactly one {record} record, and OpenZFS writes a record elsewhere and switches to \
             it as a whole or not at all; it holds only while every data file is on such a dataset, so not for a copy \
             or replica on another file system",
        ),
        restart: true,
    },
    Advice {
        layout: "mariadb",
        setting: "innodb_flush_neighbors",
        value: "0",
        when: When::Always,
        why: "neighbouring pages are not neighbours on disk under copy on write, so flushing them along only adds writes",
        safe_because: None,
        restart: false,
    },
    Advice {
        layout: "postgresql",
        setting: "full_page_writes",
        value: "off",
        when: When::PageInRecord,
        why: "after each checkpoint the first change of a page puts all of it into the WAL, against torn writes",
        safe_because: Some(
            "a {page} page lies in exactly one {record} record, and OpenZFS writes a record elsewhere and switches to \
             it as a whole or not at all; a backup restored to another file system has to turn it on again, and \
             pg_basebackup turns it on by itself for its own time",
        ),
        restart: false,
    },
    Advice {
        layout: "postgresql",
        setting: "wal_init_zero",
        value: "off",
        when: When::Always,
        why: "filling a new WAL file with zeros reserves nothing under copy on write",
        safe_because: None,
        restart: false,
    },
    Advice {
        layout: "postgresql",
        setting: "wal_recycle",
        value: "off",
        when: When::Always,
        why: "overwriting an old WAL file is no cheaper than writing a new one under copy on write, and reads its records first",
        safe_because: None,
        restart: false,
    },
    Advice {
        layout: "rocksdb",
        setting: "compression",
        value: "kNoCompression",
        when: When::Always,
        why: "worth a trial of its own: with compression in the dataset, blocks are compressed twice",
        safe_because: None,
        restart: true,
    },
];

/// What applies to a database with this page size when its data gets this recordsize.
pub fn advise(layout: &str, page: Option<u64>, recordsize: &str) -> Vec<DatabaseSetting> {
    let record = parse_size(recordsize).unwrap_or(0);
    let fits = page.is_some_and(|p| p > 0 && record >= p && record.is_multiple_of(p));
    let size = |bytes: u64| poolwright_trace::format_size(bytes);
    ADVICE
        .iter()
        .filter(|a| a.layout == layout && (a.when == When::Always || fits))
        .map(|a| DatabaseSetting {
            setting: a.setting.into(),
            value: a.value.into(),
            current: None,
            why: a.why.into(),
            safe_because: a
                .safe_because
                .map(|s| s.replace("{page}", &size(page.unwrap_or(0))).replace("{record}", &size(record))),
            requires: if a.when == When::PageInRecord {
                BTreeMap::from([("recordsize".to_string(), recordsize.to_string())])
            } else {
                BTreeMap::new()
            },
            restart: a.restart,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_page_protection_is_only_given_up_when_a_page_lies_in_a_record() {
        let has = |record: &str, page| {
            advise("mariadb", page, record).iter().any(|s| s.setting == "innodb_doublewrite")
        };
        assert!(has("16K", Some(16384)) && has("128K", Some(16384)));
        assert!(!has("8K", Some(16384)) && !has("16K", None));
        for a in ADVICE {
            assert_eq!(a.when == When::PageInRecord, a.safe_because.is_some(), "{}", a.setting);
            assert!(poolwright_trace::layout::Layout::by_name(a.layout).is_some(), "{}", a.layout);
        }
        let d = &advise("postgresql", Some(8192), "16K")[0];
        assert!(d.safe_because.as_ref().unwrap().contains("8K page") && d.requires["recordsize"] == "16K");
    }
}

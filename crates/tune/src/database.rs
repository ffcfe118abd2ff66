//! The database's own settings that go with OpenZFS: one table.
//!
//! Protections against torn pages (`innodb_doublewrite`, `full_page_writes`) are not in it, at no recordsize. A record is
//! replaced whole by a transaction group, but an `fsync` goes through the intent log, and there the library may divide the
//! record of one write over two log blocks (`zil_lwb_assign` in zil.c). After a crash between the two, a part of the page is
//! replayed. `crates/openzfs/tests/torn.rs` shows it, and so did InnoDB: see docs/mount-tests.md.

use std::collections::BTreeMap;

use crate::plan::DatabaseSetting;

/// A setting that is worth saying of a database on OpenZFS.
#[derive(Debug)]
pub struct Advice {
    /// Name of the layout.
    pub layout: &'static str,
    /// As the database spells it.
    pub setting: &'static str,
    /// As it would stand in the configuration.
    pub value: &'static str,
    /// What it brings.
    pub why: &'static str,
    /// Whether the server has to be restarted.
    pub restart: bool,
}

/// The table.
pub const ADVICE: &[Advice] = &[
    Advice {
        layout: "mariadb",
        setting: "innodb_flush_neighbors",
        value: "0",
        why: "neighbouring pages are not neighbours on disk under copy on write, so flushing them along only adds writes",
        restart: false,
    },
    Advice {
        layout: "postgresql",
        setting: "wal_init_zero",
        value: "off",
        why: "filling a new WAL file with zeros reserves nothing under copy on write",
        restart: false,
    },
    Advice {
        layout: "postgresql",
        setting: "wal_recycle",
        value: "off",
        why: "overwriting an old WAL file is no cheaper than writing a new one under copy on write, and reads its records first",
        restart: false,
    },
    Advice {
        layout: "rocksdb",
        setting: "compression",
        value: "kNoCompression",
        why: "worth a trial of its own: with compression in the dataset, blocks are compressed twice",
        restart: true,
    },
];

/// What applies to a database.
pub fn advise(layout: &str) -> Vec<DatabaseSetting> {
    ADVICE
        .iter()
        .filter(|a| a.layout == layout)
        .map(|a| DatabaseSetting {
            setting: a.setting.into(),
            value: a.value.into(),
            current: None,
            why: a.why.into(),
            safe_because: None,
            requires: BTreeMap::new(),
            restart: a.restart,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_protection_against_torn_pages_is_given_up() {
        for a in ADVICE {
            assert!(poolwright_trace::layout::Layout::by_name(a.layout).is_some(), "{}", a.layout);
            assert!(!["innodb_doublewrite", "full_page_writes"].contains(&a.setting), "{}", a.setting);
        }
        assert!(!advise("mariadb").is_empty() && advise("sqlite").is_empty());
    }
}

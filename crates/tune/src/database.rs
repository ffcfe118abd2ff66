//! Settings of the databases themselves that suit OpenZFS: one table.
//!
//! Protections against torn pages (`innodb_doublewrite`, `full_page_writes`) are not in the table, whatever the
//! recordsize. A transaction group replaces a record as a whole, but an `fsync` goes through the intent log, and
//! the library may split the record of one write over two log blocks (`zil_lwb_assign` in zil.c). After a crash
//! between the two, only a part of the page is replayed. `crates/openzfs/tests/torn.rs` demonstrates this, and
//! InnoDB was affected: see docs/mount-tests.md.

use std::collections::BTreeMap;

use poolwright_plan::DatabaseSetting;

/// A recommended setting of a database on OpenZFS.
#[derive(Debug)]
pub struct Advice {
    /// Name of the database's layout.
    pub layout: &'static str,
    /// Name of the setting in the database's spelling.
    pub setting: &'static str,
    /// Value in the spelling of the database's configuration.
    pub value: &'static str,
    /// Reason for the setting.
    pub why: &'static str,
    /// Whether the server must be restarted.
    pub restart: bool,
}

/// The table of settings.
pub const ADVICE: &[Advice] = &[
    Advice {
        layout: "mariadb",
        setting: "innodb_flush_neighbors",
        value: "0",
        why: "with copy on write, neighbouring pages are not adjacent on disk, so flushing neighbours only adds writes",
        restart: false,
    },
    Advice {
        layout: "postgresql",
        setting: "wal_init_zero",
        value: "off",
        why: "with copy on write, filling a new WAL file with zeros reserves no space",
        restart: false,
    },
    Advice {
        layout: "postgresql",
        setting: "wal_recycle",
        value: "off",
        why: "with copy on write, overwriting an old WAL file is no cheaper than writing a new one, and it reads old records first",
        restart: false,
    },
    Advice {
        layout: "rocksdb",
        setting: "compression",
        value: "kNoCompression",
        why: "worth a separate test: with compression in the dataset, blocks are compressed twice",
        restart: true,
    },
];

/// Returns the settings recommended for a layout.
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

//! The settings that are tried for each role: one table.

use poolwright_openzfs::property::{Settings, canonical, parse_size};

/// The settings of a role: every combination of recordsize and compression, then each refinement on top of the best
/// one.
#[derive(Debug)]
pub struct Grid {
    /// Roles to which the grid applies.
    pub roles: &'static [&'static str],
    /// Recordsizes to try.
    pub recordsizes: &'static [&'static str],
    /// Recordsizes to try only if the files are read and written in runs at least twice as long.
    pub large: &'static [&'static str],
    /// Codecs to try.
    pub compressions: &'static [&'static str],
    /// Single properties to try on top of the best combination.
    pub refinements: &'static [(&'static str, &'static str)],
}

/// Both directions: a dataset that excludes its data from the ARC today may be faster with it.
const REFINEMENTS: &[(&str, &str)] = &[
    ("primarycache", "all"),
    ("logbias", "latency"),
    ("logbias", "throughput"),
    ("primarycache", "metadata"),
    ("prefetch", "all"),
    ("prefetch", "none"),
    ("redundant_metadata", "most"),
];

/// Recordsizes above 1M, the default of `zfs_max_recordsize` before OpenZFS 2.2.
const LARGE: &[&str] = &["2M", "4M", "8M", "16M"];

/// Data is read and rewritten in place, so record size and codec decide. Logs are appended and synced: their record
/// size matters only for space, and `logbias` (whether the intent log contains the data) for latency and wear.
pub const GRIDS: &[Grid] = &[
    Grid {
        roles: &["data", "index", "other"],
        recordsizes: &["4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M"],
        large: LARGE,
        compressions: &["off", "lz4", "zstd-1", "zstd-3", "gzip-6"],
        refinements: REFINEMENTS,
    },
    Grid {
        roles: &["wal"],
        recordsizes: &["16K", "32K", "64K", "128K", "1M"],
        large: &[],
        compressions: &["off", "lz4", "zstd-1"],
        refinements: REFINEMENTS,
    },
    Grid {
        roles: &["binlog"],
        recordsizes: &["128K", "1M"],
        large: &[],
        compressions: &["lz4", "zstd-3", "gzip-6"],
        refinements: REFINEMENTS,
    },
    Grid {
        roles: &["backup", "archive", "import"],
        recordsizes: &["128K", "512K", "1M"],
        large: LARGE,
        compressions: &["off", "lz4", "zstd-3", "zstd-9", "zstd-19", "gzip-6", "gzip-9"],
        refinements: &[("primarycache", "all"), ("primarycache", "metadata")],
    },
    Grid {
        roles: &["temp"],
        recordsizes: &["16K", "128K", "1M"],
        large: &[],
        compressions: &["off", "lz4"],
        refinements: &[],
    },
];

/// Returns the grid of a role.
pub fn grid(role: &str) -> &'static Grid {
    GRIDS.iter().find(|g| g.roles.contains(&role)).unwrap_or(&GRIDS[0])
}

/// Returns recordsize in bytes and compression as spelled; for missing properties OpenZFS's defaults (128K, `on`).
pub fn recordsize_and_compression(settings: &Settings) -> (u64, &str) {
    let recordsize = settings.get("recordsize").and_then(|v| parse_size(v).ok()).unwrap_or(128 << 10);
    (recordsize, settings.get("compression").map_or("on", String::as_str))
}

impl Grid {
    /// Returns every combination for files that are read and written in runs of `run_bytes`.
    pub fn combinations(&self, run_bytes: u64) -> Vec<Settings> {
        let one = |r: &str, c: &str| {
            Settings::from([
                ("recordsize".to_string(), r.to_string()),
                ("compression".to_string(), c.to_string()),
            ])
        };
        let is_short = |r: &&&str| parse_size(r).is_ok_and(|bytes| 2 * bytes <= run_bytes);
        let recordsizes = self.recordsizes.iter().chain(self.large.iter().filter(is_short));
        recordsizes.flat_map(|r| self.compressions.iter().map(move |c| one(r, c))).collect()
    }

    /// Returns each refinement as settings.
    pub fn refinement_settings(&self) -> Vec<Settings> {
        self.refinements.iter().map(|(k, v)| Settings::from([(k.to_string(), v.to_string())])).collect()
    }
}

/// Returns `base` with the properties of `over` added or replaced.
pub fn with(base: &Settings, over: &Settings) -> Settings {
    let mut settings = base.clone();
    settings.extend(over.iter().map(|(k, v)| (k.clone(), v.clone())));
    settings
}

/// Formats settings as arguments of `zfs set`: `compression=lz4 recordsize=16K`.
pub fn assignments(settings: &Settings) -> String {
    settings.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
}

/// Whether two settings are equivalent for the engine.
pub fn same(a: &Settings, b: &Settings) -> bool {
    let all = |s: &Settings| -> Vec<(String, String)> {
        s.iter().map(|(k, v)| (k.clone(), canonical(k, v))).collect()
    };
    all(a) == all(b)
}

/// Returns the properties of `wanted` that differ from today's.
pub fn difference(wanted: &Settings, today: &Settings) -> Settings {
    let differs =
        |(k, v): &(&String, &String)| today.get(*k).is_none_or(|t| canonical(k, t) != canonical(k, v));
    wanted.iter().filter(differs).map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_every_role_once_and_parse() {
        for role in poolwright_trace::layout::Role::ALL {
            assert_eq!(GRIDS.iter().filter(|g| g.roles.contains(&role.name())).count(), 1, "{role}");
        }
        // The table of codecs is the library's.
        poolwright_openzfs::Engine::start(&poolwright_openzfs::Config::default()).unwrap();
        for settings in GRIDS.iter().flat_map(|grid| grid.combinations(u64::MAX)) {
            poolwright_openzfs::Compression::parse(&settings["compression"]).unwrap();
            assert!(recordsize_and_compression(&settings).0.is_power_of_two());
        }
        let records = |run: u64| grid("data").combinations(run).len() / grid("data").compressions.len();
        assert_eq!((records(0), records(4 << 20), records(32 << 20)), (9, 10, 13));
    }

    #[test]
    fn spellings_of_the_same() {
        let s = |r: &str, c: &str| {
            Settings::from([("recordsize".into(), r.into()), ("compression".into(), c.into())])
        };
        assert!(same(&s("128K", "on"), &s("131072", "lz4")));
        assert!(!same(&s("128K", "on"), &s("128K", "zstd")));
        for spelling in poolwright_openzfs::property::compressions() {
            let meaning = canonical("compression", &spelling);
            assert!(same(&s("128K", &spelling), &s("128k", &meaning)), "{spelling}");
        }
        assert!(same(&s("8K", "zstd-fast"), &s("8192", "zstd-fast-1")));
        assert_eq!(
            difference(&s("16K", "lz4"), &s("128K", "on")),
            Settings::from([("recordsize".into(), "16K".into())])
        );
    }
}

//! The settings that are tried for each role: one table.

use poolwright_openzfs::property::{Settings, canonical, parse_size};
use poolwright_trace::layout::Role;

/// The settings of a role: block sizes, codecs, and single properties.
#[derive(Debug)]
pub struct Grid {
    /// Roles to which the grid applies.
    pub roles: &'static [Role],
    /// Block sizes to try.
    pub block_sizes: &'static [&'static str],
    /// Block sizes to try only if the files are read and written in runs at least twice as long.
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
        roles: &[Role::Data, Role::Index, Role::Other],
        block_sizes: &["4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M"],
        large: LARGE,
        compressions: &["off", "lz4", "zstd-1", "zstd-3"],
        refinements: REFINEMENTS,
    },
    Grid {
        roles: &[Role::Wal],
        block_sizes: &["16K", "32K", "64K", "128K", "1M"],
        large: &[],
        compressions: &["off", "lz4", "zstd-1"],
        refinements: REFINEMENTS,
    },
    Grid {
        roles: &[Role::Binlog],
        block_sizes: &["128K", "1M"],
        large: &[],
        compressions: &["lz4", "zstd-3", "gzip-6"],
        refinements: REFINEMENTS,
    },
    Grid {
        roles: &[Role::Backup, Role::Archive],
        block_sizes: &["128K", "512K", "1M"],
        large: LARGE,
        compressions: &["off", "lz4", "zstd-3", "zstd-9", "zstd-19", "gzip-6", "gzip-9"],
        refinements: &[("primarycache", "all"), ("primarycache", "metadata")],
    },
    Grid {
        // Read once, so a slow codec takes more time than the smaller file saves.
        roles: &[Role::Import],
        block_sizes: &["128K", "512K", "1M"],
        large: LARGE,
        compressions: &["off", "lz4", "zstd-3"],
        refinements: &[("primarycache", "all"), ("primarycache", "metadata")],
    },
    Grid {
        roles: &[Role::Volume],
        block_sizes: &["4K", "8K", "16K", "32K", "64K", "128K"],
        large: &[],
        compressions: &["off", "lz4", "zstd-1", "zstd-3"],
        refinements: REFINEMENTS,
    },
    Grid {
        roles: &[Role::Temp],
        block_sizes: &["16K", "128K", "1M"],
        large: &[],
        compressions: &["off", "lz4"],
        refinements: &[],
    },
];

/// Returns the grid of a role.
pub fn grid(role: Role) -> &'static Grid {
    GRIDS.iter().find(|g| g.roles.contains(&role)).unwrap_or(&GRIDS[0])
}

/// Returns `recordsize` (of a volume `volblocksize`) in bytes, and compression as spelled; for missing properties OpenZFS's defaults for
/// file systems (128K, `on`).
pub fn block_size_and_compression(settings: &Settings) -> (u64, &str) {
    let spelled = settings.get("volblocksize").or_else(|| settings.get("recordsize"));
    let block_size = spelled.and_then(|v| parse_size(v).ok()).unwrap_or(128 << 10);
    (block_size, settings.get("compression").map_or("on", String::as_str))
}

impl Grid {
    /// Returns the candidates for files that are read and written in runs of `run_bytes` and by requests of `request_bytes`.
    pub fn candidates(&self, run_bytes: u64, request_bytes: u64) -> Candidates {
        let is_short = |r: &&&str| parse_size(r).is_ok_and(|bytes| 2 * bytes <= run_bytes);
        let block_sizes = self.block_sizes.iter().chain(self.large.iter().filter(is_short));
        let refinement = |(k, v): &(&str, &str)| Settings::from([((*k).to_owned(), (*v).to_owned())]);
        Candidates {
            block_property: self.roles[0].block_property(),
            block_sizes: block_sizes.map(|r| (*r).to_owned()).collect(),
            compressions: self.compressions.iter().map(|c| (*c).to_owned()).collect(),
            refinements: self.refinements.iter().map(refinement).collect(),
            request_bytes,
            too_slow: Vec::new(),
        }
    }
}

/// The settings that are tried for the files of a role.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// See [`Role::block_property`].
    pub block_property: &'static str,
    /// Block sizes, ascending.
    pub block_sizes: Vec<String>,
    /// Codecs.
    pub compressions: Vec<String>,
    /// Single properties.
    pub refinements: Vec<Settings>,
    /// The mean size of a request in bytes; 0 if it is unknown.
    pub request_bytes: u64,
    /// Codecs that are not tried, because they would take too much of the time budget.
    pub too_slow: Vec<String>,
}

impl Candidates {
    /// Moves the codecs for which `is_too_slow` is true to [`Candidates::too_slow`].
    pub(crate) fn omit_slow(&mut self, is_too_slow: impl Fn(&str) -> bool) {
        let all = std::mem::take(&mut self.compressions).into_iter();
        let (slow, rest): (Vec<String>, Vec<String>) = all.partition(|codec| is_too_slow(codec));
        self.too_slow.extend(slow);
        self.compressions = rest;
    }

    /// Returns every combination of block size and codec.
    pub fn combinations(&self) -> Vec<Settings> {
        let one = |r: &String, c: &String| {
            Settings::from([
                (self.block_property.to_owned(), r.clone()),
                ("compression".to_owned(), c.clone()),
            ])
        };
        self.block_sizes.iter().flat_map(|r| self.compressions.iter().map(move |c| one(r, c))).collect()
    }

    /// Returns the block sizes, the one nearest to the size of the requests first.
    pub fn nearest_first(&self) -> Vec<String> {
        let mut all = self.block_sizes.clone();
        all.sort_by(|a, b| self.distance(a).total_cmp(&self.distance(b)));
        all
    }

    /// Returns the two block sizes between this one and that of the requests; `None` if there are no two.
    pub fn before(&self, size: &str) -> Option<[String; 2]> {
        let at = self.block_sizes.iter().position(|other| other == size)?;
        let two_at = |step: isize| -> Option<[&String; 2]> {
            let of = |n: isize| self.block_sizes.get(at.checked_add_signed(step * n)?);
            let two = [of(1)?, of(2)?];
            let distances = [size, two[0], two[1]].map(|size| self.distance(size));
            (distances[0] > distances[1] && distances[1] > distances[2]).then_some(two)
        };
        Some(two_at(-1).or_else(|| two_at(1))?.map(String::clone))
    }

    /// The octaves between a block size and that of the requests.
    fn distance(&self, size: &str) -> f64 {
        let request = (self.request_bytes.max(1) as f64).log2();
        ((parse_size(size).unwrap_or(1) as f64).log2() - request).abs()
    }

    /// Returns the next smaller and the next larger block size.
    pub fn neighbours(&self, block_size: u64) -> Vec<String> {
        let bytes = |size: &&String| parse_size(size).unwrap_or(0);
        let smaller = self.block_sizes.iter().filter(|size| bytes(size) < block_size).max_by_key(bytes);
        let larger = self.block_sizes.iter().filter(|size| bytes(size) > block_size).min_by_key(bytes);
        smaller.into_iter().chain(larger).cloned().collect()
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
        for role in Role::ALL {
            assert_eq!(GRIDS.iter().filter(|g| g.roles.contains(&role)).count(), 1, "{role}");
        }
        // The table of codecs is the library's.
        poolwright_openzfs::Engine::start(&poolwright_openzfs::Config::default()).unwrap();
        for settings in GRIDS.iter().flat_map(|grid| grid.candidates(u64::MAX, 0).combinations()) {
            poolwright_openzfs::Compression::parse(&settings["compression"]).unwrap();
            assert!(block_size_and_compression(&settings).0.is_power_of_two());
        }
        let records = |run: u64| grid(Role::Data).candidates(run, 0).block_sizes.len();
        assert_eq!((records(0), records(4 << 20), records(32 << 20)), (9, 10, 13));
    }

    #[test]
    fn record_sizes_are_tried_from_the_size_of_the_requests_on() {
        let candidates = grid(Role::Data).candidates(0, 16 << 10);
        assert_eq!(candidates.nearest_first()[..3], ["16K", "8K", "32K"]);
        assert_eq!(candidates.neighbours(16 << 10), ["8K", "32K"]);
        let before = |size| candidates.before(size).map(|two| two.join(" "));
        assert_eq!(before("128K").as_deref(), Some("64K 32K"));
        assert_eq!(before("4K").as_deref(), Some("8K 16K"));
        assert_eq!((before("32K"), before("16K")), (None, None));
        assert_eq!(candidates.neighbours(100_000), ["64K", "128K"]);
        assert_eq!(
            (candidates.neighbours(4 << 10), candidates.neighbours(1 << 20)),
            (vec!["8K".to_owned()], vec!["512K".to_owned()])
        );
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

//! The JSON output of `zpool status` (2.3 and later).

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{KernelPool, PoolScan, ScanFunction, ScanPhase, VdevClass, VdevNode};
use crate::kernel::HealthState;
use crate::kernel::command::MalformedOutput;

/// Parses the output of `zpool status -j --json-int`.
///
/// # Errors
/// If the text is not JSON, or lacks a field that every pool has.
pub fn parse_status_json(text: &str) -> Result<Vec<KernelPool>, MalformedOutput> {
    let malformed = |cause: serde_json::Error| MalformedOutput::new(cause.line(), cause.to_string());
    let output: Output = serde_json::from_str(text).map_err(malformed)?;
    Ok(output.pools.0.into_iter().map(|(_, pool)| pool.into_pool()).collect())
}

#[derive(Deserialize)]
struct Output {
    pools: Entries<Pool>,
}

#[derive(Deserialize)]
struct Pool {
    name: String,
    state: String,
    #[serde(default)]
    pool_guid: Number,
    status: Option<String>,
    action: Option<String>,
    msgid: Option<String>,
    scan_stats: Option<Scan>,
    #[serde(default)]
    error_count: Number,
    #[serde(default)]
    vdevs: Entries<Vdev>,
    #[serde(default)]
    dedup: Entries<Vdev>,
    #[serde(default)]
    special: Entries<Vdev>,
    #[serde(default)]
    logs: Entries<Vdev>,
    #[serde(default)]
    l2cache: Entries<Vdev>,
    #[serde(default)]
    spares: Entries<Vdev>,
}

#[derive(Deserialize)]
struct Vdev {
    name: String,
    vdev_type: Option<String>,
    #[serde(default)]
    guid: Number,
    path: Option<String>,
    state: Option<String>,
    aux: Option<String>,
    was: Option<String>,
    #[serde(default)]
    read_errors: Number,
    #[serde(default)]
    write_errors: Number,
    #[serde(default)]
    checksum_errors: Number,
    #[serde(default)]
    slow_ios: Number,
    #[serde(default)]
    vdevs: Entries<Vdev>,
}

#[derive(Deserialize)]
struct Scan {
    // If the pool was only rebuilt, the object has `rebuild_stats` alone.
    function: Option<String>,
    state: Option<String>,
    #[serde(default)]
    start_time: Number,
    #[serde(default)]
    end_time: Number,
    #[serde(default)]
    to_examine: Number,
    #[serde(default)]
    examined: Number,
    #[serde(default)]
    skipped: Number,
    #[serde(default)]
    processed: Number,
    #[serde(default)]
    errors: Number,
    #[serde(default)]
    scrub_pause: Number,
    #[serde(default)]
    issued: Number,
    // These are there if a scrub of the error log is newer than the scan.
    err_scrub_state: Option<String>,
    #[serde(default)]
    err_scrub_start_time: Number,
    #[serde(default)]
    err_scrub_end_time: Number,
    #[serde(default)]
    err_scrub_pause: Number,
    #[serde(default)]
    rebuild_stats: Entries<Rebuild>,
}

#[derive(Deserialize)]
struct Rebuild {
    state: String,
    #[serde(default)]
    start_time: Number,
    #[serde(default)]
    end_time: Number,
    /// In nanoseconds.
    #[serde(default)]
    scan_time: Number,
    #[serde(default)]
    scanned: Number,
    #[serde(default)]
    issued: Number,
    #[serde(default)]
    rebuilt: Number,
    #[serde(default)]
    to_scan: Number,
    #[serde(default)]
    errors: Number,
}

impl Pool {
    fn into_pool(self) -> KernelPool {
        let classes = [
            (self.vdevs, VdevClass::Data),
            (self.dedup, VdevClass::Dedup),
            (self.special, VdevClass::Special),
            (self.logs, VdevClass::Log),
            (self.l2cache, VdevClass::Cache),
            (self.spares, VdevClass::Spare),
        ];
        KernelPool {
            name: self.name,
            guid: self.pool_guid.0,
            state: HealthState::parse(&self.state),
            status: self.status.map(|text| unwrap_lines(&text)),
            action: self.action.map(|text| unwrap_lines(&text)),
            msgid: self.msgid,
            scan: self.scan_stats.as_ref().and_then(Scan::to_scan),
            rebuild: self.scan_stats.as_ref().and_then(Scan::to_rebuild),
            vdevs: classes.into_iter().flat_map(|(entries, class)| entries.into_vdevs(class)).collect(),
            data_errors: self.error_count.0,
        }
    }
}

/// Joins the lines of a text that `zpool` wrapped for a terminal.
fn unwrap_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Entries<Vdev> {
    fn into_vdevs(self, class: VdevClass) -> Vec<VdevNode> {
        self.0.into_iter().map(|(_, vdev)| vdev.into_node(class)).collect()
    }
}

impl Vdev {
    fn into_node(self, class: VdevClass) -> VdevNode {
        let aux = self.aux.filter(|aux| aux != "NONE");
        VdevNode {
            name: self.name,
            kind: self.vdev_type.unwrap_or_default(),
            class,
            guid: self.guid.0,
            path: self.path,
            state: parse_vdev_state(self.state.as_deref().unwrap_or("UNKNOWN"), aux.as_deref()),
            note: self.was.map(|path| format!("was {path}")).or_else(|| aux.map(describe)),
            read_errors: self.read_errors.0,
            write_errors: self.write_errors.0,
            checksum_errors: self.checksum_errors.0,
            slow_ios: self.slow_ios.0,
            children: self.vdevs.into_vdevs(class),
        }
    }
}

/// The JSON output has the kernel's names of states; the text output has those of `zpool`.
fn parse_vdev_state(word: &str, aux: Option<&str>) -> HealthState {
    match (word, aux) {
        ("CANT_OPEN", Some("CORRUPT_DATA" | "BAD_LOG")) => HealthState::Faulted,
        ("CANT_OPEN", _) => HealthState::Unavailable,
        ("CLOSED", _) => HealthState::Offline,
        ("HEALTHY", _) => HealthState::Online,
        _ => HealthState::parse(word),
    }
}

/// The text output's words for the kernel's auxiliary state.
fn describe(aux: String) -> String {
    let words = match aux.as_str() {
        "OPEN_FAILED" => "cannot open",
        "CORRUPT_DATA" => "corrupted data",
        "NO_REPLICAS" => "insufficient replicas",
        "BAD_GUID_SUM" => "missing device",
        "BAD_LABEL" => "invalid label",
        "VERSION_NEWER" => "newer version",
        "UNSUP_FEAT" => "unsupported feature(s)",
        "SPARED" | "ACTIVE" => "currently in use",
        "ERR_EXCEEDED" => "too many errors",
        "IO_FAILURE" => "experienced I/O failures",
        "BAD_LOG" => "bad intent log",
        "EXTERNAL" => "external device fault",
        "SPLIT_POOL" => "split into new pool",
        "ASHIFT_TOO_BIG" => "unsupported minimum blocksize",
        "CHILDREN_OFFLINE" => "all children offline",
        _ => return aux.to_lowercase().replace('_', " "),
    };
    words.to_owned()
}

impl Scan {
    /// `None` if there was no scan.
    fn to_scan(&self) -> Option<PoolScan> {
        if let Some(state) = &self.err_scrub_state {
            let phase = parse_phase(state, self.err_scrub_pause)?;
            let (start_time, end) = (self.err_scrub_start_time.0, self.err_scrub_end_time.0);
            return Some(PoolScan { start_time, ..ended(ScanFunction::ErrorScrub, phase, start_time, end) });
        }
        let function = match self.function.as_deref()? {
            "SCRUB" => ScanFunction::Scrub,
            "RESILVER" => ScanFunction::Resilver,
            _ => return None,
        };
        let phase = parse_phase(self.state.as_deref()?, self.scrub_pause)?;
        Some(PoolScan {
            start_time: self.start_time.0,
            scanned: self.examined.0,
            issued: self.issued.0,
            total: self.to_examine.0.map(|bytes| bytes.saturating_sub(self.skipped.0.unwrap_or(0))),
            repaired: self.processed.0,
            errors: self.errors.0,
            ..ended(function, phase, self.start_time.0, self.end_time.0)
        })
    }

    /// The rebuild that started last.
    fn to_rebuild(&self) -> Option<PoolScan> {
        let rebuilds = self.rebuild_stats.0.iter().filter_map(|(_, rebuild)| rebuild.to_scan());
        rebuilds.max_by_key(|rebuild| rebuild.start_time)
    }
}

impl Rebuild {
    fn to_scan(&self) -> Option<PoolScan> {
        let phase = match self.state.as_str() {
            "ACTIVE" => ScanPhase::Scanning,
            "COMPLETE" => ScanPhase::Finished,
            "CANCELED" => ScanPhase::Canceled,
            _ => return None,
        };
        let scan = ended(ScanFunction::Rebuild, phase, self.start_time.0, self.end_time.0);
        Some(PoolScan {
            start_time: self.start_time.0,
            duration: scan
                .duration
                .map(|duration| self.scan_time.0.map_or(duration, |time| time / 1_000_000_000)),
            scanned: self.scanned.0,
            issued: self.issued.0,
            total: self.to_scan.0,
            repaired: self.rebuilt.0,
            errors: self.errors.0,
            ..scan
        })
    }
}

fn parse_phase(state: &str, pause: Number) -> Option<ScanPhase> {
    Some(match state {
        "SCANNING" | "ERRORSCRUBBING" if pause.0.is_some_and(|time| time > 0) => ScanPhase::Paused,
        "SCANNING" | "ERRORSCRUBBING" => ScanPhase::Scanning,
        "FINISHED" => ScanPhase::Finished,
        "CANCELED" => ScanPhase::Canceled,
        _ => return None,
    })
}

/// A scan with the times that only one that has ended has. While a scan runs, the field has the end of an earlier one.
fn ended(function: ScanFunction, phase: ScanPhase, start: Option<u64>, end: Option<u64>) -> PoolScan {
    let end = end.filter(|end| *end > 0 && matches!(phase, ScanPhase::Finished | ScanPhase::Canceled));
    let duration = end.zip(start).map(|(end, start)| end.saturating_sub(start));
    PoolScan { end_time: end, duration, ..PoolScan::new(function, phase) }
}

/// A number, also as text: some versions print some numbers as text, and all of them without `--json-int`. `None` for
/// anything else.
#[derive(Clone, Copy, Default)]
struct Number(Option<u64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        struct NumberVisitor;

        impl<'de> Visitor<'de> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(Some(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                // A GUID with the highest bit set, printed as signed.
                Ok(Number(Some(value as u64)))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.parse().ok()))
            }

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Number, A::Error> {
                while sequence.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Number(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Number(None))
            }
        }

        deserializer.deserialize_any(NumberVisitor)
    }
}

/// The entries of an object in their order, which is that of the vdevs.
struct Entries<T>(Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Entries<T> {
        Entries(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<T>, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

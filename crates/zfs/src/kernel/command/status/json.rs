//! The JSON output of `zpool status` (2.3 and later).

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

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
    Ok(output.pools.0.into_iter().map(Pool::into_pool).collect())
}

#[derive(Deserialize)]
struct Output {
    pools: Entries<Pool>,
}

#[derive(Deserialize)]
struct Pool {
    name: String,
    state: String,
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
    state: Option<String>,
    aux: Option<String>,
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Scan {
    // If the pool was only rebuilt, the object has `rebuild_stats` alone.
    function: Option<String>,
    state: Option<String>,
    start_time: Number,
    end_time: Number,
    to_examine: Number,
    skipped: Number,
    processed: Number,
    errors: Number,
    scrub_pause: Number,
    issued: Number,
    // These are there if a scrub of the error log is newer than the scan.
    err_scrub_state: Option<String>,
    err_scrub_start_time: Number,
    err_scrub_end_time: Number,
    err_scrub_pause: Number,
    rebuild_stats: Entries<Rebuild>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Rebuild {
    state: String,
    start_time: Number,
    end_time: Number,
    issued: Number,
    rebuilt: Number,
    to_scan: Number,
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
            state: HealthState::parse(&self.state),
            scan: self.scan_stats.as_ref().and_then(Scan::to_scan),
            rebuild: self.scan_stats.as_ref().and_then(Scan::to_rebuild),
            vdevs: classes.into_iter().flat_map(|(entries, class)| entries.into_vdevs(class)).collect(),
            data_errors: self.error_count.0,
        }
    }
}

impl Entries<Vdev> {
    fn into_vdevs(self, class: VdevClass) -> Vec<VdevNode> {
        self.0.into_iter().map(|vdev| vdev.into_node(class)).collect()
    }
}

impl Vdev {
    fn into_node(self, class: VdevClass) -> VdevNode {
        VdevNode {
            name: self.name,
            kind: self.vdev_type.unwrap_or_default(),
            class,
            guid: self.guid.0,
            state: parse_vdev_state(self.state.as_deref().unwrap_or("UNKNOWN"), self.aux.as_deref()),
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

impl Scan {
    /// `None` if there was no scan.
    fn to_scan(&self) -> Option<PoolScan> {
        if let Some(state) = &self.err_scrub_state {
            let phase = parse_phase(state, self.err_scrub_pause)?;
            let (start_time, end) = (self.err_scrub_start_time.0, self.err_scrub_end_time.0);
            return Some(PoolScan { start_time, ..ended(ScanFunction::ErrorScrub, phase, end) });
        }
        let function = match self.function.as_deref()? {
            "SCRUB" => ScanFunction::Scrub,
            "RESILVER" => ScanFunction::Resilver,
            _ => return None,
        };
        let phase = parse_phase(self.state.as_deref()?, self.scrub_pause)?;
        Some(PoolScan {
            start_time: self.start_time.0,
            issued: self.issued.0,
            total: self.to_examine.0.map(|bytes| bytes.saturating_sub(self.skipped.0.unwrap_or(0))),
            repaired: self.processed.0,
            errors: self.errors.0,
            ..ended(function, phase, self.end_time.0)
        })
    }

    /// The rebuild that started last.
    fn to_rebuild(&self) -> Option<PoolScan> {
        let rebuilds = self.rebuild_stats.0.iter().filter_map(Rebuild::to_scan);
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
        Some(PoolScan {
            start_time: self.start_time.0,
            issued: self.issued.0,
            total: self.to_scan.0,
            repaired: self.rebuilt.0,
            errors: self.errors.0,
            ..ended(ScanFunction::Rebuild, phase, self.end_time.0)
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

/// A scan with the time of its end, if it has ended. While a scan runs, the field has the end of an earlier one.
fn ended(function: ScanFunction, phase: ScanPhase, end: Option<u64>) -> PoolScan {
    let end = end.filter(|end| *end > 0 && matches!(phase, ScanPhase::Finished | ScanPhase::Canceled));
    PoolScan { end_time: end, ..PoolScan::new(function, phase) }
}

/// A number, also as text: some versions print some numbers as text, and all of them without `--json-int`. `None` for
/// anything else.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(from = "Value")]
struct Number(Option<u64>);

impl From<Value> for Number {
    fn from(value: Value) -> Number {
        Number(match value {
            // A GUID with the highest bit set is printed as signed.
            Value::Number(number) => number.as_u64().or_else(|| number.as_i64().map(|signed| signed as u64)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        })
    }
}

/// The values of an object in their order, which is that of the vdevs.
struct Entries<T>(Vec<T>);

impl<T> Default for Entries<T> {
    fn default() -> Entries<T> {
        Entries(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<T>, D::Error> {
        deserializer.deserialize_map(Entries::default())
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Entries<T>, A::Error> {
        while let Some((_, value)) = map.next_entry::<IgnoredAny, T>()? {
            self.0.push(value);
        }
        Ok(self)
    }
}

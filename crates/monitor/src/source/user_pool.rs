//! Pools of the user-space engine, through the sockets of the processes that own them.
//!
//! The source never opens a pool. For a pool without an owner, only its files are read.

use std::collections::BTreeMap;
use std::time::Duration;

use poolwright_base::units::format_size;
use poolwright_openzfs::{ArcStats, DatasetStats, ScanKind, ScanState};
use poolwright_zfs::user::label::{FoundPool, Vdev};
use poolwright_zfs::user::{Client, Counters, DatasetInfo, Kind, PoolInfo, Request, Value, layout, registry};

use crate::family::*;
use crate::source::{Discovery, Source, SourceName, seconds};
use crate::{Readings, Resource, Result};

/// The time that the owner of a pool has for each answer. An owner that exceeds it is reported as a failed source.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The value of the label `engine`.
const ENGINE: &str = "user";
/// The states of pools.
pub(super) const POOL_STATES: [&str; 5] = ["ONLINE", "DEGRADED", "FAULTED", "SUSPENDED", "UNAVAIL"];
/// The states of vdevs; the last two are those of spares.
pub(super) const VDEV_STATES: [&str; 8] =
    ["ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "REMOVED", "UNAVAIL", "AVAIL", "INUSE"];
/// The properties that [`PROPERTY_INFO`] reports where they are not the default: those that a plan may set.
pub(super) const PROPERTIES: [&str; 7] =
    ["recordsize", "compression", "primarycache", "secondarycache", "logbias", "sync", "redundant_metadata"];

/// Lists the pools of the registry.
#[derive(Debug)]
pub struct UserPools;

impl Discovery for UserPools {
    fn sources(&self) -> Vec<Box<dyn Source>> {
        let entries = registry::all().unwrap_or_default();
        let source = |entry: registry::Entry| Box::new(UserPool::new(entry.pool)) as Box<dyn Source>;
        entries.into_iter().flatten().map(source).collect()
    }
}

/// One pool of the registry.
#[derive(Debug)]
pub struct UserPool {
    pool: String,
    /// GUIDs of the vdevs when their labels were read, and the facts about each vdev from the labels, by GUID.
    vdevs: (Vec<String>, BTreeMap<String, LabelVdev>),
}

/// The facts about a vdev from the labels of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelVdev {
    /// The path of a file; type and index of a group.
    name: String,
    class: &'static str,
    /// The type, such as `file` or `mirror`.
    kind: String,
    /// The name of the vdev above it.
    parent: String,
}

impl UserPool {
    /// A source for the pool with this name.
    pub fn new(pool: String) -> UserPool {
        UserPool { pool, vdevs: Default::default() }
    }
}

impl Source for UserPool {
    fn name(&self) -> SourceName {
        SourceName { source: "user-pool", pool: self.pool.clone() }
    }

    fn read(&mut self) -> Result<Readings> {
        let mut readings = Readings::default();
        let Some(mut client) = Client::connect(&self.pool)? else {
            readings.add(&POOL, [ENGINE, &self.pool]).flag(&POOL_OPEN, false);
            return Ok(readings);
        };
        client.set_timeout(ANSWER_LIMIT)?;
        let info: PoolInfo = client.ask(&Request::Status)?;
        let counters: Counters = client.ask(&Request::Counters)?;
        let datasets: Vec<DatasetInfo> = client.ask(&Request::List)?;
        readings.add_states(&POOL_STATE_NOW, &[ENGINE, &self.pool], &POOL_STATES, info.state());
        let pool = readings.add(&POOL, [ENGINE, &self.pool]);
        set_pool(pool, &info);
        set_scan(pool, &info);
        self.add_vdevs(&mut readings, &info, &counters);
        add_arc(&mut readings, &self.pool, &counters.arc);
        add_datasets(&mut readings, &self.pool, &datasets, &counters);
        add_mounts(&mut readings, &self.pool, &counters);
        for dataset in
            datasets.iter().filter(|dataset| dataset.kind == Kind::Filesystem && dataset.stats.is_some())
        {
            let properties = PROPERTIES.map(str::to_owned).to_vec();
            let request = Request::Get { dataset: dataset.name.clone(), properties };
            add_properties(&mut readings, &self.pool, &client.ask::<Vec<Value>>(&request)?);
        }
        Ok(readings)
    }
}

impl UserPool {
    fn add_vdevs(&mut self, readings: &mut Readings, info: &PoolInfo, counters: &Counters) {
        let guids: Vec<String> = info.vdevs.iter().map(|vdev| vdev.guid.clone()).collect();
        if self.vdevs.0 != guids {
            let found = layout(&self.pool, &info.files, &info.file_faults);
            self.vdevs = (guids, found.map(|found| vdevs_of_labels(&found, &self.pool)).unwrap_or_default());
        }
        let mut io: BTreeMap<&str, _> =
            counters.files.iter().map(|file| (file.path.to_str().unwrap_or_default(), file.moved)).collect();
        for (at, vdev) in info.vdevs.iter().enumerate() {
            let known = self.vdevs.1.get(&vdev.guid);
            let (name, class) = match known {
                // A spare in use is also a leaf, whose place differs.
                Some(known) if vdev.spare => (known.name.as_str(), "spare"),
                None if vdev.spare => (vdev.guid.as_str(), "spare"),
                Some(known) => (known.name.as_str(), known.class),
                None if at == 0 => (self.pool.as_str(), "root"),
                None => (vdev.guid.as_str(), "cache"),
            };
            let labels = [ENGINE, &self.pool, name, class];
            if let Some(LabelVdev { kind, parent, .. }) = known {
                let parent = if vdev.spare { &self.pool } else { parent };
                let labels = [ENGINE, &self.pool, name, class, kind, parent];
                readings.add(&VDEV_PLACE, labels).flag(&VDEV_INFO, true);
            }
            readings.add_states(&VDEV_STATE_NOW, &labels, &VDEV_STATES, &vdev.state);
            let resource = readings.add(&VDEV, labels);
            resource
                .count(&VDEV_READ_ERRORS, vdev.read_errors)
                .count(&VDEV_WRITE_ERRORS, vdev.write_errors)
                .count(&VDEV_CHECKSUM_ERRORS, vdev.checksum_errors);
            if vdev.size > 0 {
                resource.count(&VDEV_SIZE, vdev.size).count(&VDEV_ALLOCATED, vdev.allocated);
            }
            let Some(moved) = io.remove(name) else { continue };
            resource
                .count(&VDEV_READ_BYTES, moved.read_bytes)
                .count(&VDEV_WRITE_BYTES, moved.write_bytes)
                .count(&VDEV_READS, moved.read_ops)
                .count(&VDEV_WRITES, moved.write_ops)
                .count(&VDEV_FLUSHES, moved.flushes)
                .set(&VDEV_READ_TIME, seconds(moved.read_ns))
                .set(&VDEV_WRITE_TIME, seconds(moved.write_ns))
                .set(&VDEV_FLUSH_TIME, seconds(moved.flush_ns));
        }
    }
}

/// The facts about each vdev from the labels, by GUID.
fn vdevs_of_labels(found: &FoundPool, pool: &str) -> BTreeMap<String, LabelVdev> {
    let mut vdevs = BTreeMap::new();
    // The names and classes of the pool and of the vdevs above the present one.
    let mut above = vec![(pool.to_owned(), "normal")];
    for (depth, vdev) in found.vdevs.iter().flat_map(Vdev::walk) {
        above.truncate(1 + depth);
        let (parent, class) = above[depth].clone();
        let class = if vdev.is_log { "log" } else { class };
        let path = vdev.path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let name = path.unwrap_or_else(|| format!("{}-{}", vdev.kind, vdev.id));
        above.push((name.clone(), class));
        vdevs.insert(vdev.guid.to_string(), LabelVdev { name, class, kind: vdev.kind.clone(), parent });
    }
    let cache = found.cache.iter().map(|path| (path, "cache"));
    for (path, class) in cache.chain(found.spares.iter().map(|path| (path, "spare"))) {
        let name = path.to_string_lossy().into_owned();
        let (kind, parent) = ("file".to_owned(), pool.to_owned());
        vdevs.insert(found.guid_of(path).to_string(), LabelVdev { name, class, kind, parent });
    }
    vdevs
}

fn set_pool(pool: &mut Resource, info: &PoolInfo) {
    pool.flag(&POOL_OPEN, true)
        .count(&POOL_SIZE, info.stats.size)
        .count(&POOL_ALLOCATED, info.stats.allocated)
        .count(&POOL_FREE, info.stats.free)
        .count(&POOL_CLONES_SAVED, info.stats.bclone_saved)
        .count(&POOL_DATA_ERRORS, info.data_errors)
        .count(&POOL_FILE_FAULTS, info.file_faults.len() as u64)
        .count(&POOL_TXG, info.stats.txg)
        .count(&POOL_IMPORTED, info.since_unix_s);
}

fn set_scan(pool: &mut Resource, info: &PoolInfo) {
    let running = |kind| info.scan.is_some_and(|scan| scan.kind == kind && scan.state == ScanState::Scanning);
    pool.flag(&SCRUB_RUNNING, running(ScanKind::Scrub)).flag(&RESILVER_RUNNING, running(ScanKind::Resilver));
    let Some(scan) = info.scan else { return };
    pool.flag(&SCAN_PAUSED, scan.paused)
        .count(&SCAN_TO_EXAMINE, scan.to_examine.saturating_sub(scan.skipped))
        .count(&SCAN_EXAMINED, scan.examined)
        .count(&SCAN_ERRORS, scan.errors);
    if (scan.kind, scan.state) == (ScanKind::Scrub, ScanState::Finished) {
        pool.count(&SCRUB_END, scan.end_unix_s);
    }
}

fn add_arc(readings: &mut Readings, pool: &str, arc: &ArcStats) {
    readings
        .add(&ARC, [ENGINE, pool])
        .count(&ARC_SIZE, arc.size)
        .count(&ARC_TARGET, arc.target)
        .count(&ARC_MAX, arc.max)
        .count(&ARC_COMPRESSED, arc.compressed_size)
        .count(&ARC_UNCOMPRESSED, arc.uncompressed_size)
        .count(&ARC_MRU_GHOST_HITS, arc.mru_ghost_hits)
        .count(&ARC_MFU_GHOST_HITS, arc.mfu_ghost_hits)
        .count(&L2ARC_HITS, arc.l2_hits)
        .count(&L2ARC_MISSES, arc.l2_misses)
        .count(&L2ARC_SIZE, arc.l2_size);
    for (kind, result, value) in [
        ("demand_data", "hit", arc.demand_data_hits),
        ("demand_data", "iohit", arc.demand_data_iohits),
        ("demand_data", "miss", arc.demand_data_misses),
        ("demand_metadata", "hit", arc.demand_metadata_hits),
        ("demand_metadata", "iohit", arc.demand_metadata_iohits),
        ("demand_metadata", "miss", arc.demand_metadata_misses),
        ("prefetch_data", "hit", arc.prefetch_data_hits),
        ("prefetch_data", "miss", arc.prefetch_data_misses),
        ("prefetch_metadata", "hit", arc.prefetch_metadata_hits),
        ("prefetch_metadata", "miss", arc.prefetch_metadata_misses),
    ] {
        readings.add(&ARC_ACCESS, [ENGINE, pool, kind, result]).count(&ARC_ACCESSES, value);
    }
}

fn add_datasets(readings: &mut Readings, pool: &str, datasets: &[DatasetInfo], counters: &Counters) {
    let mut snapshots: BTreeMap<&str, u64> = BTreeMap::new();
    for snapshot in datasets.iter().filter(|dataset| dataset.kind == Kind::Snapshot) {
        let dataset = snapshot.name.split('@').next().unwrap_or_default();
        *snapshots.entry(dataset).or_default() += 1;
    }
    for dataset in datasets.iter().filter(|dataset| dataset.kind == Kind::Filesystem) {
        let resource = readings.add(&DATASET, [ENGINE, pool, &dataset.name]);
        resource
            .count(&DATASET_AVAILABLE, dataset.available)
            .count(&DATASET_SNAPSHOTS, snapshots.get(dataset.name.as_str()).copied().unwrap_or(0));
        if let Some(DatasetStats { used, referenced, logicalused, logicalreferenced, .. }) = dataset.stats {
            resource
                .count(&DATASET_USED, used)
                .count(&DATASET_REFERENCED, referenced)
                .count(&DATASET_LOGICAL_USED, logicalused)
                .count(&DATASET_LOGICAL_REFERENCED, logicalreferenced);
        }
        resource
            .set(&DATASET_COMPRESSION, dataset.stats.map(|stats| stats.compressratio_x100 as f64 / 100.0));
        if let Some(open) = counters.datasets.iter().find(|open| open.name == dataset.name) {
            resource
                .count(&ZIL_COMMITS, open.zil.commits)
                .count(&ZIL_RECORDS, open.zil.itxs)
                .count(&ZIL_NORMAL_BYTES, open.zil.normal_write)
                .count(&ZIL_SLOG_BYTES, open.zil.slog_write)
                .count(&ZIL_REPLAYED, open.replayed);
        }
    }
}

fn add_mounts(readings: &mut Readings, pool: &str, counters: &Counters) {
    for mount in &counters.mounts {
        let dir = mount.dir.to_string_lossy();
        readings
            .add(&MOUNT, [pool, &mount.dataset, &dir])
            .count(&MOUNT_READ_BYTES, mount.read_bytes)
            .count(&MOUNT_WRITE_BYTES, mount.write_bytes);
        for (op, count) in &mount.ops {
            readings.add(&MOUNT_OP, [pool, &mount.dataset, &dir, op]).count(&MOUNT_REQUESTS, *count);
        }
    }
}

fn add_properties(readings: &mut Readings, pool: &str, values: &[Value]) {
    for value in values.iter().filter(|value| value.source != "default" && value.source != "-") {
        let Value { dataset, property, value, size, source } = value;
        let bytes = value.parse().ok().filter(|_| *size);
        let value = bytes.map_or_else(|| value.clone(), format_size);
        let labels = [ENGINE, pool, dataset, property, &value, source];
        readings.add(&PROPERTY, labels).flag(&PROPERTY_INFO, true);
    }
}

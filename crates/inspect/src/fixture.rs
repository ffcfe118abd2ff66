//! A sound set-up, and one fault for each rule.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_estimate::{Cell, Ended, Estimate, Layout, Method};
use poolwright_trace::layout::{self, PageSize, PageSource, Role};
use poolwright_zfs::kernel::HealthState;
use poolwright_zfs::kernel::command::dataset::DatasetSpace;
use poolwright_zfs::kernel::command::property::{PropertySource, SourcedValue};
use poolwright_zfs::kernel::command::snapshot::SnapshotTotals;
use poolwright_zfs::kernel::command::space::PoolSpace;
use poolwright_zfs::kernel::command::status::{KernelPool, VdevClass, VdevNode};
use poolwright_zfs::kernel::command::version::parse_release;

use crate::facts::{
    DatabaseFacts, DatasetFacts, DatasetKind, DiskFacts, FileGroup, MachineFacts, PoolFacts, ServerFacts,
    SystemFacts,
};

const GIB: u64 = 1 << 30;

/// A MariaDB, a PostgreSQL and a volume on a pool of mirrors with OpenZFS 2.4, as they should be.
pub fn sound() -> MachineFacts {
    let memory = 64 * GIB;
    let parameters = [("zfs_dio_enabled", "1"), ("zfs_nocacheflush", "0"), ("zil_nocacheflush", "0")];
    MachineFacts {
        host: SystemFacts {
            architecture: "x86_64".to_owned(),
            memory: Some(memory),
            memory_available: Some(memory / 4),
            module: parse_release("2.4.99-1"),
            parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            arc_max: Some(memory / 2),
            arc_size: Some(memory / 2),
            swap_volumes: Vec::new(),
        },
        pools: vec![pool()],
        datasets: vec![
            dataset("tank/mysql", DatasetKind::FileSystem, "recordsize"),
            dataset("tank/pg", DatasetKind::FileSystem, "recordsize"),
            dataset("tank/vm", DatasetKind::Volume, "volblocksize"),
        ],
        databases: vec![
            database("mariadb", "/srv/mysql", "tank/mysql", 16 << 10),
            database("postgresql", "/srv/pg", "tank/pg", 8 << 10),
        ],
        unknown: Vec::new(),
    }
}

fn vdev(name: &str, kind: &str, class: VdevClass, children: Vec<VdevNode>) -> VdevNode {
    VdevNode {
        name: name.to_owned(),
        kind: kind.to_owned(),
        class,
        guid: None,
        state: HealthState::Online,
        read_errors: Some(0),
        write_errors: Some(0),
        checksum_errors: Some(0),
        slow_ios: None,
        children,
    }
}

fn disks(names: &[&str], class: VdevClass) -> Vec<VdevNode> {
    names.iter().map(|name| vdev(name, "disk", class, Vec::new())).collect()
}

fn pool() -> PoolFacts {
    let mirror = vdev("mirror-0", "mirror", VdevClass::Data, disks(&["sda", "sdb"], VdevClass::Data));
    let special =
        vdev("mirror-1", "mirror", VdevClass::Special, disks(&["nvme0", "nvme1"], VdevClass::Special));
    let log = vdev("mirror-2", "mirror", VdevClass::Log, disks(&["nvme2", "nvme3"], VdevClass::Log));
    let disk = |name: &str| DiskFacts {
        name: name.to_owned(),
        class: VdevClass::Data,
        ashift: Some(12),
        sector: Some(4096),
    };
    PoolFacts {
        space: PoolSpace {
            name: "tank".to_owned(),
            size: Some(1000 * GIB),
            allocated: Some(500 * GIB),
            free: Some(500 * GIB),
            fragmentation: Some(10),
            dedup_ratio: Some(1.0),
            freeing: Some(0),
            leaked: Some(0),
            checkpoint: None,
            expand_size: None,
            health: HealthState::Online,
            is_readonly: false,
        },
        status: Some(KernelPool {
            name: "tank".to_owned(),
            state: HealthState::Online,
            scan: None,
            rebuild: None,
            vdevs: vec![vdev("tank", "root", VdevClass::Data, vec![mirror]), special, log],
            data_errors: Some(0),
        }),
        disks: vec![disk("sda"), disk("sdb")],
    }
}

fn dataset(name: &str, kind: DatasetKind, block: &str) -> DatasetFacts {
    let properties = [
        (block, "16384"),
        ("compression", "lz4"),
        ("sync", "standard"),
        ("checksum", "on"),
        ("primarycache", "all"),
        ("logbias", "latency"),
        ("redundant_metadata", "all"),
        ("special_small_blocks", "0"),
        ("dedup", "off"),
        ("direct", "standard"),
        ("atime", "on"),
        ("relatime", "on"),
        ("xattr", "sa"),
        ("acltype", "off"),
        ("encryption", "off"),
    ];
    let sourced = |value: &str| SourcedValue { value: value.to_owned(), source: PropertySource::Local };
    DatasetFacts {
        name: name.to_owned(),
        kind,
        is_of_kernel: true,
        properties: properties.map(|(name, value)| (name.to_owned(), sourced(value))).into(),
        space: Some(DatasetSpace {
            name: name.to_owned(),
            used: Some(100 * GIB),
            available: Some(400 * GIB),
            referenced: Some(90 * GIB),
            used_by_dataset: Some(90 * GIB),
            used_by_snapshots: Some(10 * GIB),
            used_by_children: Some(0),
            used_by_refreservation: Some(0),
            logical_used: Some(200 * GIB),
            logical_referenced: Some(180 * GIB),
            compress_ratio: Some(2.0),
            written: Some(0),
            quota: Some(0),
            volume_size: (kind == DatasetKind::Volume).then_some(200 * GIB),
        }),
        snapshots: Some(SnapshotTotals { dataset: name.to_owned(), count: 7, oldest: 1, newest: 2 }),
        sample: (kind == DatasetKind::FileSystem).then(sample),
    }
}

/// Data that compresses to the half, as well in small blocks as in large ones.
fn sample() -> Estimate {
    let codecs = [("off", 1.0, None), ("lz4", 2.0, Some(500.0)), ("zstd-3", 2.4, Some(150.0))];
    let cells = [16_u64 << 10, 64 << 10, 128 << 10]
        .into_iter()
        .flat_map(|recordsize| codecs.map(|(name, ratio, speed)| cell(recordsize, name, ratio, speed)));
    Estimate {
        files: 10,
        logical_bytes: 180 * GIB,
        data_bytes: 180 * GIB,
        sampled_bytes: 64 << 20,
        cells: cells.collect(),
        method: Method::Sampled,
        ended: Ended::Done,
        seed: 0,
        places: 500,
        within: 0.03,
        achieved: 0.03,
        entropy_bits: 4.0,
        skipped: Vec::new(),
        changed: 0,
        special: 0,
        seconds: 1.0,
        threads: 2,
        openzfs: "2.3".to_owned(),
    }
}

fn cell(recordsize: u64, compression: &str, ratio: f64, speed: Option<f64>) -> Cell {
    let bytes = (180.0 * GIB as f64 / ratio) as u64;
    Cell {
        recordsize,
        compression: compression.to_owned(),
        ashift: 12,
        layout: Layout::Mirror,
        allocated_bytes: bytes,
        ratio,
        ratio_ci95: [ratio, ratio],
        total_bytes: bytes,
        compress_mib_s: speed,
        decompress_mib_s: speed,
        draws: 100,
    }
}

fn database(layout: &str, root: &str, dataset: &str, page: u32) -> DatabaseFacts {
    let settings = match layout {
        "mariadb" => vec![
            ("innodb_buffer_pool_size", "8589934592"),
            ("innodb_doublewrite", "ON"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("innodb_flush_method", "O_DIRECT"),
            ("innodb_flush_neighbors", "0"),
        ],
        _ => vec![
            ("shared_buffers", "8589934592"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("wal_init_zero", "off"),
            ("wal_recycle", "off"),
        ],
    };
    let group = |role, bytes| FileGroup {
        dataset: dataset.to_owned(),
        is_of_kernel: true,
        is_read_only: false,
        role,
        files: 10,
        bytes,
        bytes_by_block: [(16 << 10, bytes)].into(),
    };
    let settings: BTreeMap<String, String> =
        settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    DatabaseFacts {
        layout: layout::Layout::by_name(layout),
        root: PathBuf::from(root),
        page: Some(PageSize { bytes: page, source: PageSource::Default }),
        bytes: 181 * GIB,
        files: vec![group(Role::Data, 180 * GIB), group(Role::Wal, GIB)],
        paths: Vec::new(),
        server: Some(ServerFacts {
            pid: 7,
            name: format!("{layout}d"),
            direct_files: if layout == "mariadb" { 12 } else { 0 },
        }),
        is_server_hidden: false,
        settings,
        elsewhere: None,
    }
}

/// Sets a property of a dataset.
pub fn set(facts: &mut MachineFacts, dataset: usize, property: &str, value: &str) {
    let value = SourcedValue { value: value.to_owned(), source: PropertySource::Local };
    facts.datasets[dataset].properties.insert(property.to_owned(), value);
}

/// Changes a setting of a database.
pub fn configure(facts: &mut MachineFacts, database: usize, name: &str, value: &str) {
    facts.databases[database].settings.insert(name.to_owned(), value.to_owned());
}

/// The blocks that the files of a database have.
fn blocks(facts: &mut MachineFacts, database: usize, size: u64) {
    for group in &mut facts.databases[database].files {
        group.bytes_by_block = [(size, group.bytes)].into();
    }
}

fn top(facts: &mut MachineFacts) -> &mut Vec<VdevNode> {
    &mut facts.pools[0].status.as_mut().expect("the pool has a state").vdevs
}

/// Makes today's codec one with this ratio and speed.
fn codec(facts: &mut MachineFacts, name: &str, ratio: f64, speed: f64) {
    set(facts, 0, "compression", name);
    let cells = &mut facts.datasets[0].sample.as_mut().expect("a sample").cells;
    cells.push(cell(16 << 10, name, ratio, Some(speed)));
}

/// Sets the ratio of all cells with a condition.
fn ratio(facts: &mut MachineFacts, to: f64, of: impl Fn(&Cell) -> bool) {
    let cells = &mut facts.datasets[0].sample.as_mut().expect("a sample").cells;
    for found in cells.iter_mut().filter(|cell| of(cell)) {
        *found = cell(found.recordsize, &found.compression, to, found.compress_mib_s);
    }
}

/// A fault.
type Plant = fn(&mut MachineFacts);

/// Faults, each with the name of the rule that finds it; no other rule does.
pub const FAULTS: &[(&str, Plant)] = &[
    ("sync-disabled", |facts| set(facts, 0, "sync", "disabled")),
    ("innodb-doublewrite", |facts| configure(facts, 0, "innodb_doublewrite", "OFF")),
    ("innodb-doublewrite", |facts| configure(facts, 0, "innodb_doublewrite", "DETECT_ONLY")),
    ("full-page-writes", |facts| configure(facts, 1, "full_page_writes", "off")),
    ("postgresql-fsync", |facts| configure(facts, 1, "fsync", "off")),
    ("innodb-fsync", |facts| configure(facts, 0, "innodb_flush_method", "nosync")),
    ("flushes-off", |facts| {
        facts.host.parameters.insert("zfs_nocacheflush".to_owned(), "1".to_owned());
    }),
    ("flushes-off", |facts| {
        facts.host.parameters.insert("zil_nocacheflush".to_owned(), "1".to_owned());
    }),
    ("checksum-off", |facts| set(facts, 1, "checksum", "off")),
    ("special-vdev-redundancy", |facts| {
        top(facts)[1] = vdev("nvme0", "disk", VdevClass::Special, Vec::new())
    }),
    ("pool-state", |facts| facts.pools[0].space.health = HealthState::Degraded),
    ("pool-errors", |facts| {
        facts.pools[0].status.as_mut().expect("its state").data_errors = Some(3);
    }),
    ("pool-errors", |facts| top(facts)[0].children[0].children[1].checksum_errors = Some(2)),
    ("redundant-metadata", |facts| {
        set(facts, 0, "redundant_metadata", "none");
        top(facts)[0].children = disks(&["sda"], VdevClass::Data);
        top(facts).retain(|vdev| vdev.class != VdevClass::Special);
    }),
    ("swap-on-volume", |facts| facts.host.swap_volumes.push("/dev/zd16".to_owned())),
    ("relaxed-commit", |facts| configure(facts, 1, "synchronous_commit", "off")),
    ("relaxed-commit", |facts| configure(facts, 0, "innodb_flush_log_at_trx_commit", "2")),
    ("innodb-fsync", |facts| configure(facts, 0, "innodb_flush_method", "O_DIRECT_NO_FSYNC")),
    ("innodb-fsync", |facts| configure(facts, 0, "innodb_doublewrite", "fast")),
    // The log is on another dataset.
    ("sync-disabled", |facts| {
        let mut log = facts.datasets[0].clone();
        log.name = "tank/log".to_owned();
        facts.datasets.push(log);
        facts.databases[0].files[1].dataset = "tank/log".to_owned();
        set(facts, 3, "recordsize", "131072");
        set(facts, 3, "sync", "disabled");
    }),
    ("ashift", |facts| facts.pools[0].disks[1].ashift = Some(9)),
    ("special-takes-all", |facts| set(facts, 0, "special_small_blocks", "16384")),
    // Blocks compress to the half.
    ("special-takes-all", |facts| set(facts, 0, "special_small_blocks", "8192")),
    ("special-missing", |facts| {
        set(facts, 0, "special_small_blocks", "4096");
        top(facts).retain(|vdev| vdev.class != VdevClass::Special);
    }),
    ("log-vdev-unused", |facts| set(facts, 1, "logbias", "throughput")),
    ("direct-past-arc", |facts| {
        set(facts, 0, "recordsize", "131072");
        blocks(facts, 0, 128 << 10);
    }),
    ("stale-block-size", |facts| blocks(facts, 1, 32 << 10)),
    ("records-below-pages", |facts| {
        set(facts, 0, "recordsize", "8192");
        blocks(facts, 0, 8 << 10);
    }),
    ("records-above-pages", |facts| {
        set(facts, 1, "recordsize", "131072");
        blocks(facts, 1, 128 << 10);
    }),
    ("raidz-padding", |facts| {
        let names = ["sda", "sdb", "sdc", "sdd", "sde", "sdf", "sdg", "sdh"];
        top(facts)[0].children[0] =
            vdev("raidz2-0", "raidz", VdevClass::Data, disks(&names, VdevClass::Data));
        set(facts, 2, "volblocksize", "8192");
        set(facts, 0, "recordsize", "131072");
        set(facts, 1, "recordsize", "131072");
        facts.databases.clear();
    }),
    ("no-room-to-compress", |facts| set(facts, 2, "volblocksize", "4096")),
    ("small-records", |facts| {
        facts.databases[0].server.as_mut().expect("it runs").direct_files = 0;
        ratio(facts, 4.0, |cell| cell.compression == "lz4" && cell.recordsize > 16 << 10)
    }),
    ("compression-off", |facts| set(facts, 0, "compression", "off")),
    ("compression-slow", |facts| codec(facts, "gzip-9", 2.42, 12.0)),
    ("compression-without-effect", |facts| {
        ratio(facts, 1.0, |_| true);
        codec(facts, "zstd-9", 1.01, 40.0);
    }),
    ("primarycache", |facts| set(facts, 1, "primarycache", "metadata")),
    ("primarycache", |facts| set(facts, 0, "primarycache", "none")),
    ("memory-overcommitted", |facts| {
        facts.host.arc_max = facts.host.memory;
        facts.host.parameters.insert("zfs_arc_max".to_owned(), (64 * GIB).to_string());
    }),
    ("arc-limit-small", |facts| {
        (facts.host.arc_max, facts.host.arc_size) = (Some(4 * GIB), Some(4 * GIB));
        facts.host.memory_available = Some(40 * GIB);
    }),
    ("pool-nearly-full", |facts| facts.pools[0].space.allocated = Some(811 * GIB)),
    ("pool-nearly-full", |facts| facts.pools[0].space.allocated = Some(911 * GIB)),
    ("dataset-nearly-full", |facts| {
        facts.datasets[1].space.as_mut().expect("its space").available = Some(5 * GIB);
    }),
    ("snapshots", |facts| {
        facts.datasets[0].space.as_mut().expect("its space").used_by_snapshots = Some(200 * GIB);
    }),
    ("dedup", |facts| set(facts, 0, "dedup", "on")),
    ("atime", |facts| set(facts, 0, "relatime", "off")),
    ("xattr", |facts| {
        set(facts, 0, "xattr", "dir");
        set(facts, 0, "acltype", "posix");
    }),
    ("database-setting", |facts| configure(facts, 1, "wal_recycle", "on")),
    ("database-setting", |facts| configure(facts, 0, "innodb_flush_neighbors", "1")),
];

/// For each defect, in the order of the table: an affected release and the first without it, and the condition.
pub const DEFECT_FAULTS: &[(&str, &str, Plant)] = &[
    ("2.3.1", "2.3.2", |_| ()),
    ("2.2.8", "2.2.9", |facts| {
        facts.host.parameters.insert("zvol_use_blk_mq".to_owned(), "1".to_owned());
    }),
    ("2.1.13", "2.1.14", |_| ()),
    ("2.2.0", "2.2.2", |_| ()),
    ("2.4.3", "2.4.4", |facts| {
        facts.host.parameters.insert("zfs_bclone_enabled".to_owned(), "1".to_owned());
    }),
    ("2.4.0", "2.4.4", |facts| set(facts, 0, "dedup", "on")),
    ("2.1.11", "2.1.12", |facts| facts.databases[0].layout = layout::Layout::by_name("lmdb")),
    ("2.3.4", "2.3.5", |facts| {
        facts.host.architecture = "aarch64".to_owned();
        set(facts, 0, "compression", "zstd-3");
    }),
    ("2.2.11", "2.3.9", |facts| facts.databases[0].layout = layout::Layout::by_name("etcd")),
    ("2.3.3-1ubuntu2", "2.3.4", |facts| {
        facts.databases[0].layout = layout::Layout::by_name("sqlite");
        configure(facts, 0, "journal_mode", "wal");
    }),
    ("2.3.9", "2.4.0", |_| ()),
    ("2.2.7", "2.2.8", |facts| set(facts, 0, "encryption", "aes-256-gcm")),
    ("2.2.2", "2.3.0", |facts| {
        facts.host.parameters.insert("zfs_arc_shrinker_limit".to_owned(), "10000".to_owned());
    }),
    ("2.3.8", "2.3.9", |_| ()),
];

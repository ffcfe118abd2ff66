//! What the rules know about a machine.
//!
//! A fact that could not be determined is `None` or missing, and [`MachineFacts::unknown`] says why. A rule that needs a missing fact finds nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_estimate::{Cell, Estimate, Layout};
use poolwright_trace::layout::{self, PageSize, Role};
use poolwright_tune::pool_layout::layout_of;
use poolwright_zfs::kernel::command::dataset::DatasetSpace;
use poolwright_zfs::kernel::command::property::SourcedValue;
use poolwright_zfs::kernel::command::snapshot::SnapshotTotals;
use poolwright_zfs::kernel::command::space::PoolSpace;
use poolwright_zfs::kernel::command::status::{KernelPool, VdevClass, VdevNode};
use poolwright_zfs::kernel::command::version::Release;

/// Everything that the rules examine. Sizes are bytes.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts {
    /// The machine.
    pub host: SystemFacts,
    /// The pools of the kernel.
    pub pools: Vec<PoolFacts>,
    /// The datasets that databases use, and the volumes.
    pub datasets: Vec<DatasetFacts>,
    /// The databases.
    pub databases: Vec<DatabaseFacts>,
    /// What could not be determined: the subject, then the reason.
    pub unknown: Vec<String>,
}

/// The machine.
#[derive(Clone, Debug, Default)]
pub struct SystemFacts {
    /// The architecture of the processor, as Rust names it: `x86_64`.
    pub architecture: String,
    /// The size of the memory.
    pub memory: Option<u64>,
    /// The memory that programs could use without swapping (`MemAvailable`).
    pub memory_available: Option<u64>,
    /// The release of the kernel's OpenZFS module; `None` if it is not loaded.
    pub module: Option<Release>,
    /// The parameters of the module, by their names.
    pub parameters: BTreeMap<String, String>,
    /// The largest size of the ARC (`c_max` of arcstats).
    pub arc_max: Option<u64>,
    /// The size of the ARC.
    pub arc_size: Option<u64>,
    /// The device files of volumes on which the host swaps.
    pub swap_volumes: Vec<String>,
}

/// A pool of the kernel.
#[derive(Clone, Debug)]
pub struct PoolFacts {
    /// Its space and health.
    pub space: PoolSpace,
    /// Its vdevs.
    pub status: Option<KernelPool>,
    /// Its disks.
    pub disks: Vec<DiskFacts>,
}

/// A disk, partition or file of a pool.
#[derive(Clone, Debug)]
pub struct DiskFacts {
    /// Its name, as `zpool status` prints it.
    pub name: String,
    /// The class of its vdev.
    pub class: VdevClass,
    /// The exponent of the sector size of its top-level vdev.
    pub ashift: Option<u32>,
    /// The physical sector size that the device reports.
    pub sector: Option<u64>,
}

/// The type of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetKind {
    /// A file system.
    FileSystem,
    /// A volume (zvol).
    Volume,
}

/// A dataset.
#[derive(Clone, Debug)]
pub struct DatasetFacts {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: DatasetKind,
    /// Whether the kernel has it; otherwise the user-space engine.
    pub is_of_kernel: bool,
    /// Its properties, sizes in bytes.
    pub properties: BTreeMap<String, SourcedValue>,
    /// Its space.
    pub space: Option<DatasetSpace>,
    /// Its snapshots; `None` if it has none.
    pub snapshots: Option<SnapshotTotals>,
    /// Compressibility and space of a sample of the database's data files: today's settings, and alternatives.
    pub sample: Option<Estimate>,
}

/// A database.
#[derive(Clone, Debug)]
pub struct DatabaseFacts {
    /// Its layout; `None` for a directory that the user names and that contains no known database.
    pub layout: Option<&'static layout::Layout>,
    /// Its directory.
    pub root: PathBuf,
    /// Its page size.
    pub page: Option<PageSize>,
    /// The sum of the lengths of all its files.
    pub bytes: u64,
    /// Its files on datasets and volumes, by dataset and role.
    pub files: Vec<FileGroup>,
    /// Its tables and indexes on datasets and volumes.
    pub(crate) paths: Vec<DataFile>,
    /// The process that has its files open for writing.
    pub server: Option<ServerFacts>,
    /// Whether this user cannot see which processes use its files.
    pub is_server_hidden: bool,
    /// The settings that the server reports, or that a SQLite file has; missing if they could not be read.
    pub settings: BTreeMap<String, String>,
    /// The file system of its directory, if that is neither a dataset nor on a volume: `ext4`.
    pub elsewhere: Option<String>,
}

/// Files of one role on one dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileGroup {
    /// The dataset.
    pub dataset: String,
    /// Whether the kernel has it: a pool of the user-space engine can have the same name.
    pub is_of_kernel: bool,
    /// Whether it is mounted read-only.
    pub is_read_only: bool,
    /// The role.
    pub role: Role,
    /// The number of files.
    pub files: u64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// The bytes of the files of more than one block, by their block size. Empty where `stat` does not show it.
    pub bytes_by_block: BTreeMap<u64, u64>,
}

/// A file with tables or indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataFile {
    /// Its dataset.
    pub dataset: String,
    /// Whether the kernel has the dataset.
    pub is_of_kernel: bool,
    /// Its length.
    pub bytes: u64,
    /// Its path.
    pub path: PathBuf,
}

/// A running server.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// The process ID.
    pub pid: i32,
    /// The name of the program.
    pub name: String,
    /// The number of the database's files that are open for writing with `O_DIRECT`.
    pub direct_files: usize,
}

impl MachineFacts {
    /// The dataset of some files.
    pub fn dataset_of(&self, group: &FileGroup) -> Option<&DatasetFacts> {
        self.datasets.iter().find(|of| of.has_files(group))
    }

    /// The pool of a dataset, if it is one of the kernel.
    pub fn pool_of(&self, dataset: &DatasetFacts) -> Option<&PoolFacts> {
        let pool = poolwright_zfs::datasets::pool_of(&dataset.name);
        self.pools.iter().find(|of| dataset.is_of_kernel && of.space.name == pool)
    }

    /// The databases whose tables, indexes or logs are on a dataset.
    pub fn databases_on<'a>(&'a self, dataset: &'a DatasetFacts) -> impl Iterator<Item = &'a DatabaseFacts> {
        let is_kept = |group: &FileGroup| {
            matches!(group.role, Role::Data | Role::Index | Role::Wal | Role::Binlog) && !group.is_read_only
        };
        self.databases.iter().filter(move |of| of.files_on(dataset).any(is_kept))
    }

    /// The datasets, each with the databases on it; those without a database are left out.
    pub fn used_datasets(&self) -> impl Iterator<Item = (&DatasetFacts, Vec<&DatabaseFacts>)> {
        let with = |of| (of, self.databases_on(of).collect::<Vec<_>>());
        self.datasets.iter().map(with).filter(|(_, databases)| !databases.is_empty())
    }
}

impl SystemFacts {
    /// A numeric parameter of the module.
    pub fn parameter(&self, name: &str) -> Option<u64> {
        self.parameters.get(name)?.parse().ok()
    }

    /// Whether the kernel has OpenZFS of this release or a later one.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        self.module.as_ref().is_some_and(|of| of.is_at_least(major, minor))
    }
}

impl PoolFacts {
    /// The top-level vdevs of a class.
    pub fn vdevs(&self, class: VdevClass) -> impl Iterator<Item = &VdevNode> {
        self.status.iter().flat_map(move |status| status.vdevs_of(class))
    }

    /// Whether all data vdevs are redundant; `None` if they are unknown.
    pub fn is_redundant(&self) -> Option<bool> {
        let mut data = self.vdevs(VdevClass::Data).peekable();
        data.peek()?;
        Some(data.all(is_redundant))
    }

    /// The exponent of the sector size: the largest of the data vdevs.
    pub fn ashift(&self) -> Option<u32> {
        self.disks.iter().filter(|disk| disk.class == VdevClass::Data).filter_map(|disk| disk.ashift).max()
    }

    /// The layout of the data vdevs: that of the first. `None` if it is unknown, or a dRAID.
    pub fn layout(&self) -> Option<Layout> {
        layout_of(self.vdevs(VdevClass::Data).next()?)
    }
}

/// Whether a vdev survives the loss of a disk.
pub fn is_redundant(vdev: &VdevNode) -> bool {
    ["mirror", "raidz", "draid"].contains(&vdev.kind.as_str())
}

impl DatasetFacts {
    /// Whether files are on it.
    pub fn has_files(&self, group: &FileGroup) -> bool {
        self.name == group.dataset && self.is_of_kernel == group.is_of_kernel
    }

    /// The value of a property.
    pub fn value(&self, property: &str) -> Option<&str> {
        Some(self.properties.get(property)?.value.as_str())
    }

    /// Whether a property has this value.
    pub fn has(&self, property: &str, value: &str) -> bool {
        self.value(property) == Some(value)
    }

    /// A property that is a number or a size.
    pub fn number(&self, property: &str) -> Option<u64> {
        self.value(property)?.parse().ok()
    }

    /// `recordsize` of a file system, `volblocksize` of a volume.
    pub fn block_size(&self) -> Option<u64> {
        self.number(self.block_property())
    }

    /// The name of the property that sets the block size.
    pub fn block_property(&self) -> &'static str {
        match self.kind {
            DatasetKind::FileSystem => "recordsize",
            DatasetKind::Volume => "volblocksize",
        }
    }

    /// The figures of today's setting in the sample of its data.
    pub fn sampled_today(&self) -> Option<&Cell> {
        let codec = poolwright_openzfs::property::canonical("compression", self.value("compression")?);
        let block = self.block_size()?;
        let cells = &self.sample.as_ref()?.cells;
        cells.iter().find(|cell| cell.recordsize == block && cell.compression == codec)
    }

    /// The evidence for a property, as `zfs get` shows it: `zfs get sync tank/db: disabled (local)`.
    pub fn evidence(&self, property: &str) -> String {
        let command = if self.is_of_kernel { "zfs get" } else { "poolwright dataset get" };
        let found = self.properties.get(property).map_or_else(String::new, |of| {
            format!("{} ({})", poolwright_openzfs::property::canonical(property, &of.value), of.source)
        });
        format!("{command} {property} {}: {found}", self.name)
    }

    /// The command that sets a property.
    pub fn set(&self, property: &str, value: &str) -> String {
        let command = if self.is_of_kernel { "zfs set" } else { "poolwright dataset set" };
        format!("{command} {property}={value} {}", self.name)
    }
}

impl DatabaseFacts {
    /// The name of the system and the directory: `PostgreSQL in /var/lib/postgresql/15/main`.
    pub fn describe(&self) -> String {
        let title = self.layout.map_or("the files", |layout| layout.title);
        format!("{title} in {}", poolwright_base::quoted(&self.root))
    }

    /// Whether it has this layout.
    pub fn is(&self, layout: &str) -> bool {
        self.layout.is_some_and(|of| of.name == layout)
    }

    /// A setting of the database.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Its files on a dataset.
    pub fn files_on<'a>(&'a self, dataset: &'a DatasetFacts) -> impl Iterator<Item = &'a FileGroup> {
        self.files.iter().filter(|of| dataset.has_files(of))
    }

    /// Its tables and indexes on a dataset: what is read and rewritten in place.
    pub fn pages_on<'a>(&'a self, dataset: &'a DatasetFacts) -> impl Iterator<Item = &'a FileGroup> {
        self.files_on(dataset).filter(|of| matches!(of.role, Role::Data | Role::Index))
    }

    /// Whether a server runs on it, or none is needed. Also if that cannot be known.
    pub fn is_in_use(&self) -> bool {
        const WITHOUT_SERVER: [&str; 6] = ["sqlite", "lmdb", "bbolt", "duckdb", "rocksdb", "lucene"];
        self.server.is_some()
            || self.is_server_hidden
            || self.layout.is_none_or(|of| WITHOUT_SERVER.contains(&of.name))
    }

    /// Whether its server has files open with `O_DIRECT`.
    pub fn uses_direct_io(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.direct_files > 0)
    }

    /// Bytes of its tables and indexes on a dataset.
    pub fn page_bytes_on(&self, dataset: &DatasetFacts) -> u64 {
        self.pages_on(dataset).map(|of| of.bytes).sum()
    }

    /// The size of its own cache, if the server reports it.
    pub fn cache(&self) -> Option<u64> {
        let name = if self.is("mariadb") { "innodb_buffer_pool_size" } else { "shared_buffers" };
        self.setting(name)?.parse().ok()
    }
}

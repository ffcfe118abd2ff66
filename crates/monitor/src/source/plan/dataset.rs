//! The dataset of a mount: its properties and the counters of its reads and writes.

use std::collections::BTreeMap;

use poolwright_base::mountinfo::MountEntry;
use poolwright_plan::Settings;
use poolwright_zfs::datasets;
use poolwright_zfs::kernel::{Kstats, ZfsCommands};
use poolwright_zfs::user::{Client, Counters, Request, Value};

use crate::Result;
use crate::source::user_pool::{ANSWER_LIMIT, PROPERTIES};

/// The present state of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct PresentDataset {
    pub name: String,
    /// Property → value.
    pub properties: Settings,
    /// `None` if the dataset has no counters.
    pub io: Option<IoCounters>,
}

/// Reads and writes of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    pub read_bytes: u64,
    pub reads: u64,
    pub written_bytes: u64,
    pub writes: u64,
}

impl IoCounters {
    /// The difference to earlier counters; zero if they were reset.
    pub fn since(self, before: IoCounters) -> IoCounters {
        IoCounters {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            reads: self.reads.saturating_sub(before.reads),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            writes: self.writes.saturating_sub(before.writes),
        }
    }
}

/// Reads the dataset of a mount. `None` if the mount is of another file system.
pub fn read(mount: &MountEntry, commands: &ZfsCommands) -> Result<Option<PresentDataset>> {
    let name = mount.source.to_string_lossy().into_owned();
    match (datasets::is_dataset(mount), datasets::is_kernel(mount)) {
        (true, true) => kernel(name, commands).map(Some),
        (true, false) => user(name, mount),
        (false, _) => Ok(None),
    }
}

fn kernel(name: String, commands: &ZfsCommands) -> Result<PresentDataset> {
    let found = commands.properties_of(&name)?;
    let properties = found.map(|found| found.properties).unwrap_or_default();
    let properties = properties.into_iter().map(|(property, value)| (property, value.value)).collect();
    let pool_name = name.split('/').next().unwrap_or_default();
    let pools = Kstats::default().pools()?;
    let mut io = None;
    if let Some(pool) = pools.iter().find(|pool| pool.name() == pool_name) {
        pool.for_each_objset(["nread", "reads", "nwritten", "writes"], |dataset, counters| {
            if let [Some(read_bytes), Some(reads), Some(written_bytes), Some(writes)] = counters
                && dataset == name
            {
                io = Some(IoCounters { read_bytes, reads, written_bytes, writes });
            }
        })?;
    }
    Ok(PresentDataset { name, properties, io })
}

/// Asks the owner of the pool. `None` if the pool has no owner any more.
fn user(name: String, mount: &MountEntry) -> Result<Option<PresentDataset>> {
    let pool = name.split('/').next().unwrap_or_default();
    let Some(mut client) = Client::connect(pool)? else { return Ok(None) };
    client.set_timeout(ANSWER_LIMIT)?;
    let properties = PROPERTIES.map(str::to_owned).to_vec();
    let values: Vec<Value> = client.ask(&Request::Get { dataset: name.clone(), properties })?;
    let counters: Counters = client.ask(&Request::Counters)?;
    let io = counters.mounts.iter().find(|of| of.dataset == name && of.dir == mount.point).map(|of| {
        let ops = |op: &str| of.ops.get(op).copied().unwrap_or(0);
        IoCounters {
            read_bytes: of.read_bytes,
            reads: ops("read"),
            written_bytes: of.write_bytes,
            writes: ops("write"),
        }
    });
    let properties: BTreeMap<_, _> = values.into_iter().map(|value| (value.property, value.value)).collect();
    Ok(Some(PresentDataset { name, properties, io }))
}

//! The pool of a confirmation's trials, and the scratch space that they need.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_base::memory;
use poolwright_lab::campaign::PoolSpec;
use poolwright_openzfs::Device;
use poolwright_plan::{self as plan, EvidenceKind, Plan};

use crate::tree::Tree;
use crate::{Error, Options, Result};

/// Bytes of scratch space that a trial needs for a database of `bytes`: an uncompressed copy, the same again for what the load
/// writes, and 512 MiB for the pool itself.
pub(crate) fn scratch_bytes(bytes: u64) -> u64 {
    bytes.saturating_mul(2).saturating_add(512 << 20)
}

/// Bytes of memory that a trial needs if its scratch directory is in memory: the files and a part of the ARC.
///
/// # Errors
/// [`Error::Host`] if the database's directory `dir` cannot be read.
pub fn memory_bytes(plan: &Plan, dir: &Path) -> Result<u64> {
    let arc = plan.machine.arc_bytes.unwrap_or(0);
    Ok(scratch_bytes(Tree::scan(dir)?.bytes) + arc / 2)
}

/// The pool that the plan's trials had: their ARC, device and sector size.
///
/// # Errors
/// [`Error::Memory`] if the machine has less memory than that ARC.
pub(crate) fn pool(plan: &Plan, options: &Options) -> Result<PoolSpec> {
    let arc = plan.machine.arc_bytes.unwrap_or(512 << 20);
    let memory = memory::total().unwrap_or(u64::MAX);
    if arc > memory {
        return Err(Error::Memory { arc, memory });
    }
    let trials = plan.roles.iter().flat_map(|role| &role.evidence).filter(|e| e.kind == EvidenceKind::Trial);
    let ashift = trials.filter_map(|e| e.ashift).next().unwrap_or(plan.pool.ashift);
    Ok(PoolSpec {
        ashift: ashift.into(),
        arc: arc.to_string(),
        device: device(&plan.machine.device),
        caching: options.caching.clone(),
        tunables: BTreeMap::from([("zfs_dirty_data_max".to_owned(), options.dirty_bytes.to_string())]),
        ..PoolSpec::default()
    })
}

/// The plan's device in the syntax of `mount --device`: the name of the profile if this release has it with the same figures,
/// otherwise the figures.
fn device(device: &plan::Device) -> String {
    let ns = |value: Option<u64>| value.unwrap_or(0);
    let named = Device::parse(&device.profile).ok().filter(|named| {
        named.name == "none"
            || named.read_latency_ns == ns(device.read_latency_ns)
                && named.write_latency_ns == ns(device.write_latency_ns)
                && named.flush_latency_ns == ns(device.flush_latency_ns)
                && named.read_bytes_s == ns(device.read_bytes_s)
                && named.write_bytes_s == ns(device.write_bytes_s)
                && named.cache_bytes == ns(device.cache_bytes)
    });
    if named.is_some() {
        return device.profile.clone();
    }
    format!(
        "read={}ns,write={}ns,flush={}ns,seek={}ns,cache={},read_bw={},write_bw={},iops={},depth={}",
        ns(device.read_latency_ns),
        ns(device.write_latency_ns),
        ns(device.flush_latency_ns),
        ns(device.seek_ns),
        ns(device.cache_bytes),
        ns(device.read_bytes_s),
        ns(device.write_bytes_s),
        ns(device.iops),
        device.queue_depth.unwrap_or(32),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plans_device_is_the_trials_device() {
        let plan = |text: &str| {
            let d = Device::parse(text).unwrap();
            let some = |v: u64| (v > 0).then_some(v);
            plan::Device {
                profile: d.name.clone(),
                read_latency_ns: some(d.read_latency_ns),
                write_latency_ns: some(d.write_latency_ns),
                flush_latency_ns: some(d.flush_latency_ns),
                read_bytes_s: some(d.read_bytes_s),
                write_bytes_s: some(d.write_bytes_s),
                seek_ns: some(d.seek_ns),
                cache_bytes: some(d.cache_bytes),
                iops: some(d.iops),
                queue_depth: Some(d.queue_depth),
            }
        };
        for text in [
            "none",
            "nvme",
            "hdd",
            "4xsata-ssd",
            "read=80us,flush=1ms,seek=2ms,cache=16M,write_bw=1M,iops=900,depth=4",
        ] {
            let again = Device::parse(&device(&plan(text))).unwrap();
            assert_eq!(again, Device::parse(text).unwrap(), "{text}");
        }
        // A profile whose figures have changed since the plan was made.
        let old = plan::Device { read_latency_ns: Some(1), ..plan("nvme") };
        assert_eq!(Device::parse(&device(&old)).unwrap().read_latency_ns, 1);
        let old = plan::Device { cache_bytes: None, ..plan("hdd") };
        assert_eq!(Device::parse(&device(&old)).unwrap().cache_bytes, 0);
    }
}

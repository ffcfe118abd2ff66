//! The pools of the kernel and their disks.

use std::path::{Path, PathBuf};

use poolwright_base::block::physical_sector_of;
use poolwright_zfs::kernel::command::status::{KernelPool, VdevClass, VdevNode};
use poolwright_zfs::kernel::command::vdev_counters::VdevCounters;
use poolwright_zfs::kernel::kstat::PoolKstats;
use poolwright_zfs::kernel::{HealthState, Kstats, ZfsCommands};

use super::known;
use crate::facts::{DiskFacts, PoolFacts};

/// Where the names of disks that `zpool status` prints are found.
const DIRECTORIES: [&str; 6] = [
    "/dev",
    "/dev/disk/by-id",
    "/dev/disk/by-partuuid",
    "/dev/disk/by-path",
    "/dev/disk/by-vdev",
    "/dev/mapper",
];

/// Reads the pools that are used.
pub fn read(
    commands: &ZfsCommands,
    is_used: impl Fn(&str) -> bool,
    unknown: &mut Vec<String>,
) -> Vec<PoolFacts> {
    let listed = known(commands.list(), "the pools", unknown).unwrap_or_default();
    let used: Vec<_> = listed.into_iter().filter(|pool| is_used(&pool.name)).collect();
    if used.is_empty() {
        return Vec::new();
    }
    let states = known(commands.status(), "the state of the pools", unknown).unwrap_or_default();
    let pool = |space: poolwright_zfs::kernel::command::space::PoolSpace| {
        let status = states.iter().find(|of| of.name == space.name).cloned();
        let disks = status.as_ref().map(|status| disks(commands, status, unknown)).unwrap_or_default();
        PoolFacts { space, status, disks }
    };
    used.into_iter().map(pool).collect()
}

/// The names of the suspended pools.
pub fn suspended(kstats: &Kstats, unknown: &mut Vec<String>) -> Vec<String> {
    let pools = known(kstats.pools(), "the states of the pools", unknown).unwrap_or_default();
    let is_suspended = |pool: &PoolKstats| matches!(pool.state(), Ok(Some(HealthState::Suspended)));
    pools.iter().filter(|pool| is_suspended(pool)).map(|pool| pool.name().to_owned()).collect()
}

fn disks(commands: &ZfsCommands, pool: &KernelPool, unknown: &mut Vec<String>) -> Vec<DiskFacts> {
    let name = &pool.name;
    let counters = known(commands.vdev_counters(name), &format!("the vdevs of {name}"), unknown).flatten();
    if counters.is_none() {
        unknown.push(format!("{name}: the ashift of its vdevs, which OpenZFS shows since 2.2"));
    }
    let ashift = |vdev: &VdevNode| exponent(counters.as_deref()?, vdev);
    let (mut disks, mut top) = (Vec::new(), None);
    for (depth, vdev) in pool.walk() {
        let is_top = depth == usize::from(vdev.class == VdevClass::Data);
        if is_top {
            top = ashift(vdev);
        }
        if vdev.children.is_empty() && vdev.class != VdevClass::Spare {
            let sector = path_of(&vdev.name).and_then(|path| physical_sector_of(&path));
            disks.push(DiskFacts { name: vdev.name.clone(), class: vdev.class, ashift: top, sector });
        }
    }
    disks
}

fn exponent(counters: &[VdevCounters], vdev: &VdevNode) -> Option<u32> {
    let found = counters.iter().find(|of| of.guid.is_some() && of.guid == vdev.guid)?;
    found.get("ashift").filter(|ashift| *ashift > 0)?.try_into().ok()
}

/// The device file of a disk.
fn path_of(name: &str) -> Option<PathBuf> {
    let absolute = Some(PathBuf::from(name)).filter(|path| path.is_absolute());
    absolute.or_else(|| DIRECTORIES.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists()))
}

#[cfg(test)]
mod tests {
    use poolwright_zfs::kernel::CommandOptions;

    use super::*;
    use crate::facts::is_redundant;

    /// The pool `tank` of a capture of crates/zfs.
    fn tank(fake: &str) -> (PoolFacts, Vec<String>) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zfs/tests/fake").join(fake);
        let (zpool, zfs) = (Some(dir.join("zpool")), Some(dir.join("zfs")));
        let options = CommandOptions { zpool, zfs, device: None, ..CommandOptions::default() };
        let mut unknown = Vec::new();
        let pools = read(&ZfsCommands::new(options), |pool| pool == "tank", &mut unknown);
        (pools.into_iter().next().unwrap(), unknown)
    }

    #[test]
    fn a_pool_of_2_3_with_vdevs_of_all_classes() {
        let (tank, unknown) = tank("healthy");
        assert_eq!((tank.ashift(), unknown), (Some(12), vec![]));
        assert_eq!(tank.layout(), Some(poolwright_estimate::Layout::Mirror));
        for class in [VdevClass::Data, VdevClass::Special, VdevClass::Dedup, VdevClass::Log] {
            let vdevs: Vec<_> = tank.vdevs(class).collect();
            assert!(!vdevs.is_empty() && vdevs.iter().all(|vdev| vdev.class == class), "{class:?}");
            assert!(vdevs.iter().all(|vdev| vdev.kind != "root"), "{class:?}");
        }
        assert!(tank.vdevs(VdevClass::Data).all(is_redundant));
        assert!(tank.disks.iter().all(|disk| disk.class != VdevClass::Spare && disk.sector.is_none()));
    }

    #[test]
    fn a_pool_of_2_1_shows_no_ashift() {
        let (tank, unknown) = tank("old");
        assert_eq!(tank.ashift(), None);
        assert!(unknown.iter().any(|text| text.contains("ashift")), "{unknown:?}");
        assert_eq!(tank.layout(), Some(poolwright_estimate::Layout::Raidz { parity: 1, disks: 3 }));
    }
}

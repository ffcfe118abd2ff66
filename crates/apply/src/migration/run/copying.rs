//! The steps that copy files: into the datasets of the new pool, and back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_base::directory::Directory;
use poolwright_base::{cannot, quoted, room, time};
use poolwright_dbms::directories::SNAPSHOTS;
use poolwright_zfs::datasets::{DatasetAdmin as _, KernelDatasets, pool_of};
use poolwright_zfs::kernel::DatasetChange;

use super::{MigrationRun, not_copied};
use crate::assessment::RESERVE;
use crate::error::refused;
use crate::migration::mounting::{CANMOUNT, MOUNTPOINT, PlacedDataset, make_dir};
use crate::migration::standby::SpaceReserve;
use crate::migration::state::{CopiedRound, MigrationState, SideDigests};
use crate::migration::work::{DatasetMove, Direction, MigrationWork, PoolEngine, SnapshotSlot};
use crate::relocation::PLAN_PROPERTY;
use crate::rewrite::{
    CopiedSnapshot, Rate, TreeContents, TreeCopier, copy_directory_attributes, open_trusted,
};
use crate::{Error, Result, Stage};

/// The rounds of copying while the database runs.
const ROUNDS: usize = 4;
/// A further round is not worth it if the last one took less than this.
const SHORT: Duration = Duration::from_secs(2);
/// How many bytes are copied between two checks of the free space.
const SPACE_EVERY: u64 = 32 << 20;
/// How often the free space of the database's pool is checked.
const RESERVE_EVERY: Duration = Duration::from_secs(1);
/// How long before a snapshot a file must have been changed for its copy to be kept, in nanoseconds.
const MARGIN_NS: i64 = 1_000_000_000;

impl MigrationRun<'_> {
    /// Mounts the datasets from which files are copied in their places, and those to which they are copied in the staging directory; those
    /// of the new pool are created.
    pub(super) fn prepare(&mut self, direction: Direction) -> Result<()> {
        self.mount_places(direction)?;
        make_dir(&self.state().work.staging)?;
        for of in &self.state().work.moves {
            let (_, to) = of.ends(direction);
            let placed = PlacedDataset::open(to)?;
            if !placed.exists()? {
                self.create(of, &placed)?;
            }
            if !placed.is_on(&of.staging)? {
                placed.unmount(self.observer)?;
                placed.park(&of.staging, self.observer)?;
                placed.mount(&of.staging, self.observer)?;
            }
            if direction == Direction::Back {
                // Until the files are back, they can still be had as they were when the database moved.
                let name = format!("{to}@{}", self.state().work.before_return());
                if placed.admin.snapshots(to)?.iter().all(|of| of.name != name) {
                    placed.change(&DatasetChange::Snapshot { name }, self.observer)?;
                }
            }
        }
        Ok(())
    }

    /// Mounts the datasets on their mount points again, and allows them to be mounted when their pools are imported.
    pub(super) fn mount_places(&mut self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Forth => self.resettle_sources(),
            Direction::Back => self.settle_targets(),
        }
    }

    /// Mounts the datasets of the new pool on their mount points, the outer ones first.
    pub(super) fn settle_targets(&mut self) -> Result<()> {
        let work = self.state().work;
        for of in &work.moves {
            self.uncover(of, Direction::Back)?;
            PlacedDataset::open(&of.target)?.settle(of, self.observer)?;
        }
        self.release_targets()
    }

    /// Mounts the database's former datasets on their mount points again, with their former properties. These are restored while nothing
    /// is mounted, because `zfs inherit` unmounts a dataset, which fails if another one is mounted in it, and changes the directory on which
    /// it is mounted. The one with the database's directory is the last that can be mounted at start.
    pub(super) fn resettle_sources(&mut self) -> Result<()> {
        let work = self.state().work;
        let mut is_restored = true;
        for of in &work.moves {
            is_restored &= PlacedDataset::open(&of.source)?.is_restored(of)?;
        }
        if !is_restored {
            for of in work.moves.iter().rev() {
                PlacedDataset::open(&of.source)?.unmount(self.observer)?;
            }
            for of in &work.moves {
                let placed = PlacedDataset::open(&of.source)?;
                placed.check_free(&of.mountpoint)?;
                placed.hold_back(self.observer)?;
                placed.restore(of, MOUNTPOINT, self.observer)?;
            }
            let (holders, others): (Vec<_>, Vec<_>) = work.moves.iter().partition(|of| work.is_holder(of));
            for of in others.into_iter().chain(holders) {
                PlacedDataset::open(&of.source)?.restore(of, CANMOUNT, self.observer)?;
            }
        }
        for of in &work.moves {
            self.uncover(of, Direction::Forth)?;
            PlacedDataset::open(&of.source)?.mount(&of.mountpoint, self.observer)?;
        }
        Ok(())
    }

    /// Before an outer dataset is mounted, unmounts those that were mounted in its directories when their pool was imported: it would be
    /// mounted over them.
    fn uncover(&mut self, outer: &DatasetMove, direction: Direction) -> Result<()> {
        if PlacedDataset::open(outer.ends(direction).0)?.is_on(&outer.mountpoint)? {
            return Ok(());
        }
        let is_inner = |of: &&DatasetMove| {
            of.mountpoint != outer.mountpoint && of.mountpoint.starts_with(&outer.mountpoint)
        };
        for of in self.state().work.moves.iter().rev().filter(is_inner) {
            let placed = PlacedDataset::open(of.ends(direction).0)?;
            if placed.is_on(&of.mountpoint)? {
                placed.unmount(self.observer)?;
            }
        }
        Ok(())
    }

    /// Lets the datasets of the new pool be mounted when it is imported, the one with the database's directory last.
    pub(super) fn release_targets(&mut self) -> Result<()> {
        let work = self.state().work;
        let (holders, others): (Vec<_>, Vec<_>) = work.moves.iter().partition(|of| work.is_holder(of));
        for of in others.into_iter().chain(holders) {
            PlacedDataset::open(&of.target)?.release(of, self.observer)?;
        }
        Ok(())
    }

    /// Creates a dataset with all its properties, or none. OpenZFS creates a dataset first, and then sets its properties: after a crash
    /// in between, it would not have the mark of the plan, and could be mounted over another one. So it gets its name at the end.
    fn create(&mut self, of: &DatasetMove, placed: &PlacedDataset<'_>) -> Result<()> {
        let mut settings = of.settings.clone();
        if placed.engine == PoolEngine::User {
            return placed
                .change(&DatasetChange::Create { dataset: of.target.clone(), settings }, self.observer);
        }
        self.destroy_unnamed(of)?;
        let work = self.state().work;
        let dataset = unnamed(&work, of);
        settings.insert(MOUNTPOINT.to_owned(), of.staging.to_string_lossy().into_owned());
        settings.insert(CANMOUNT.to_owned(), "noauto".to_owned());
        settings.insert(PLAN_PROPERTY.to_owned(), work.plan);
        placed.change(&DatasetChange::Create { dataset: dataset.clone(), settings }, self.observer)?;
        placed.change(&DatasetChange::Rename { dataset, to: of.target.clone() }, self.observer)
    }

    /// Destroys what a crash left of a dataset that was being created. It is empty.
    pub(super) fn destroy_unnamed(&mut self, of: &DatasetMove) -> Result<()> {
        let work = self.state().work;
        if work.engine == PoolEngine::User {
            return Ok(());
        }
        let dataset = unnamed(&work, of);
        let placed = PlacedDataset::open(&dataset)?;
        if !placed.exists()? {
            return Ok(());
        }
        placed.unmount(self.observer)?;
        placed.change(&DatasetChange::DestroyLeaf { dataset: dataset.clone() }, self.observer)
    }

    /// Refuses a dataset with the name of a new one that was not created for this plan.
    pub(super) fn check_own(&self, of: &DatasetMove, placed: &PlacedDataset<'_>) -> Result<()> {
        if placed.engine == PoolEngine::User {
            return Ok(());
        }
        match placed.admin.user_property(&of.target, PLAN_PROPERTY)? {
            Some(found) if found == self.state().work.plan => Ok(()),
            _ => refused(format!("{} was not created for this plan", of.target)),
        }
    }

    /// Copies snapshots while the database runs, until a round is short.
    pub(super) fn copy_online(&mut self, direction: Direction) -> Result<()> {
        let rate = self.options.rate;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            self.copy_round(direction, Stage::Copy, rate)?;
            if start.elapsed() <= SHORT {
                break;
            }
        }
        // The files are listed twice while the database is stopped, and those that it writes until then are copied and compared.
        let start = Instant::now();
        self.copy_round(direction, Stage::Copy, None)?;
        let expected = start.elapsed();
        self.outcome.expected_downtime_s = Some(expected.as_secs_f64());
        self.options.announce_downtime(expected, self.observer)
    }

    /// Copies what has changed since the last round, while the database is stopped.
    pub(super) fn copy_stopped(&mut self, direction: Direction) -> Result<()> {
        let contents = self.copy_round(direction, Stage::Update, None)?;
        (self.outcome.files, self.outcome.bytes) = (contents.files, contents.bytes);
        if let Some(note) = not_copied(&contents.skipped) {
            self.observer.note(&note);
        }
        Ok(())
    }

    /// Takes snapshots, and copies what differs from the last one that was copied and compared.
    pub(super) fn copy_round(
        &mut self,
        direction: Direction,
        stage: Stage,
        rate: Option<u64>,
    ) -> Result<TreeContents> {
        self.observer.stage(stage);
        let state = self.state();
        let slot = state.copied.map_or(SnapshotSlot::A, |copied| copied.slot.other());
        let before_ns = (time::unix_seconds() * 1e9) as i64 - MARGIN_NS;
        self.sync(direction)?;
        self.take_snapshots(direction, slot)?;
        let mut sum = TreeContents::default();
        let total = self.total(direction)?;
        let mut copier = Copying { run: self, rate: Rate::new(rate), done: 0, checked: 0, total };
        for of in &state.work.moves {
            let later = OpenSnapshot::open(of, direction, &state.work.snapshot(slot))?;
            let earlier = state.copied.map(|copied| {
                let open = OpenSnapshot::open(of, direction, &state.work.snapshot(copied.slot))?;
                Ok::<_, Error>((open, copied.before_ns))
            });
            let earlier = earlier.transpose()?;
            let contents = copier.copy(&later, &of.staging, earlier.as_ref())?;
            // The kernel unmounts a snapshot that was not used for a while. The files must be those of the snapshot to the end.
            later.check()?;
            earlier.iter().try_for_each(|(open, _)| open.check())?;
            sum.files += contents.files;
            sum.bytes += contents.bytes;
            sum.skipped.extend(contents.skipped);
        }
        self.sync(direction)?;
        let copied = Some(CopiedRound { slot, before_ns });
        self.enter(|state| MigrationState { copied, ..state })?;
        Ok(sum)
    }

    /// Refuses if a file was written since the last snapshot, by a program that has closed it again. `digests` is the present state.
    pub(super) fn check_unwritten(&self, direction: Direction, digests: &SideDigests) -> Result<()> {
        let state = self.state();
        let Some(copied) = state.copied else { return refused("nothing was copied") };
        let name = state.work.snapshot(copied.slot);
        let open: Vec<OpenSnapshot> = state
            .work
            .moves
            .iter()
            .map(|of| OpenSnapshot::open(of, direction, &name))
            .collect::<Result<_>>()?;
        let of_snapshot = self.digest(|of| of.mountpoint.join(SNAPSHOTS).join(&name))?;
        open.iter().try_for_each(OpenSnapshot::check)?;
        let present = match direction {
            Direction::Forth => &digests.source,
            Direction::Back => &digests.target,
        };
        match *present == of_snapshot {
            true => Ok(()),
            false => refused(
                "a program has written files of the database while it was stopped\nhint: stop that program too",
            ),
        }
    }

    /// The bytes of all files twice, because copies are compared.
    fn total(&self, direction: Direction) -> Result<u64> {
        let mut total = 0;
        for of in &self.state().work.moves {
            let (from, _) = of.ends(direction);
            let tree = PlacedDataset::open(from)?.admin.tree(from)?;
            total += tree.first().map_or(0, |of| of.logical_referenced);
        }
        Ok(total * 2)
    }

    /// Takes snapshots of the datasets from which files are copied, all in one step, replacing earlier ones with this name.
    fn take_snapshots(&mut self, direction: Direction, slot: SnapshotSlot) -> Result<()> {
        let work = self.state().work;
        let names: Vec<String> =
            work.moves.iter().map(|of| format!("{}@{}", of.ends(direction).0, work.snapshot(slot))).collect();
        self.destroy_snapshots(direction, slot)?;
        let placed = PlacedDataset::open(work.moves[0].ends(direction).0)?;
        placed.change(&DatasetChange::SnapshotAll { names }, self.observer)
    }

    /// Destroys all snapshots that were taken.
    pub(super) fn remove_snapshots(&mut self) -> Result<()> {
        self.remove_slots()?;
        let MigrationState { work, standby, .. } = self.state();
        if !standby {
            return work
                .moves
                .iter()
                .try_for_each(|of| self.destroy_snapshot(&of.source, &work.before_return()));
        }
        for of in &work.moves {
            let name = format!("{}@{}", of.source, work.before_return());
            let snapshots = PlacedDataset::open(&of.source)?.admin.snapshots(&of.source)?;
            self.outcome
                .kept_snapshots
                .extend(snapshots.into_iter().map(|of| of.name).filter(|of| *of == name));
        }
        Ok(())
    }

    /// Destroys the snapshots from which files were copied.
    pub(super) fn remove_slots(&mut self) -> Result<()> {
        for slot in SnapshotSlot::ALL {
            self.destroy_snapshots(Direction::Forth, slot)?;
            self.destroy_snapshots(Direction::Back, slot)?;
        }
        Ok(())
    }

    fn destroy_snapshots(&mut self, direction: Direction, slot: SnapshotSlot) -> Result<()> {
        let work = self.state().work;
        let name = work.snapshot(slot);
        work.moves.iter().try_for_each(|of| self.destroy_snapshot(of.ends(direction).0, &name))
    }

    fn destroy_snapshot(&mut self, dataset: &str, snapshot: &str) -> Result<()> {
        let name = format!("{dataset}@{snapshot}");
        let placed = PlacedDataset::open(dataset)?;
        match placed.admin.snapshots(dataset)?.iter().any(|of| of.name == name) {
            true => placed.change(&DatasetChange::DestroySnapshot { name }, self.observer),
            false => Ok(()),
        }
    }

    /// Writes what the host has cached for the datasets, and waits until it is on disk in both pools.
    pub(super) fn sync(&self, direction: Direction) -> Result<()> {
        for of in &self.state().work.moves {
            let (from, to) = of.ends(direction);
            for (dataset, dir) in [(from, &of.mountpoint), (to, &of.staging)] {
                sync_dir(dir)?;
                let pool = pool_of(dataset).to_owned();
                PlacedDataset::open(dataset)?.admin.change(&DatasetChange::Sync { pool })?;
            }
        }
        Ok(())
    }
}

/// Copies and compares trees, and shows the progress.
struct Copying<'r, 'a> {
    run: &'r mut MigrationRun<'a>,
    rate: Rate,
    done: u64,
    checked: u64,
    total: u64,
}

impl Copying<'_, '_> {
    /// Makes `to` equal to the root directory of a snapshot, and compares both. `earlier` is the one that was copied before, and a time
    /// before it was taken.
    fn copy(
        &mut self,
        from: &OpenSnapshot,
        to: &Path,
        earlier: Option<&(OpenSnapshot, i64)>,
    ) -> Result<TreeContents> {
        let copied = earlier
            .map(|(earlier, before_ns)| CopiedSnapshot { earlier: &earlier.open, before_ns: *before_ns });
        let target = open_trusted(to)?;
        if self.run.except.contains(to) {
            copy_directory_attributes(&from.open, &target)?;
            return Ok(TreeContents::default());
        }
        let contents = self.copier(to, copied).copy(&from.open, &target)?;
        self.copier(to, copied).compare(&from.open, &target)?;
        Ok(contents)
    }

    fn copier<'c>(&'c mut self, to: &Path, copied: Option<CopiedSnapshot<'c>>) -> TreeCopier<'c> {
        let except: Vec<PathBuf> =
            self.run.except.iter().filter(|path| path.starts_with(to)).cloned().collect();
        let reserve = self.run.reserve.clone();
        let mut reserve_checked = Instant::now();
        let observer = &mut *self.run.observer;
        let (rate, done, checked, total) = (&mut self.rate, &mut self.done, &mut self.checked, self.total);
        let target = to.to_owned();
        let copier = TreeCopier::new(move |bytes| {
            if observer.is_interrupted() {
                return Err(Error::Interrupted);
            }
            *done += bytes;
            observer.progress(*done, total);
            rate.wait(bytes);
            if reserve_checked.elapsed() >= RESERVE_EVERY {
                reserve_checked = Instant::now();
                if let Some(why) = reserve.as_ref().and_then(SpaceReserve::shortage) {
                    return Err(Error::Refused(why));
                }
            }
            if *done >= *checked + SPACE_EVERY {
                *checked = *done;
                check_space(&target)?;
            }
            Ok(())
        });
        let copier = copier.except(except);
        match copied {
            Some(copied) => copier.since(copied),
            None => copier,
        }
    }
}

/// The root directory of a snapshot, open so that the kernel does not unmount it.
struct OpenSnapshot {
    root: PathBuf,
    /// The name of the snapshot, if the kernel mounts it.
    mounted: Option<String>,
    open: Directory,
}

impl OpenSnapshot {
    fn open(of: &DatasetMove, direction: Direction, snapshot: &str) -> Result<OpenSnapshot> {
        let (from, _) = of.ends(direction);
        let root = of.mountpoint.join(SNAPSHOTS).join(snapshot);
        let open = open_trusted(&root)?;
        let is_kernel = PlacedDataset::open(from)?.engine == PoolEngine::Kernel;
        let mounted = is_kernel.then(|| format!("{from}@{snapshot}"));
        let opened = OpenSnapshot { root, mounted, open };
        opened.check()?;
        Ok(opened)
    }

    /// Refuses a snapshot that the kernel could not mount: it would look like an empty directory.
    fn check(&self) -> Result<()> {
        let Some(name) = &self.mounted else { return Ok(()) };
        match KernelDatasets::default().shows_snapshot(name, &self.root)? {
            true => Ok(()),
            false => refused(format!("the snapshot {name} is not mounted on {}", quoted(&self.root))),
        }
    }
}

/// The name that a dataset of the kernel has until it has its properties.
fn unnamed(work: &MigrationWork, of: &DatasetMove) -> String {
    let number = of.staging.file_name().unwrap_or_default().to_string_lossy();
    format!("{}/poolwright-{}-move-{number}", work.parent, work.plan)
}

fn check_space(dir: &Path) -> Result<()> {
    match room::available(dir) {
        Ok(available) if available < RESERVE => {
            refused("the new pool has no space left\nhint: free space, or undo this and name another pool")
        }
        _ => Ok(()),
    }
}

fn sync_dir(dir: &PathBuf) -> Result<()> {
    let open = File::open(dir).map_err(cannot("open", dir))?;
    Ok(rustix::fs::syncfs(&open).map_err(cannot("sync", dir))?)
}

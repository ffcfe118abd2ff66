//! The steps from one state to the other: setting properties, copying, stopping the database, and starting it.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use poolwright_base::writers::{find_writer_of_mounts, find_writers_of_mounts};
use poolwright_dbms::service;
use poolwright_zfs::datasets::{SnapshotSummary, pool_of};
use poolwright_zfs::kernel::DatasetChange;

use super::space::{SpaceContext, SpaceWatch};
use super::{Action, OpenDataset, Outcome, Run};
use crate::error::refused;
use crate::journal::JournalPhase;
use crate::observer::Stage;
use crate::rewrite::{FileEntry, FileIdentity, FileScan, Rate, directories};
use crate::work::{Direction, PropertyChange};
use crate::{Error, Result};

/// The rounds of copying while the database runs.
const ROUNDS: usize = 4;
/// Further rounds are not worth it if less than this share of the bytes has changed.
const SETTLED: f64 = 0.02;

/// A file to copy.
type Pending = (usize, FileEntry);

impl Run<'_> {
    /// Converts the datasets to the properties of a direction, from whatever state the journal records.
    pub(super) fn convert(mut self, direction: Direction, mut datasets: Vec<OpenDataset>) -> Result<Outcome> {
        match self.run(direction, &mut datasets) {
            Ok(()) => Ok(self.outcome),
            Err(error) => Err(self.recover(direction, error)),
        }
    }

    fn run(&mut self, direction: Direction, datasets: &mut [OpenDataset]) -> Result<()> {
        self.set_properties(direction, datasets)?;
        if direction == Direction::Apply {
            self.create_datasets(datasets)?;
        }
        let resumed = self.phase() >= JournalPhase::Committing;
        if !datasets.iter().any(|of| of.work.rewrites()) {
            // Properties alone take effect at once.
        } else if self.phase() < JournalPhase::Committed {
            if self.options.online && !resumed {
                self.copy_online(direction, datasets)?;
            }
            let stopped = self.stop(direction)?;
            self.rewrite(direction, datasets)?;
            self.start(stopped)?;
        } else {
            self.start(None)?;
        }
        if direction == Direction::Undo {
            let state = self.state();
            self.destroy_snapshots(datasets, &state)?;
            self.destroy_relocated(datasets)?;
        }
        self.journal.enter(direction, JournalPhase::Done)?;
        self.outcome.action = match direction {
            Direction::Apply => Action::Applied,
            Direction::Undo => Action::Undone,
        };
        if direction == Direction::Apply {
            self.outcome.snapshots = self.existing_snapshots(&self.state())?;
        }
        Ok(())
    }

    fn phase(&self) -> JournalPhase {
        self.journal.state().map_or(JournalPhase::Copying, |state| state.phase)
    }

    /// Sets the properties that do not have their values yet.
    pub(super) fn set_properties(&mut self, direction: Direction, datasets: &[OpenDataset]) -> Result<()> {
        self.observer.stage(Stage::Properties);
        changes(direction, datasets).try_for_each(|(of, change)| self.set_property(direction, of, change))
    }

    pub(super) fn set_property(
        &mut self,
        direction: Direction,
        of: &OpenDataset,
        change: &PropertyChange,
    ) -> Result<()> {
        let present = of.admin.properties(&change.dataset)?;
        match change.is_done(direction, present.get(&change.property)) {
            true => Ok(()),
            false => self.change(&*of.admin, &change.command(direction)),
        }
    }

    /// Copies all files while the database runs, then those that have changed since, until little changes.
    fn copy_online(&mut self, direction: Direction, datasets: &mut [OpenDataset]) -> Result<()> {
        self.observer.stage(Stage::Copy);
        let mut rate = Rate::new(self.options.rate);
        let (mut first, mut bytes_s) = (0, f64::INFINITY);
        let mut expected = Duration::ZERO;
        for round in 0..ROUNDS {
            let start = Instant::now();
            let pending = pending(direction, datasets, &scan_all(datasets)?);
            let moved: u64 = relocated_scans(datasets)?.iter().map(FileScan::bytes).sum();
            let (scanning, bytes) = (start.elapsed(), total(&pending));
            // The files are listed three times while the database is stopped. Directories that move are copied then.
            expected = scanning * 3 + Duration::from_secs_f64((bytes + moved) as f64 / bytes_s);
            if round > 0 && (bytes as f64) <= first as f64 * SETTLED {
                break;
            }
            let copying = Instant::now();
            self.copy_all(datasets, pending, &mut rate, true)?;
            if round == 0 {
                first = bytes;
                bytes_s = (bytes.max(1) as f64) / copying.elapsed().as_secs_f64().max(1e-6);
            }
        }
        self.outcome.expected_downtime_s = Some(expected.as_secs_f64());
        self.options.announce_downtime(expected, self.observer)
    }

    /// Stops the database. Returns since when it is stopped, if it was running.
    fn stop(&mut self, direction: Direction) -> Result<Option<Instant>> {
        if self.observer.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let (roots, service) = (self.roots(), &self.options.service);
        let is_running = service.is_running(&roots)?;
        let start = Instant::now();
        if is_running || self.phase() < JournalPhase::Stopped {
            // Before the command: after a crash, the database is started again.
            self.journal.enter_stopped(direction, is_running && service.is_known())?;
        }
        match is_running {
            true => {
                self.observer.stage(Stage::Stop);
                self.downtime.stop(service, self.observer, &roots)?;
            }
            false => {
                self.downtime.keep_stopped(service, self.observer)?;
                service::check_unused(service, &roots)?;
            }
        }
        Ok(is_running.then_some(start))
    }

    /// The part during which the database is stopped.
    fn rewrite(&mut self, direction: Direction, datasets: &mut [OpenDataset]) -> Result<()> {
        let is_resumed = self.phase() >= JournalPhase::Committing;
        if !is_resumed {
            for of in datasets.iter() {
                of.copies.restore_mount_point()?;
                of.moving.restore_times()?;
            }
        }
        self.sync(datasets)?;
        if direction == Direction::Apply {
            self.take_snapshots(datasets)?;
        }
        let scans = scan_all(datasets)?;
        let at_snapshot = [identities(&scans), identities(&relocated_scans(datasets)?)];
        self.observer.stage(Stage::Update);
        let pending = pending(direction, datasets, &scans);
        self.copy_all(datasets, pending, &mut Rate::new(None), false)?;
        self.copy_relocated(direction, datasets)?;
        let scans = scan_all(datasets)?;
        let is_unchanged = [identities(&scans), identities(&relocated_scans(datasets)?)] == at_snapshot;
        let of_scans: Vec<Vec<&FileEntry>> =
            datasets.iter().zip(&scans).map(|(of, scan)| to_rewrite(direction, of, scan)).collect();
        for (of, files) in datasets.iter().zip(&of_scans) {
            files.iter().try_for_each(|file| file.check_links())?;
            FileScan::check_directories(of.root(), files.iter().copied())?;
            of.work.relocations.iter().try_for_each(|moves| moves.check_replaceable(of.root()))?;
            check_copied(of, files)?;
            // Not all files of a dataset may have copies: some have the right block size already.
            of.copies.sync_records()?;
        }
        for (at, (of, scan)) in datasets.iter().zip(&scans).enumerate() {
            of.copies.remove_stale(scan)?;
            // A resumed run finds times that renaming has changed.
            if !is_resumed {
                directories::save(&self.journal.directories(direction, at), &scan.directories)?;
            }
        }
        self.sync(datasets)?;
        self.check_unused(false)?;
        self.journal.enter(direction, JournalPhase::Committing)?;
        self.observer.stage(Stage::Commit);
        for (at, (of, files)) in datasets.iter().zip(&of_scans).enumerate() {
            for file in files {
                commit(of, file)?;
                self.outcome.files += 1;
                self.outcome.bytes += file.identity.length;
            }
            of.copies.remove_dir()?;
            self.commit_relocated(direction, of)?;
            of.copies.restore_times(&directories::load(&self.journal.directories(direction, at))?)?;
        }
        let committed = scan_all(datasets)?;
        check_block_sizes(direction, datasets, &committed)?;
        if direction == Direction::Apply {
            datasets.iter().try_for_each(OpenDataset::check_relocated_blocks)?;
        }
        self.check_unused(true)?;
        self.sync(datasets)?;
        // Going back to the snapshots would lose what was written after them: by the database, if it ran in the middle of an
        // interrupted commit, or by another program.
        let is_exact = !is_resumed && is_unchanged;
        let moved = relocated_scans(datasets)?;
        let state = is_exact.then(|| digest(committed.iter().chain(&moved)));
        self.journal.enter_committed(direction, state)
    }

    /// Refuses if a process has opened a file for writing although the database is stopped.
    fn check_unused(&self, is_committed: bool) -> Result<()> {
        if !is_committed {
            return Ok(service::check_unused(&self.options.service, &self.roots())?);
        }
        let Some(writer) = find_writer_of_mounts(&self.roots()) else { return Ok(()) };
        refused(format!(
            "{} (process {}) has opened {} while files were replaced: its writes to an old file are lost when it ends\nhint: stop \
             it, and compare its files with the snapshot",
            writer.name,
            writer.pid,
            poolwright_base::quoted(&writer.path)
        ))
    }

    /// Starts the database if it was stopped by this run, or by one that a crash ended.
    fn start(&mut self, stopped: Option<Instant>) -> Result<()> {
        self.start_if_stopped()?;
        self.outcome.downtime_s = stopped.map(|since| since.elapsed().as_secs_f64());
        Ok(())
    }

    /// Starts the database if this run or an interrupted one has stopped it.
    pub(super) fn start_if_stopped(&mut self) -> Result<()> {
        if !self.state().is_stopped {
            return Ok(());
        }
        let roots = self.roots();
        let writers = || find_writers_of_mounts(&roots);
        self.observer.stage(Stage::Start);
        if self.downtime.start(&self.options.service, self.observer, &writers)? {
            self.journal.enter_started()?;
        }
        Ok(())
    }

    fn take_snapshots(&mut self, datasets: &[OpenDataset]) -> Result<()> {
        let state = self.state();
        for of in datasets.iter().filter(|of| of.work.rewrites()) {
            let old = of.snapshot(&state)?;
            if old.is_some() && self.phase() >= JournalPhase::Committing {
                // The files as they were before the first one was replaced.
                continue;
            }
            if let Some(SnapshotSummary { name, .. }) = old {
                // The database may have run since an interrupted run took it.
                self.change(&*of.admin, &DatasetChange::DestroySnapshot { name })?;
            }
            let name = state.work.snapshot_of(&of.work.dataset);
            self.change(&*of.admin, &DatasetChange::Snapshot { name })?;
        }
        Ok(())
    }

    /// Copies files, while the database may run (`is_online`) or is stopped. Between two files, and within large ones, it stops if the user
    /// wants to or the space ends.
    fn copy_all(
        &mut self,
        datasets: &mut [OpenDataset],
        pending: Vec<Pending>,
        rate: &mut Rate,
        is_online: bool,
    ) -> Result<()> {
        let total = total(&pending) * 2;
        let mut done = 0;
        let mut watches: Vec<_> = datasets.iter().map(|_| SpaceWatch::new(is_online)).collect();
        for (at, file) in pending {
            let OpenDataset { work, admin, copies, moving } = &mut datasets[at];
            let pool = pool_of(&work.dataset);
            let flush = || Ok(admin.change(&DatasetChange::Sync { pool: pool.to_owned() })?);
            let observer = &mut self.observer;
            let mut proceed = |bytes: u64| {
                if observer.is_interrupted() {
                    return Err(Error::Interrupted);
                }
                done += bytes;
                observer.progress(done, total);
                let (root, is_interrupted) = (moving.mountpoint(), &|| observer.is_interrupted());
                watches[at].add(bytes, &SpaceContext { root, is_interrupted, flush: &flush })?;
                rate.wait(bytes);
                Ok(())
            };
            proceed(0)?;
            copies.update(&file, &mut proceed)?;
        }
        Ok(())
    }
}

/// The changes of properties in the order of a direction, each with its dataset.
pub(super) fn changes(
    direction: Direction,
    datasets: &[OpenDataset],
) -> impl Iterator<Item = (&OpenDataset, &PropertyChange)> {
    datasets.iter().flat_map(move |of| {
        let mut changes: Vec<_> = of.work.changes.iter().map(|change| (of, change)).collect();
        if direction == Direction::Undo {
            changes.reverse();
        }
        changes
    })
}

/// The files that have to be copied: no copy of their present state exists.
fn pending(direction: Direction, datasets: &[OpenDataset], scans: &[FileScan]) -> Vec<Pending> {
    let mut all = Vec::new();
    for (at, (of, scan)) in datasets.iter().zip(scans).enumerate() {
        let files = to_rewrite(direction, of, scan).into_iter().filter(|file| !of.copies.is_copied(file));
        all.extend(files.map(|file| (at, file.clone())));
    }
    all
}

/// The files of a dataset that do not have its properties.
fn to_rewrite<'s>(direction: Direction, of: &OpenDataset, scan: &'s FileScan) -> Vec<&'s FileEntry> {
    let files = scan.files.values();
    files.filter(|file| of.work.needs_rewrite(direction, file, of.copies.is_rewritten(file))).collect()
}

fn total(pending: &[Pending]) -> u64 {
    pending.iter().map(|(_, file)| file.identity.length).sum()
}

/// Replaces a file with its copy, which counts towards its owner's quota from now on.
fn commit(of: &OpenDataset, file: &FileEntry) -> Result<()> {
    match of.copies.commit(file) {
        // What the files that were replaced before have used counts until the pool is synced.
        Err(Error::Host(failed)) if failed.cause.kind() == ErrorKind::QuotaExceeded => {
            of.admin.change(&DatasetChange::Sync { pool: pool_of(&of.work.dataset).to_owned() })?;
            of.copies.commit(file)
        }
        committed => committed,
    }
}

/// Refuses files that have changed since they were copied.
fn check_copied(of: &OpenDataset, files: &[&FileEntry]) -> Result<()> {
    let changed = files.iter().find(|file| !of.copies.is_copied(file));
    changed.map_or(Ok(()), |file| {
        refused(format!(
            "{} was changed while the database was stopped\nhint: stop the program that writes it",
            poolwright_base::quoted(&file.paths[0])
        ))
    })
}

/// Checks that every file has the block size of its dataset.
fn check_block_sizes(direction: Direction, datasets: &[OpenDataset], scans: &[FileScan]) -> Result<()> {
    for (of, scan) in datasets.iter().zip(scans) {
        scan.check_block_sizes(|file| of.work.has_block_size(direction, file))?;
    }
    Ok(())
}

pub(super) fn scan_all(datasets: &[OpenDataset]) -> Result<Vec<FileScan>> {
    datasets.iter().map(|of| of.copies.scan()).collect()
}

/// The files of all directories that move or have moved.
pub(super) fn relocated_scans(datasets: &[OpenDataset]) -> Result<Vec<FileScan>> {
    let scans: Result<Vec<_>> = datasets.iter().map(OpenDataset::relocated_scans).collect();
    Ok(scans?.into_iter().flatten().collect())
}

/// The states of all files.
fn identities(scans: &[FileScan]) -> Vec<FileIdentity> {
    scans.iter().flat_map(|scan| scan.files.values().map(|file| file.identity)).collect()
}

/// The state of all files of the datasets.
pub(super) fn digest<'s>(scans: impl IntoIterator<Item = &'s FileScan>) -> String {
    scans.into_iter().map(FileScan::digest).collect::<Vec<_>>().join(" ")
}

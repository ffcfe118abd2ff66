//! The state of a migration, in a file that survives a crash at any point.

use std::path::{Path, PathBuf};

use poolwright_base::cannot;
use poolwright_base::private::OwnDir;
use poolwright_dbms::service::Downtime;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::refused;
use crate::json_file;
use crate::migration::work::{Direction, MigrationWork, SnapshotSlot};

/// The file in the directory of a plan's journal.
const FILE: &str = "migration.json";
/// The file in the same directory that records that the database was started after the process that had stopped it was killed.
pub const RESTARTED: &str = "migration.restarted";
/// The file in the same directory with the units that were unmasked after the process that had masked them was killed.
const UNMASKED: &str = "migration.unmasked";
/// The version of its format that this release writes, and the highest that it reads.
const VERSION: u32 = 1;

/// How far a migration is. Each phase includes the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigrationPhase {
    /// The datasets to copy to may exist, and files are copied.
    Copying,
    /// The database was stopped.
    Stopped,
    /// All files are copied and compared, and the datasets are unmounted. Their mount points are being swapped.
    Switching,
    /// The datasets are at their new mount points.
    Switched,
    /// The database was started again, and nothing is left to do.
    Done,
}

/// The state of a plan's migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationState {
    /// The version of the format.
    pub(crate) version: u32,
    /// The datasets to move.
    pub work: MigrationWork,
    /// The last direction.
    pub direction: Direction,
    /// How far it is.
    pub phase: MigrationPhase,
    /// Whether the database was stopped and not started again.
    #[serde(default)]
    pub is_stopped: bool,
    /// The units that were masked and not unmasked, each by a run with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked_units: Vec<String>,
    /// Whether a standby server replaces the database's server.
    #[serde(default)]
    pub standby: bool,
    /// The snapshot whose files were copied and compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopiedRound>,
    /// The state of all files of both sides before the database moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_switch: Option<SideDigests>,
}

/// A round of copying that was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedRound {
    /// The snapshot that was copied.
    pub slot: SnapshotSlot,
    /// A time before it was taken, in nanoseconds since 1970.
    pub before_ns: i64,
}

/// The state of all files of both sides: while it is the same, nothing was written since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideDigests {
    /// Of the datasets that the database was on.
    pub source: String,
    /// Of those of the new pool.
    pub target: String,
}

impl MigrationState {
    /// The state in which a migration begins.
    pub fn new(work: MigrationWork) -> MigrationState {
        MigrationState {
            version: VERSION,
            work,
            direction: Direction::Forth,
            phase: MigrationPhase::Copying,
            is_stopped: false,
            masked_units: Vec::new(),
            standby: false,
            copied: None,
            before_switch: None,
        }
    }

    /// Whether the database is on the new pool, and nothing is left to do.
    pub fn has_moved(&self) -> bool {
        (self.direction, self.phase) == (Direction::Forth, MigrationPhase::Done)
    }

    /// Whether nothing is left of the migration.
    pub fn is_undone(&self) -> bool {
        (self.direction, self.phase) == (Direction::Back, MigrationPhase::Done)
    }
}

/// The file with the state of a plan's migration.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    state: Option<MigrationState>,
}

impl StateFile {
    /// Opens the file of a plan in a directory of journals. The caller has the lock of the plan's journal
    /// ([`crate::Journal`]).
    ///
    /// # Errors
    /// If the file cannot be read, or was written by a newer release.
    pub fn open(journals: &Path, plan: &str) -> Result<StateFile> {
        let dir = journals.join(plan);
        // Another user could have created it.
        OwnDir::open(&dir).map_err(cannot("use", &dir))?;
        let path = dir.join(FILE);
        let state: Option<MigrationState> = json_file::read(&path)?;
        if let Some(newer) = state.as_ref().filter(|of| of.version > VERSION) {
            return refused(format!(
                "{} has version {} of its format, and this release reads {VERSION}",
                poolwright_base::quoted(&path),
                newer.version
            ));
        }
        let mut file = StateFile { path, state };
        if Downtime::take_note(&dir.join(RESTARTED))
            && let Some(state) = file.state.clone()
        {
            file.write(MigrationState { is_stopped: false, ..state })?;
        }
        let unmasked = Downtime::take_unmask_note(&file.unmask_note());
        if let Some(mut state) = file.state.clone().filter(|_| !unmasked.is_empty()) {
            state.masked_units.retain(|unit| !unmasked.contains(unit));
            file.write(state)?;
        }
        Ok(file)
    }

    /// The file for [`Downtime::with_unmask_note`].
    pub(crate) fn unmask_note(&self) -> PathBuf {
        self.path.with_file_name(UNMASKED)
    }

    /// The state; `None` if the plan's database was never moved.
    pub fn state(&self) -> Option<&MigrationState> {
        self.state.as_ref()
    }

    /// Writes a state, durably.
    ///
    /// # Errors
    /// The host's errors.
    pub fn write(&mut self, state: MigrationState) -> Result<()> {
        json_file::write(&self.path, &state)?;
        self.state = Some(state);
        Ok(())
    }
}

/// The state of a plan's migration in a directory of journals; `None` if there is none. Takes no lock.
///
/// # Errors
/// If the file cannot be read.
pub fn read(journals: &Path, plan: &str) -> Result<Option<MigrationState>> {
    json_file::read(&journals.join(plan).join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_and_newer_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let work = MigrationWork::example("/db".into(), &[]);
        let mut file = StateFile::open(dir.path(), "0123").unwrap();
        assert!(file.state().is_none());
        let copied = Some(CopiedRound { slot: SnapshotSlot::B, before_ns: 5 });
        let mut state = MigrationState { copied, ..MigrationState::new(work) };
        file.write(state.clone()).unwrap();
        assert_eq!(StateFile::open(dir.path(), "0123").unwrap().state(), Some(&state));
        // As a guardian leaves it.
        file.write(MigrationState { is_stopped: true, ..state.clone() }).unwrap();
        std::fs::write(dir.path().join("0123").join(RESTARTED), "").unwrap();
        assert_eq!(StateFile::open(dir.path(), "0123").unwrap().state(), Some(&state));
        let masked_units = ["a.service", "b.service", "c.service"].map(str::to_owned).to_vec();
        file.write(MigrationState { masked_units, ..state.clone() }).unwrap();
        std::fs::write(dir.path().join("0123").join(UNMASKED), "a.service\nc.service\n").unwrap();
        for _ in 0..2 {
            let reopened = StateFile::open(dir.path(), "0123").unwrap();
            assert_eq!(reopened.state().unwrap().masked_units, ["b.service"]);
        }
        assert!(!state.has_moved() && !state.is_undone());
        state.phase = MigrationPhase::Done;
        assert!(state.has_moved());
        state.version = VERSION + 1;
        file.write(state).unwrap();
        let why = StateFile::open(dir.path(), "0123").unwrap_err();
        assert!(why.is_refusal() && why.to_string().contains("version 2"), "{why}");
    }
}

//! SQLite: a transaction that keeps writers out, in one session for each file.
//!
//! Opening a file rolls back the transaction that its journal describes, and removes the file that the journal names. So the session belongs
//! to the owner of the directory, who can write the journal.

use std::path::Path;
use std::time::Duration;

use super::{QuiesceFacts, QuiesceOptions, QuiesceSession};
use crate::client::{ClientFailure, ClientSession};
use crate::database::sqlite_files;
use crate::directories::DatabaseDirs;
use crate::owner;
use crate::program::command_as;

/// Prints the mark that ends an answer.
const PRINT: &str = ".print MARK";
/// The most files: each needs a process.
const MAX_FILES: usize = 64;

/// The sessions.
pub(super) struct LockedFiles {
    sessions: Vec<ClientSession>,
    version: Option<String>,
}

/// Keeps writers out of all files.
pub(super) fn begin(
    sources: &DatabaseDirs,
    options: &QuiesceOptions,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<LockedFiles, ClientFailure> {
    let files: Vec<_> = sources.all.iter().flat_map(|source| sqlite_files(&source.path)).collect();
    if files.is_empty() || files.len() > MAX_FILES {
        let count = files.len();
        return Err(ClientFailure::Ended(format!(
            "{count} SQLite files; between 1 and {MAX_FILES} can be locked"
        )));
    }
    let mut locked = LockedFiles { sessions: Vec::new(), version: None };
    for file in &files {
        let (session, version) = lock(file, options, is_interrupted)?;
        locked.sessions.push(session);
        locked.version = version;
    }
    Ok(locked)
}

fn lock(
    file: &Path,
    options: &QuiesceOptions,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(ClientSession, Option<String>), ClientFailure> {
    let (limit, program) = (options.limit, options.programs.find("sqlite3"));
    let program = program.ok_or_else(|| ClientFailure::Ended("sqlite3 is not installed".to_owned()))?;
    let owner = owner::of_file(file)?;
    let mut command = command_as(owner, &program);
    command.args(["-batch", "-bail", "-init", "/dev/null"]).arg(file);
    let mut session = ClientSession::start(command)?;
    let version = session.ask("SELECT sqlite_version();", PRINT, limit, is_interrupted)?;
    let begin = format!(".timeout {}\nBEGIN IMMEDIATE;", limit.as_millis());
    session.ask(&begin, PRINT, limit + Duration::from_secs(5), is_interrupted)?;
    Ok((session, version.into_iter().next()))
}

impl QuiesceSession for LockedFiles {
    fn release(self: Box<Self>, limit: Duration) -> Result<QuiesceFacts, ClientFailure> {
        for mut session in self.sessions {
            session.ask("ROLLBACK;", PRINT, limit, &|| false)?;
            session.end();
        }
        Ok(QuiesceFacts { version: self.version, ..QuiesceFacts::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    use poolwright_base::mountinfo;

    use super::*;
    use crate::directories::DatabaseDir;
    use crate::program::Programs;
    use crate::quiesce::tests::options;
    use crate::test_users::{Canary, LoggedPrograms, NOBODY, give, is_root, passable_dir, succeeds};

    /// A journal that makes SQLite remove a file: the next process that opens the database finishes the transaction, and removes the file
    /// that the journal names as that of several databases ("super-journal").
    fn plant_journal(database: &Path, names: &Path) {
        const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let bytes = fs::read(database).unwrap();
        let page = u32::from(u16::from_be_bytes([bytes[16], bytes[17]]));
        let name = names.to_str().unwrap().as_bytes();
        let numbers = |of: &[u32]| of.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
        let mut journal = [&MAGIC[..], &numbers(&[0, 7, bytes.len() as u32 / page, 512, page])].concat();
        journal.resize(512, 0);
        let sum = name.iter().map(|byte| u32::from(*byte)).sum();
        let lock_page = 0x4000_0000 / page + 1;
        journal.extend([&numbers(&[lock_page]), name, &numbers(&[name.len() as u32, sum]), &MAGIC].concat());
        let path = PathBuf::from(format!("{}-journal", database.display()));
        fs::write(&path, journal).unwrap();
    }

    #[test]
    fn a_journal_of_another_user_removes_no_file_of_root() {
        let programs = LoggedPrograms::new(|name| Programs::default().find(name), &["sqlite3"]);
        if !is_root() || programs.lacks(&["sqlite3"]) {
            eprintln!("skipped: needs root and sqlite3");
            return;
        }
        let (dir, canary) = (passable_dir(), Canary::new());
        let (database, home) = (dir.path().join("home/a.db"), dir.path().join("home"));
        fs::create_dir(&home).unwrap();
        succeeds(Command::new("sqlite3").arg(&database).arg("CREATE TABLE t (x); INSERT INTO t VALUES (1);"));
        plant_journal(&database, &canary.file());
        give(&home, NOBODY);
        let mount = mountinfo::parse(b"36 35 0:40 / / rw - zfs tank rw").remove(0);
        let source = DatabaseDir { path: home, mount, dataset: "tank".to_owned() };
        let sources = DatabaseDirs { all: vec![source] };
        let options =
            QuiesceOptions { programs: Programs::default().after(Some(programs.dir())), ..options() };
        // The file cannot be removed, and the database may be used or not.
        let begun = begin(&sources, &options, &|| false);
        let _ = begun.map(|locked| Box::new(locked).release(Duration::from_secs(60)));
        programs.check(NOBODY, &["sqlite3"]);
        canary.check();
    }
}

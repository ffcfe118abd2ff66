//! Checks of databases without a server.

use std::path::{Path, PathBuf};
use std::process::Command;

use poolwright_dbms::database::{found_below, sqlite_files};
use poolwright_dbms::owner::{self, UserAndGroup};
use poolwright_dbms::program::{ProgramOutput, command_as, run_program};

use super::{CheckContext, check_of, failed, not_run, passed};
use crate::Result;
use crate::manifest::RestoreCheck;

const INTEGRITY: &str = "PRAGMA integrity_check";
const DUMP: &str = "mdb_dump";

/// Lets SQLite recover each file and check it.
pub(super) fn check_sqlite(
    context: &CheckContext<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Vec<RestoreCheck>> {
    let mut checks = Vec::new();
    match context.programs().find("sqlite3") {
        None => checks.push(not_run(INTEGRITY, "sqlite3 is not installed")),
        Some(program) => {
            let files: Vec<PathBuf> = context.tree.paths.iter().flat_map(|path| sqlite_files(path)).collect();
            if files.is_empty() {
                checks.push(failed(INTEGRITY, "there is no SQLite database"));
            }
            for (file, owner) in with_owners(context, files)? {
                let name = format!("{INTEGRITY} of {}", shown(context, &file));
                let mut command = command(context, owner, &program)?;
                command.args(["-batch", "-bail", "-init", "/dev/null"]).arg(&file).arg(INTEGRITY);
                let end = run_program(command, ProgramOutput::Kept, is_interrupted)?;
                checks.push(match end.status.success() && end.said == "ok" {
                    true => passed(&name),
                    false => failed(&name, format!("{}: {}", end.status, end.said)),
                });
            }
        }
    }
    checks.extend(context.check_of_user(&[], is_interrupted)?);
    Ok(checks)
}

/// Reads all entries of each LMDB environment.
pub(super) fn check_lmdb(
    context: &CheckContext<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Vec<RestoreCheck>> {
    let mut checks = Vec::new();
    match context.programs().find(DUMP) {
        None => checks.push(not_run(DUMP, "mdb_dump (of lmdb-utils) is not installed")),
        Some(program) => {
            let files = context.tree.paths.iter().flat_map(|path| lmdb_files(path)).collect();
            for (file, owner) in with_owners(context, files)? {
                let dir = file.parent().unwrap_or(&file);
                let name = format!("{DUMP} of {}", shown(context, dir));
                let mut command = command(context, owner, &program)?;
                command.arg("-a").arg(dir);
                let end = run_program(command, ProgramOutput::Discarded, is_interrupted)?;
                checks.push(check_of(end, &name));
            }
        }
    }
    checks.extend(context.check_of_user(&[], is_interrupted)?);
    Ok(checks)
}

/// The files with their owners, who are found before the tree is given to the first of them.
fn with_owners(context: &CheckContext<'_>, files: Vec<PathBuf>) -> Result<Vec<(PathBuf, UserAndGroup)>> {
    let with_owner = |file: PathBuf| {
        let owner = owner::of_file_itself(&file)?.unwrap_or(context.tree.owner);
        Ok((file, owner))
    };
    files.into_iter().map(with_owner).collect()
}

/// A command that runs a program as a user, who can enter the tree from now on.
fn command(context: &CheckContext<'_>, owner: UserAndGroup, program: &Path) -> Result<Command> {
    context.tree.give_to(owner)?;
    Ok(command_as(owner, program))
}

/// The path on the host.
fn shown(context: &CheckContext<'_>, path: &Path) -> String {
    let pairs = context.tree.paths.iter().zip(&context.backup.sources);
    let mut hosts = pairs.filter_map(|(restored, source)| {
        let rest = path.strip_prefix(restored).ok()?;
        Some(if rest.as_os_str().is_empty() { source.path.clone() } else { source.path.join(rest) })
    });
    poolwright_base::quoted(&hosts.next().unwrap_or_else(|| path.to_owned())).to_string()
}

/// The files `data.mdb` below a directory.
fn lmdb_files(dir: &Path) -> Vec<PathBuf> {
    found_below(dir, |_, name| name == "data.mdb")
}

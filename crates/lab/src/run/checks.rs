//! Checks the requirements of a run before it starts.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use poolwright_base::units::format_size;
use poolwright_base::{cannot, quoted};

use crate::campaign::{Campaign, Case, Parameters, Study};
use crate::{Assets, Error, Result, order};

/// Checks every driver and its requirements for these studies; reports all that is missing in one error.
pub(super) fn drivers(assets: &Assets, campaign: &Campaign, scale: &str, studies: &[&Study]) -> Result<()> {
    let mut asked: Vec<(&str, Parameters)> = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    for study in studies {
        let check =
            (study.driver.as_str(), order::conditions(campaign, study, scale, &Case::new()).parameters);
        if asked.contains(&check) {
            continue;
        }
        let (name, parameters) = &check;
        for line in missing_for(&assets.driver(name), name, parameters) {
            if !missing.contains(&line) {
                missing.push(line);
            }
        }
        asked.push(check);
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Missing(format!("requirements of this campaign are missing:\n  {}", missing.join("\n  "))))
}

/// Returns the requirements that the driver's `--check` reports as missing for these parameters.
fn missing_for(program: &Path, name: &str, parameters: &Parameters) -> Vec<String> {
    if !program.is_file() {
        return vec![format!("{name}: no such driver: {}", quoted(&program))];
    }
    match check(program, parameters) {
        Err(why) => vec![format!("{name}: cannot start {}: {why}", quoted(&program))],
        Ok(done) if done.status.success() => Vec::new(),
        Ok(done) => {
            let outputs =
                [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let lines = outputs.iter().flat_map(|s| s.lines()).map(str::trim).filter(|l| !l.is_empty());
            let lines: Vec<String> = lines.map(|l| format!("{name}: {l}")).collect();
            if lines.is_empty() {
                vec![format!("{name}: the driver's check failed and printed nothing")]
            } else {
                lines
            }
        }
    }
}

/// Runs `PROGRAM --check` with the parameters on its standard input, which the driver need not read.
fn check(program: &Path, parameters: &Parameters) -> std::io::Result<Output> {
    let mut child = Command::new(program)
        .arg("--check")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A driver that does not read its input has closed its end, which is not an error.
        let _ = serde_json::to_writer(&mut stdin, parameters);
        let _ = stdin.flush();
    }
    child.wait_with_output()
}

/// Checks that datasets can be mounted: this requires `/dev/fuse`, and for ordinary users the set-user-id program
/// `fusermount3`.
///
/// # Errors
/// [`Error::NoFuse`] or [`Error::NoHelper`].
pub fn fuse() -> Result<()> {
    device()?;
    helper(rustix::process::geteuid().is_root(), std::env::var_os("PATH").as_deref())
}

/// Checks that this user can mount: root with a system call, others with `fusermount3` in one of the directories of
/// `path`.
fn helper(root: bool, path: Option<&OsStr>) -> Result<()> {
    let executable = |dir: PathBuf| {
        std::fs::metadata(dir.join("fusermount3"))
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if root || path.is_some_and(|path| std::env::split_paths(path).any(executable)) {
        return Ok(());
    }
    Err(Error::NoHelper)
}

fn device() -> Result<()> {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    opened.map(drop).map_err(Error::NoFuse)
}

/// Checks that the machine has enough memory for the largest ARC of a run; both in bytes, and a memory of 0 is
/// unknown.
pub(crate) fn memory(arc: u64, memory: u64) -> Result<()> {
    if memory == 0 || arc <= memory {
        return Ok(());
    }
    Err(Error::Missing(format!(
        "a case of this campaign has an ARC of {}, but the machine has only {} of memory",
        format_size(arc),
        format_size(memory)
    )))
}

/// Checks that `dir` has `needed` bytes of free space.
///
/// # Errors
/// [`Error::NoSpace`] if `dir` has less than `needed` bytes free.
pub fn space(dir: &Path, needed: u64) -> Result<()> {
    let stat = rustix::fs::statvfs(dir).map_err(cannot("inspect", dir))?;
    let free = stat.f_bavail * stat.f_frsize;
    if free >= needed {
        return Ok(());
    }
    Err(Error::NoSpace { path: dir.to_owned(), free, needed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arc_above_the_machines_memory_is_refused_before_the_run() {
        assert!(memory(1 << 30, 1 << 30).is_ok() && memory(1 << 40, 0).is_ok());
        let why = memory(64 << 30, 24 << 30).unwrap_err().to_string();
        assert!(why.contains("64G") && why.contains("24G"), "{why}");
    }

    #[test]
    fn a_driver_is_asked_about_the_parameters_of_the_study() {
        let dir = tempfile::tempdir().unwrap();
        let driver = |text: &str| {
            let (source, program) = (dir.path().join("text"), dir.path().join("driver"));
            std::fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
            // A program cannot be started while another process, such as the child of another test, has
            // it open for writing.
            let made = Command::new("install").args(["-m", "755"]).args([&source, &program]).status();
            assert!(made.unwrap().success());
            program
        };
        let of = |word: &str| Parameters::from_iter([("workload".to_owned(), word.into())]);
        let program = driver("grep -q shop || { echo no kv store; exit 1; }");
        assert!(missing_for(&program, "d", &of("shop")).is_empty());
        assert_eq!(missing_for(&program, "d", &of("kv")), ["d: no kv store"]);
        // Most drivers have the same requirements for all studies, and do not read their input.
        assert!(missing_for(&driver("exit 0"), "d", &of("kv")).is_empty());
        assert_eq!(missing_for(&dir.path().join("none"), "d", &of("kv")).len(), 1);
    }

    #[test]
    fn an_ordinary_user_needs_fusermount3_before_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().as_os_str());
        assert!(helper(true, None).is_ok());
        let why = helper(false, path).unwrap_err().to_string();
        assert!(why.contains("fusermount3 is not in the PATH") && why.contains("\nhint: "), "{why}");
        let program = dir.path().join("fusermount3");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(helper(false, path).is_err(), "the program is not executable");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(helper(false, path).is_ok());
    }
}

//! What has to be there before a run starts: better now than after an hour.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use poolwright_trace::format_size;

use crate::campaign::Study;
use crate::{Error, Home, Result};

/// Every driver's program and all that it needs, in one message.
pub(super) fn drivers(home: &Home, studies: &[&Study]) -> Result<()> {
    let names: BTreeSet<&str> = studies.iter().map(|s| s.driver.as_str()).collect();
    let mut missing: Vec<String> = Vec::new();
    for name in names {
        for line in missing_for(&home.driver(name), name) {
            if !missing.contains(&line) {
                missing.push(line);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Missing(format!("this campaign needs what is not here:\n  {}", missing.join("\n  "))))
}

fn missing_for(program: &Path, name: &str) -> Vec<String> {
    if !program.is_file() {
        return vec![format!("{name}: there is no driver {}", program.display())];
    }
    let done = Command::new(program).arg("--check").stdin(Stdio::null()).output();
    match done {
        Err(why) => vec![format!("{name}: {} cannot be started: {why}", program.display())],
        Ok(done) if done.status.success() => Vec::new(),
        Ok(done) => {
            let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let lines = said.iter().flat_map(|s| s.lines()).map(str::trim).filter(|l| !l.is_empty());
            let lines: Vec<String> = lines.map(|l| format!("{name}: {l}")).collect();
            if lines.is_empty() { vec![format!("{name}: its --check fails without a word")] } else { lines }
        }
    }
}

/// A mount needs the device; who may mount is seen by the first trial.
pub(super) fn fuse() -> Result<()> {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    opened.map(drop).map_err(|why| {
        Error::Missing(format!(
            "/dev/fuse cannot be opened ({why}), so no dataset can be mounted; install fuse3 and load the module, or measure \
             the host's own file system with --target directory:PATH"
        ))
    })
}

/// Free space where the trials work.
pub(super) fn space(dir: &Path, needed: u64) -> Result<()> {
    let stat = rustix::fs::statvfs(dir).map_err(|e| Error::host("looking at", dir)(e.into()))?;
    let free = stat.f_bavail * stat.f_frsize;
    if free >= needed {
        return Ok(());
    }
    Err(Error::Missing(format!(
        "{} has {} free, and a trial may need {}; name another folder with --scratch",
        dir.display(),
        format_size(free),
        format_size(needed)
    )))
}

//! `--background`: the same program again, with no terminal.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::commands::options::this_program;

/// Where a process without a terminal says what it has to say.
fn log_path(pool: &str) -> PathBuf {
    poolwright_control::state_dir().join("log").join(format!("{pool}.log"))
}

/// Starts the mount process, waits until it is mounted, and passes on what it said; the value is the exit code.
pub fn start(pool: &str) -> anyhow::Result<u8> {
    let path = log_path(pool);
    let dir = path.parent().context("the log has a directory")?;
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = log.with_context(|| format!("opening the log {}", path.display()))?;
    let before = log.metadata().map_or(0, |meta| meta.len());
    let mut child = Command::new(this_program())
        .args(std::env::args_os().skip(1).filter(|arg| arg != "--background"))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("starting the process that mounts")?;
    let mut said = String::new();
    let out = child.stdout.take().context("the child has a standard output")?;
    BufReader::new(out).read_line(&mut said).context("waiting for the mount")?;
    if said.is_empty() {
        let status = child.wait().context("waiting for the mount")?;
        let text = fs::read(&path).unwrap_or_default();
        let new = text.get(before as usize..).unwrap_or_default();
        eprint!("{}", String::from_utf8_lossy(new));
        return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    }
    print!("{said}");
    Ok(0)
}

/// Leaves the terminal's session and the directory it was started in.
pub fn detach() -> anyhow::Result<()> {
    rustix::process::setsid().context("leaving the terminal's session")?;
    std::env::set_current_dir("/").context("changing to /")
}

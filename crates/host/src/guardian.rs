//! A process that cleans up when this process ends, however it ends.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

/// What the guardian runs before the script: signals of the terminal must not end it, and its standard input ends when this process
/// has closed it or has ended.
const WAIT: &str = "trap '' INT HUP QUIT TERM; cat >/dev/null; ";

/// A shell that waits until [`Guardian::finish`] is called or this process has ended (`SIGKILL` included), and then runs a script.
#[derive(Debug)]
pub struct Guardian {
    shell: Option<Child>,
}

impl Guardian {
    /// Starts the guardian. The script is one of `sh`; it finds the arguments in `$1`, `$2` and so on. It should be short, and do
    /// nothing if there is nothing to clean up.
    ///
    /// # Errors
    /// If the shell cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Guardian> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("{WAIT}{script}")).arg("guardian").args(arguments);
        // Output is discarded: a pipe would be closed when this process ends.
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Guardian { shell: Some(shell.process_group(0).spawn()?) })
    }

    /// Makes the guardian run its script now, and waits until it has ended.
    ///
    /// # Errors
    /// If the shell cannot be waited for.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        self.end().expect("only this function and the destructor end it")
    }

    fn end(&mut self) -> Option<io::Result<ExitStatus>> {
        let mut shell = self.shell.take()?;
        drop(shell.stdin.take());
        Some(shell.wait())
    }
}

/// Runs the script and waits, as [`Guardian::finish`].
impl Drop for Guardian {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const REMOVE: &str = r#"rm -- "$1""#;

    #[test]
    fn the_script_runs_at_the_end_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("it's here");
        std::fs::write(&file, "").unwrap();
        let guardian = Guardian::start(REMOVE, [&file]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(file.exists());
        assert!(guardian.finish().unwrap().success());
        assert!(!file.exists());
        // It reports a script that fails.
        assert!(!Guardian::start(REMOVE, [&file]).unwrap().finish().unwrap().success());
    }

    #[test]
    fn the_script_runs_after_a_kill() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        // A process that holds the guardian's input, as this one does, and is killed.
        let mut holder = Command::new("/bin/sh");
        holder.args(["-c", r#"sh -c 'kill -9 $$' | /bin/sh -c "$0" guardian "$1""#]);
        let holder = holder.arg(format!("{WAIT}{REMOVE}")).arg(&file).status().unwrap();
        assert!(holder.success() && !file.exists());
    }
}

//! A process that cleans up when this process ends, however it ends.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

/// What the guardian runs before the script: signals of the terminal must not end it, and its standard input ends when this process
/// has closed it or has ended. It has the ID of a process to wait for; `$seen` is set if there was one. Programs that the script starts get
/// these signals.
const WAIT: &str = "trap '' INT HUP QUIT TERM; seen=; p=; while read -r line; do seen=1 p=$line; done
    while [ -n \"$p\" ] && kill -0 \"$p\" 2>/dev/null; do sleep 0.1; done
    trap - INT HUP QUIT TERM; exec </dev/null
    ";

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
        // Output is discarded: a pipe would be closed when this process ends.
        Guardian::start_with(script, arguments, Stdio::null())
    }

    /// As [`Guardian::start`], with a file that the shell keeps open until it ends, as its standard output: one with a lock, for example.
    /// Programs of the script that stay should have another standard output.
    ///
    /// # Errors
    /// If the shell cannot be started.
    pub fn start_with<A: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = A>,
        file: impl Into<Stdio>,
    ) -> io::Result<Guardian> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("{WAIT}{script}")).arg("guardian").args(arguments);
        shell.stdin(Stdio::piped()).stdout(file).stderr(Stdio::null());
        Ok(Guardian { shell: Some(shell.process_group(0).spawn()?) })
    }

    /// Makes the guardian run its script now, and waits until it has ended.
    ///
    /// # Errors
    /// If the shell cannot be waited for.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        self.end().expect("only this function and the destructor end it")
    }

    /// After the end of this process, the guardian waits for another one before it runs its script. `None`: for none.
    ///
    /// # Errors
    /// If the guardian has ended.
    pub fn wait_for(&mut self, process: Option<u32>) -> io::Result<()> {
        let line = process.map_or_else(|| "\n".to_owned(), |id| format!("{id}\n"));
        match self.shell.as_mut().and_then(|shell| shell.stdin.as_mut()) {
            Some(input) => input.write_all(line.as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ends the guardian without its script: there is nothing to clean up any more.
    pub fn dismiss(mut self) {
        if let Some(mut shell) = self.shell.take() {
            // Before its input ends, which makes it go on.
            let _ = shell.kill();
            let _ = shell.wait();
        }
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

    #[test]
    fn a_dismissed_one_does_nothing_and_another_one_waits_for_a_process() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        Guardian::start(REMOVE, [&file]).unwrap().dismiss();
        assert!(file.exists());
        let mut other = Command::new("sh").args(["-c", "read -r _"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut guardian = Guardian::start(REMOVE, [&file]).unwrap();
        guardian.wait_for(Some(other.id())).unwrap();
        drop(guardian.shell.as_mut().unwrap().stdin.take());
        std::thread::sleep(Duration::from_millis(300));
        assert!(file.exists() && guardian.shell.as_mut().unwrap().try_wait().unwrap().is_none());
        drop(other.stdin.take());
        other.wait().unwrap();
        assert!(guardian.finish().unwrap().success() && !file.exists());
    }

    #[test]
    fn programs_of_the_script_can_be_ended() {
        // An ignored signal would stay ignored in a database that the script starts.
        let script = r#"sh -c 'kill -TERM $$; :'; test $? = 143"#;
        assert!(Guardian::start(script, [""; 0]).unwrap().finish().unwrap().success());
    }
}

//! Quiescing by commands of the user.
//!
//! A shell runs both commands, one after the other; in between, it waits for a line or the end of a pipe from this process. So the
//! thaw command runs exactly once after each freeze command, even if this process is killed.

use std::process::Command;
use std::time::Duration;

use super::{QuiesceFacts, QuiesceSession};
use crate::client::{ClientFailure, ClientSession};

/// Runs the freeze command and reports its status, waits, runs the thaw command, and reports its status. The commands write to the
/// shell's standard error, and read nothing.
const SCRIPT: &str = r#"
trap : INT TERM HUP PIPE
sh -c "$1" </dev/null >&2
echo "frozen $?"
read -r _
sh -c "$2" </dev/null >&2
echo "thawed $?"
"#;

/// The commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Quiesces the database and returns.
    pub freeze: String,
    /// Releases the database. It runs even if the freeze command failed, which may have quiesced a part.
    pub thaw: String,
}

/// The shell between the two commands.
pub(super) struct FrozenByHook {
    session: ClientSession,
}

impl Hook {
    /// Runs the freeze command.
    pub(super) fn freeze(
        &self,
        limit: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<FrozenByHook, ClientFailure> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT, "sh", &self.freeze, &self.thaw]);
        let mut session = ClientSession::start(shell)?.never_kill();
        let frozen = session.wait_for("frozen ", limit, is_interrupted).map_err(|failure| match failure {
            ClientFailure::Late(limit) => ClientFailure::Ended(format!(
                "the freeze command did not end within {:.0} s; the thaw command follows when it has ended",
                limit.as_secs_f64()
            )),
            failure => failure,
        });
        match frozen?.as_str() {
            "0" => Ok(FrozenByHook { session }),
            status => {
                let thawed = thaw(&mut session, limit);
                let outcome = thawed.map_or_else(|why| why.to_string(), |()| "it was thawed".to_owned());
                let said = session.messages();
                Err(ClientFailure::Ended(format!(
                    "the freeze command failed with exit status {status}, and {outcome}: {said}"
                )))
            }
        }
    }
}

fn thaw(session: &mut ClientSession, limit: Duration) -> Result<(), ClientFailure> {
    if session.printed().is_some() {
        return Err(ClientFailure::Ended(
            "the thaw command ran too early, after a signal to its shell".to_owned(),
        ));
    }
    session.write("thaw")?;
    match session.wait_for("thawed ", limit, &|| false)?.as_str() {
        "0" => Ok(()),
        status => {
            let said = session.messages();
            Err(ClientFailure::Ended(format!("the thaw command failed with exit status {status}: {said}")))
        }
    }
}

impl QuiesceSession for FrozenByHook {
    fn release(mut self: Box<Self>, limit: Duration) -> Result<QuiesceFacts, ClientFailure> {
        thaw(&mut self.session, limit)?;
        Ok(QuiesceFacts::default())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn hook(dir: &Path, freeze: &str) -> Hook {
        let log = dir.join("log");
        Hook {
            freeze: format!("echo freeze >>{0}; {freeze}", log.display()),
            thaw: format!("echo thaw >>{0}", log.display()),
        }
    }

    fn log(dir: &Path) -> String {
        std::fs::read_to_string(dir.join("log")).unwrap_or_default()
    }

    #[test]
    fn each_freeze_has_one_thaw() {
        let dir = tempfile::tempdir().unwrap();
        let frozen = hook(dir.path(), "true").freeze(LIMIT, &|| false).unwrap();
        assert_eq!(log(dir.path()), "freeze\n");
        Box::new(frozen).release(LIMIT).unwrap();
        assert_eq!(log(dir.path()), "freeze\nthaw\n");
        // Dropped, as if this process were killed.
        drop(hook(dir.path(), "true").freeze(LIMIT, &|| false).unwrap());
        assert_eq!(log(dir.path()), "freeze\nthaw\nfreeze\nthaw\n");
    }

    #[test]
    fn a_failed_freeze_is_thawed() {
        let dir = tempfile::tempdir().unwrap();
        let why =
            hook(dir.path(), "echo cause >&2; exit 3").freeze(LIMIT, &|| false).err().unwrap().to_string();
        assert!(
            why.contains("exit status 3") && why.contains("cause") && why.contains("it was thawed"),
            "{why}"
        );
        assert_eq!(log(dir.path()), "freeze\nthaw\n");
    }

    #[test]
    fn a_late_freeze_is_thawed_after_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let slow = format!("sleep 1; echo frozen >>{}", dir.path().join("log").display());
        let late = hook(dir.path(), &slow).freeze(Duration::from_millis(100), &|| false).err().unwrap();
        assert!(late.to_string().contains("did not end within"), "{late:?}");
        // Dropping the session has waited for the shell.
        assert_eq!(log(dir.path()), "freeze\nfrozen\nthaw\n");
    }
}

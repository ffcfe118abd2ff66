//! Stops the database for a run, and guarantees that it is started again, whatever happens to the run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_base::writers::Writer;
use poolwright_base::{Guardian, cannot};

use super::users::FileUsers;
use super::{SYSTEMD_TIME, Service, ServiceCommand, ServiceObserver, UnitState};
use crate::error::refused;
use crate::{Error, Result};

/// How long processes may have files open after the database was stopped.
const EXIT_TIME: Duration = Duration::from_secs(30);
/// How long a command may take.
const COMMAND_TIME: Duration = Duration::from_secs(1800);
/// How long a database may still be ending after the command that stops it has failed.
const END_TIME: Duration = Duration::from_secs(20);
/// How often processes are checked.
const POLL: Duration = Duration::from_millis(100);

/// Before the guardian's scripts: a function that unmasks a unit, notes that, and starts what has failed to start it ([`restart_triggers`]).
/// `$1` is the file of these notes, or nothing.
const UNMASK: &str = r#"unmasked=$1; shift
    unmask() {
        systemctl unmask --runtime -- "$1" && [ -n "$unmasked" ] && printf '%s\n' "$1" >>"$unmasked"
        for trigger in $(systemctl show --property=TriggeredBy -- "$1" | sed -n 's/^TriggeredBy=//p'); do
            ! systemctl show --property=Result -- "$trigger" | grep -qx Result=resources || systemctl start -- "$trigger"
        done
    } >/dev/null 2>&1
    "#;

/// What the guardian runs if this process ends without having started the database: `$1` is the note, `$2` the unit or nothing, and the
/// command follows, all after the argument of [`UNMASK`]. Without a stop command that was begun, there is nothing to do.
const START: &str = r#"[ -n "$seen" ] || exit 0
    note=$1 unit=$2; shift 2
    [ -z "$unit" ] || unmask "$unit"
    "$@" >/dev/null 2>&1 && : >"$note""#;

/// The outcome of the command that stops the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StopResult {
    /// This run has not called it.
    #[default]
    NotRun,
    /// It failed: the database runs, has ended, or is ending.
    Failed,
    /// The database was stopped.
    Stopped,
}

/// Stops and starts the database of a run.
#[derive(Debug)]
pub struct Downtime {
    result: StopResult,
    guardian: Option<Guardian>,
    lock: File,
    note: PathBuf,
    unmask_note: Option<PathBuf>,
}

impl Downtime {
    /// `lock`: a lock that is held until the database was started, even if this process is killed. `note`: a file that is created when the
    /// database was started after that.
    pub fn new(lock: File, note: PathBuf) -> Downtime {
        Downtime { result: StopResult::NotRun, guardian: None, lock, note, unmask_note: None }
    }

    /// With a file that has the names of units that were unmasked after the process that had masked them was killed.
    #[must_use]
    pub fn with_unmask_note(self, note: PathBuf) -> Downtime {
        Downtime { unmask_note: Some(note), ..self }
    }

    /// Whether the database was started after the process that had stopped it was killed. The note is removed.
    pub fn take_note(note: &Path) -> bool {
        std::fs::remove_file(note).is_ok()
    }

    /// The units in the file of [`Downtime::with_unmask_note`], which is removed.
    pub fn take_unmask_note(note: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(note).unwrap_or_default();
        let _ = std::fs::remove_file(note);
        text.lines().map(str::to_owned).collect()
    }

    /// Stops the database, and waits until nothing may write files of these mount points: [`Downtime::stop_and_mask`] and
    /// [`Downtime::wait_until_unused`].
    ///
    /// # Errors
    /// As these.
    pub fn stop(
        &mut self,
        service: &Service,
        observer: &mut dyn ServiceObserver,
        roots: &[PathBuf],
    ) -> Result<()> {
        self.stop_and_mask(service, observer)?;
        self.wait_until_unused(service, observer, roots)
    }

    /// Stops the database if that is known how. From now on, the database is started even if this process is killed. Ctrl-C does not end the
    /// command that stops the database: it could be started only after it has ended anyway. Returns the unit if there is one: it is masked.
    ///
    /// # Errors
    /// [`Error::Service`] if the command fails; [`Error::Interrupted`].
    pub fn stop_and_mask(
        &mut self,
        service: &Service,
        observer: &mut dyn ServiceObserver,
    ) -> Result<Option<String>> {
        let Some(command) = service.stop_command() else { return Ok(None) };
        observer.command(&command.to_string());
        self.guard(service)?;
        self.result = StopResult::Failed;
        self.run_stop(&command, observer)?;
        self.result = StopResult::Stopped;
        if observer.is_interrupted() {
            return Err(Error::Interrupted);
        }
        Ok(mask(service, observer))
    }

    /// Waits until nothing may write files of these mount points after the database was stopped.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; [`Error::Refused`] if something keeps a file open.
    pub fn wait_until_unused(
        &self,
        service: &Service,
        observer: &dyn ServiceObserver,
        roots: &[PathBuf],
    ) -> Result<()> {
        if !service.is_known() {
            return super::check_unused(service, roots);
        }
        let end = Instant::now() + EXIT_TIME;
        loop {
            let users = FileUsers::of(roots);
            if users.is_empty() {
                return Ok(());
            }
            if observer.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= end {
                return refused(format!("the database was stopped, but {}", users.describe(service)));
            }
            std::thread::sleep(POLL);
        }
    }

    fn guard(&mut self, service: &Service) -> Result<()> {
        let Some(start) = service.start_command() else { return Ok(()) };
        let unit = if let Service::Unit(unit) = service { unit.as_str() } else { "" };
        let note = self.note.clone().into_os_string();
        let words = start.words().into_iter().map(Into::into);
        self.start_guardian(START, [note, unit.into()].into_iter().chain(words))
    }

    fn start_guardian(&mut self, script: &str, arguments: impl IntoIterator<Item = OsString>) -> Result<()> {
        let host = || cannot("start", "/bin/sh");
        let lock = self.lock.try_clone().map_err(host())?;
        let note = self.unmask_note.clone().unwrap_or_default().into_os_string();
        let arguments = [note].into_iter().chain(arguments);
        let guardian = Guardian::start_with(&format!("{UNMASK}{script}"), arguments, lock);
        self.guardian = Some(guardian.map_err(host())?);
        Ok(())
    }

    /// For a database that does not run: keeps systemd from starting its unit until this is dropped, [`Downtime::release`] is called, or this
    /// process has ended without [`Downtime::leave_stopped`]. A unit that was masked before stays masked. Returns the unit if it was masked now.
    ///
    /// # Errors
    /// [`Error::Service`]; [`Error::Refused`] if the unit does not exist.
    pub fn keep_stopped(
        &mut self,
        service: &Service,
        observer: &mut dyn ServiceObserver,
    ) -> Result<Option<String>> {
        let Service::Unit(unit) = service else { return Ok(None) };
        if UnitState::of(unit)?.is_masked() {
            return Ok(None);
        }
        self.start_guardian(r#"unmask "$1""#, [unit.into()])?;
        Ok(mask(service, observer))
    }

    /// Unmasks a unit that this run or an interrupted one has masked. The unit is not started.
    pub fn release(&self, unit: &str) {
        unmask(unit);
    }

    fn run_stop(&mut self, command: &ServiceCommand, observer: &mut dyn ServiceObserver) -> Result<()> {
        let mut guardian = self.guardian.as_mut();
        // If this fails, the guardian has ended, and the run continues without one.
        let mut tell = |process| drop(guardian.as_mut().map(|guardian| guardian.wait_for(process)));
        let mut is_told = false;
        let done = command.run(
            COMMAND_TIME,
            |process| tell(Some(process)),
            || {
                if observer.is_interrupted() && !is_told {
                    is_told = true;
                    observer.note("interrupted; the database is started again when it has been stopped");
                }
            },
        );
        tell(None);
        done.map(drop)
    }

    /// Nothing starts the database or unmasks its unit any more if this process is killed: its files are not where it expects them.
    pub fn leave_stopped(&mut self) {
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }

    /// Starts the database that this run or an interrupted one has stopped. `writers` finds the processes that have its files open for writing.
    /// Returns whether it was started, or runs already: after the command that stops it has failed, it may still run.
    ///
    /// # Errors
    /// [`Error::Service`] if the command fails, unless the database runs.
    pub fn start(
        &mut self,
        service: &Service,
        observer: &mut dyn ServiceObserver,
        writers: &dyn Fn() -> Vec<Writer>,
    ) -> Result<bool> {
        // If this process is killed before systemd has started the unit, the guardian does it: a second start of a unit does no harm. The
        // command of a user may start a second server, so the guardian ends before it.
        if !matches!(service, Service::Unit(_)) {
            self.leave_stopped();
        }
        let started = self.start_now(service, observer, writers);
        self.leave_stopped();
        started
    }

    fn start_now(
        &mut self,
        service: &Service,
        observer: &mut dyn ServiceObserver,
        writers: &dyn Fn() -> Vec<Writer>,
    ) -> Result<bool> {
        let Some(command) = service.start_command() else {
            observer.note("the database was stopped by an interrupted run; start it now");
            return Ok(true);
        };
        if let Service::Unit(unit) = service {
            unmask(unit);
        } else if self.result == StopResult::Failed && is_still_running(writers) {
            observer.note(
                "the database was sent a stop request, and still runs; if it stops, start it, or run this command again",
            );
            return Ok(false);
        } else if self.result == StopResult::NotRun
            && let Some(writer) = writers().first()
        {
            observer.note(&format!(
                "the database seems to run: {} (process {}) has its files open",
                writer.name, writer.pid
            ));
            return Ok(true);
        }
        let before: BTreeSet<i32> = writers().iter().map(|of| of.pid).collect();
        observer.command(&command.to_string());
        let mut started = command.run(COMMAND_TIME, |_| {}, || {});
        // It may still be ending, and only then can it be started.
        let is_before = |of: &Writer| before.contains(&of.pid);
        let end = Instant::now() + EXIT_TIME;
        while started.is_err() && writers().iter().any(is_before) && Instant::now() < end {
            std::thread::sleep(POLL);
            if !writers().iter().any(is_before) {
                started = command.run(COMMAND_TIME, |_| {}, || {});
            }
        }
        let others = writers().into_iter().find(|of| !is_before(of));
        match (started, others) {
            // It may have been started by others in the meantime.
            (Err(error), Some(writer)) => {
                observer.note(&format!("{error}; {} (process {}) runs", writer.name, writer.pid));
                Ok(true)
            }
            (started, _) => started.map(|_| {
                self.result = StopResult::NotRun;
                true
            }),
        }
    }
}

/// Whether the database still runs after a while. It may be about to end.
fn is_still_running(writers: &dyn Fn() -> Vec<Writer>) -> bool {
    let end = Instant::now() + END_TIME;
    while !writers().is_empty() {
        if Instant::now() >= end {
            return true;
        }
        std::thread::sleep(POLL);
    }
    false
}

/// Queries systemd, or sends it a command that returns at once.
fn systemctl(arguments: &[&str], unit: &str) -> Result<String> {
    ServiceCommand::systemctl(arguments, unit).run(SYSTEMD_TIME, |_| {}, || {})
}

/// Unmasks a unit, and starts what has failed to start it.
fn unmask(unit: &str) {
    // The unit's state says whether there is anything to do.
    let _ = systemctl(&["unmask", "--runtime"], unit);
    restart_triggers(unit);
}

/// A socket, a timer or a path unit that has tried to start the unit while it was masked has failed, and would not try again. This starts it
/// again: before the unit, because systemd starts no socket of a unit that runs.
fn restart_triggers(unit: &str) {
    let Ok(printed) = systemctl(&["show", "--property=TriggeredBy"], unit) else { return };
    let triggers = printed.lines().find_map(|line| line.strip_prefix("TriggeredBy=")).unwrap_or_default();
    for trigger in triggers.split_whitespace() {
        let result = systemctl(&["show", "--property=Result"], trigger);
        if result.is_ok_and(|result| result.trim() == "Result=resources") {
            let _ = systemctl(&["start"], trigger);
        }
    }
}

/// Keeps timers, sockets and other units from starting the database during the run. If the database is started nevertheless, that is
/// detected before files are replaced. Returns the unit even if the mask has no effect: it is removed at the end.
fn mask(service: &Service, observer: &mut dyn ServiceObserver) -> Option<String> {
    let Service::Unit(unit) = service else { return None };
    let command = ServiceCommand::systemctl(&["mask", "--runtime"], unit);
    observer.command(&command.to_string());
    let masked = command.run(SYSTEMD_TIME, |_| {}, || {}).and_then(|_| UnitState::of(unit));
    match masked {
        Ok(state) if state.is_masked() => {}
        // A unit file in /etc comes before the mask in /run.
        Ok(_) => observer.note(&format!("cannot mask {unit}: do not start it before the run ends")),
        Err(error) => {
            observer.note(&format!("cannot mask {unit}: {error}; do not start it before the run ends"))
        }
    }
    Some(unit.clone())
}

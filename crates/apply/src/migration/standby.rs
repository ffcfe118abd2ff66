//! A PostgreSQL standby server on the new datasets, which replaces the primary.
//!
//! Copying takes longer the more files the database changes, and a table of a gigabyte is one file. A standby receives only the changes, so
//! the database is stopped for seconds, whatever its size. `pg_basebackup` copies the database while it runs, and
//! `pg_verifybackup` compares each file with the checksums that the server has sent. The standby follows the primary until a clean shutdown
//! of the primary, replays its last record (the shutdown checkpoint), and is stopped too. Both directories then contain the same database:
//! the same system identifier, timeline and last checkpoint. The new directory gets the primary's `pg_control`, so the server starts on it
//! as it would on the old one, without promotion or recovery.
//!
//! The primary is not changed: no setting, role or permanent replication slot is created.

mod namespace;
mod primary;
mod scratch;
mod server_dirs;
mod settings;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_base::directory::Directory;
use poolwright_base::{Scratch, cannot, quoted, room};
use poolwright_dbms::client::ClientSession;
use poolwright_dbms::database::{DatabaseKind, locate};
use poolwright_dbms::postgresql::control::{ControlData, Lsn};
use poolwright_dbms::postgresql::private;
use poolwright_dbms::program::{ProgramOutput, command_as, run_program};
use poolwright_dbms::server::{ChildServer, create_log};
use rustix::process::Signal;

use crate::assessment::RESERVE;
use crate::error::refused;
use crate::migration::work::MigrationWork;
use crate::{Error, Result, RunObserver, Stage};
use namespace::Namespace;
use primary::Primary;
use server_dirs::ServerDirs;

/// The program that prints the state of a data directory.
const CONTROLDATA: &str = "pg_controldata";
/// How often positions are compared.
const POLL: Duration = Duration::from_millis(100);
/// A standby that has replayed nothing for so long, although there is something to replay, has failed. One record can take long, for
/// example that of a database that is copied from another one.
const STALLED: Duration = Duration::from_secs(3600);
/// The same after the primary was stopped.
const STALLED_STOPPED: Duration = Duration::from_secs(60);
/// How long the standby may take to start: it replays everything that was written during the base backup.
const START_TIME: Duration = Duration::from_secs(7 * 86_400);
/// The free space of the primary's pool, in bytes, below which a run ends, because the primary keeps its log for the standby; or half of what
/// was free at the beginning, if that is less.
const PRIMARY_RESERVE: u64 = 1 << 30;
/// The standby has caught up if it takes less than this to reach the position that the primary had.
const CLOSE: Duration = Duration::from_secs(1);
/// How often it may try to.
const ROUNDS: usize = 20;
/// The limits of the option `--max-rate` of `pg_basebackup`, in KiB a second.
const RATES_KIB: std::ops::RangeInclusive<u64> = 32..=1_048_576;

/// A run's observer, which also programs that are waited for report to.
pub(crate) type SharedObserver<'a, 'o> = RefCell<&'a mut (dyn RunObserver + 'o)>;

/// A standby on the new datasets. Its server is killed when this is dropped.
pub(crate) struct Standby {
    work: MigrationWork,
    dirs: ServerDirs,
    primary: Primary,
    namespace: Namespace,
    scratch: Scratch,
    server: Option<ChildServer>,
    /// While it exists, the primary keeps the log that the standby has not received.
    kept_log: Option<ClientSession>,
    /// The free space of the primary's pool below which the run ends.
    reserve: u64,
    /// The state in which the primary was stopped.
    stopped: Option<ControlData>,
}

impl Standby {
    /// Examines the running server. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none, or a standby would not have everything that it has; the host's errors.
    pub fn prepare(work: &MigrationWork, is_interrupted: &dyn Fn() -> bool) -> Result<Standby> {
        if !rustix::process::geteuid().is_root() {
            return refused("a standby requires root: it needs a private mount namespace");
        }
        let database = locate(std::slice::from_ref(&work.directory), None, true)?;
        if database.kind != DatabaseKind::Postgresql {
            let dir = quoted(&work.directory);
            return refused(format!(
                "{dir} is not a data directory of PostgreSQL\nhint: move it without a standby"
            ));
        }
        let dirs = ServerDirs::of(&database.root)?;
        primary::check_places(&dirs, &work.roots())?;
        // Old kernels cannot open it so.
        Directory::open_without_links(&dirs.root).map_err(cannot("open", &dirs.root))?;
        let primary = Primary::find(&dirs, is_interrupted)?;
        primary::check_outside(&primary, &work.roots())?;
        namespace::check()?;
        let scratch = scratch::create(primary.server.owner())?;
        let namespace = Namespace::new(work, scratch.path(), primary.server.owner());
        let free = room_of(work.moves.iter().map(|of| &of.mountpoint));
        Ok(Standby {
            work: work.clone(),
            dirs,
            primary,
            namespace,
            scratch,
            server: None,
            kept_log: None,
            reserve: PRIMARY_RESERVE.min(free / 2),
            stopped: None,
        })
    }

    /// Ends the processes of a standby whose run was killed.
    ///
    /// # Errors
    /// [`Error::Refused`] if one does not end; the host's errors.
    pub fn end_others(work: &MigrationWork) -> Result<()> {
        namespace::end_processes(work)
    }

    /// The paths on the new datasets that are not copied, because the standby has them itself: while it runs, and after it was stopped.
    ///
    /// # Errors
    /// None in practice: all directories are on datasets that move.
    pub fn own(&self, is_running: bool) -> Result<BTreeSet<PathBuf>> {
        let name = &self.primary.space_name;
        match is_running {
            true => self.dirs.own_while_running(&self.work, name),
            false => self.dirs.own(&self.work, name),
        }
    }

    /// Refuses what was created since the run began, and what the standby has not.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check_again(&self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.primary.check_again(&self.dirs, is_interrupted)
    }

    /// Bytes of the primary's log that it has not archived, and that the standby has not.
    ///
    /// # Errors
    /// The host's errors.
    pub fn unarchived_bytes(&self) -> Result<u64> {
        self.dirs.unarchived_bytes(&self.work)
    }

    /// The mount points of the database, and the free space below which a run ends.
    pub fn reserve(&self) -> SpaceReserve {
        SpaceReserve { dirs: self.work.roots(), least: self.reserve }
    }

    /// Why the run cannot go on: too little space. The primary keeps log for the standby, and must not be stopped by that.
    fn shortage(&self) -> Option<String> {
        let low = |dirs: &mut dyn Iterator<Item = &PathBuf>, least: u64| room_of(dirs) < least;
        let hint = "hint: free space";
        if let Some(why) = self.reserve().shortage() {
            return Some(why);
        }
        low(&mut self.work.moves.iter().map(|of| &of.staging), RESERVE)
            .then(|| format!("the new pool has no space left\n{hint}, or undo this and name another pool"))
    }

    /// The result of a step, which was interrupted if there was too little space.
    fn unless_short<T>(&self, result: Result<T>) -> Result<T> {
        match (result, self.shortage()) {
            (Err(_), Some(why)) => refused(why),
            (result, _) => result,
        }
    }

    /// Copies the database into the new datasets, which are empty, and compares the copy with the server's checksums.
    ///
    /// # Errors
    /// [`Error::Refused`] with the messages of a program that failed; the host's errors.
    pub fn build(&mut self, rate: Option<u64>, observer: &SharedObserver<'_, '_>) -> Result<()> {
        observer.borrow_mut().stage(Stage::Copy);
        self.dirs.create(&self.work)?;
        let root = &self.dirs.root;
        let mut arguments: Vec<OsString> = vec!["-D".into(), root.into()];
        // The run syncs the pool later.
        arguments.extend(
            ["-X", "stream", "-c", "fast", "--no-sync", "-w", "-l", "poolwright"].map(OsString::from),
        );
        if let Some(log) = &self.dirs.log {
            arguments.extend(["--waldir".into(), log.into()]);
        }
        if let Some(rate) = rate {
            let kib = (rate / 1024).clamp(*RATES_KIB.start(), *RATES_KIB.end());
            arguments.push(format!("--max-rate={kib}k").into());
        }
        for (option, value) in
            [("-h", self.primary.host()), ("-p", &self.primary.server.port), ("-U", &self.primary.user)]
        {
            arguments.extend([option.into(), value.into()]);
        }
        self.run("pg_basebackup", &arguments, observer)?;
        // From here on, only until the standby receives it: the comparison can take long.
        self.kept_log = Some(self.primary.keep_log(&|| observer.borrow().is_interrupted())?);
        observer.borrow_mut().stage(Stage::Verify);
        self.run("pg_verifybackup", &["--no-parse-wal".into(), root.into()], observer)?;
        self.dirs.mark_standby(&self.work, self.primary.server.owner())
    }

    fn run(&self, name: &str, arguments: &[OsString], observer: &SharedObserver<'_, '_>) -> Result<()> {
        let shown: Vec<String> = arguments.iter().map(|of| of.to_string_lossy().into_owned()).collect();
        observer.borrow_mut().command(&format!("{name} {}", shown.join(" ")));
        let mut command = self.namespace.command(&self.primary.bindir.join(name))?;
        command.args(arguments);
        let total = used(self.work.moves.iter().map(|of| &of.mountpoint));
        let watch = || {
            let done = used(self.work.moves.iter().map(|of| &of.staging));
            let mut observer = observer.borrow_mut();
            // Each byte counts twice.
            observer.progress(2 * done.min(total), 2 * total);
            observer.is_interrupted() || self.shortage().is_some()
        };
        let end =
            self.unless_short(run_program(command, ProgramOutput::Kept, &watch).map_err(Error::from))?;
        match end.status.success() {
            true => Ok(()),
            false => self.unless_short(refused(format!(
                "{name}, which sees the new datasets in the places of the present ones, failed ({}): {}",
                end.status, end.said
            ))),
        }
    }

    /// Starts the standby, and waits until it answers.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's last messages if it does not start.
    pub fn start(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        let mut command = self.namespace.command(&self.primary.bindir.join("postgres"))?;
        command.arg("-D").arg(&self.dirs.root);
        let settings = settings::of(&self.primary, &self.dirs.root, self.scratch.path());
        for setting in settings {
            command.args(["-c", &setting]);
        }
        let mut server = ChildServer::start(command, self.create_log()?)?;
        let mut kept_log = self.kept_log.take();
        let answers = || {
            // Its receiver keeps the log from here on, by a temporary slot.
            if kept_log.is_some() && self.primary.has_standby() {
                kept_log = None;
            }
            let answer = primary::ask(self.psql(), "SELECT pg_is_in_recovery();", &|| false);
            answer.is_ok_and(|answer| answer == "t")
        };
        server.start_time = START_TIME;
        let halt = || is_interrupted() || self.shortage().is_some();
        let started = server.wait_until(answers, &halt).map_err(Error::from);
        self.kept_log = kept_log;
        self.server = Some(server);
        let started = self.unless_short(started)?;
        started.or_else(|why| refused(format!("the standby did not start: {why}")))
    }

    fn create_log(&self) -> Result<File> {
        let dir = self.scratch.path();
        Ok(create_log(&Directory::open(dir).map_err(cannot("open", dir))?)?)
    }

    fn socket_dir(&self) -> PathBuf {
        self.scratch.path().join(private::SOCKET)
    }

    /// The client of the standby.
    fn psql(&self) -> Command {
        let mut server = self.primary.server.clone();
        server.socket_dir = self.socket_dir().display().to_string();
        server.port = private::PORT.to_owned();
        let mut psql = server.psql(None);
        psql.env("PGUSER", &self.primary.user);
        psql
    }

    /// How far the standby has replayed the log.
    fn replayed(&self, is_interrupted: &dyn Fn() -> bool) -> Result<Lsn> {
        primary::position(&primary::ask(self.psql(), "SELECT pg_last_wal_replay_lsn();", is_interrupted)?)
    }

    /// Waits until the standby has replayed the log to a position.
    fn reach(&mut self, goal: Lsn, stalled: Duration, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        let (mut last, mut moved) = (None, Instant::now());
        loop {
            let replayed = self.replayed(is_interrupted);
            if matches!(replayed, Ok(at) if at >= goal) {
                return Ok(());
            }
            if let Some(at) = replayed.as_ref().ok().copied().filter(|at| Some(*at) != last) {
                (last, moved) = (Some(at), Instant::now());
            }
            let is_running = self.server.as_mut().is_some_and(ChildServer::is_running);
            if !is_running || moved.elapsed() > stalled {
                let said = self.server.as_ref().map_or_else(String::new, ChildServer::last_words);
                let at = match replayed {
                    Ok(at) => format!("it is at {at}, not at {goal}"),
                    Err(why) => why.to_string(),
                };
                return refused(format!("the standby does not follow the primary: {at}; {said}"));
            }
            if let Some(why) = self.shortage() {
                return refused(why);
            }
            if is_interrupted() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the standby has received and replayed what the primary writes.
    ///
    /// # Errors
    /// [`Error::Refused`] if it cannot.
    pub fn catch_up(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let goal = self.primary.position(is_interrupted)?;
            self.reach(goal, STALLED, is_interrupted)?;
            self.kept_log = None;
            if start.elapsed() < CLOSE {
                break;
            }
        }
        Ok(())
    }

    /// Writes what both servers have to write when they are stopped, except what is changed in the meantime.
    ///
    /// # Errors
    /// As [`Standby::catch_up`].
    pub fn flush(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.primary.ask("CHECKPOINT;", is_interrupted)?;
        let goal = self.primary.position(is_interrupted)?;
        self.reach(goal, STALLED, is_interrupted)?;
        // It only saves time, and a conflict with what is replayed can cancel it.
        match primary::ask(self.psql(), "CHECKPOINT;", is_interrupted) {
            Err(error) if is_interrupted() => Err(error),
            _ => Ok(()),
        }
    }

    /// After the primary was stopped: waits until the standby has everything, and stops it. Both directories have the same database then.
    ///
    /// # Errors
    /// [`Error::Refused`] if they do not; the host's errors.
    pub fn finish(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        let before = self.primary_control()?;
        if before.state != ControlData::SHUT_DOWN {
            return refused(format!(
                "the primary was not shut down cleanly; its state is {:?}\nhint: stop it with a fast shutdown",
                before.state
            ));
        }
        primary::check_logged(&self.dirs, &self.primary.space_name)?;
        primary::check_slots(&self.dirs)?;
        // The checkpoint of the shutdown is the last record, and begins there.
        self.reach(Lsn(before.checkpoint.0 + 1), STALLED_STOPPED, is_interrupted)?;
        self.stop()?;
        let after = self.standby_control()?;
        let expected = ControlData { state: ControlData::SHUT_DOWN_IN_RECOVERY.to_owned(), ..before.clone() };
        self.stopped = Some(before);
        match after == expected {
            true => Ok(()),
            false => refused(format!(
                "the standby has not become equal to the primary: {after:?}, but {expected:?} was expected"
            )),
        }
    }

    /// After everything else was copied: lets the server start on the new datasets as after its own shutdown, and archive what the primary
    /// has not archived. Returns how many segments these are.
    ///
    /// # Errors
    /// [`Error::Refused`] if the primary was started again; the host's errors.
    pub fn take_over(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<usize> {
        let started_again = "the primary was started again while the standby replaced it";
        if Some(self.primary_control()?) != self.stopped {
            return refused(started_again);
        }
        let unarchived =
            self.dirs.keep_unarchived(&self.work, self.primary.server.owner(), is_interrupted)?;
        self.dirs.adopt_control(&self.work)?;
        match Some(self.standby_control()?) == self.stopped {
            true => Ok(unarchived),
            false => refused(started_again),
        }
    }

    /// Stops the standby, and waits until its processes have ended: they keep the datasets in use.
    fn stop(&mut self) -> Result<()> {
        let Some(server) = self.server.take() else { return Ok(()) };
        // As `pg_ctl stop -m fast`.
        if let Err(why) = server.stop(Signal::INT)? {
            return refused(format!("the standby did not stop: {why}"));
        }
        namespace::end_processes(&self.work)
    }

    /// The state of the primary's directory.
    fn primary_control(&self) -> Result<ControlData> {
        let program = self.primary.bindir.join(CONTROLDATA);
        self.control(command_as(self.primary.server.owner(), &program))
    }

    /// The control data of the standby.
    fn standby_control(&self) -> Result<ControlData> {
        self.control(self.namespace.reading_command(&self.primary.bindir.join(CONTROLDATA))?)
    }

    fn control(&self, mut command: Command) -> Result<ControlData> {
        command.arg("-D").arg(&self.dirs.root).env("LC_ALL", "C").stdin(Stdio::null());
        let done = command.output().map_err(cannot("run", CONTROLDATA))?;
        let said = String::from_utf8_lossy(&done.stdout);
        match ControlData::parse(&said).filter(|_| done.status.success()) {
            Some(found) => Ok(found),
            None => {
                let said = [said, String::from_utf8_lossy(&done.stderr)].concat();
                refused(format!("{CONTROLDATA} failed ({}): {}", done.status, said.trim()))
            }
        }
    }
}

/// Checks whether a standby server could replace the database's server. Changes nothing.
///
/// # Errors
/// As the run: [`Error::Refused`] if no server runs, or a standby would not have everything that it has; the host's errors.
pub fn check_standby(work: &MigrationWork) -> Result<()> {
    Standby::prepare(work, &|| false).map(drop)
}

/// Free space that a run leaves in the pool of the database.
#[derive(Clone, Debug)]
pub(crate) struct SpaceReserve {
    dirs: Vec<PathBuf>,
    least: u64,
}

impl SpaceReserve {
    /// Why a run cannot go on; `None` if there is enough.
    pub fn shortage(&self) -> Option<String> {
        let least = poolwright_base::units::format_size(self.least);
        (room_of(self.dirs.iter()) < self.least).then(|| {
            format!("the pool of the database has less than {least} of free space\nhint: free space")
        })
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        drop(self.server.take());
        // If they do not end, the datasets stay in use, and the next step says so.
        let _ = namespace::end_processes(&self.work);
    }
}

/// The least free space of the file systems of these directories, in bytes.
fn room_of<'p>(dirs: impl Iterator<Item = &'p PathBuf>) -> u64 {
    dirs.filter_map(|dir| room::available(dir).ok()).min().unwrap_or(u64::MAX)
}

/// The bytes that the file systems of these directories have in use.
fn used<'p>(dirs: impl Iterator<Item = &'p PathBuf>) -> u64 {
    dirs.filter_map(|dir| room::used(Path::new(dir)).ok()).sum()
}

//! A standby server of a PostgreSQL on the new datasets, which takes the primary's place.
//!
//! Copying files takes longer the more of them the database changes, and a table of a gigabyte is one file. A standby receives the changes
//! themselves, so the database is stopped for seconds, whatever its size. `pg_basebackup` copies the database while it runs, and
//! `pg_verifybackup` compares each file with the checksums that the server has sent. The standby follows the primary until that is stopped in
//! order, replays its last record, which is the checkpoint of the shutdown, and is stopped too. Both directories then have the same
//! database: the same system identifier, timeline and last checkpoint. So the new one starts like the old one, without a promotion.
//!
//! The primary is not changed: no setting, role or permanent replication slot is created.

mod control;
mod namespace;
mod primary;
mod server_dirs;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_apply::{RunObserver, Stage};
use poolwright_backup::client::{ClientSession, command_as};
use poolwright_backup::database::{DatabaseKind, locate};
use poolwright_backup::program::{ProgramOutput, run_program};
use poolwright_backup::server::ChildServer;
use poolwright_host::writers::find_writer_of_mounts;
use poolwright_host::{Scratch, quoted, room};
use rustix::process::Signal;

use crate::error::refused;
use crate::work::MigrationWork;
use crate::{Error, Result};
use control::{ControlData, Lsn};
use namespace::Namespace;
use primary::Primary;
use server_dirs::ServerDirs;

/// Starts the names of the scratch directories.
const SCRATCH_PREFIX: &str = "poolwright-standby-";
/// The standby's port, which only names its socket.
const PORT: &str = "5432";
/// The program that prints the state of a data directory.
const CONTROLDATA: &str = "pg_controldata";
/// How often positions are compared.
const POLL: Duration = Duration::from_millis(100);
/// A standby that has replayed nothing for so long, although there is something to replay, has failed.
const STALLED: Duration = Duration::from_secs(120);
/// The standby has caught up if it takes less than this to reach the position that the primary had.
const CLOSE: Duration = Duration::from_secs(1);
/// How often it may try to.
const ROUNDS: usize = 20;
/// How long processes may have files open after their server has ended.
const EXIT_TIME: Duration = Duration::from_secs(30);
/// The limits of the option `--max-rate` of `pg_basebackup`, in KiB a second.
const RATES_KIB: std::ops::RangeInclusive<u64> = 32..=1_048_576;

/// Settings of the standby, which override those of the primary's configuration: it is reached by its socket only, archives nothing, and
/// needs little memory beside the primary.
const SETTINGS: [&str; 24] = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "ssl=off",
    "hot_standby=on",
    "max_standby_streaming_delay=0",
    "archive_mode=off",
    "restore_command=",
    "archive_cleanup_command=",
    "recovery_end_command=",
    "recovery_min_apply_delay=0",
    "recovery_target=",
    "recovery_target_lsn=",
    "recovery_target_name=",
    "recovery_target_time=",
    "recovery_target_xid=",
    "primary_slot_name=",
    "wal_receiver_create_temp_slot=on",
    "synchronous_standby_names=",
    "fsync=on",
    "shared_buffers=128MB",
    "huge_pages=off",
    "logging_collector=off",
    "log_destination=stderr",
    "external_pid_file=",
];
/// Settings that later versions do not have: the first such version, and the setting.
const FORMER: [(u32, &str); 2] =
    [(150_000, "stats_temp_directory=pg_stat_tmp"), (160_000, "promote_trigger_file=")];

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
}

impl Standby {
    /// Examines the running server. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none, or a standby would not have everything that it has; the host's errors.
    pub fn prepare(work: &MigrationWork, is_interrupted: &dyn Fn() -> bool) -> Result<Standby> {
        if !rustix::process::geteuid().is_root() {
            return refused("a standby requires root: it has mounts of its own");
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
        let primary = Primary::find(&dirs, is_interrupted)?;
        primary::check_logged(&dirs)?;
        let parent = std::env::temp_dir();
        let scratch = Scratch::create(&parent, SCRATCH_PREFIX)
            .map_err(Error::host("create a directory in", &parent))?;
        let path = scratch.path();
        let open = fs::Permissions::from_mode(0o711);
        fs::set_permissions(path, open).map_err(Error::host("set the mode of", path))?;
        let namespace = Namespace::new(work, path, primary.server.owner());
        let standby =
            Standby { work: work.clone(), dirs, primary, namespace, scratch, server: None, kept_log: None };
        let socket_dir = standby.socket_dir();
        poolwright_host::private::make_dir(&socket_dir).map_err(Error::host("create", &socket_dir))?;
        let (user, group) = standby.primary.server.owner();
        chown(&socket_dir, Some(user), Some(group)).map_err(Error::host("set the owner of", &socket_dir))?;
        for (name, text) in [("pg_hba.conf", "local all all trust\n"), ("pg_ident.conf", "")] {
            let path = standby.scratch.path().join(name);
            fs::write(&path, text).map_err(Error::host("write", &path))?;
        }
        Ok(standby)
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
        arguments.extend(["-X", "stream", "-c", "fast", "-w", "-l", "poolwright"].map(OsString::from));
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
            observer.is_interrupted()
        };
        let end = run_program(command, ProgramOutput::Kept, &watch).map_err(interruption)?;
        match end.status.success() {
            true => Ok(()),
            false => refused(format!("{name} failed ({}): {}", end.status, end.said)),
        }
    }

    /// Starts the standby, and waits until it answers.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's last messages if it does not start.
    pub fn start(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        let mut command = self.namespace.command(&self.primary.bindir.join("postgres"))?;
        command.arg("-D").arg(&self.dirs.root);
        for setting in self.settings() {
            command.args(["-c", &setting]);
        }
        let log = self.scratch.path().join("server.log");
        let mut server = ChildServer::spawn(command, &log)?;
        let answers = || {
            let answer = primary::ask(self.psql(), "SELECT pg_is_in_recovery();", &|| false);
            answer.is_ok_and(|answer| answer == "t")
        };
        let started = server.wait_until(answers, is_interrupted).map_err(interruption)?;
        self.server = Some(server);
        started.or_else(|why| refused(format!("the standby did not start: {why}")))
    }

    fn settings(&self) -> Vec<String> {
        let primary = &self.primary;
        let path = |name: &str| self.scratch.path().join(name).display().to_string();
        let mut settings: Vec<String> = SETTINGS.map(str::to_owned).to_vec();
        settings
            .extend(FORMER.iter().filter(|(end, _)| primary.version < *end).map(|(_, of)| (*of).to_owned()));
        settings.extend(primary.settings.iter().map(|(name, value)| format!("{name}={value}")));
        settings.extend([
            format!("port={PORT}"),
            format!("config_file={}", primary.config_file.display()),
            format!("data_directory={}", self.dirs.root.display()),
            format!("hba_file={}", path("pg_hba.conf")),
            format!("ident_file={}", path("pg_ident.conf")),
            format!("unix_socket_directories={}", self.socket_dir().display()),
            format!("primary_conninfo={}", self.primary_conninfo()),
        ]);
        settings
    }

    fn primary_conninfo(&self) -> String {
        let quote = |value: &str| format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
        let Primary { server, user, .. } = &self.primary;
        format!(
            "host={} port={} user={} application_name=poolwright",
            quote(self.primary.host()),
            quote(&server.port),
            quote(user)
        )
    }

    fn socket_dir(&self) -> PathBuf {
        self.scratch.path().join("socket")
    }

    /// The client of the standby.
    fn psql(&self) -> Command {
        let mut server = self.primary.server.clone();
        server.socket_dir = self.socket_dir().display().to_string();
        server.port = PORT.to_owned();
        let mut psql = server.psql(None);
        psql.env("PGUSER", &self.primary.user);
        psql
    }

    /// How far the standby has replayed the log.
    fn replayed(&self, is_interrupted: &dyn Fn() -> bool) -> Result<Lsn> {
        primary::position(&primary::ask(self.psql(), "SELECT pg_last_wal_replay_lsn();", is_interrupted)?)
    }

    /// Waits until the standby has replayed the log to a position.
    fn reach(&mut self, goal: Lsn, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        let (mut last, mut moved) = (None, Instant::now());
        loop {
            let replayed = self.replayed(is_interrupted);
            if matches!(replayed, Ok(at) if at >= goal) {
                return Ok(());
            }
            if matches!(replayed, Ok(at) if Some(at) != last) {
                (last, moved) = (replayed.ok(), Instant::now());
            }
            let is_running = self.server.as_mut().is_some_and(ChildServer::is_running);
            if !is_running || moved.elapsed() > STALLED {
                let said = self.server.as_ref().map_or_else(String::new, ChildServer::last_words);
                return refused(format!("the standby does not follow the primary: {said}"));
            }
            if is_interrupted() {
                return Err(poolwright_apply::Error::Interrupted.into());
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
            self.reach(goal, is_interrupted)?;
            // Its receiver has a temporary slot too.
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
        self.reach(goal, is_interrupted)?;
        primary::ask(self.psql(), "CHECKPOINT;", is_interrupted).map(|_| ())
    }

    /// After the primary was stopped: waits until the standby has everything, stops it, and gives it the primary's other files. Returns the
    /// number of segments of the log that the primary has not archived; the new server will.
    ///
    /// # Errors
    /// [`Error::Refused`] if the two directories do not have the same database; the host's errors.
    pub fn finish(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<usize> {
        primary::check_logged(&self.dirs)?;
        primary::check_slots(&self.dirs)?;
        let before = self.primary_control()?;
        if before.state != ControlData::SHUT_DOWN {
            return refused(format!(
                "the primary was not stopped in order; its state is {:?}\nhint: let it be stopped by a fast shutdown",
                before.state
            ));
        }
        // The checkpoint of the shutdown is the last record, and begins there.
        self.reach(Lsn(before.checkpoint.0 + 1), is_interrupted)?;
        self.stop()?;
        let after = self.standby_control()?;
        let expected = ControlData { state: ControlData::SHUT_DOWN_IN_RECOVERY.to_owned(), ..before.clone() };
        if after != expected {
            return refused(format!(
                "the standby has not become equal to the primary: {after:?}, but {expected:?} was expected"
            ));
        }
        let owner = self.primary.server.owner();
        self.dirs.copy_others(&self.work, || !is_interrupted())?;
        let unarchived = self.dirs.keep_unarchived(&self.work, owner)?;
        match self.primary_control()? == before {
            true => Ok(unarchived),
            false => refused("the primary was started again while the standby took its place"),
        }
    }

    /// Stops the standby, and waits until its processes have ended: they keep the datasets in use.
    fn stop(&mut self) -> Result<()> {
        let Some(server) = self.server.take() else { return Ok(()) };
        // As `pg_ctl stop -m fast`.
        if let Err(why) = server.stop(Signal::INT)? {
            return refused(format!("the standby did not stop: {why}"));
        }
        self.wait_for_end();
        Ok(())
    }

    fn wait_for_end(&self) {
        let staging: Vec<PathBuf> = self.work.moves.iter().map(|of| of.staging.clone()).collect();
        let end = Instant::now() + EXIT_TIME;
        while find_writer_of_mounts(&staging).is_some() && Instant::now() < end {
            std::thread::sleep(POLL);
        }
    }

    /// The state of the primary's directory.
    fn primary_control(&self) -> Result<ControlData> {
        let program = self.primary.bindir.join(CONTROLDATA);
        self.control(command_as(self.primary.server.owner(), &program))
    }

    /// That of the standby's.
    fn standby_control(&self) -> Result<ControlData> {
        self.control(self.namespace.command(&self.primary.bindir.join(CONTROLDATA))?)
    }

    fn control(&self, mut command: Command) -> Result<ControlData> {
        command.arg("-D").arg(&self.dirs.root).env("LC_ALL", "C").stdin(Stdio::null());
        let done = command.output().map_err(Error::host("run", Path::new(CONTROLDATA)))?;
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

/// Checks whether a standby server could take the database's place. Changes nothing.
///
/// # Errors
/// As the run: [`Error::Refused`] if no server runs, or a standby would not have everything that it has; the host's errors.
pub fn check_standby(work: &MigrationWork) -> Result<()> {
    Standby::prepare(work, &|| false).map(drop)
}

impl Drop for Standby {
    fn drop(&mut self) {
        if self.server.take().is_some() {
            self.wait_for_end();
        }
    }
}

/// The bytes that the file systems of these directories have in use.
fn used<'p>(dirs: impl Iterator<Item = &'p PathBuf>) -> u64 {
    dirs.filter_map(|dir| room::used(Path::new(dir)).ok()).sum()
}

fn interruption(error: poolwright_backup::Error) -> Error {
    match error {
        poolwright_backup::Error::Interrupted => poolwright_apply::Error::Interrupted.into(),
        other => other.into(),
    }
}

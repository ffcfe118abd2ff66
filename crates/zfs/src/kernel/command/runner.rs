//! Runs the individual commands.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use super::dataset::{self, DatasetSpace};
use super::error::{CommandError, MalformedOutput};
use super::event::{self, PoolEvent};
use super::histogram::{HistogramKind, VdevHistogram, parse_histograms};
use super::process::{self, ProcessEnd, ProcessError, Program, StuckCounter};
use super::property;
use super::remote::RemoteHost;
use super::snapshot::{self, SnapshotSummary, SnapshotTotals};
use super::space::{self, PoolSpace};
use super::status::{self, KernelPool};
use super::vdev_counters::{self, VdevCounters};
use super::version::{InstalledVersion, parse_version};

/// Where the programs are, unless PATH has them.
const SYSTEM_DIRS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

pub(super) const ZPOOL: &str = "zpool";
pub(super) const ZFS: &str = "zfs";

/// The number of lines of a program's message that an error has.
const MESSAGE_LINES: usize = 4;

/// How to run `zpool` and `zfs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOptions {
    /// The path of `zpool`. `None`: search PATH, `/usr/sbin`, `/sbin` and `/usr/local/sbin`.
    pub zpool: Option<PathBuf>,
    /// The path of `zfs`. `None`: search as for `zpool`.
    pub zfs: Option<PathBuf>,
    /// The host on which the programs run, found in the PATH of the user there. `None`: this host, to which the paths and the device
    /// belong.
    pub remote: Option<RemoteHost>,
    /// The device file of the kernel module, without which nothing is run, because `zpool` would load the module. `None`: do
    /// not check.
    pub device: Option<PathBuf>,
    /// The time limit of one run.
    pub deadline: Duration,
    /// The limit for the output of one run, in bytes.
    pub max_output: usize,
    /// The number of commands that may be stuck in the kernel before further ones are refused.
    pub max_stuck: usize,
}

impl Default for CommandOptions {
    /// The installed programs, 10 s, 64 MiB, at most 4 stuck commands.
    fn default() -> CommandOptions {
        CommandOptions {
            zpool: None,
            zfs: None,
            remote: None,
            device: Some(PathBuf::from("/dev/zfs")),
            deadline: Duration::from_secs(10),
            max_output: 64 << 20,
            max_stuck: 4,
        }
    }
}

/// Runs `zpool` and `zfs`. All methods but [`ZfsCommands::change`] read only. Several threads can use one `ZfsCommands`.
#[derive(Debug, Default)]
pub struct ZfsCommands {
    options: CommandOptions,
    /// The pool that the commands examine. `None`: all pools.
    pool: Option<String>,
    stuck: StuckCounter,
    /// The version of the programs, for [`ZfsCommands::status`] and [`ZfsCommands::vdev_counters`].
    version: Mutex<Option<InstalledVersion>>,
    /// Properties that the installed `zfs` has rejected as unknown.
    pub(super) unknown_properties: Mutex<Vec<String>>,
}

/// One command line.
pub(super) struct Invocation {
    pub program: Program,
    /// The command line for messages.
    pub text: String,
}

impl ZfsCommands {
    /// Runs commands with these options. They examine all pools.
    pub fn new(options: CommandOptions) -> ZfsCommands {
        ZfsCommands { options, ..ZfsCommands::default() }
    }

    /// Runs commands that examine one pool, so that another pool that hangs does not delay them. `events` and `version` are not
    /// restricted.
    pub fn of_pool(options: CommandOptions, pool: impl Into<String>) -> ZfsCommands {
        ZfsCommands { options, pool: Some(pool.into()), ..ZfsCommands::default() }
    }

    /// The options.
    pub fn options(&self) -> &CommandOptions {
        &self.options
    }

    /// The number of commands that timed out and have not ended.
    pub fn stuck(&self) -> usize {
        self.stuck.get()
    }

    /// The versions of the programs and of the kernel module. Each call runs the programs again; the other methods use the last result.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn version(&self) -> Result<InstalledVersion, CommandError> {
        let version = self.parsed(&self.invocation(ZFS, &["version"])?, parse_version)?;
        *self.version.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(version.clone());
        Ok(version)
    }

    /// The state of the pools, from the JSON output of 2.3 and later, or from the text of 2.1 and 2.2, for which the command
    /// runs twice: with names and with GUIDs.
    ///
    /// # Errors
    /// If a command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn status(&self) -> Result<Vec<KernelPool>, CommandError> {
        if self.is_at_least(2, 3)? {
            return self.zpool(&["status", "-j", "--json-int"], status::parse_status_json);
        }
        let mut pools = self.zpool(&["status", "-ps"], status::parse_status_text)?;
        if !pools.is_empty() {
            let with_guids = self.zpool(&["status", "-psg"], status::parse_status_text)?;
            status::assign_guids(&mut pools, &with_guids);
        }
        Ok(pools)
    }

    /// The space of the pools.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn list(&self) -> Result<Vec<PoolSpace>, CommandError> {
        self.zpool(&["list", "-Hp", "-o", space::COLUMNS], space::parse_space)
    }

    /// The I/O of the vdevs of a pool. `None` before 2.2.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected, or if the pool does not exist.
    pub fn vdev_counters(&self, pool: &str) -> Result<Option<Vec<VdevCounters>>, CommandError> {
        if !self.is_at_least(2, 2)? {
            return Ok(None);
        }
        check_name(pool)?;
        let arguments =
            ["get", "-Hp", "-o", "name,property,value", vdev_counters::PROPERTIES, pool, "all-vdevs"];
        let invocation = self.invocation(ZPOOL, &arguments)?;
        self.parsed(&invocation, vdev_counters::parse_vdev_counters).map(Some)
    }

    /// The histograms of the pools and their vdevs.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn histograms(&self, kind: HistogramKind) -> Result<Vec<VdevHistogram>, CommandError> {
        let option = match kind {
            HistogramKind::Latency => "-wvgHp",
            HistogramKind::RequestSize => "-rvgHp",
        };
        match self.zpool(&["iostat", option], |text| parse_histograms(text, kind)) {
            // Unlike the other commands, this one fails if there are no pools.
            Err(CommandError::Failed { message, .. }) if message.contains("no pools available") => {
                Ok(Vec::new())
            }
            result => result,
        }
    }

    /// The space of the file systems and volumes: calls `each` with one after the other, because thousands need much memory.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected. `each` may have been called before.
    pub fn for_each_dataset(&self, each: impl FnMut(DatasetSpace)) -> Result<(), CommandError> {
        let arguments = ["list", "-Hp", "-t", "filesystem,volume", "-o", dataset::COLUMNS];
        self.zfs(&arguments, |text| dataset::parse_each(text, each))
    }

    /// The number and the ages of the snapshots of each dataset that has any. The output is added up while it arrives; its
    /// size has no limit but the deadline.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn snapshots(&self) -> Result<Vec<SnapshotTotals>, CommandError> {
        // Sorting by name keeps `zfs` from reading all properties of each snapshot, if it reads none else.
        let arguments = ["list", "-Hp", "-t", "snapshot", "-o", "name,creation", "-s", "name"];
        let arguments = self.with_pool(&arguments, &["-r"])?;
        let invocation = self.invocation(ZFS, &arguments)?;
        let mut counter = snapshot::SnapshotCounter::default();
        let outcome = self.run(&invocation, |piece| counter.add(piece))?;
        let malformed = |cause| CommandError::Malformed { command: invocation.text.clone(), cause };
        match outcome {
            Ok(end) => check(&invocation, &end)?,
            Err(cause) => return Err(malformed(cause)),
        }
        counter.finish().map_err(malformed)
    }

    /// The events in the module's log, oldest first.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn events(&self) -> Result<Vec<PoolEvent>, CommandError> {
        self.parsed(&self.invocation(ZPOOL, &["events", "-Hv"])?, event::parse_events)
    }

    /// The snapshots of one dataset, oldest first. Empty if the dataset does not exist.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn snapshots_of(&self, dataset: &str) -> Result<Vec<SnapshotSummary>, CommandError> {
        check_name(dataset)?;
        let arguments =
            ["list", "-Hp", "-d", "1", "-t", "snapshot", "-o", snapshot::COLUMNS, "-s", "createtxg", dataset];
        none_if_missing(self.parsed(&self.invocation(ZFS, &arguments)?, snapshot::parse_snapshots))
    }

    /// The project IDs of a dataset's files other than 0, which is that of files without a project. None if the pool has no projects.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, or prints something unexpected.
    pub fn project_ids(&self, dataset: &str) -> Result<Vec<u64>, CommandError> {
        check_name(dataset)?;
        let arguments = ["projectspace", "-Hp", "-o", "name", dataset];
        match self.parsed(&self.invocation(ZFS, &arguments)?, property::parse_project_ids) {
            // The feature `project_quota` is off.
            Err(CommandError::Failed { .. }) => Ok(Vec::new()),
            result => result,
        }
    }

    /// A dataset and all file systems and volumes below it, the dataset first. Empty if it does not exist.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn tree_of(&self, dataset: &str) -> Result<Vec<DatasetSpace>, CommandError> {
        check_name(dataset)?;
        let arguments =
            ["list", "-Hp", "-r", "-t", "filesystem,volume", "-o", dataset::COLUMNS, "-s", "name", dataset];
        none_if_missing(self.parsed(&self.invocation(ZFS, &arguments)?, dataset::parse_datasets))
    }

    /// Runs a command that changes something, and ignores its output.
    pub(crate) fn run_change(&self, program: &str, arguments: &[&str]) -> Result<(), CommandError> {
        self.parsed(&self.invocation(program, arguments)?, |_| Ok(()))
    }

    fn is_at_least(&self, major: u32, minor: u32) -> Result<bool, CommandError> {
        let known = self.version.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let version = known.map_or_else(|| self.version(), Ok)?;
        Ok(version.userland.is_at_least(major, minor))
    }

    /// Runs `zpool` for the pool, or for all pools.
    fn zpool<T>(
        &self,
        arguments: &[&str],
        parse: impl FnOnce(&str) -> Result<T, MalformedOutput>,
    ) -> Result<T, CommandError> {
        self.parsed(&self.invocation(ZPOOL, &self.with_pool(arguments, &[])?)?, parse)
    }

    /// Runs `zfs` for the datasets of the pool, or for all datasets.
    pub(super) fn zfs<T>(
        &self,
        arguments: &[&str],
        parse: impl FnOnce(&str) -> Result<T, MalformedOutput>,
    ) -> Result<T, CommandError> {
        self.parsed(&self.invocation(ZFS, &self.with_pool(arguments, &["-r"])?)?, parse)
    }

    /// The arguments, followed by `before` and the pool if the commands examine one pool only.
    fn with_pool<'a>(
        &'a self,
        arguments: &[&'a str],
        before: &[&'a str],
    ) -> Result<Vec<&'a str>, CommandError> {
        let mut arguments = arguments.to_vec();
        if let Some(pool) = &self.pool {
            check_name(pool)?;
            arguments.extend_from_slice(before);
            arguments.push(pool);
        }
        Ok(arguments)
    }

    pub(super) fn invocation(&self, name: &str, arguments: &[&str]) -> Result<Invocation, CommandError> {
        let text = format!("{name} {}", arguments.join(" "));
        if let Some(host) = &self.options.remote {
            let (path, arguments) = host.command(name, arguments);
            let text = format!("{} {text}", host.name());
            return Ok(Invocation { program: Program { path, arguments, has_environment: true }, text });
        }
        let path = if name == ZPOOL { &self.options.zpool } else { &self.options.zfs };
        let path = path.clone().or_else(|| find(name));
        let path = path.ok_or_else(|| CommandError::NotInstalled(PathBuf::from(name)))?;
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Ok(Invocation { program: Program { path, arguments, has_environment: false }, text })
    }

    /// Refuses to run anything if the kernel module is not loaded on this host.
    pub(super) fn check_device(&self) -> Result<(), CommandError> {
        let device = self.options.device.as_ref().filter(|_| self.options.remote.is_none());
        match device.filter(|device| !device.exists()) {
            Some(device) => Err(CommandError::ModuleNotLoaded(device.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn parsed<T>(
        &self,
        invocation: &Invocation,
        parse: impl FnOnce(&str) -> Result<T, MalformedOutput>,
    ) -> Result<T, CommandError> {
        let (output, end) = self.output(invocation)?;
        check(invocation, &end)?;
        parse(&output).map_err(|cause| CommandError::Malformed { command: invocation.text.clone(), cause })
    }

    /// Runs a command, and returns its whole output. Names need not be UTF-8; other bytes are replaced.
    pub(super) fn output(&self, invocation: &Invocation) -> Result<(String, ProcessEnd), CommandError> {
        let limit = self.options.max_output;
        let mut output = Vec::new();
        let outcome = self.run(invocation, |piece| {
            output.extend_from_slice(piece);
            if output.len() > limit { Err(()) } else { Ok(()) }
        })?;
        let end = outcome.map_err(|()| CommandError::TooLarge { command: invocation.text.clone(), limit })?;
        Ok((String::from_utf8_lossy(&output).into_owned(), end))
    }

    /// Runs a command. The inner error is that of `consume`.
    pub(super) fn run<E>(
        &self,
        invocation: &Invocation,
        consume: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Result<ProcessEnd, E>, CommandError> {
        let command = || invocation.text.clone();
        self.check_device()?;
        let count = self.stuck();
        if count > 0 && count >= self.options.max_stuck {
            return Err(CommandError::Stuck { command: command(), count });
        }
        let deadline = self.options.deadline;
        match process::run(&invocation.program, deadline, &self.stuck, consume) {
            Ok(end) => Ok(Ok(end)),
            Err(ProcessError::Stopped(cause)) => Ok(Err(cause)),
            Err(ProcessError::TimedOut) => Err(CommandError::TimedOut { command: command(), deadline }),
            Err(ProcessError::Start(cause)) => Err(start_error(invocation, cause)),
        }
    }
}

/// Nothing, if the pool or dataset does not exist.
pub(super) fn none_if_missing<T: Default>(result: Result<T, CommandError>) -> Result<T, CommandError> {
    match result {
        Err(CommandError::NoSuchPool { .. }) => Ok(T::default()),
        result => result,
    }
}

/// Refuses a name that no pool can have. `zpool` would take a name with a leading hyphen for an option.
pub(super) fn check_name(pool: &str) -> Result<(), CommandError> {
    match pool.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => Ok(()),
        false => Err(CommandError::NoSuchPool { pool: pool.to_owned() }),
    }
}

/// Finds a program in PATH and in [`SYSTEM_DIRS`].
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(SYSTEM_DIRS.iter().map(PathBuf::from));
    dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(|file| file.is_file())
}

pub(super) fn start_error(invocation: &Invocation, cause: std::io::Error) -> CommandError {
    let command = invocation.text.clone();
    match cause.kind() {
        std::io::ErrorKind::NotFound => CommandError::NotInstalled(invocation.program.path.clone()),
        std::io::ErrorKind::PermissionDenied => {
            CommandError::PermissionDenied { command, message: String::new() }
        }
        _ => CommandError::Start { command, cause },
    }
}

/// Turns an exit status other than 0 into an error.
pub(super) fn check(invocation: &Invocation, end: &ProcessEnd) -> Result<(), CommandError> {
    if end.status.success() {
        return Ok(());
    }
    let message = end.message.lines().take(MESSAGE_LINES).collect::<Vec<_>>().join("; ");
    let command = invocation.text.clone();
    let lower = message.to_lowercase();
    if lower.contains("permission denied") || lower.contains("must be run as root") {
        return Err(CommandError::PermissionDenied { command, message });
    }
    let is_module_missing =
        lower.contains("modules are not loaded") || lower.contains("modules cannot be auto-loaded");
    // The device is that of this host.
    if is_module_missing && !invocation.program.has_environment {
        return Err(CommandError::ModuleNotLoaded(PathBuf::from("/dev/zfs")));
    }
    // `cannot open 'tank': no such pool`, and with `zfs`: `cannot open 'tank': dataset does not exist`.
    let missing = lower.contains("no such pool") || lower.contains("dataset does not exist");
    if let Some(pool) = lower.contains("cannot open").then(|| message.split('\'').nth(1)).flatten()
        && missing
    {
        return Err(CommandError::NoSuchPool { pool: pool.to_owned() });
    }
    Err(CommandError::Failed { command, code: end.status.code(), message })
}

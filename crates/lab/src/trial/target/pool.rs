//! A pool of the engine in user space, used through its commands: `pool create`, then `mount` in a separate
//! process, which owns the pool. A failed assertion in the engine ends that process, but not the trial.
//!
//! The first mount is that of the pool's root dataset, on an otherwise unused directory. This keeps the pool open while the datasets of the
//! roles are unmounted and mounted again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_openzfs::property::Settings;
use poolwright_zfs::user::{Client, Counters as PoolCounters, Mounted, PoolInfo, Request, Value};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::directory::forget_pages;
use super::unmount::{unmount, unmount_lazily};
use super::{Counters, DatasetServer, Recorded, Size, Target};
use crate::campaign::PoolSpec;
use crate::trial::Setting;
use crate::trial::driver::bound;
use crate::trial::log_tail::LogTail;
use crate::{Error, Result};
use poolwright_base::cannot;

/// Time limit for an answer of the owner: writing a full ARC to an emulated disk takes minutes.
const ANSWER: Duration = Duration::from_secs(900);
/// Interval between checks while waiting.
const LOOK: Duration = Duration::from_millis(50);
/// Time limit for the end of a mount process that no longer answers.
const ENDING: Duration = Duration::from_secs(10);
/// Length of the longest path of a socket (`sockaddr_un`), minus the suffix of the temporary name that its owner
/// uses.
const SOCKET_PATH: usize = 95;

/// A mounted pool.
#[derive(Debug)]
pub struct PoolTarget {
    setting: Setting,
    spec: PoolSpec,
    name: String,
    dir: PathBuf,
    /// The roles in the order of mounting: a dataset inside another one's directory comes after it.
    roles: Vec<String>,
    places: BTreeMap<String, PathBuf>,
    owner: Option<Owner>,
    /// Whether the device is emulated; from the first cold phase on it is.
    emulates: bool,
    /// Number of traces started so far.
    recording: BTreeMap<String, Recorded>,
    traces: u32,
}

/// The process that has the pool open.
#[derive(Debug)]
struct Owner {
    child: Mutex<Child>,
    pid: i32,
    tail: LogTail,
}

impl Owner {
    fn how_it_ended(&self, status: &str) -> String {
        let why = poolwright_replay::child::reason(status, &self.tail.text());
        format!("the mount process, which has the pool open, ended ({status}): {why}")
    }
}

impl PoolTarget {
    /// Creates the pool and a dataset for every role, and mounts them in their `places`, or in a directory with
    /// the role's name. Everything is below `dir`, including the registry of pools. Unless `emulates` is set, the
    /// pool's device is emulated only from the first cold phase on.
    ///
    /// # Errors
    /// Fails if the path of the directory is too long for a socket, or if the pool or a dataset cannot be created or
    /// mounted.
    pub fn create(
        spec: &PoolSpec,
        datasets: &BTreeMap<String, Settings>,
        places: &BTreeMap<String, PathBuf>,
        dir: &Path,
        emulates: bool,
        setting: &Setting,
    ) -> Result<PoolTarget> {
        let mut roles: Vec<String> = datasets.keys().cloned().collect();
        roles.sort_by_key(|role| places.get(role).map_or(1, |location| location.components().count()));
        let mut target = PoolTarget {
            setting: setting.clone(),
            spec: spec.clone(),
            name: format!("lab{}", std::process::id()),
            dir: dir.to_owned(),
            roles,
            places: places.clone(),
            owner: None,
            emulates,
            recording: BTreeMap::new(),
            traces: 0,
        };
        target.check_length()?;
        for dir in ["files", "root", "state", "run", "traces"] {
            let dir = target.dir.join(dir);
            poolwright_base::private::make_dirs(&dir).map_err(cannot("create", &dir))?;
        }
        target.create_pool()?;
        target.start_owner()?;
        for (role, settings) in datasets {
            let (dataset, settings) = (target.dataset(role), settings.clone());
            target.ask::<()>(Request::Create { dataset, settings, parents: true })?;
        }
        target.mount_all(false)?;
        Ok(target)
    }

    fn check_length(&self) -> Result<()> {
        let socket = self.socket();
        if socket.as_os_str().len() > SOCKET_PATH {
            return Err(Error::Trial(format!(
                "the scratch directory's path is too long for a socket in it ({}): choose one that is at least {} \
                     characters shorter",
                socket.display(),
                socket.as_os_str().len() - SOCKET_PATH
            )));
        }
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("run").join(format!("{}.sock", self.name))
    }

    fn dataset(&self, role: &str) -> String {
        format!("{}/{role}", self.name)
    }

    /// Returns a command of this program with a private registry, which is ended with the trial.
    fn verb(&self) -> Command {
        let mut command = bound(&self.setting.program);
        command
            .env("POOLWRIGHT_STATE_DIR", self.dir.join("state"))
            .env("POOLWRIGHT_RUNTIME_DIR", self.dir.join("run"))
            .current_dir(self.dir.join("files"))
            .stdin(Stdio::null());
        command
    }

    /// Creates the pool; the names of the files are relative to the directory in which the command runs.
    fn create_pool(&self) -> Result<()> {
        let mut command = self.verb();
        command.args(["pool", "create", &self.name]).args(&self.spec.vdevs);
        command.args(["-o", &format!("ashift={}", self.spec.ashift)]);
        let out = command.output().map_err(cannot("start", &self.setting.program))?;
        if out.status.success() {
            return Ok(());
        }
        let why =
            poolwright_replay::child::reason(&out.status.to_string(), &String::from_utf8_lossy(&out.stderr));
        Err(Error::Trial(format!("cannot create the pool on {}: {why}", self.spec.vdevs.join(" "))))
    }

    fn start_owner(&mut self) -> Result<()> {
        let tail = LogTail::in_memory()?;
        let mut command = self.verb();
        command.arg("mount").arg(&self.name).arg(self.dir.join("root"));
        command.args(["--json", "--arc", &self.spec.arc]);
        if self.emulates && self.spec.device != "none" {
            command.args(["--device", &self.spec.device]);
        }
        for (name, value) in &self.spec.tunables {
            command.args(["--tunable", &format!("{name}={value}")]);
        }
        command.stdout(Stdio::piped()).stderr(tail.stdio()?);
        let mut child = command.spawn().map_err(cannot("start", &self.setting.program))?;
        let out = child.stdout.take().expect("piped");
        let pid = child.id() as i32;
        self.owner = Some(Owner { child: Mutex::new(child), pid, tail });
        let (to, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(out).read_line(&mut line);
            let _ = to.send(line);
        });
        let line: String = self.wait_for(&lines, "mounting the pool")?;
        if line.contains("\"mounted\"") {
            return Ok(());
        }
        Err(self.with_trouble(self.ending(format!("mounting the pool: unexpected output {line:?}"))))
    }

    /// Waits for the message of a thread, or for Ctrl-C.
    fn wait_for<T>(&self, from: &std::sync::mpsc::Receiver<T>, what: &str) -> Result<T> {
        let start = Instant::now();
        loop {
            match from.recv_timeout(LOOK) {
                Ok(value) => return Ok(value),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Trial(format!("{what}: the thread panicked")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if (self.setting.interrupted)() {
                return Err(Error::Interrupted);
            }
            if start.elapsed() > ANSWER {
                let seconds = ANSWER.as_secs();
                return Err(Error::Trial(format!(
                    "{what}: the mount process did not answer within {seconds} s"
                )));
            }
        }
    }

    /// Sends a request to the owner; Ctrl-C ends the waiting.
    fn ask<T: DeserializeOwned + Send + 'static>(&self, request: Request) -> Result<T> {
        self.exchange(request).map_err(|why| self.with_trouble(why))
    }

    fn exchange<T: DeserializeOwned + Send + 'static>(&self, request: Request) -> Result<T> {
        let (socket, pool, what) = (self.socket(), self.name.clone(), describe_request(&request));
        let (to, answer) = channel();
        std::thread::spawn(move || {
            let reply = Client::connect_at(&socket, &pool).and_then(|client| match client {
                Some(mut client) => client.ask::<T>(&request).map(Some),
                None => Ok(None),
            });
            let _ = to.send(reply);
        });
        match self.wait_for(&answer, &what)? {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.ending(format!("{what}: no process has the pool open"))),
            Err(poolwright_zfs::user::Error::Refused(fault)) if fault.is_busy() => {
                Err(Error::Busy(format!("{what}: {fault}")))
            }
            Err(poolwright_zfs::user::Error::Refused(fault)) => Err(Error::Trial(format!("{what}: {fault}"))),
            Err(why) => Err(self.ending(format!("{what}: {why}"))),
        }
    }

    /// Returns the cause of a failed exchange: a connection closes a moment before its process ends, and the
    /// end of the process is the cause.
    fn ending(&self, why: String) -> Error {
        let start = Instant::now();
        while self.trouble().is_none() && start.elapsed() < ENDING {
            std::thread::sleep(LOOK);
        }
        Error::Trial(why)
    }

    /// Returns the end of the owner as the cause if it has ended.
    fn with_trouble(&self, why: Error) -> Error {
        match self.trouble() {
            Some(trouble) if !matches!(why, Error::Interrupted) => Error::Trial(trouble),
            _ => why,
        }
    }

    /// Repeats a request while the object is still in use.
    fn ask_patiently<T: DeserializeOwned + Send + 'static>(&self, request: &Request) -> Result<T> {
        const PATIENCE: Duration = Duration::from_secs(120);
        let start = Instant::now();
        loop {
            match self.ask(request.clone()) {
                Err(Error::Busy(_)) if start.elapsed() < PATIENCE => std::thread::sleep(LOOK),
                done => return done,
            }
        }
    }

    fn mount_all(&mut self, record: bool) -> Result<()> {
        for role in self.roles.clone() {
            // The directory is created only now, because it may be in a dataset that was just mounted.
            let path = self.path(&role);
            poolwright_base::private::make_dirs(&path).map_err(cannot("create", &path))?;
            let trace = self.dir.join("traces").join(format!("{role}.{}.parquet", self.traces));
            let mounted = Mounted {
                caching: Some(self.spec.caching.clone()),
                record: record.then(|| trace.clone()),
                ..Mounted::new(self.dataset(&role), self.path(&role))
            };
            let began = Instant::now();
            self.ask_patiently::<Mounted>(&Request::Mount(mounted))?;
            if record {
                let began = made_at(&trace).filter(|made| *made > began).unwrap_or_else(Instant::now);
                self.recording.insert(role, Recorded { trace, began });
            }
        }
        self.traces += 1;
        Ok(())
    }

    fn unmount_all(&self) -> Result<()> {
        self.roles.iter().rev().try_for_each(|role| unmount(&self.path(role)))
    }

    /// Exports the pool and waits until its owner ends.
    fn stop_owner(&mut self) -> Result<()> {
        self.ask::<()>(Request::Release)?;
        let start = Instant::now();
        while let Some(owner) = &self.owner {
            let status = owner.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            match status.map_err(cannot("wait for", &self.setting.program))? {
                Some(status) if status.success() => self.owner = None,
                Some(status) => return Err(Error::Trial(owner.how_it_ended(&status.to_string()))),
                None if (self.setting.interrupted)() => return Err(Error::Interrupted),
                None if start.elapsed() > ANSWER => {
                    return Err(Error::Trial("exporting the pool: the mount process did not end".into()));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Ok(())
    }

    /// Returns the paths of the vdev files.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.join("files")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
    }

    fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => Ok(done.map_err(cannot("remove", &self.dir))?),
        }
    }

    /// Kills the owner and unmounts everything: nothing of the pool is needed any longer.
    fn force_down(&mut self) {
        if let Some(owner) = self.owner.take() {
            let mut child = owner.child.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.kill();
            let _ = child.wait();
        }
        let mounts = mountinfo::read().unwrap_or_default();
        let below: Vec<&MountEntry> = mountinfo::below(&mounts, &self.dir).collect();
        for mount in below.iter().rev() {
            let _ = unmount_lazily(&mount.point);
        }
    }
}

/// Describes a request in messages.
fn describe_request(request: &Request) -> String {
    match request {
        Request::Create { dataset, .. } => format!("creating {dataset}"),
        Request::Set { dataset, settings } => {
            let words: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("setting {} on {dataset}", words.join(" "))
        }
        Request::Mount(mounted) => format!("mounting {}", mounted.dataset),
        Request::Release => "unmounting and exporting the pool".into(),
        Request::Sync => "syncing the pool".into(),
        Request::SnapshotAll { names } => format!("taking the snapshots {}", names.join(" ")),
        Request::Destroy { name, .. } => format!("destroying {name}"),
        _ => "requesting data from the mount process".into(),
    }
}

/// Returns the creation time of a trace according to the host's file system, precise to some milliseconds.
fn made_at(trace: &Path) -> Option<Instant> {
    let made = fs::metadata(trace).and_then(|meta| meta.created()).ok()?;
    Instant::now().checked_sub(SystemTime::now().duration_since(made).ok()?)
}

impl Target for PoolTarget {
    fn path(&self, role: &str) -> PathBuf {
        self.dir.join("datasets").join(self.places.get(role).map_or(Path::new(role), PathBuf::as_path))
    }

    /// Recording is a property of a mount, so it begins and ends with a new mount. With `caching=pages` this
    /// drops the kernel's pages; the ARC remains.
    fn prepare(&mut self, cold: bool, record: bool) -> Result<()> {
        if cold {
            self.stop_owner()?;
            self.recording.clear();
            self.files().iter().try_for_each(|file| forget_pages(file))?;
            self.emulates = true;
            self.start_owner()?;
            return self.mount_all(record);
        }
        if record {
            self.unmount_all()?;
            self.mount_all(true)?;
        }
        Ok(())
    }

    fn set(&self, role: &str, settings: &Settings) -> Result<()> {
        self.ask(Request::Set { dataset: self.dataset(role), settings: settings.clone() })
    }

    fn snapshot(&self, name: &str) -> Result<()> {
        let names = self.roles.iter().map(|role| format!("{}@{name}", self.dataset(role))).collect();
        self.ask::<IgnoredAny>(Request::SnapshotAll { names }).map(drop)
    }

    fn destroy_snapshot(&self, name: &str) -> Result<()> {
        self.roles.iter().try_for_each(|role| {
            let name = format!("{}@{name}", self.dataset(role));
            self.ask_patiently::<IgnoredAny>(&Request::Destroy { name, recursive: false }).map(drop)
        })
    }

    fn sync(&self) -> Result<()> {
        self.ask(Request::Sync)
    }

    fn sizes(&self) -> Result<BTreeMap<String, Size>> {
        let mut sizes = BTreeMap::new();
        for role in &self.roles {
            let properties = vec!["referenced".into(), "logicalreferenced".into(), "used".into()];
            let values: Vec<Value> = self.ask(Request::Get { dataset: self.dataset(role), properties })?;
            let bytes = |name: &str| -> Result<u64> {
                let value = values.iter().find(|value| value.property == name);
                value.and_then(|value| value.value.parse().ok()).ok_or_else(|| {
                    Error::Trial(format!("the mount process did not report {name} of {}", self.dataset(role)))
                })
            };
            let allocated = bytes("referenced")?;
            // A trial's datasets are not clones and have neither children nor reservations: only snapshots use more.
            let held = Some(bytes("used")?.saturating_sub(allocated));
            let size = Size { logical: bytes("logicalreferenced")?, allocated, held };
            sizes.insert(role.clone(), size);
        }
        Ok(sizes)
    }

    fn counters(&self) -> Result<Option<Counters>> {
        let all: PoolCounters = self.ask(Request::Counters)?;
        let name =
            |path: &Path| path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let zils = all.datasets.into_iter().map(|dataset| (dataset.name, dataset.zil));
        Ok(Some(Counters {
            arc: all.arc,
            vdevs: all.files.iter().map(|file| (name(&file.path), file.moved)).collect(),
            zils: zils.filter(|(name, _)| *name != self.name).collect(),
        }))
    }

    /// A dataset can be mounted again only after the last process has closed it: then its trace is complete.
    fn recorded(&mut self) -> Result<BTreeMap<String, Recorded>> {
        if self.recording.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.unmount_all()?;
        let recorded = std::mem::take(&mut self.recording);
        self.mount_all(false)?;
        Ok(recorded)
    }

    fn servers(&self) -> Vec<DatasetServer> {
        self.owner.iter().map(|owner| DatasetServer::Process(owner.pid)).collect()
    }

    fn trouble(&self) -> Option<String> {
        let owner = self.owner.as_ref()?;
        let status = owner.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().ok()??;
        Some(owner.how_it_ended(&status.to_string()))
    }

    fn location(&self) -> &Path {
        &self.dir
    }

    fn versions(&self) -> Result<BTreeMap<String, String>> {
        let info: PoolInfo = self.ask(Request::Status)?;
        Ok(BTreeMap::from([("openzfs".to_owned(), info.engine)]))
    }

    fn tear_down(&mut self) -> Result<()> {
        if self.owner.is_some() {
            self.stop_owner()?;
        }
        self.remove()
    }
}

impl Drop for PoolTarget {
    fn drop(&mut self) {
        self.force_down();
        let _ = self.remove();
    }
}

//! A connection to a pool by its name: through the socket of its owner, or to this process, which opens the pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use poolwright_base::process;
use poolwright_openzfs::{Config, Engine, Import, Pool};
use serde::de::DeserializeOwned;

use crate::user::{
    Client, ENDING, Error, Fault, LocalPool, LockOwner, NoMounts, Reply, Request, Result, find, registry,
    runtime_dir,
};

/// How long to retry while another process opens, closes or briefly uses the pool.
const PATIENCE: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(50);
/// How often the request to an owner that is closing the pool is repeated. It resumes if it could not unmount everything.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Waits that end sooner are not reported.
const UNREPORTED: Duration = Duration::from_secs(2);

/// A wait for an owner that writes its last changes and then exports the pool.
#[derive(Clone, Copy, Debug)]
pub struct OwnerWait<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The owner's process ID.
    pub pid: i32,
}

/// Reports a wait of more than two seconds, once.
pub type OnWait = fn(OwnerWait<'_>);

/// How to connect to a pool.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The pool's files. If empty, those of the registry.
    pub files: Vec<PathBuf>,
    /// Whether to open the pool even if its label says that another host has it open.
    pub force: bool,
    /// The engine's limits, if this process opens the pool.
    pub engine: Config,
    /// Called if the owner takes long to close the pool.
    pub on_wait: OnWait,
}

/// A process that has a pool open.
pub enum PoolConnection {
    /// The process that has the pool mounted.
    Owner {
        /// The connection to it.
        client: Client,
        /// How to open the pool if the owner is closing it.
        options: Box<ConnectOptions>,
        /// Whether the owner has answered. Later requests then belong to the same process.
        answered: bool,
    },
    /// This process, until [`PoolConnection::finish`].
    Here(Box<LocalPool>),
}

impl PoolConnection {
    /// Connects to the pool's owner. Without an owner, opens the pool in this process.
    ///
    /// # Errors
    /// If the owner's socket cannot be used, the pool's files are unknown or belong to another pool, another process has the
    /// pool open without serving it, or the engine cannot import it.
    pub fn open(pool: &str, options: impl Into<ConnectOptions>) -> Result<PoolConnection> {
        let options = options.into();
        if let Some(client) = Client::connect(pool)? {
            return Ok(PoolConnection::Owner { client, options: Box::new(options), answered: false });
        }
        find::check_exist(pool, &options.files)?;
        let paths = find::pool_files(pool, &options.files)?;
        let since = SystemTime::now();
        let how = Import { readonly: false, force: options.force };
        Ok(match open(pool, &paths, &options.engine, how)? {
            Opened::Owned(client) => {
                PoolConnection::Owner { client, options: Box::new(options), answered: false }
            }
            Opened::Here(opened) => {
                PoolConnection::Here(Box::new(LocalPool::new(opened, since, Arc::new(NoMounts))))
            }
        })
    }

    /// Sends a request and waits for the answer. If the owner is closing the pool, waits until it has ended and then opens
    /// the pool.
    ///
    /// # Errors
    /// [`Error::Refused`] if the request failed; otherwise as [`PoolConnection::open`] and [`Client::ask`].
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        let mut ending = EndingOwner::default();
        loop {
            let (client, options) = match self {
                PoolConnection::Here(pool) => {
                    return match pool.answer(request) {
                        Reply::Ok(value) => serde_json::from_value(value).map_err(|why| own_answer(&why)),
                        Reply::Error(fault) => Err(fault.into()),
                    };
                }
                PoolConnection::Owner { client, options, answered } => match client.ask(request) {
                    Err(why) if why.is_ending() && !*answered => (client, (**options).clone()),
                    reply => {
                        *answered = true;
                        return reply;
                    }
                },
            };
            let pool = client.pool().to_owned();
            ending.wait(client, options.on_wait)?;
            *self = PoolConnection::open(&pool, options)?;
        }
    }

    /// Exports the pool if this process opened it.
    ///
    /// # Errors
    /// If the engine cannot export the pool.
    pub fn finish(self) -> Result<()> {
        if let PoolConnection::Here(pool) = self {
            pool.into_pool().export()?;
        }
        Ok(())
    }

    /// Connects, sends one request, and finishes.
    ///
    /// # Errors
    /// As [`PoolConnection::open`], [`PoolConnection::ask`] and [`PoolConnection::finish`].
    pub fn once<T: DeserializeOwned>(
        pool: &str,
        options: impl Into<ConnectOptions>,
        request: &Request,
    ) -> Result<T> {
        let mut connection = PoolConnection::open(pool, options)?;
        let reply = connection.ask(request);
        connection.finish()?;
        reply
    }
}

/// An answer of this process that has another type than the caller expects.
fn own_answer(why: &serde_json::Error) -> Error {
    Fault::invalid(format!("unexpected type of answer: {why}")).into()
}

/// The wait for an owner that is closing its pool.
#[derive(Default)]
struct EndingOwner {
    since: Option<Instant>,
    reported: bool,
}

impl EndingOwner {
    /// Waits briefly. Fails with [`Error::InUse`] if all waits together have exceeded [`ENDING`].
    fn wait(&mut self, owner: &mut Client, on_wait: OnWait) -> Result<()> {
        let elapsed = self.since.get_or_insert_with(Instant::now).elapsed();
        let (pool, pid) = (owner.pool().to_owned(), owner.pid());
        if elapsed > ENDING {
            let todo = format!(
                ", which has been closing the pool for {} s\nhint: try again when it has exited",
                elapsed.as_secs()
            );
            return Err(Error::InUse { pool, pid, what: owner.command(), todo });
        }
        if elapsed > UNREPORTED && !self.reported {
            self.reported = true;
            on_wait(OwnerWait { pool: &pool, pid });
        }
        if owner.wait_ended(ASK_AGAIN) {
            // The other descriptors of a killed process are closed after this one.
            std::thread::sleep(RETRY);
        }
        Ok(())
    }
}

/// Calls `ask` with a connection to the pool's owner. Returns `None` if the pool has no owner. An owner that is closing the
/// pool counts as none, once it has ended.
///
/// # Errors
/// The errors of `ask` and of [`Client::connect`]; [`Error::InUse`] if the owner takes too long to end.
pub fn ask_owner<T>(
    pool: &str,
    on_wait: OnWait,
    mut ask: impl FnMut(&mut Client) -> Result<T>,
) -> Result<Option<T>> {
    let mut ending = EndingOwner::default();
    while let Some(mut client) = Client::connect(pool)? {
        match ask(&mut client) {
            Err(why) if why.is_ending() => ending.wait(&mut client, on_wait)?,
            reply => return reply.map(Some),
        }
    }
    Ok(None)
}

/// The result of opening a pool.
pub enum Opened {
    /// This process has opened the pool.
    Here(Pool),
    /// Another process owns the pool.
    Owned(Client),
}

/// Opens a pool, which consists of these files, in this process. Retries for a few seconds while another process has the
/// pool open without serving it, and longer while a killed process is ending: it may have to wait for its device.
///
/// # Errors
/// If the files belong to another pool, another process keeps the pool open, or the engine cannot import it.
pub fn open(pool: &str, files: &[PathBuf], engine: &Config, how: Import) -> Result<Opened> {
    find::check_exist(pool, files)?;
    find::check_files(pool, files)?;
    let start = Instant::now();
    loop {
        let imported = Engine::start(engine).and_then(|engine| Pool::import_with(engine, files, how));
        match imported.map_err(|why| engine_error(pool, why)) {
            Ok(opened) => return Ok(Opened::Here(opened)),
            Err(Error::InUse { pid, .. }) if start.elapsed() <= patience(pid) => std::thread::sleep(RETRY),
            Err(why) => return Err(why),
        }
        if let Some(client) = Client::connect(pool)? {
            return Ok(Opened::Owned(client));
        }
    }
}

/// How long to retry while a process has the pool open.
fn patience(pid: i32) -> Duration {
    if process::is_ending(pid) { ENDING } else { PATIENCE }
}

/// Names the process that has the pool open, if that is why the engine failed.
pub(crate) fn engine_error(pool: &str, why: poolwright_openzfs::Error) -> Error {
    match why {
        poolwright_openzfs::Error::Locked(path) => in_use(pool, &path),
        other => other.into(),
    }
}

fn in_use(pool: &str, file: &Path) -> Error {
    let owner = LockOwner::of(file);
    Error::InUse {
        pool: pool.to_owned(),
        pid: owner.as_ref().map_or(0, |owner| owner.pid),
        what: owner.map_or_else(String::new, |owner| owner.command),
        todo: "\nhint: wait for that process, or end it".into(),
    }
}

/// The pools that this user can name without their files.
#[derive(Debug, Default)]
pub struct KnownPools {
    /// Their names, sorted: the pools of the registry, and those whose owner answers.
    pub names: Vec<String>,
    /// Errors of registry entries that cannot be read.
    pub unreadable: Vec<Error>,
}

impl KnownPools {
    /// Reads the registry and the directory of the sockets.
    ///
    /// # Errors
    /// If the registry cannot be listed.
    pub fn find() -> Result<KnownPools> {
        let mut known = KnownPools::default();
        for entry in registry::all()? {
            match entry {
                Ok(entry) => known.names.push(entry.pool),
                Err(why) => known.unreadable.push(why),
            }
        }
        for socket in std::fs::read_dir(runtime_dir()).into_iter().flatten().flatten() {
            let file = socket.file_name();
            let Some(pool) = file.to_str().and_then(|name| name.strip_suffix(".sock")) else { continue };
            if !known.names.iter().any(|name| name == pool)
                && Client::connect(pool).is_ok_and(|client| client.is_some())
            {
                known.names.push(pool.to_owned());
            }
        }
        known.names.sort();
        Ok(known)
    }
}

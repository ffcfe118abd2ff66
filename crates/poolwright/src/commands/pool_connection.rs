//! The way from a pool's name to somebody who answers for it: its owner, or this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use poolwright_openzfs::{Config, Engine, Import, Pool};
use poolwright_userpool::label::{self, FoundPool};
use poolwright_userpool::{
    Client, ENDING, Error, LocalPool, LockOwner, NoMounts, Reply, Request, answer, name, registry,
};
use serde::de::DeserializeOwned;

use crate::commands::options::dirty_bytes;
pub use crate::failure::Refused;
use crate::failure::Usage;

/// ARC of a verb that has the pool open only for itself.
const VERB_ARC: u64 = 128 << 20;
/// How long a pool that somebody is just opening or closing is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// An error of the userpool crate with the right exit code.
pub fn explained(error: Error) -> anyhow::Error {
    if error.is_refusal() {
        anyhow::Error::new(error).context(Refused)
    } else if error.is_invalid() {
        anyhow::Error::new(error).context(Usage)
    } else {
        error.into()
    }
}

/// The option every verb has that finds a pool by its name.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PoolFiles {
    /// A file of the pool, repeated for each; needed where the pool was neither created nor imported here
    #[arg(long = "pool-file", value_name = "FILE")]
    pub pool_file: Vec<PathBuf>,

    /// Open the pool although its label says that another host has it open
    #[arg(long = "force", id = "force_import")]
    pub force: bool,
}

/// For clap: a pool's name.
pub fn parse_pool(text: &str) -> Result<String, String> {
    name::check_pool(text).map(|()| text.to_owned()).map_err(|fault| fault.message)
}

/// For clap: `POOL[/DATASET]`.
pub fn parse_dataset(text: &str) -> Result<String, String> {
    name::check_dataset(text).map(|()| text.to_owned()).map_err(|fault| fault.message)
}

/// For clap: `POOL[/DATASET]@SNAPSHOT`.
pub fn parse_snapshot(text: &str) -> Result<String, String> {
    name::check_snapshot(text).map(|_| text.to_owned()).map_err(|fault| fault.message)
}

/// For clap: a dataset or a snapshot.
pub fn parse_either(text: &str) -> Result<String, String> {
    if text.contains('@') { parse_snapshot(text) } else { parse_dataset(text) }
}

/// Starts the engine with this ARC, in bytes.
///
/// # Errors
/// If the loaded libzpool is not the one that this program was compiled for.
pub fn engine(arc_bytes: u64) -> poolwright_openzfs::Result<Engine> {
    Engine::start(&Config { arc_bytes, dirty_bytes: dirty_bytes(), ..Config::default() })
}

/// Somebody who answers for a pool.
pub enum PoolConnection {
    /// The process that has it mounted.
    Owner {
        /// The connection to it.
        client: Client,
        /// Where the pool is, should that process be closing it.
        files: PoolFiles,
        /// Whether it has answered: then what comes later is not to be answered by another process.
        answered: bool,
    },
    /// This one, for this verb.
    Here(Box<LocalPool>),
}

impl PoolConnection {
    /// Asks the pool's owner; without one, opens the pool from the files that are given or registered.
    pub fn open(pool: &str, files: &PoolFiles) -> anyhow::Result<PoolConnection> {
        let owner = |client| PoolConnection::Owner { client, files: files.clone(), answered: false };
        if let Some(client) = Client::connect(pool).map_err(explained)? {
            return Ok(owner(client));
        }
        let paths = files_of(pool, files)?;
        let since = SystemTime::now();
        let how = Import { readonly: false, force: files.force };
        Ok(match open(pool, &paths, VERB_ARC, how)? {
            Opened::Owned(client) => owner(client),
            Opened::Here(opened) => {
                PoolConnection::Here(Box::new(LocalPool::new(opened, paths, since, Arc::new(NoMounts))))
            }
        })
    }

    /// Asks, and waits for the answer. An owner that is closing the pool is waited for, and then the pool is opened.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> anyhow::Result<T> {
        let mut ending = Ending::default();
        loop {
            let (client, files) = match self {
                PoolConnection::Here(host) => {
                    return match answer(&**host, request) {
                        Reply::Ok(value) => Ok(serde_json::from_value(value)?),
                        Reply::Error(fault) => Err(explained(fault.into())),
                    };
                }
                PoolConnection::Owner { client, files, answered } => match client.ask(request) {
                    Err(why) if why.is_ending() && !*answered => (client, files.clone()),
                    reply => {
                        *answered = true;
                        return reply.map_err(explained);
                    }
                },
            };
            let pool = client.pool().to_owned();
            ending.wait(client)?;
            *self = PoolConnection::open(&pool, &files)?;
        }
    }

    /// Exports the pool if it was opened here.
    pub fn finish(self) -> anyhow::Result<()> {
        if let PoolConnection::Here(host) = self {
            host.into_pool().export()?;
        }
        Ok(())
    }

    /// Asks one thing, and exports the pool if it was opened for that.
    pub fn once<T: DeserializeOwned>(pool: &str, files: &PoolFiles, request: &Request) -> anyhow::Result<T> {
        let mut connection = PoolConnection::open(pool, files)?;
        let reply = connection.ask(request);
        connection.finish()?;
        reply
    }
}

/// The wait for an owner that is closing its pool.
#[derive(Default)]
pub struct Ending {
    since: Option<Instant>,
    said: bool,
}

impl Ending {
    /// How often it is asked again: it may go on, if it could not unmount everything.
    const LOOK: Duration = Duration::from_millis(200);
    /// What takes no longer is not worth a line.
    const QUIET: Duration = Duration::from_secs(2);

    /// Waits a little. An error when it has taken too long.
    pub fn wait(&mut self, owner: &mut Client) -> anyhow::Result<()> {
        let taken = self.since.get_or_insert_with(Instant::now).elapsed();
        let (pool, pid) = (owner.pool().to_owned(), owner.pid());
        if taken > ENDING {
            let todo = format!(
                "it has been closing the pool for {} s\nhint: try again when it has ended",
                taken.as_secs()
            );
            return Err(explained(Error::InUse { pool, pid, what: owner.command(), todo }));
        }
        if taken > Self::QUIET && !self.said {
            self.said = true;
            tell!(
                "poolwright: note: waiting for process {pid}, which writes the last changes of {pool} and exports it"
            );
        }
        owner.wait_ended(Self::LOOK);
        Ok(())
    }
}

/// Asks the pool's owner; `None` without one. One that is closing the pool is waited for, and counts as none.
pub fn ask_owner<T>(
    pool: &str,
    mut ask: impl FnMut(&mut Client) -> Result<T, Error>,
) -> anyhow::Result<Option<T>> {
    let mut ending = Ending::default();
    while let Some(mut client) = Client::connect(pool).map_err(explained)? {
        match ask(&mut client) {
            Err(why) if why.is_ending() => ending.wait(&mut client)?,
            reply => return reply.map(Some).map_err(explained),
        }
    }
    Ok(None)
}

/// How a pool turned out to be open.
pub enum Opened {
    /// By this process, from now on.
    Here(Pool),
    /// By another one.
    Owned(Client),
}

/// Imports a pool. One that somebody is just opening, closing or asking something is waited for a little.
pub fn open(pool: &str, files: &[PathBuf], arc_bytes: u64, how: Import) -> anyhow::Result<Opened> {
    check_name(pool, files)?;
    let start = Instant::now();
    loop {
        match import(pool, files, arc_bytes, how) {
            Ok(opened) => return Ok(Opened::Here(opened)),
            Err(why) if why.downcast_ref::<Error>().is_none() || start.elapsed() > PATIENCE => {
                return Err(why);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
        if let Some(client) = Client::connect(pool).map_err(explained)? {
            return Ok(Opened::Owned(client));
        }
    }
}

/// The files that were named, or those of the registry; absolute, cache vdevs last.
pub fn files_of(pool: &str, files: &PoolFiles) -> anyhow::Result<Vec<PathBuf>> {
    if files.pool_file.is_empty() {
        let entry = registry::find(pool)?.ok_or_else(|| Error::Unknown(pool.to_owned()))?;
        return Ok(entry.files);
    }
    ordered(&files.pool_file)
}

/// Files as absolute paths, those of cache vdevs last: they do not know their pool's name.
pub fn ordered(files: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let absolute = |p: &PathBuf| std::path::absolute(p).with_context(|| format!("resolving {}", p.display()));
    let mut files = files.iter().map(absolute).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    let labels = label::read_all(&files)?;
    files.sort_by_key(|path| labels.iter().any(|(p, l)| p == path && l.state == label::State::Cache));
    Ok(files)
}

/// What the labels of a pool's files say; refuses files of another pool.
pub fn check_name(pool: &str, files: &[PathBuf]) -> anyhow::Result<FoundPool> {
    let found = label::group(&label::read_all(files)?);
    let names: Vec<&str> = found.iter().map(|f| f.pool.as_str()).collect();
    let list = || files.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [one] if one.pool == pool => Ok(found.into_iter().next().expect("there is one")),
        [] => anyhow::bail!("{} holds no pool: no label in it can be read", list()),
        _ => anyhow::bail!("{} holds the pool {}, not {pool}", list(), names.join(" and ")),
    }
}

/// Imports a pool, and says who has it if somebody does.
fn import(pool: &str, files: &[PathBuf], arc_bytes: u64, how: Import) -> anyhow::Result<Pool> {
    Pool::import_with(engine(arc_bytes)?, files, how).map_err(|why| match why {
        poolwright_openzfs::Error::Locked(path) => in_use(pool, &path),
        other => other.into(),
    })
}

/// The refusal to open what another process has open.
pub fn in_use(pool: &str, file: &Path) -> anyhow::Error {
    let holder = LockOwner::of(file);
    explained(Error::InUse {
        pool: pool.to_owned(),
        pid: holder.as_ref().map_or(0, |h| h.pid),
        what: holder.map_or_else(String::new, |h| h.command),
        todo: "a pool is open in one process at a time: wait for that one, or end it".into(),
    })
}

/// The pools that are registered, and those that answer without being registered.
pub fn known() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in registry::all()? {
        match entry {
            Ok(entry) => names.push(entry.pool),
            Err(why) => eprintln!("poolwright: {why}"),
        }
    }
    let sockets = std::fs::read_dir(poolwright_userpool::runtime_dir()).into_iter().flatten().flatten();
    for socket in sockets {
        let file = socket.file_name();
        let Some(pool) = file.to_str().and_then(|name| name.strip_suffix(".sock")) else { continue };
        if !names.iter().any(|n| n == pool) && Client::connect(pool).is_ok_and(|client| client.is_some()) {
            names.push(pool.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Prints one JSON object on standard output.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

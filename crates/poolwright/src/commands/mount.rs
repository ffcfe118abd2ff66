//! `poolwright mount`: a dataset as a file system, on the engine in user space.

mod background;
mod device;
mod record;
mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use poolwright_control::{Client, Host, Mounted, Mounts, Owner, Request, Server, name};
use poolwright_openzfs::Engine;

use super::options::{Usage, parse_size};
use super::pool::reach::{self, Opened, PoolFiles, explained, parse_dataset};
use device::Devices;
use table::Table;

/// Mount a dataset of a pool on files, with no kernel module
///
/// Stays until the directory is unmounted (`umount DIR`), or until Ctrl-C, which unmounts; then everything is flushed and
/// the pool is exported. The first mount of a pool owns it; every other one is added to that process and returns at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// POOL for its root dataset, or POOL/DATASET
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Where
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// readonly; caching=through (every read and write reaches the engine), pages (the kernel's page cache) or writeback
    /// (writes too); threads=N that serve requests
    #[arg(short = 'o', value_name = "OPTION,…", value_delimiter = ',')]
    options: Vec<String>,

    /// Memory of the ARC: 64M at least. Left out, half of the memory that is available
    #[arg(long, value_name = "SIZE", value_parser = parse_arc)]
    arc: Option<u64>,

    /// A module parameter of the engine: dbuf_cache_max_bytes=0 and the like. For the first mount, which owns the pool
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_tunable)]
    tunable: Vec<(String, u64)>,

    /// What the pool's files behave like: none, ssd, hdd, nvme, sas-15k, san, ebs-gp3, or 4xssd (four behind a RAID
    /// controller, striped); NAME=KIND for single files: hdd,cache0=ssd. For measurements: nothing is flushed then
    #[arg(long, value_name = "KIND,…", default_value = "none", value_parser = Devices::parse)]
    device: Devices,

    /// Return when it is mounted; what the process says later goes to a log
    #[arg(long)]
    background: bool,

    /// Record the I/O of this mount into a trace, until it is unmounted
    #[arg(long, value_name = "TRACE")]
    record: Option<PathBuf>,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object when it is mounted: pid, owner (whether by this process), mounted
    #[arg(long)]
    json: bool,

    /// The process behind --background.
    #[arg(long, hide = true)]
    detached: bool,
}

/// Seen in the crash tests of docs/mount-tests.md, and not explained yet.
const WRITEBACK_RISK: &str = "caching=writeback is for scratch data and measurements: after one of some 120 kills InnoDB \
                              had lost rows on it, which through and pages never showed";

/// Mounts; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let wanted = wanted(&args)?;
    if wanted.caching.as_deref() == Some("writeback") && !args.detached {
        tell!("poolwright: {WRITEBACK_RISK}");
    }
    if args.device.any() && !args.detached {
        tell!("poolwright: {}", device::RISK);
    }
    let pool = name::pool_of(&args.dataset);
    if let Some(client) = Client::connect(pool).map_err(explained)? {
        return add(client, &args, &wanted);
    }
    if args.background && !args.detached {
        return background::start(pool);
    }
    let files = reach::files_of(pool, &args.files)?;
    let arc = args.arc.unwrap_or_else(|| (crate::scratch::available_memory() / 2).max(64 << 20));
    watch_signals()?;
    if args.detached {
        background::detach()?;
    }
    args.device.play(&files)?;
    match reach::open(pool, &files, arc)? {
        Opened::Owned(client) => add(client, &args, &wanted),
        Opened::Here(opened) => own(opened, files, &args, &wanted),
    }
}

/// Has the pool's owner add this mount.
fn add(mut client: Client, args: &Args, wanted: &Mounted) -> anyhow::Result<u8> {
    if args.arc.is_some() {
        tell!(
            "poolwright: --arc is not used: process {} has the pool open with an ARC of its own",
            client.pid()
        );
    }
    if !args.tunable.is_empty() {
        tell!("poolwright: --tunable is not used: process {} has the pool open with its own", client.pid());
    }
    if args.device.any() {
        bail!(
            "process {} has the pool open, and its files behave like what the first mount was told; give --device to that one \
             only",
            client.pid()
        );
    }
    let pid = client.pid();
    let mounted = client.ask(&Request::Mount(wanted.clone())).map_err(explained);
    let mounted: Mounted =
        mounted.with_context(|| format!("mounting by process {pid}, which has the pool open"))?;
    announce(args, &mounted, pid as u32, false);
    Ok(0)
}

/// Owns the pool until its last mount ends.
fn own(
    pool: poolwright_openzfs::Pool,
    files: Vec<PathBuf>,
    args: &Args,
    wanted: &Mounted,
) -> anyhow::Result<u8> {
    for (name, value) in &args.tunable {
        let engine = Engine::running().context("the pool is open, so the engine runs")?;
        engine.set_tunable(name, *value)?;
    }
    let table = Arc::new(Table::default());
    let host = Arc::new(Host::new(pool, files, SystemTime::now(), Arc::clone(&table) as Arc<dyn Mounts>));
    let served = serve(&host, &table, args, wanted);
    // The server is gone and with it every thread that had the host.
    let host = Arc::into_inner(host).context("a request is still being answered")?;
    let exported = host.into_pool().export();
    served?;
    exported?;
    Ok(0)
}

fn serve(host: &Arc<Host>, table: &Table, args: &Args, wanted: &Mounted) -> anyhow::Result<()> {
    let server = Server::start(name::pool_of(&args.dataset), Arc::clone(host) as Arc<dyn Owner>);
    let server = server.map_err(explained)?;
    let mounted = host.mount(wanted).map_err(|fault| explained(fault.into()))?;
    announce(args, &mounted, std::process::id(), true);
    let mut seen = 0;
    while table.wait(Duration::from_millis(200)) {
        let signals = SIGNALS.load(Ordering::Relaxed);
        if signals > seen {
            seen = signals;
            tell!("poolwright: unmounting, and writing what is not on disk yet");
            unmount_all(table, host)?;
        }
    }
    drop(server);
    Ok(())
}

/// Signals that came; the handler only counts, and says from the second on that this is not forgotten.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

fn watch_signals() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if SIGNALS.fetch_add(1, Ordering::Relaxed) > 0 {
            tell!(
                "poolwright: still flushing; the pool is exported when that is done. Killing this process loses nothing \
                 that was synced, and leaves a mount to clear with `umount`"
            );
        }
    })
    .context("cannot watch for Ctrl-C")
}

/// Unmounts everything. What is in use is made durable at once, and unmounted as soon as it is free.
fn unmount_all(table: &Table, host: &Host) -> anyhow::Result<()> {
    const SAY_EVERY: Duration = Duration::from_secs(10);
    let mut said: Option<Instant> = None;
    loop {
        match table.release() {
            Ok(()) => return Ok(()),
            Err(fault) if fault.is_busy() => {
                if said.is_none() {
                    host.pool().sync()?;
                }
                if said.is_none_or(|when| when.elapsed() > SAY_EVERY) {
                    said = Some(Instant::now());
                    tell!("poolwright: {}; waiting for that", fault.message);
                }
                if !table.wait(Duration::from_millis(300)) {
                    return Ok(());
                }
            }
            Err(fault) => return Err(explained(fault.into())),
        }
    }
}

/// Says that it is mounted. Nobody has to listen: the mount is there all the same.
fn announce(args: &Args, mounted: &Mounted, pid: u32, owner: bool) {
    let said = if args.json {
        serde_json::json!({"pid": pid, "owner": owner, "mounted": mounted}).to_string()
    } else {
        let how = if owner && !args.detached { "umount or Ctrl-C ends it" } else { "umount ends it" };
        format!("{} mounted on {} by process {pid}; {how}", mounted.dataset, mounted.dir.display())
    };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{said}").and_then(|()| out.flush());
}

/// For clap: the engine's ARC has a least size.
fn parse_arc(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < 64 << 20 { Err("the engine takes 64M at least".into()) } else { Ok(bytes) }
}

/// For clap: `NAME=VALUE` of the engine.
fn parse_tunable(text: &str) -> Result<(String, u64), String> {
    let known = || Engine::tunables().collect::<Vec<_>>().join(", ");
    match text.split_once('=') {
        Some((name, value)) if Engine::tunables().any(|known| known == name) => {
            Ok((name.to_owned(), parse_size(value)?))
        }
        _ => Err(format!("NAME=VALUE is expected, with a name of {}", known())),
    }
}

/// What is asked for, checked as far as that goes without the pool.
fn wanted(args: &Args) -> anyhow::Result<Mounted> {
    let dir = directory(&args.dir)?;
    let record = match &args.record {
        Some(path) => Some(std::path::absolute(path).context("resolving the trace's path")?),
        None => None,
    };
    let mut wanted =
        Mounted { dataset: args.dataset.clone(), dir, readonly: false, caching: None, threads: None, record };
    for option in &args.options {
        match option.split_once('=') {
            None if option == "readonly" || option == "ro" => wanted.readonly = true,
            None if option == "rw" => wanted.readonly = false,
            Some(("caching", how)) if table::caching(how).is_some() => wanted.caching = Some(how.to_owned()),
            Some(("threads", n)) if n.parse().is_ok_and(|n: usize| (1..=256).contains(&n)) => {
                wanted.threads = n.parse().ok();
            }
            _ => {
                return Err(anyhow::anyhow!(
                    "-o {option}: options are readonly, caching=through|pages|writeback, threads=1…256"
                ))
                .context(Usage);
            }
        }
    }
    Ok(wanted)
}

/// The mount point as an absolute path without links, as the kernel will show it.
fn directory(dir: &Path) -> anyhow::Result<PathBuf> {
    // `canonicalize` alone does not touch what is mounted there
    let real = std::fs::metadata(dir).and_then(|_| dir.canonicalize());
    let real = match real {
        Ok(real) => real,
        Err(why) if poolwright_mount::is_dead(&why) => bail!(
            "{0} is a dead mount: its process has ended without unmounting. Clear it with `umount {0}` and mount again",
            dir.display()
        ),
        Err(why) => {
            return Err(why).with_context(|| format!("the mount point {} cannot be used", dir.display()));
        }
    };
    if !real.is_dir() {
        bail!("{} is not a directory", real.display());
    }
    Ok(real)
}

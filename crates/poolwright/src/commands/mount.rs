//! `poolwright mount`: a dataset as a file system, on the engine in user space.

mod background;
mod device;
mod lost;
mod open;
mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use poolwright_openzfs::{Engine, Import};
use poolwright_userpool::{Fault, LocalPool, Mounted, Mounts, PoolApi, PoolInfo, Request, Server, name};

use super::mount_log;
use super::options::{Usage, default_arc, parse_arc, parse_size};
use super::pool_connection::{self, Opened, PoolFiles, Refused, explained, parse_dataset};
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

    /// readonly (the pool is imported read-only by the first mount, and no byte of its files changes); ignore-acls (serve
    /// files whose ACLs say more than their modes, read-only); caching=through (every read and write reaches the engine), pages (the kernel's page cache) or writeback
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

    /// Mount over a directory that is not empty, a mount point already, a system directory or your working directory; never
    /// over /, /proc, /sys and /dev
    #[arg(short = 'O')]
    overlay: bool,

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
    if add(&args, &wanted)? {
        return Ok(0);
    }
    let files = pool_connection::files_of(pool, &args.files)?;
    if args.background && !args.detached {
        return background::start(pool, &wanted.dir);
    }
    let arc = args.arc.unwrap_or_else(default_arc);
    watch_signals()?;
    if args.detached {
        mount_log::detach()?;
    }
    args.device.play(&files)?;
    let how = Import { readonly: wanted.readonly, force: args.files.force };
    loop {
        if let Opened::Here(opened) = pool_connection::open(pool, &files, arc, how)? {
            return own(opened, files, &args, &wanted);
        }
        if add(&args, &wanted)? {
            return Ok(0);
        }
    }
}

/// Has the pool's owner add this mount; false without an owner.
fn add(args: &Args, wanted: &Mounted) -> anyhow::Result<bool> {
    let mut pid = 0;
    let mounted = pool_connection::ask_owner(name::pool_of(&args.dataset), |owner| {
        pid = owner.pid();
        if args.device.any() {
            // Only for the answer of an owner that is ending.
            owner.ask::<PoolInfo>(&Request::Status)?;
            let words = format!(
                "process {pid} has the pool open; --device applies only to the first mount of a pool"
            );
            return Err(Fault::invalid(words).into());
        }
        owner.ask::<Mounted>(&Request::Mount(wanted.clone()))
    });
    let mounted = mounted.with_context(|| format!("mounting by process {pid}, which has the pool open"))?;
    let Some(mounted) = mounted else { return Ok(false) };
    if args.arc.is_some() {
        tell!("poolwright: --arc is not used: process {pid} has the pool open with an ARC of its own");
    }
    if !args.tunable.is_empty() {
        tell!("poolwright: --tunable is not used: process {pid} has the pool open with its own");
    }
    check_visible(&mounted.dir, pid)?;
    announce(args, &mounted, pid as u32, false);
    Ok(true)
}

/// A mount that another process made is where this one sees it.
fn check_visible(dir: &Path, pid: i32) -> anyhow::Result<()> {
    match poolwright_mount::check_answer(dir) {
        Ok(()) => Ok(()),
        Err(why) => Err(why).with_context(|| {
            format!(
                "process {pid} has mounted it, and {} does not answer here: it was unmounted since, or that process is \
                 in another mount namespace",
                dir.display()
            )
        }),
    }
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
    let host =
        Arc::new(LocalPool::new(pool, files, SystemTime::now(), Arc::clone(&table) as Arc<dyn Mounts>));
    let server = Server::reserve(name::pool_of(&args.dataset)).map_err(explained);
    let served = match &server {
        Ok(server) => serve(server, &host, &table, args, wanted),
        Err(_) => Ok(lost::Watch::default()),
    };
    // Who asks from now on hears that the pool is being closed, until the end of its socket says that it is.
    if let Ok(server) = &server {
        server.end();
    }
    if served.as_ref().is_ok_and(lost::Watch::has_lost) {
        drop(server);
        served?.abandon(&host);
    }
    let host = Arc::into_inner(host).context("a request is still being answered")?;
    let exported = host.into_pool().export();
    if args.detached && exported.is_ok() {
        tell!("poolwright: note: {} exported", name::pool_of(&args.dataset));
    }
    drop(server?);
    served?;
    exported?;
    Ok(0)
}

fn serve(
    server: &Server,
    host: &Arc<LocalPool>,
    table: &Table,
    args: &Args,
    wanted: &Mounted,
) -> anyhow::Result<lost::Watch> {
    let mounted = host.mount(wanted).map_err(|fault| explained(fault.into()))?;
    // Not before: without this mount there is nothing that requests could be added to.
    server.serve(Arc::clone(host) as Arc<dyn PoolApi>);
    announce(args, &mounted, std::process::id(), true);
    if args.detached {
        table.log();
    }
    let mut seen = 0;
    let mut watch = lost::Watch::default();
    while table.wait(Duration::from_millis(200)) {
        if table.serves() {
            watch.look(host, SIGNALS.load(Ordering::Relaxed));
        }
        let signals = SIGNALS.load(Ordering::Relaxed);
        if signals > seen {
            seen = signals;
            tell!("poolwright: note: unmounting, and writing what is not on disk yet");
            unmount_all(table, host)?;
        }
    }
    watch.hold(host, || SIGNALS.load(Ordering::Relaxed));
    Ok(watch)
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
fn unmount_all(table: &Table, host: &LocalPool) -> anyhow::Result<()> {
    const SAY_EVERY: Duration = Duration::from_secs(10);
    let mut said: Option<Instant> = None;
    loop {
        match table.unmount_free() {
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
    let dir = directory(&args.dir, args.overlay)?;
    let record = match &args.record {
        Some(path) => Some(std::path::absolute(path).context("resolving the trace's path")?),
        None => None,
    };
    let mut wanted = Mounted {
        dataset: args.dataset.clone(),
        dir,
        readonly: false,
        ignore_acls: false,
        caching: None,
        threads: None,
        record,
        overlay: args.overlay,
        caller: None,
    };
    for option in &args.options {
        match option.split_once('=') {
            None if option == "readonly" || option == "ro" => wanted.readonly = true,
            None if option == "rw" => wanted.readonly = false,
            None if option == "ignore-acls" => wanted.ignore_acls = true,
            Some(("caching", how)) if table::caching(how).is_some() => wanted.caching = Some(how.to_owned()),
            Some(("threads", n)) if n.parse().is_ok_and(|n: usize| (1..=256).contains(&n)) => {
                wanted.threads = n.parse().ok();
            }
            _ => {
                return Err(anyhow::anyhow!(
                    "-o {option}: options are readonly, ignore-acls, caching=through|pages|writeback, threads=1…256"
                ))
                .context(Usage);
            }
        }
    }
    wanted.readonly |= wanted.ignore_acls;
    Ok(wanted)
}

/// The mount point as an absolute path without links, as the kernel will show it. The process that mounts checks it again,
/// and so the owner of the pool for those who ask it.
fn directory(dir: &Path, overlay: bool) -> anyhow::Result<PathBuf> {
    use poolwright_mount::Error as E;
    let own = std::process::id() as i32;
    let checked = poolwright_mount::check_mount_point(dir, overlay).and_then(|real| {
        if !overlay {
            poolwright_mount::refuse_working_directory(&real, own)?;
        }
        Ok(real)
    });
    checked.map_err(|why| match why {
        E::Unsafe { .. } | E::NotEmpty { .. } | E::Covered { .. } => anyhow::Error::new(why).context(Refused),
        other => other.into(),
    })
}

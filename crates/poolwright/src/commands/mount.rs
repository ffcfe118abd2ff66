//! `poolwright mount`: a dataset as a file system, on the engine in user space.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, anyhow};
use poolwright_base::quoted;
use poolwright_mount::server::background::{self, Started};
use poolwright_mount::server::{
    Caching, Devices, Frontend, ServeOptions, Severity, check_mount_point, detach, mount, parse_mount,
};
use poolwright_openzfs::{Engine, limits};
use poolwright_trace::Writer;
use poolwright_zfs::user::json_output::NewMount;
use poolwright_zfs::user::{ConnectOptions, Mounted, name};

use super::options::{Usage, parse_arc, this_program};
use super::pool_connection::{PoolFiles, engine, parse_dataset};
use super::record::with_recording_hint;
use crate::interrupt;

/// Mount a dataset of a file-backed pool, without a kernel module
///
/// Runs until the directory is unmounted (`umount DIR`), or until Ctrl-C, which unmounts it; then flushes everything and
/// exports the pool. The first mount of a pool owns it; further mounts are added to that process and return at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// POOL for its root dataset, or POOL/DATASET
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// The directory to mount on
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// readonly (the first mount imports the pool read-only, and its files do not change); ignore-acls (mount read-only and
    /// check only file modes, although ACLs may be stricter); caching=through (every read and write reaches the engine), pages
    /// (the kernel's page cache holds reads) or writeback (it also delays writes); threads=N (threads that serve requests, 1 to
    /// 256)
    #[arg(short = 'o', value_name = "OPTION,…", value_delimiter = ',')]
    options: Vec<String>,

    /// Memory of the ARC, at least 64M [default: half of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_arc)]
    arc: Option<u64>,

    /// Module parameter of the engine, such as dbuf_cache_max_bytes=0. Applies only to the first mount, which owns the pool
    #[arg(long, value_name = "NAME=VALUE", value_parser = Engine::parse_tunable)]
    tunable: Vec<(String, u64)>,

    /// Device to emulate under the pool's files: none, ssd, hdd, nvme, sas-15k, san, ebs-gp3, or 4xssd (four of them striped
    /// by a RAID controller); NAME=KIND for single files: hdd,cache0=ssd. For measurements only: nothing is flushed
    #[arg(long, value_name = "KIND,…", default_value = "none", value_parser = Devices::parse)]
    device: Devices,

    /// Return when the dataset is mounted, and write later messages to a log
    #[arg(long)]
    background: bool,

    /// Mount over a directory that is not empty, is a mount point, a system directory or your working directory; never over
    /// /, /proc, /sys or /dev
    #[arg(short = 'O')]
    overlay: bool,

    /// Record the I/O of this mount into a trace until it is unmounted. An existing recording of that name is not overwritten
    #[arg(long, value_name = "TRACE")]
    record: Option<PathBuf>,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object when the dataset is mounted: pid, owner (whether this process owns the pool), mounted
    #[arg(long)]
    json: bool,

    /// Run as the process that --background starts.
    #[arg(long, hide = true)]
    detached: bool,
}

/// Observed in the crash tests of docs/mount-tests.md; the cause is not known yet.
const WRITEBACK_RISK: &str = "caching=writeback is for scratch data and measurements: after one of about 120 kills, InnoDB \
                              had lost rows on it; through and pages never lost any";
const DEVICE_RISK: &str = "--device is for scratch pools: nothing is flushed to the host's disk while a device is emulated, so \
                           a crash of this machine can lose the pool";

/// Mounts; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let mut options = serve_options(&args)?;
    let wanted = &options.wanted;
    if wanted.caching.as_deref() == Some(Caching::Writeback.name()) && !args.detached {
        tell!("poolwright: warning: {WRITEBACK_RISK}");
    }
    if args.device.is_emulated() && !args.detached {
        tell!("poolwright: warning: {DEVICE_RISK}");
    }
    let terminal: Arc<dyn Frontend> = Arc::new(Terminal {
        json: args.json,
        detached: args.detached,
        arc: args.arc.is_some(),
        tunables: !args.tunable.is_empty(),
    });
    if options.add_to_owner(&*terminal)? {
        return Ok(0);
    }
    options.find_files()?;
    if args.background && !args.detached {
        return start_background(&options.wanted);
    }
    watch_signals()?;
    if args.detached {
        detach()?;
    }
    mount(&options, &terminal)?;
    Ok(0)
}

fn serve_options(args: &Args) -> anyhow::Result<ServeOptions> {
    let wanted = wanted(args)?;
    let engine = engine(args.arc.unwrap_or_else(limits::default_arc_bytes));
    Ok(ServeOptions {
        wanted,
        pool: ConnectOptions { engine, ..ConnectOptions::from(&args.files) },
        tunables: args.tunable.clone(),
        devices: args.device.clone(),
        logs_mounts: args.detached,
    })
}

/// Runs this program again as the mount process; the value is the exit code.
fn start_background(wanted: &Mounted) -> anyhow::Result<u8> {
    let pool = name::pool_of(&wanted.dataset);
    let interrupted = interrupt::watch()?;
    let mut server = own_command();
    server.args(std::env::args_os().skip(1).filter(|arg| arg != "--background")).arg("--detached");
    let logger = |pid: u32| {
        let mut command = own_command();
        command.arg("mount-log").args([pool, &pid.to_string()]);
        command
    };
    let mut forward = |line: &[u8]| drop(std::io::stderr().write_all(line));
    match background::start(pool, &wanted.dir, &mut server, logger, &interrupted, &mut forward)? {
        Started::Mounted { answer, log_error, .. } => {
            if let Some(why) = log_error {
                tell!("poolwright: warning: {why}");
            }
            print!("{answer}");
            Ok(0)
        }
        Started::Ended(status) => Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
    }
}

/// This program, with the name by which the user called it: lists of processes show it.
fn own_command() -> Command {
    let mut command = Command::new(this_program());
    command.arg0(std::env::args_os().next().unwrap_or_else(|| "poolwright".into()));
    command
}

/// Prints the messages of a mount.
struct Terminal {
    json: bool,
    detached: bool,
    /// Whether --arc and --tunable are given, which only the owner of a pool can use.
    arc: bool,
    tunables: bool,
}

impl Frontend for Terminal {
    fn log(&self, severity: Severity, message: &str) {
        match severity {
            Severity::Note => tell!("poolwright: note: {message}"),
            Severity::Warning => tell!("poolwright: warning: {message}"),
        }
    }

    /// Prints that the dataset is mounted. A failed write does not end the mount.
    fn mounted(&self, mounted: &Mounted, pid: u32, is_owner: bool) {
        if self.arc && !is_owner {
            tell!("poolwright: warning: --arc is ignored: process {pid} has the pool open with its own ARC");
        }
        if self.tunables && !is_owner {
            tell!(
                "poolwright: warning: --tunable is ignored: process {pid} has the pool open with its own parameters"
            );
        }
        let line = if self.json {
            let line = NewMount { pid, owner: is_owner, mounted: mounted.clone() };
            serde_json::to_string(&line)
                .unwrap_or_else(|why| format!("cannot write the mount as JSON: {why}"))
        } else {
            let end = if is_owner && !self.detached { "umount or Ctrl-C ends it" } else { "umount ends it" };
            format!("{} mounted on {} by process {pid}; {end}", mounted.dataset, quoted(&mounted.dir))
        };
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    fn signals(&self) -> usize {
        SIGNALS.load(Ordering::Relaxed)
    }
}

/// Number of signals so far. The first one unmounts; the handler answers each further one.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

fn watch_signals() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if SIGNALS.fetch_add(1, Ordering::Relaxed) > 0 {
            tell!(
                "poolwright: note: still flushing; the pool is exported when that is done. If you kill this process, synced \
                 data is not lost, but a dead mount remains, to be removed with `umount`"
            );
        }
    })
    .context("cannot watch for Ctrl-C")
}

/// The requested mount, checked as far as possible without the pool.
fn wanted(args: &Args) -> anyhow::Result<Mounted> {
    let dir = check_mount_point(&args.dir, args.overlay)?;
    let record = match &args.record {
        Some(path) => {
            Writer::refuse_recording(path)
                .map_err(|why| with_recording_hint(why, "choose another name, or remove the file"))?;
            Some(std::path::absolute(path).context("resolve the path of the trace")?)
        }
        None => None,
    };
    let mount =
        parse_mount(&args.dataset, dir, &args.options).map_err(|why| anyhow!("-o {why}").context(Usage))?;
    Ok(Mounted { record, overlay: args.overlay, ..mount })
}

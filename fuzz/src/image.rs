//! Opens pools with changed labels or intent logs, whose checksums were recomputed, in the engine.
//!
//! A process can start the engine only once, and a failed assertion of libzpool ends the process. Therefore each input is opened
//! by a child process that runs this program. The fuzzer does not see the child's coverage, so these targets are not
//! coverage-guided.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use poolwright_openzfs::node::{New, SetAttr};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Node, NodeResult, Pool, Spec, node};

/// Environment variable with the task of a child process.
const TASK: &str = "POOLWRIGHT_FUZZ_TASK";
/// Environment variable with the path of the pool file.
const FILE: &str = "POOLWRIGHT_FUZZ_IMAGE";
/// The smallest size of a vdev.
const VDEV_BYTES: u64 = 64 << 20;
/// An image stores the pages of a pool that are not all zero.
const PAGE: usize = 4096;
/// Time limit of a child. An import takes a second. The limit is below the fuzzer's limit for an input, so no child outlives the
/// fuzzer.
const CHILD_LIMIT: Duration = Duration::from_secs(20);

/// A pool file: its pages that are not all zero.
pub struct Image {
    pages: Vec<(u64, Vec<u8>)>,
}

/// If this process is a child, runs its task and exits. The target calls this function first.
pub fn serve_child() {
    let (Ok(task), Ok(file)) = (std::env::var(TASK), std::env::var(FILE)) else { return };
    let done = match task.as_str() {
        "make" => make(Path::new(&file)),
        _ => open(Path::new(&file)),
    };
    if let Err(why) = done {
        eprintln!("refused: {why}");
    }
    std::process::exit(0);
}

fn engine() -> poolwright_openzfs::Result<Engine> {
    Engine::start(&Config {
        arc_bytes: 64 << 20,
        dirty_bytes: 64 << 20,
        txg_timeout_s: 3600,
        ..Config::default()
    })
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn errno(why: poolwright_openzfs::Errno) -> String {
    format!("errno {}", why.0)
}

/// Creates a pool with an intent log, then waits until the parent kills this process.
fn make(file: &Path) -> Done {
    let mut spec = Spec::single("fuzz", file, 12);
    spec.groups[0].files[0].1 = VDEV_BYTES;
    let pool = Pool::create(engine()?, &spec)?;
    let settings: Settings = [("recordsize", "16K"), ("compression", "off")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let dataset = pool.create_dataset("log", &settings)?;
    pool.sync()?;
    fill(&dataset).map_err(errno)?;
    println!("made");
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

/// Writes log records of every kind that the engine replays.
fn fill(dataset: &Dataset) -> NodeResult<()> {
    let root = dataset.root()?;
    let file = New { mode: 0o100_644, ..New::default() };
    let a = root.make(&node::name("a")?, &file)?;
    a.write_at(0, &[1; 5000], true)?;
    a.write_at(100_000, &[2; 40_000], true)?;
    let dir = root.make(&node::name("dir")?, &New { mode: 0o040_755, ..New::default() })?;
    let link = New { mode: 0o120_777, target: Some(c"target/of/a/link"), ..New::default() };
    dir.make(&node::name("symlink")?, &link)?;
    dir.link(&node::name("hard")?, &a)?;
    let b = dir.make(&node::name("b")?, &file)?;
    b.write_at(0, &[3; 100], true)?;
    dir.rename(&node::name("b")?, &root, &node::name("c")?, 0)?;
    root.rename(&node::name("c")?, &dir, &node::name("hard")?, 2)?;
    a.set_xattr(&node::name("user.name")?, &[b'v'; 300], 0)?;
    a.truncate(120_000)?;
    a.punch(4096, 8192)?;
    a.set_attr(&SetAttr { mode: Some(0o600), uid: Some(7), ..SetAttr::default() })?;
    let gone = root.make(&node::name("gone")?, &file)?;
    drop(gone);
    root.unlink(&node::name("gone")?)?;
    root.make(&node::name("emptied")?, &New { mode: 0o040_755, ..New::default() })?;
    root.rmdir(&node::name("emptied")?)?;
    a.sync()
}

/// Imports the pool, replays its logs, and reads all of its contents.
fn open(file: &Path) -> Done {
    Pool::name_in(file)?;
    let pool = Pool::import(engine()?, &[file.to_owned()], false)?;
    for name in pool.list()? {
        let Some((_, name)) = name.split_once('/') else { continue };
        match pool.open_dataset(name) {
            Ok(dataset) => {
                eprintln!("replayed: {}", dataset.replayed());
                dataset.root().and_then(|root| read_tree(&dataset, &root, 8)).unwrap_or_default();
            }
            Err(why) => eprintln!("refused: {name}: {why}"),
        }
    }
    pool.export()?;
    Ok(())
}

/// Reads a directory and its subdirectories, down to `depth` levels.
fn read_tree(dataset: &Dataset, dir: &Node, depth: u32) -> NodeResult<()> {
    let mut objects = Vec::new();
    dir.read_dir(0, &mut |entry| {
        objects.push(entry.object);
        objects.len() < 1000
    })?;
    for object in objects {
        let Ok(node) = dataset.node(object) else { continue };
        let _ = (node.attr(), node.target(), node.xattr_names(), node.xattr(c"user.name"));
        let _ = node.read_at(0, &mut vec![0; 1 << 16]);
        if node.mode() & 0o170_000 == 0o040_000 && depth > 0 && object != dir.object() {
            let _ = read_tree(dataset, &node, depth - 1);
        }
    }
    Ok(())
}

impl Image {
    /// The unchanged pool, created on the first call.
    pub fn base() -> &'static Image {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        IMAGE.get_or_init(|| {
            let file = scratch();
            let _ = std::fs::remove_file(&file);
            let mut child = command("make", &file).stdout(Stdio::piped()).spawn().expect("start a child");
            let mut line = String::new();
            let out = child.stdout.take().expect("its output is piped");
            BufReader::new(out).read_line(&mut line).expect("read the child's output");
            child.kill().expect("end the child");
            child.wait().expect("wait for the child");
            assert_eq!(line.trim(), "made", "the child did not create the base image");
            let image = Image::load(&file);
            let output = image.open_with(&[]);
            let replayed =
                output.lines().find_map(|line| line.strip_prefix("replayed: ")?.parse::<u64>().ok());
            assert!(
                replayed.is_some_and(|records| records > 10),
                "the base image has no log to replay: {output}"
            );
            image
        })
    }

    fn load(file: &Path) -> Image {
        let disk = File::open(file).expect("open the image");
        let mut pages = Vec::new();
        let mut page = vec![0; PAGE];
        for at in (0..VDEV_BYTES).step_by(PAGE) {
            disk.read_exact_at(&mut page, at).expect("read the image");
            if page.iter().any(|byte| *byte != 0) {
                pages.push((at, page.clone()));
            }
        }
        Image { pages }
    }

    /// Returns `len` bytes from offset `at`.
    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (start, page) in &self.pages {
            let from = (*start).max(at);
            let to = (start + PAGE as u64).min(at + len as u64);
            if from < to {
                let (page_at, here) = ((from - start) as usize, (from - at) as usize);
                let n = (to - from) as usize;
                bytes[here..here + n].copy_from_slice(&page[page_at..page_at + n]);
            }
        }
        bytes
    }

    /// Offsets of the pages that are not all zero.
    pub fn offsets(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().map(|(at, _)| *at)
    }

    /// Writes the image with `changes` (offsets and bytes) to a file, opens it in a child process, and returns the child's
    /// output. Panics if the child crashes or hangs.
    pub fn open_with(&self, changes: &[(u64, Vec<u8>)]) -> String {
        let file = scratch();
        let disk = File::create(&file).expect("make the image");
        disk.set_len(VDEV_BYTES).expect("size the image");
        for (at, bytes) in self.pages.iter().chain(changes) {
            disk.write_all_at(bytes, *at).expect("fill the image");
        }
        drop(disk);
        let child = command("open", &file).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let (status, output) = finish(child.expect("start a child"));
        let _ = std::fs::remove_file(&file);
        if status.is_none_or(|status| status.signal().is_some() || status.code() != Some(0))
            && !is_assertion(&output)
        {
            panic!("the child ended with {status:?}: {output}");
        }
        output
    }
}

/// Assertions of libzpool end the process by design and are not findings. Assertions of the engine name a file in `csrc/`.
fn is_assertion(output: &str) -> bool {
    (output.contains("ASSERT at") || output.contains("VERIFY") || output.contains("PANIC at"))
        && !output.contains("csrc/")
}

fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("poolwright-fuzz-{}.img", std::process::id()))
}

fn command(task: &str, file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.env(TASK, task).env(FILE, file).stdin(Stdio::null());
    command
}

/// Waits for the child and returns its status (`None` if it was killed at the time limit) and its standard error.
fn finish(mut child: Child) -> (Option<ExitStatus>, String) {
    let mut stderr = child.stderr.take().expect("its errors are piped");
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        let _ = stderr.read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().expect("wait for the child") {
            Some(status) => break Some(status),
            None if began.elapsed() > CHILD_LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    (status, reader.join().unwrap_or_default())
}

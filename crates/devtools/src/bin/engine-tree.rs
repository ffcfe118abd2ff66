//! Makes, changes and lists trees through the engine's node calls, for the tests against a kernel's OpenZFS
//! (`make test-kernel`).
//!
//!     engine-tree make VDEV SEED NODES      makes a pool with NODES nodes of all kinds in its root and three child datasets
//!     engine-tree list VDEV [--read-only]   prints the manifest of all its datasets
//!     engine-tree change VDEV SEED N        does N random operations in each dataset
//!     engine-tree crash VDEV SEED N         does N operations, commits most of them at once, including the last, prints the
//!                                           manifest, and ends itself with SIGKILL instead of exporting the pool
//!
//! `--utf8=DATASET` uses only names that a dataset with utf8only accepts there; `--no-empty` makes no empty extended attributes.
//! crates/tree has the same program for the guest, through system calls.

use std::ffi::{CStr, CString};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use poolwright_openzfs::node::{Entry, New, Node, SetAttr, Time, name};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Errno, Import, Pool, Spec, VdevGroup};
use poolwright_tree::manifest::{self, Content, Facts};
use poolwright_tree::plan::{self, FILE, FileTree, LINK, SystemResult, TreeShape, Way};
use rustix::process::{Signal, getpid, kill_process};

/// As in the program, so that the same code is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Room for the largest tree, and for 24 times what is dirty, because without it the engine ends the transaction group
/// and with it the log that a crash is to leave. The file is sparse.
const VDEV_BYTES: u64 = 4 << 30;
/// From this size on a file is read by its data only.
const SPARSE: u64 = 1 << 30;
const PAGE: u64 = 4096;
const DATASETS: &[(&str, &[(&str, &str)])] = &[
    ("small", &[("recordsize", "16K"), ("compression", "lz4")]),
    ("middle", &[("recordsize", "128K"), ("compression", "zstd-3"), ("logbias", "throughput")]),
    ("large", &[("recordsize", "1M"), ("compression", "gzip-1")]),
];

/// Whatever stopped the work, as a message.
type Failure = Box<dyn std::error::Error>;
type Outcome<T = ()> = Result<T, Failure>;

struct Opened {
    dataset: Dataset,
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

fn plainly<T>(result: Result<T, Errno>) -> SystemResult<T> {
    result.map_err(|errno| errno.0)
}

impl Opened {
    fn node(&self, path: &[u8]) -> Result<Node, Errno> {
        let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        let mut at = self.dataset.root()?;
        for part in parts {
            at = at.lookup(&name(part)?)?;
        }
        Ok(at)
    }

    fn parent_and_name(&self, path: &[u8]) -> Result<(Node, CString), Errno> {
        let (dir, last) = split(path);
        Ok((self.node(dir)?, name(last)?))
    }

    fn enter(&self, path: &[u8], new: &New<'_>) -> SystemResult {
        plainly(self.parent_and_name(path).and_then(|(dir, last)| dir.make(&last, new).map(drop)))
    }

    fn set(&self, path: &[u8], set: SetAttr) -> SystemResult {
        plainly(self.node(path).and_then(|node| node.set_attr(&set).map(drop)))
    }
}

impl FileTree for Opened {
    fn make(&mut self, path: &[u8], mode: u32, device: (u32, u32)) -> SystemResult {
        self.enter(path, &New { mode, device, ..New::default() })
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> SystemResult {
        let target = plainly(name(target))?;
        self.enter(path, &New { mode: LINK | 0o777, target: Some(&target), ..New::default() })
    }

    fn write(&mut self, path: &[u8], offset: u64, data: &[u8], sync: bool) -> SystemResult {
        plainly(self.node(path).and_then(|node| node.write_at(offset, data, sync)))
    }

    fn truncate(&mut self, path: &[u8], size: u64) -> SystemResult {
        plainly(self.node(path).and_then(|node| node.truncate(size)))
    }

    fn punch(&mut self, path: &[u8], offset: u64, length: u64) -> SystemResult {
        plainly(self.node(path).and_then(|node| node.punch(offset, length)))
    }

    fn copy(&mut self, path: &[u8], to: &[u8], offset: u64) -> SystemResult {
        plainly(self.node(path).and_then(|from| {
            let (to, size, mut done) = (self.node(to)?, from.size().min(plan::MAX_COPIED), 0);
            while done < size {
                match from.copy_to(done, &to, offset + done, size - done, false)? {
                    0 => return Err(Errno(libc::EIO)),
                    some => done += some,
                }
            }
            Ok(())
        }))
    }

    fn chmod(&mut self, path: &[u8], mode: u32) -> SystemResult {
        self.set(path, SetAttr { mode: Some(mode), ..SetAttr::default() })
    }

    fn chown(&mut self, path: &[u8], uid: u32, gid: u32) -> SystemResult {
        self.set(path, SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })
    }

    fn utime(&mut self, path: &[u8], seconds: i64, nanoseconds: u32) -> SystemResult {
        self.set(path, SetAttr { mtime: Some(Time { seconds, nanoseconds }), ..SetAttr::default() })
    }

    fn link(&mut self, path: &[u8], new: &[u8]) -> SystemResult {
        plainly(self.node(path).and_then(|node| {
            let (dir, last) = self.parent_and_name(new)?;
            dir.link(&last, &node)
        }))
    }

    fn rename(&mut self, path: &[u8], new: &[u8], flags: u32) -> SystemResult {
        plainly(self.parent_and_name(path).and_then(|(from, last)| {
            let (to, new_last) = self.parent_and_name(new)?;
            from.rename(&last, &to, &new_last, flags).map(drop)
        }))
    }

    fn unlink(&mut self, path: &[u8]) -> SystemResult {
        plainly(self.parent_and_name(path).and_then(|(dir, last)| dir.unlink(&last).map(drop)))
    }

    fn rmdir(&mut self, path: &[u8]) -> SystemResult {
        plainly(self.parent_and_name(path).and_then(|(dir, last)| dir.rmdir(&last).map(drop)))
    }

    fn set_xattr(&mut self, path: &[u8], xattr: &str, value: &[u8]) -> SystemResult {
        plainly(self.node(path).and_then(|node| node.set_xattr(&name(xattr)?, value, 0)))
    }

    fn remove_xattr(&mut self, path: &[u8], xattr: &str) -> SystemResult {
        plainly(self.node(path).and_then(|node| node.remove_xattr(&name(xattr)?)))
    }

    fn commit(&mut self, _path: &[u8]) -> SystemResult {
        plainly(self.dataset.commit())
    }

    fn exists(&mut self, path: &[u8]) -> bool {
        self.node(path).is_ok()
    }

    fn walk(&mut self) -> SystemResult<Vec<(Vec<u8>, u32)>> {
        let (mut out, mut todo) = (Vec::new(), vec![Vec::new()]);
        while let Some(dir) = todo.pop() {
            let node = plainly(self.node(&dir))?;
            for entry in plainly(entries(&node))? {
                let path = if dir.is_empty() {
                    entry.to_bytes().to_vec()
                } else {
                    [&dir[..], b"/", entry.to_bytes()].concat()
                };
                let mode = plainly(node.lookup(&entry))?.mode();
                if mode & 0o170_000 == plan::DIRECTORY {
                    todo.push(path.clone());
                }
                out.push((path, mode));
            }
        }
        out.sort();
        Ok(out)
    }
}

/// The names in a directory, without `.` and `..`.
fn entries(dir: &Node) -> Result<Vec<CString>, Errno> {
    let mut out: Vec<CString> = Vec::new();
    let mut each = |entry: Entry<'_>| {
        if entry.name != c"." && entry.name != c".." {
            out.push(entry.name.to_owned());
        }
        true
    };
    dir.read_dir(0, &mut each)?;
    Ok(out)
}

fn facts(node: &Node) -> Result<Facts, Errno> {
    let attr = node.attr()?;
    let mut xattrs = Vec::new();
    for one in node.xattr_names()?.split_inclusive(|byte| *byte == 0) {
        let c = CStr::from_bytes_with_nul(one).map_err(|_| Errno(libc::EIO))?;
        xattrs.push((c.to_bytes().to_vec(), node.xattr(c)?));
    }
    let content = match attr.mode & 0o170_000 {
        FILE => content(node, attr.size)?,
        LINK => manifest::plain(&node.target()?),
        _ => String::new(),
    };
    Ok(Facts {
        object: attr.object,
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        links: attr.links.into(),
        device: attr.device,
        mtime: (attr.mtime.seconds, attr.mtime.nanoseconds),
        block_size: attr.block_size,
        content,
        xattrs,
    })
}

fn content(node: &Node, size: u64) -> Result<String, Errno> {
    let (mut content, mut at, mut buffer) = (Content::new(), 0, vec![0u8; 1 << 20]);
    while at < size {
        let mut end = size;
        if size >= SPARSE {
            let data = match node.seek(at, false) {
                Err(Errno(libc::ENXIO)) => break, // only a hole is left
                found => found?,
            };
            end = node.seek(data, true)?;
            at = at.max(data / PAGE * PAGE);
        }
        while at < end {
            let want = (size.min(end.next_multiple_of(PAGE)) - at).min(buffer.len() as u64) as usize;
            if node.read_at(at, &mut buffer[..want])? != want {
                return Err(Errno(libc::EIO));
            }
            content.data(at, &buffer[..want]);
            at += want as u64;
        }
    }
    Ok(content.hex())
}

fn failed(what: &str, dataset: &str, errno: i32) -> Failure {
    format!("{what} dataset {dataset:?}: {}", Errno(errno)).into()
}

fn config() -> Config {
    // a long group, so that a crash leaves its operations to the log
    Config { arc_bytes: 1 << 30, txg_timeout_s: 600, ..Config::default() }
}

/// All its datasets, the root as ".", each replayed if it has a log.
fn open(pool: &Pool) -> Outcome<Vec<(String, Opened)>> {
    let mut out = Vec::new();
    for full in pool.list()?.iter().filter(|full| !full.contains('@')) {
        let own = full.strip_prefix(pool.name()).unwrap_or(full).trim_start_matches('/');
        let dataset = pool.open_dataset(own)?;
        if dataset.replayed() > 0 {
            eprintln!("replayed {} records of {full}", dataset.replayed());
        }
        out.push((if own.is_empty() { ".".into() } else { own.to_owned() }, Opened { dataset }));
    }
    Ok(out)
}

fn list(trees: &mut [(String, Opened)]) -> Outcome {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (dataset, tree) in trees {
        let mut paths = tree.walk().map_err(|errno| failed("walking", dataset, errno))?;
        paths.insert(0, (Vec::new(), 0));
        for (path, _) in paths {
            let found = tree.node(&path).and_then(|node| facts(&node));
            let mut found =
                found.map_err(|errno| format!("{dataset}:/{}: {errno}", manifest::plain(&path)))?;
            writeln!(out, "{}", found.line(dataset, &path))?;
        }
    }
    Ok(out.flush()?)
}

fn make(vdev: PathBuf, seed: u64, nodes: usize) -> Outcome {
    let mut spec = Spec::single(&format!("tree{seed}"), vdev.clone(), 12);
    spec.groups = vec![VdevGroup { files: vec![(vdev, VDEV_BYTES)], ..spec.groups.remove(0) }];
    let pool = Pool::create(Engine::start(&config())?, &spec)?;
    let mut trees = vec![(".", pool.open_dataset("")?)];
    for (name, settings) in DATASETS {
        let settings: Settings = settings.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect();
        trees.push((name, pool.create_dataset(name, &settings)?));
    }
    for (n, (name, dataset)) in trees.into_iter().enumerate() {
        // the root directory of each dataset is a node too
        let share = if n == 0 { nodes / 10 } else { nodes * 3 / 10 } + 1;
        let shape = TreeShape {
            nodes: share,
            wide: if n == 2 { nodes * 26 / 100 } else { 0 },
            huge: n == 3 && nodes >= 10_000,
            any_name: true,
        };
        plan::make(&mut Opened { dataset }, seed + n as u64, &shape)
            .map_err(|e| failed("making", name, e))?;
    }
    Ok(pool.export()?)
}

fn change(trees: &mut [(String, Opened)], seed: u64, way: Way, utf8: &[&str]) -> Outcome {
    for (dataset, tree) in trees {
        let any_name = !utf8.contains(&dataset.as_str());
        let done = plan::change(tree, seed, Way { any_name, ..way });
        done.map_err(|errno| failed("changing", dataset, errno))?;
    }
    Ok(())
}

fn run(words: &[String]) -> Outcome {
    let utf8: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("--utf8=")).collect();
    let no_empty = words.iter().any(|word| word == "--no-empty");
    let read_only = words.iter().any(|word| word == "--read-only");
    let plain: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let (verb, vdev, numbers) = match plain[..] {
        [verb, vdev, ref numbers @ ..] => (verb, PathBuf::from(vdev), numbers),
        _ => {
            return Err(
                "usage: engine-tree make|list|change|crash VDEV [SEED N]; see the head of crates/devtools/src/bin/engine-tree/main.rs".into()
            );
        }
    };
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    if let ("make", [seed, nodes]) = (verb, &numbers[..]) {
        return make(vdev, *seed, *nodes as usize);
    }
    // A kernel in the virtual machine may have crashed with it: the tests know that nothing has it open now.
    let how = Import { readonly: read_only, force: true };
    let pool = Pool::import_with(Engine::start(&config())?, &[vdev], how)?;
    let mut trees = open(&pool)?;
    let way = |n: u64, commit| Way { operations: n as usize, any_name: true, commit, apart: false, no_empty };
    match (verb, &numbers[..]) {
        ("list", []) => list(&mut trees)?,
        ("change", [seed, n]) => change(&mut trees, *seed, way(*n, false), &utf8)?,
        ("crash", [seed, n]) => {
            // The first commit of a dataset waits for a group, which would empty the logs of those before it.
            change(&mut trees, seed + 500_000, way(1, true), &utf8)?;
            change(&mut trees, *seed, way(*n, true), &utf8)?;
            list(&mut trees)?;
            kill_process(getpid(), Signal::KILL)?;
        }
        _ => return Err(format!("engine-tree: no such call: {}", words.join(" ")).into()),
    }
    drop(trees);
    Ok(pool.export()?)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&words) {
        eprintln!("engine-tree: {error}");
        std::process::exit(1);
    }
}

//! A model of a file system in memory, and random operations for the model and the engine.

mod operations;

use std::collections::BTreeMap;
use std::ffi::CString;

use poolwright_openzfs::node::{Entry, New, Node, SetAttr, Time};
use poolwright_openzfs::{Dataset, Errno};

/// A node without its names.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub mode: u32,
    pub uid: u32,
    pub mtime: Option<i64>,
    pub content: Vec<u8>,
    pub target: Vec<u8>,
    pub device: (u32, u32),
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Entries of a directory: name → item number.
    pub entries: Option<BTreeMap<String, usize>>,
    pub parent: usize,
}

/// Items by number; 0 is the root. Unlinked items stay in the list.
#[derive(Clone, Debug)]
pub struct Model {
    pub items: Vec<Item>,
}

/// One operation, with paths as lists of names.
#[derive(Clone, Debug)]
pub enum Op {
    Create(Vec<String>, u32),
    Mkdir(Vec<String>, u32),
    Symlink(Vec<String>, String),
    Fifo(Vec<String>),
    Device(Vec<String>, (u32, u32)),
    Write(Vec<String>, u64, Vec<u8>),
    Truncate(Vec<String>, u64),
    Punch(Vec<String>, u64, u64),
    /// Copies bytes: source and offset, target and offset, length.
    Copy((Vec<String>, u64), (Vec<String>, u64), u64),
    Chmod(Vec<String>, u32, u32),
    Utime(Vec<String>, i64),
    Unlink(Vec<String>),
    Rmdir(Vec<String>),
    Link(Vec<String>, Vec<String>),
    Rename(Vec<String>, Vec<String>, u32),
    SetXattr(Vec<String>, String, Vec<u8>),
    RemoveXattr(Vec<String>, String),
}

/// A small random generator, so that a seed has the same meaning everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn name(&mut self) -> String {
        format!("n{}", self.below(7))
    }

    fn path(&mut self) -> Vec<String> {
        let depth = [1, 1, 2, 3][self.below(4) as usize];
        (0..depth).map(|_| self.name()).collect()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = [10, 700, 5000, 40_000, 150_000][self.below(5) as usize] + self.below(300);
        let word = format!("word {} ", self.below(100));
        word.bytes().cycle().take(len as usize).collect()
    }

    /// An offset, mostly at the start of a record, because only whole records are cloned.
    fn position(&mut self) -> u64 {
        if self.below(4) == 0 { self.below(200_000) } else { self.below(3) << 17 }
    }

    fn copy(&mut self) -> Op {
        let (from, to) = ((self.path(), self.position()), (self.path(), self.position()));
        Op::Copy(from, to, [50, 131_072, 1 << 20][self.below(3) as usize] + self.below(2) * self.below(5000))
    }

    /// The next operation. Paths often collide, so that most kinds of failures occur.
    pub fn op(&mut self) -> Op {
        match self.below(36) {
            0..=6 => Op::Create(self.path(), 0o600 + self.below(64) as u32),
            7..=9 => Op::Mkdir(self.path(), 0o700 + self.below(64) as u32),
            10 => Op::Symlink(self.path(), format!("../{}", "t".repeat(self.below(300) as usize))),
            11 => Op::Fifo(self.path()),
            12 => Op::Device(self.path(), (1 + self.below(200) as u32, self.below(70_000) as u32)),
            13..=17 => Op::Write(self.path(), self.below(200_000), self.bytes()),
            18 => Op::Truncate(self.path(), self.below(150_000)),
            19 => Op::Punch(self.path(), self.below(100_000), 1 + self.below(100_000)),
            20 => Op::Chmod(self.path(), self.below(0o10000) as u32, self.below(3000) as u32),
            21 => Op::Utime(self.path(), self.below(4_000_000_000) as i64 - 1_000_000_000),
            22 => Op::Unlink(self.path()),
            23 => Op::Rmdir(self.path()),
            24 => Op::Link(self.path(), self.path()),
            25..=28 => Op::Rename(self.path(), self.path(), [0, 0, 0, 1, 2, 4][self.below(6) as usize]),
            29 | 30 => Op::SetXattr(self.path(), format!("user.x{}", self.below(4)), self.bytes()),
            31..=34 => self.copy(),
            _ => Op::RemoveXattr(self.path(), format!("user.x{}", self.below(4))),
        }
    }
}

type Done<T = ()> = Result<T, i32>;

impl Item {
    fn new(mode: u32, parent: usize) -> Item {
        Item {
            mode,
            uid: 0,
            mtime: None,
            content: Vec::new(),
            target: Vec::new(),
            device: (0, 0),
            xattrs: BTreeMap::new(),
            entries: (mode & libc::S_IFMT == libc::S_IFDIR).then(BTreeMap::new),
            parent,
        }
    }
}

impl Model {
    pub fn new() -> Model {
        Model { items: vec![Item::new(libc::S_IFDIR | 0o755, 0)] }
    }

    fn find(&self, path: &[String]) -> Done<usize> {
        path.iter().try_fold(0, |at, name| {
            let entries = self.items[at].entries.as_ref().ok_or(libc::ENOTDIR)?;
            entries.get(name).copied().ok_or(libc::ENOENT)
        })
    }

    fn dir_of<'p>(&self, path: &'p [String]) -> Done<(usize, &'p String)> {
        let (name, dir) = path.split_last().expect("a path has a name");
        let dir = self.find(dir)?;
        if self.items[dir].entries.is_none() { Err(libc::ENOTDIR) } else { Ok((dir, name)) }
    }

    fn entries(&mut self, dir: usize) -> &mut BTreeMap<String, usize> {
        self.items[dir].entries.as_mut().expect("a directory")
    }

    fn make(&mut self, path: &[String], mode: u32) -> Done<usize> {
        let (dir, name) = self.dir_of(path)?;
        if self.items[dir].entries.as_ref().is_some_and(|e| e.contains_key(name)) {
            return Err(libc::EEXIST);
        }
        let number = self.items.len();
        let directory = mode & libc::S_IFMT == libc::S_IFDIR;
        let inherited = if directory { self.items[dir].mode & libc::S_ISGID } else { 0 };
        self.items.push(Item::new(mode | inherited, dir));
        self.entries(dir).insert(name.clone(), number);
        Ok(number)
    }

    fn file(&mut self, path: &[String]) -> Done<&mut Item> {
        let at = self.find(path)?;
        match self.items[at].mode & libc::S_IFMT {
            libc::S_IFREG => Ok(&mut self.items[at]),
            libc::S_IFDIR => Err(libc::EISDIR),
            _ => Err(libc::EINVAL),
        }
    }

    fn copy(&mut self, from: &(Vec<String>, u64), to: &(Vec<String>, u64), len: u64) -> Done {
        let (source, target) = (self.find(&from.0)?, self.find(&to.0)?);
        self.file(&to.0)?;
        let content = self.file(&from.0)?.content.clone();
        let (at, to_at) = (from.1 as usize, to.1 as usize);
        let len = (len as usize).min(content.len().saturating_sub(at));
        if source == target && at < to_at + len && to_at < at + len {
            return Err(libc::EINVAL);
        }
        if len > 0 {
            let item = &mut self.items[target];
            item.content.resize(item.content.len().max(to_at + len), 0);
            item.content[to_at..to_at + len].copy_from_slice(&content[at..at + len]);
            item.mtime = None;
        }
        Ok(())
    }

    fn below(&self, mut at: usize, above: usize) -> bool {
        loop {
            if at == above {
                return true;
            }
            if at == 0 {
                return false;
            }
            at = self.items[at].parent;
        }
    }

    fn is_dir(&self, at: usize) -> bool {
        self.items[at].entries.is_some()
    }

    fn rename(&mut self, from: &[String], to: &[String], flags: u32) -> Done {
        let ((from_dir, name), (to_dir, new_name)) = (self.dir_of(from)?, self.dir_of(to)?);
        let node = *self.entries(from_dir).get(name).ok_or(libc::ENOENT)?;
        let target = self.entries(to_dir).get(new_name).copied();
        if target == Some(node) {
            return Ok(());
        }
        if from_dir != to_dir {
            if self.is_dir(node) && self.below(to_dir, node) {
                return Err(libc::EINVAL);
            }
            if target.is_some_and(|t| self.is_dir(t) && self.below(from_dir, t)) {
                return Err(if flags & 2 != 0 { libc::EINVAL } else { libc::ENOTEMPTY });
            }
        }
        match target {
            None if flags & 2 != 0 => return Err(libc::ENOENT),
            Some(_) if flags & 1 != 0 => return Err(libc::EEXIST),
            Some(t) if flags & 2 == 0 => match (self.is_dir(node), self.is_dir(t)) {
                (true, false) => return Err(libc::ENOTDIR),
                (false, true) => return Err(libc::EISDIR),
                (true, true) if !self.entries(t).is_empty() => return Err(libc::ENOTEMPTY),
                _ => {}
            },
            _ => {}
        }
        self.entries(from_dir).remove(name);
        self.entries(to_dir).insert(new_name.clone(), node);
        self.items[node].parent = to_dir;
        if flags & 2 != 0 {
            let other = target.expect("checked");
            self.entries(from_dir).insert(name.clone(), other);
            self.items[other].parent = from_dir;
        }
        if flags & 4 != 0 {
            let whiteout = self.items.len();
            self.items.push(Item::new(libc::S_IFCHR, from_dir));
            self.entries(from_dir).insert(name.clone(), whiteout);
        }
        Ok(())
    }

    pub fn apply(&mut self, op: &Op) -> Done {
        match op {
            Op::Create(p, mode) => self.make(p, libc::S_IFREG | mode).map(|_| ()),
            Op::Mkdir(p, mode) => self.make(p, libc::S_IFDIR | mode).map(|_| ()),
            Op::Symlink(p, target) => {
                let at = self.make(p, libc::S_IFLNK | 0o777)?;
                self.items[at].target = target.clone().into_bytes();
                Ok(())
            }
            Op::Fifo(p) => self.make(p, libc::S_IFIFO | 0o644).map(|_| ()),
            Op::Device(p, device) => {
                let at = self.make(p, libc::S_IFCHR | 0o600)?;
                self.items[at].device = *device;
                Ok(())
            }
            Op::Write(p, offset, bytes) => {
                let item = self.file(p)?;
                let end = *offset as usize + bytes.len();
                item.content.resize(item.content.len().max(end), 0);
                item.content[*offset as usize..end].copy_from_slice(bytes);
                item.mtime = None;
                Ok(())
            }
            Op::Truncate(p, size) => {
                let item = self.file(p)?;
                item.content.resize(*size as usize, 0);
                item.mtime = None;
                Ok(())
            }
            Op::Punch(p, offset, len) => self.punch(p, *offset, *len),
            Op::Copy(from, to, len) => self.copy(from, to, *len),
            Op::Chmod(p, mode, uid) => {
                let at = self.find(p)?;
                let item = &mut self.items[at];
                (item.mode, item.uid) = (item.mode & libc::S_IFMT | mode, *uid);
                Ok(())
            }
            Op::Utime(p, seconds) => {
                let at = self.find(p)?;
                // The time of a directory changes with its entries.
                self.items[at].mtime = (!self.is_dir(at)).then_some(*seconds);
                Ok(())
            }
            Op::Unlink(p) => self.unlink(p),
            Op::Rmdir(p) => self.rmdir(p),
            Op::Link(p, to) => self.link(p, to),
            Op::Rename(from, to, flags) => self.rename(from, to, *flags),
            Op::SetXattr(p, name, value) => self.set_xattr(p, name, value),
            Op::RemoveXattr(p, name) => {
                let at = self.find(p)?;
                self.items[at].xattrs.remove(name).map(|_| ()).ok_or(libc::ENODATA)
            }
        }
    }

    /// All paths with their items.
    pub fn listing(&self) -> BTreeMap<String, Item> {
        let mut out = BTreeMap::new();
        let mut todo = vec![(String::from("/"), 0)];
        while let Some((path, at)) = todo.pop() {
            let mut item = self.items[at].clone();
            for (name, child) in item.entries.iter().flatten() {
                todo.push((format!("{path}{name}/"), *child));
            }
            if let Some(entries) = &mut item.entries {
                entries.values_mut().for_each(|number| *number = 0);
            }
            item.parent = 0;
            out.insert(path, item);
        }
        out
    }
}

// ---- the operations on the engine ----

fn c(name: &str) -> CString {
    CString::new(name).expect("no zero byte")
}

fn node_of(ds: &Dataset, path: &[String]) -> Result<Node, Errno> {
    path.iter().try_fold(ds.root()?, |dir, name| dir.lookup(&c(name)))
}

fn dir_of<'p>(ds: &Dataset, path: &'p [String]) -> Result<(Node, &'p String), Errno> {
    let (name, dir) = path.split_last().expect("a path has a name");
    let dir = node_of(ds, dir)?;
    if dir.mode() & libc::S_IFMT == libc::S_IFDIR { Ok((dir, name)) } else { Err(Errno(libc::ENOTDIR)) }
}

fn make(ds: &Dataset, path: &[String], new: New<'_>) -> Result<(), Errno> {
    let (dir, name) = dir_of(ds, path)?;
    dir.make(&c(name), &new).map(|_| ())
}

pub fn apply(ds: &Dataset, op: &Op) -> Result<(), i32> {
    on_engine(ds, op).map_err(|errno| errno.0)
}

fn on_engine(ds: &Dataset, op: &Op) -> Result<(), Errno> {
    match op {
        Op::Create(p, mode) => make(ds, p, New { mode: libc::S_IFREG | mode, ..New::default() }),
        Op::Mkdir(p, mode) => make(ds, p, New { mode: libc::S_IFDIR | mode, ..New::default() }),
        Op::Symlink(p, target) => {
            let target = c(target);
            make(ds, p, New { mode: libc::S_IFLNK | 0o777, target: Some(&target), ..New::default() })
        }
        Op::Fifo(p) => make(ds, p, New { mode: libc::S_IFIFO | 0o644, ..New::default() }),
        Op::Device(p, device) => {
            make(ds, p, New { mode: libc::S_IFCHR | 0o600, device: *device, ..New::default() })
        }
        Op::Write(p, offset, bytes) => node_of(ds, p)?.write_at(*offset, bytes, false),
        Op::Truncate(p, size) => node_of(ds, p)?.truncate(*size),
        Op::Punch(p, offset, len) => node_of(ds, p)?.punch(*offset, *len),
        Op::Copy((from, at), (to, to_at), len) => {
            let (from, to) = (node_of(ds, from)?, node_of(ds, to)?);
            if len % 2 == 0 {
                let _ = from.seek(0, true); // writes dirty blocks to disk, so that they can be cloned
            }
            // A copy within a file makes the source longer. The copy must not continue into the bytes that it wrote.
            let len = (*len).min(from.size().saturating_sub(*at));
            let mut done = from.copy_to(*at, &to, *to_at, len, false)?;
            while done < len {
                done += from.copy_to(at + done, &to, to_at + done, len - done, false)?;
            }
            Ok(())
        }
        Op::Chmod(p, mode, uid) => {
            let set = SetAttr { mode: Some(*mode), uid: Some(*uid), ..SetAttr::default() };
            node_of(ds, p)?.set_attr(&set).map(|_| ())
        }
        Op::Utime(p, seconds) => {
            let mtime = Some(Time { seconds: *seconds, nanoseconds: 123_456_789 });
            node_of(ds, p)?.set_attr(&SetAttr { mtime, ..SetAttr::default() }).map(|_| ())
        }
        Op::Unlink(p) => dir_of(ds, p).and_then(|(dir, name)| dir.unlink(&c(name)).map(|_| ())),
        Op::Rmdir(p) => dir_of(ds, p).and_then(|(dir, name)| dir.rmdir(&c(name)).map(|_| ())),
        Op::Link(p, to) => {
            let node = node_of(ds, p)?;
            let (dir, name) = dir_of(ds, to)?;
            dir.link(&c(name), &node)
        }
        Op::Rename(from, to, flags) => {
            let (from_dir, name) = dir_of(ds, from)?;
            let (to_dir, new_name) = dir_of(ds, to)?;
            from_dir.rename(&c(name), &to_dir, &c(new_name), *flags).map(|_| ())
        }
        Op::SetXattr(p, name, value) => node_of(ds, p)?.set_xattr(&c(name), value, 0),
        Op::RemoveXattr(p, name) => node_of(ds, p)?.remove_xattr(&c(name)),
    }
}

/// Reads the whole tree, and checks that counts, links and sizes are consistent.
pub fn listing(ds: &Dataset) -> BTreeMap<String, Item> {
    let mut out = BTreeMap::new();
    let mut links: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    let mut todo = vec![(String::from("/"), ds.root().unwrap())];
    while let Some((path, node)) = todo.pop() {
        let attr = node.attr().unwrap();
        let mut item = Item::new(attr.mode, 0);
        item.uid = attr.uid;
        item.device = attr.device;
        item.mtime = (attr.mtime.nanoseconds == 123_456_789).then_some(attr.mtime.seconds);
        for name in node.xattr_names().unwrap().split(|b| *b == 0).filter(|n| !n.is_empty()) {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let value = node.xattr(&c(&name)).unwrap();
            item.xattrs.insert(name, value);
        }
        match attr.mode & libc::S_IFMT {
            libc::S_IFREG => {
                item.content = vec![0; attr.size as usize];
                assert_eq!(node.read_at(0, &mut item.content).unwrap() as u64, attr.size);
            }
            libc::S_IFLNK => {
                item.target = node.target().unwrap();
                assert_eq!(item.target.len() as u64, attr.size);
            }
            libc::S_IFDIR => {
                item.mtime = None; // changes with the entries
                let mut names = Vec::new();
                let mut each = |e: Entry<'_>| {
                    names.push((e.name.to_owned(), e.object, e.kind));
                    true
                };
                node.read_dir(0, &mut each).unwrap();
                assert_eq!(names.len() as u64, attr.size, "{path}: size against entries");
                let mut subdirectories = 0;
                for (name, object, kind) in names {
                    let text = name.to_str().unwrap().to_owned();
                    if text == "." || text == ".." {
                        continue;
                    }
                    let child = node.lookup(&name).unwrap();
                    assert_eq!(child.object(), object);
                    assert_eq!(u32::from(kind), child.mode() >> 12, "{path}{text}: type in the entry");
                    subdirectories += u32::from(child.mode() & libc::S_IFMT == libc::S_IFDIR);
                    item.entries.as_mut().unwrap().insert(text.clone(), 0);
                    todo.push((format!("{path}{text}/"), child));
                }
                assert_eq!(attr.links, 2 + subdirectories, "{path}: links of the directory");
            }
            _ => {}
        }
        if item.entries.is_none() {
            links.entry(attr.object).or_insert((attr.links, 0)).1 += 1;
        }
        out.insert(path, item);
    }
    for (object, (links, found)) in links {
        assert_eq!(links, found, "object {object}: links against names");
    }
    out
}

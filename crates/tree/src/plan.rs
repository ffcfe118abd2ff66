//! The operations on a tree, by seed: it is created once, then changed. They are the same on the host, through the engine, and in the
//! guest, through system calls.

use crate::random::Random;

pub const DIRECTORY: u32 = 0o040_000;
pub const FILE: u32 = 0o100_000;
pub const LINK: u32 = 0o120_000;
const FIFO: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;
const CHARACTER: u32 = 0o020_000;
const BLOCK: u32 = 0o060_000;
const TYPE: u32 = 0o170_000;

/// Flags of `rename`, as `renameat2` has them.
const EXCHANGE: u32 = 2;
const WHITEOUT: u32 = 4;

/// Bytes of a file that `copy` takes at most.
pub const MAX_COPIED: u64 = 32 << 20;

/// A result with an error number of Linux.
pub type SystemResult<T = ()> = Result<T, i32>;

/// One mounted dataset. Paths are relative to its root directory, without a slash in front.
pub trait FileTree {
    /// Makes a file, directory, fifo, socket or device.
    fn make(&mut self, path: &[u8], mode: u32, device: (u32, u32)) -> SystemResult;
    fn symlink(&mut self, path: &[u8], target: &[u8]) -> SystemResult;
    /// With `sync` it is durable when this returns.
    fn write(&mut self, path: &[u8], offset: u64, data: &[u8], sync: bool) -> SystemResult;
    fn truncate(&mut self, path: &[u8], size: u64) -> SystemResult;
    /// Makes a hole.
    fn punch(&mut self, path: &[u8], offset: u64, length: u64) -> SystemResult;
    /// Copies a file, as far as `MAX_COPIED`, by cloning blocks where that works.
    fn copy(&mut self, path: &[u8], to: &[u8], offset: u64) -> SystemResult;
    fn chmod(&mut self, path: &[u8], mode: u32) -> SystemResult;
    fn chown(&mut self, path: &[u8], uid: u32, gid: u32) -> SystemResult;
    fn utime(&mut self, path: &[u8], seconds: i64, nanoseconds: u32) -> SystemResult;
    fn link(&mut self, path: &[u8], new: &[u8]) -> SystemResult;
    fn rename(&mut self, path: &[u8], new: &[u8], flags: u32) -> SystemResult;
    fn unlink(&mut self, path: &[u8]) -> SystemResult;
    fn rmdir(&mut self, path: &[u8]) -> SystemResult;
    fn set_xattr(&mut self, path: &[u8], name: &str, value: &[u8]) -> SystemResult;
    fn remove_xattr(&mut self, path: &[u8], name: &str) -> SystemResult;
    /// Makes what was done to this path durable.
    fn commit(&mut self, path: &[u8]) -> SystemResult;
    fn exists(&mut self, path: &[u8]) -> bool;
    /// Every path but the root, with its mode, sorted.
    fn walk(&mut self) -> SystemResult<Vec<(Vec<u8>, u32)>>;
}

/// The kind and number of nodes of a tree.
pub struct TreeShape {
    /// Nodes to make.
    pub nodes: usize,
    /// Of these, files in one directory.
    pub wide: usize,
    /// With sparse files of more than 4 GiB.
    pub huge: bool,
    /// Names may hold bytes that are no UTF-8.
    pub any_name: bool,
}

struct Names {
    next: usize,
    any: bool,
}

impl Names {
    /// A name that no other node has.
    fn name(&mut self, random: &mut Random) -> Vec<u8> {
        self.next += 1;
        let n = self.next;
        match random.below(40) {
            0 => format!("{n:_<255}").into_bytes(),
            1..=3 => format!("Grüße-日本語-{n}").into_bytes(),
            4 => format!("with space {n}").into_bytes(),
            5 if self.any => [b"\xff\xfe-".as_slice(), n.to_string().as_bytes()].concat(),
            _ => format!("n{n}").into_bytes(),
        }
    }
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

const MODES: &[u32] = &[0o644, 0o600, 0o755, 0o4755, 0o2755, 0o6711, 0o1777, 0, 0o7777, 0o440];
const OWNERS: &[u32] = &[0, 1, 1000, 65_534, 100_000, 2_147_483_653, 4_294_967_294];

fn some_time(random: &mut Random) -> (i64, u32) {
    let seconds = match random.below(4) {
        0 => -(random.below(2_000_000_000) as i64),
        1 => 4_294_967_296 + random.below(1_000_000) as i64,
        _ => random.below(1_900_000_000) as i64,
    };
    (seconds, random.below(1_000_000_000) as u32)
}

/// An attribute's name: one that Linux permits on this type of node.
fn xattr_name(random: &mut Random, mode: u32) -> String {
    let space =
        if matches!(mode & TYPE, FILE | DIRECTORY) && random.below(5) != 0 { "user" } else { "trusted" };
    format!("{space}.x{}", random.below(4))
}

fn some_xattrs(
    tree: &mut dyn FileTree,
    random: &mut Random,
    path: &[u8],
    mode: u32,
    least: usize,
) -> SystemResult {
    match random.below(60) {
        0..=5 => {
            let value = least + random.below(60) as usize;
            tree.set_xattr(path, &xattr_name(random, mode), &random.bytes(value))
        }
        6 | 7 => tree.set_xattr(path, &xattr_name(random, mode), &random.bytes(3000)),
        // 40 KB in all; a kernel takes 32 KB at most in one value
        8 => ["trusted.large", "trusted.larger"]
            .iter()
            .try_for_each(|name| tree.set_xattr(path, name, &random.bytes(20_000))),
        _ => Ok(()),
    }
}

/// Content in one to three writes, with holes between them now and then.
fn some_content(tree: &mut dyn FileTree, random: &mut Random, path: &[u8]) -> SystemResult {
    let length = random.length();
    let data = random.bytes(length);
    let cut = length / (1 + random.below(3) as usize);
    let gap = if random.below(8) == 0 { random.below(600_000) } else { 0 };
    tree.write(path, gap, &data[..cut], false)?;
    if cut < length { tree.write(path, gap + cut as u64, &data[cut..], false) } else { Ok(()) }
}

fn sparse(tree: &mut dyn FileTree, random: &mut Random, path: &[u8]) -> SystemResult {
    tree.make(path, FILE | 0o644, (0, 0))?;
    for offset in [0, (4 << 30) - 100, (5 << 30) + 12_345] {
        tree.write(path, offset, &random.bytes(30_000), false)?;
    }
    tree.truncate(path, 6 << 30)
}

/// One node of any type; gives its mode.
fn some_node(
    tree: &mut dyn FileTree,
    random: &mut Random,
    path: &[u8],
    files: &[Vec<u8>],
) -> SystemResult<u32> {
    let device = (1 + random.below(400) as u32, random.below(1 << 18) as u32);
    let mode = match random.below(100) {
        0..=7 => DIRECTORY | 0o755,
        8..=13 => {
            let length = if random.below(4) == 0 { 300 } else { 1 + random.below(60) };
            tree.symlink(path, &"../target/".bytes().cycle().take(length as usize).collect::<Vec<_>>())?;
            return Ok(LINK | 0o777);
        }
        14..=18 if !files.is_empty() => {
            tree.link(random.pick(files).as_slice(), path)?;
            return Ok(FILE);
        }
        19 => FIFO | 0o600,
        20 => SOCKET | 0o755,
        21 => CHARACTER | 0o620,
        22 => BLOCK | 0o660,
        _ => FILE | 0o644,
    };
    tree.make(path, mode, if matches!(mode & TYPE, CHARACTER | BLOCK) { device } else { (0, 0) })?;
    if mode & TYPE == FILE {
        some_content(tree, random, path)?;
    }
    Ok(mode)
}

/// Attributes of a node, odd ones too; the time last, because nothing may change it afterwards.
fn some_attributes(
    tree: &mut dyn FileTree,
    random: &mut Random,
    path: &[u8],
    mode: u32,
    least: usize,
) -> SystemResult {
    some_xattrs(tree, random, path, mode, least)?;
    if random.below(3) == 0 {
        tree.chown(path, *random.pick(OWNERS), *random.pick(OWNERS))?;
    }
    if mode & TYPE != LINK && random.below(2) == 0 {
        tree.chmod(path, *random.pick(MODES))?;
    }
    let (seconds, nanoseconds) = some_time(random);
    tree.utime(path, seconds, nanoseconds)
}

/// Makes the tree.
pub fn make(tree: &mut dyn FileTree, seed: u64, shape: &TreeShape) -> SystemResult {
    let mut random = Random::new(seed);
    let mut names = Names { next: 0, any: shape.any_name };
    let (mut dirs, mut files, mut made) = (vec![Vec::new()], Vec::new(), 0);
    if shape.wide > 0 {
        tree.make(b"wide", DIRECTORY | 0o755, (0, 0))?;
        for n in 0..shape.wide {
            let path = format!("wide/a name among many others {n:06}").into_bytes();
            tree.make(&path, FILE | 0o644, (0, 0))?;
            tree.write(&path, 0, n.to_string().as_bytes(), false)?;
        }
        made += shape.wide + 1;
    }
    if shape.huge {
        for name in [&b"sparse-1"[..], b"sparse-2"] {
            sparse(tree, &mut random, name)?;
            files.push(name.to_vec());
        }
        made += 2;
    }
    let mut modes = Vec::new();
    while made < shape.nodes {
        let path = join(random.pick(&dirs).as_slice(), &names.name(&mut random));
        let mode = some_node(tree, &mut random, &path, &files)?;
        match mode & TYPE {
            DIRECTORY if path.len() < 900 => dirs.push(path.clone()),
            FILE => files.push(path.clone()),
            _ => {}
        }
        modes.push((path, mode));
        made += 1;
    }
    // deepest last made, first done: a directory's time stays when nothing is made in it any more
    modes.iter().rev().try_for_each(|(path, mode)| some_attributes(tree, &mut random, path, *mode, 0))
}

/// What a change picks from, kept up to date as it goes.
struct Stock {
    dirs: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
    others: Vec<(Vec<u8>, u32)>,
    names: Names,
    /// Bytes of an extended attribute at least.
    least: usize,
    apart: bool,
}

impl Stock {
    fn of(tree: &mut dyn FileTree, seed: u64, way: Way) -> SystemResult<Stock> {
        let (mut dirs, mut files, mut others) = (vec![Vec::new()], Vec::new(), Vec::new());
        for (path, mode) in tree.walk()? {
            match mode & TYPE {
                DIRECTORY => dirs.push(path),
                FILE => files.push(path),
                _ => others.push((path, mode)),
            }
        }
        // far from the names of any other seed's change of the same tree
        let names = Names { next: 1_000_000 * (1 + seed as usize), any: way.any_name };
        Ok(Stock { dirs, files, others, names, least: usize::from(way.no_empty), apart: way.apart })
    }

    fn fresh(&mut self, random: &mut Random) -> Vec<u8> {
        let short: Vec<&Vec<u8>> = self.dirs.iter().filter(|dir| dir.len() < 900).collect();
        let dir = random.pick(&short).to_vec();
        join(&dir, &self.names.name(random))
    }

    fn enter(&mut self, path: Vec<u8>, mode: u32) {
        match mode & TYPE {
            DIRECTORY => self.dirs.push(path),
            FILE => self.files.push(path),
            _ => self.others.push((path, mode)),
        }
    }

    fn moved(&mut self, from: &[u8], to: &[u8]) {
        let below = [from, b"/"].concat();
        for path in
            self.dirs.iter_mut().chain(&mut self.files).chain(self.others.iter_mut().map(|(path, _)| path))
        {
            if *path == from {
                *path = to.to_vec();
            } else if let Some(rest) = path.strip_prefix(below.as_slice()) {
                *path = join(to, rest);
            }
        }
    }

    fn any(&self, random: &mut Random) -> (Vec<u8>, u32) {
        match random.below(10) {
            0 | 1 if self.dirs.len() > 1 => {
                (self.dirs[1 + random.below(self.dirs.len() as u64 - 1) as usize].clone(), DIRECTORY)
            }
            2 if !self.others.is_empty() => random.pick(&self.others).clone(),
            _ => (random.pick(&self.files).clone(), FILE),
        }
    }
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |at| &path[..at])
}

/// Does one random operation; gives the path to be committed.
fn operation(tree: &mut dyn FileTree, random: &mut Random, stock: &mut Stock) -> SystemResult<Vec<u8>> {
    if stock.files.len() < 5 {
        let path = stock.fresh(random);
        tree.make(&path, FILE | 0o644, (0, 0))?;
        stock.files.push(path.clone());
        return Ok(path);
    }
    match random.below(130) {
        0..=24 => {
            let path = stock.fresh(random);
            let mode = some_node(tree, random, &path, &stock.files)?;
            stock.enter(path.clone(), mode);
            Ok(path)
        }
        25..=39 => {
            let path = random.pick(&stock.files).clone();
            let length = random.length();
            tree.write(&path, random.below(400_000), &random.bytes(length), random.below(3) == 0)?;
            Ok(path)
        }
        40..=46 => {
            let path = random.pick(&stock.files).clone();
            tree.truncate(&path, random.below(300_000))?;
            Ok(path)
        }
        47..=58 => {
            let (path, mode) = stock.any(random);
            some_attributes(tree, random, &path, mode, stock.least)?;
            Ok(path)
        }
        59..=66 => {
            let (path, mode) = stock.any(random);
            let name = xattr_name(random, mode);
            let length = stock.least + *random.pick(&[0usize, 20, 500, 3000]);
            tree.set_xattr(&path, &name, &random.bytes(length))?;
            if random.below(3) == 0 {
                tree.remove_xattr(&path, &name)?;
            }
            Ok(path)
        }
        67..=82 => rename(tree, random, stock),
        83..=96 => {
            let at = random.below(stock.files.len() as u64) as usize;
            let path = stock.files.swap_remove(at);
            tree.unlink(&path)?;
            Ok(parent(&path).to_vec())
        }
        97..=99 => remove_directory(tree, random, stock),
        100..=104 => exchange(tree, random, stock),
        105..=117 => edits(tree, random, stock),
        _ => copy(tree, random, stock),
    }
}

fn remove_directory(
    tree: &mut dyn FileTree,
    random: &mut Random,
    stock: &mut Stock,
) -> SystemResult<Vec<u8>> {
    let at = random.below(stock.dirs.len() as u64) as usize;
    let path = stock.dirs[at].clone();
    match if at == 0 { Err(39) } else { tree.rmdir(&path) } {
        Ok(()) => drop(stock.dirs.swap_remove(at)),
        Err(39) => {} // ENOTEMPTY, as it should
        Err(other) => return Err(other),
    }
    Ok(parent(&path).to_vec())
}

fn rename(tree: &mut dyn FileTree, random: &mut Random, stock: &mut Stock) -> SystemResult<Vec<u8>> {
    let (from, mode) = stock.any(random);
    let over = mode & TYPE == FILE && random.below(3) == 0;
    let to = if over { random.pick(&stock.files).clone() } else { stock.fresh(random) };
    if to.starts_with(&[&from[..], b"/"].concat()) || from == to {
        return Ok(from); // a directory into itself
    }
    let whiteout = !over && random.below(6) == 0;
    tree.rename(&from, &to, if whiteout { WHITEOUT } else { 0 })?;
    // two names of one file: a rename then does nothing, and both stay
    let still = !whiteout && tree.exists(&from);
    if !still {
        stock.files.retain(|path| *path != to);
        stock.moved(&from, &to);
        if whiteout {
            stock.enter(from, CHARACTER);
        }
    }
    Ok(parent(&to).to_vec())
}

/// Two nodes of any types change places.
fn exchange(tree: &mut dyn FileTree, random: &mut Random, stock: &mut Stock) -> SystemResult<Vec<u8>> {
    let ((one, _), (other, _)) = (stock.any(random), stock.any(random));
    let inside = |dir: &[u8], path: &[u8]| path.starts_with(&[dir, b"/"].concat());
    if one != other && !inside(&one, &other) && !inside(&other, &one) {
        tree.rename(&one, &other, EXCHANGE)?;
        let aside = b"\0"; // no node's name
        stock.moved(&one, aside);
        stock.moved(&other, &one);
        stock.moved(aside, &other);
    }
    Ok(parent(&one).to_vec())
}

/// Several changes around one place of a file, so that a commit finds more than one of the same block.
fn edits(tree: &mut dyn FileTree, random: &mut Random, stock: &mut Stock) -> SystemResult<Vec<u8>> {
    let path = random.pick(&stock.files).clone();
    let most = *random.pick(&[20_000, 400_000]);
    let near = random.below(most);
    for _ in 0..2 + random.below(5) {
        let at = near + random.below(40_000);
        match random.below(8) {
            0 => tree.punch(&path, at, 1 + random.below(200_000))?,
            1 => tree.truncate(&path, at)?,
            _ => {
                let length = random.length();
                tree.write(&path, at, &random.bytes(length), random.below(2) == 0)?;
            }
        }
        if stock.apart {
            tree.commit(&path)?;
        }
    }
    Ok(path)
}

/// A file into a new one, as cp does it, or into another file, mostly where a record can begin.
fn copy(tree: &mut dyn FileTree, random: &mut Random, stock: &mut Stock) -> SystemResult<Vec<u8>> {
    let from = random.pick(&stock.files).clone();
    if random.below(3) != 0 {
        let to = stock.fresh(random);
        tree.make(&to, FILE | 0o644, (0, 0))?;
        tree.copy(&from, &to, 0)?;
        stock.files.push(to.clone());
        return Ok(to);
    }
    let to = random.pick(&stock.files).clone();
    let offset = match random.below(3) {
        0 => 0,
        1 => random.below(8) << 17,
        _ => random.below(400_000),
    };
    match tree.copy(&from, &to, offset) {
        Err(22) => {} // EINVAL: two names of one file, and the ranges overlap
        other => other?,
    }
    Ok(to)
}

/// How a tree is changed.
#[derive(Clone, Copy)]
pub struct Way {
    pub operations: usize,
    /// Names may hold bytes that are no UTF-8.
    pub any_name: bool,
    /// Most operations are made durable before the next, and the last is.
    pub commit: bool,
    /// Every change is durable before the next: a kernel's log may lose one of two in the same block, see
    /// docs/kernel-tests.md.
    pub apart: bool,
    /// No extended attribute without a value: a kernel's intent log cannot tell it from a removal.
    pub no_empty: bool,
}

/// Does random operations.
pub fn change(tree: &mut dyn FileTree, seed: u64, way: Way) -> SystemResult {
    let mut random = Random::new(seed);
    let mut stock = Stock::of(tree, seed, way)?;
    for n in 0..way.operations {
        let path = operation(tree, &mut random, &mut stock).inspect_err(|errno| {
            eprintln!("tree: operation {n} of seed {seed} failed with error {errno}");
        })?;
        if way.commit && (way.apart || n + 1 == way.operations || random.below(3) != 0) {
            tree.commit(&path)?;
        }
    }
    Ok(())
}

//! Vdev labels of pool files, read without the engine and without opening the pool.
//!
//! A vdev has four labels of 256 KiB, two at its start and two at its end. Each contains, at offset 16 KiB, an XDR-encoded
//! name-value list with the pool's name, its state, and the top-level vdev that contains this file. The label with the
//! highest transaction group is valid. This module does not verify checksums; the engine does when it imports the pool.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::user::Result;
use crate::user::error::io;
use crate::user::nvlist::{self, List};
use crate::walk::walk;

const LABEL_BYTES: u64 = 256 << 10;
const LIST_OFFSET: u64 = 16 << 10;
const LIST_BYTES: usize = 112 << 10;

/// `POOL_STATE_*`: the state in which the last process left the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Open now, or its last owner was killed: the next import replays the intent logs.
    Active,
    /// Exported properly.
    Exported,
    /// `zpool destroy` was run on it.
    Destroyed,
    /// A hot spare of some pool.
    Spare,
    /// A cache vdev of some pool.
    Cache,
}

/// A vdev as a label describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Vdev {
    /// `file`, `disk`, `mirror`, `raidz`, …
    pub kind: String,
    /// Its index among its siblings.
    pub id: u64,
    /// Its GUID.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub guid: u64,
    /// Number of parity disks of a `raidz`.
    pub parity: u64,
    /// The exponent of its sector size (a power of two), for top-level vdevs; otherwise 0.
    pub ashift: u64,
    /// Whether it is a separate intent log.
    pub is_log: bool,
    /// Of a leaf: its path when the label was written.
    pub path: Option<PathBuf>,
    /// Its child vdevs.
    pub children: Vec<Vdev>,
}

/// The label of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The pool's name; absent from cache and spare vdevs.
    pub pool: Option<String>,
    /// The pool's GUID.
    pub pool_guid: u64,
    /// The pool's state.
    pub state: State,
    /// Transaction group in which the label was written.
    pub txg: u64,
    /// The GUID of this file's vdev.
    pub guid: u64,
    /// The name of the host that had the pool open last.
    pub host: Option<String>,
    /// Number of top-level vdevs of the pool, without removed logs.
    pub tops: u64,
    /// The top-level vdev that the file belongs to.
    pub top: Option<Vdev>,
}

/// Serializes a number as a string, because some JSON readers lose precision above 2^53.
fn as_text<S: serde::Serializer>(number: &u64, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&number.to_string())
}

impl Label {
    /// Whether it is the label of an auxiliary vdev, an available spare or a cache vdev, which does not name the pool.
    pub fn is_auxiliary(&self) -> bool {
        matches!(self.state, State::Spare | State::Cache)
    }

    /// Reads the newest of a file's labels; `None` if it has no valid one.
    ///
    /// # Errors
    /// If the file cannot be opened or read.
    pub fn read(path: &Path) -> Result<Option<Label>> {
        let file = File::open(path).map_err(io("opening", path))?;
        let size = file.metadata().map_err(io("stat of", path))?.len() / LABEL_BYTES * LABEL_BYTES;
        if size < 4 * LABEL_BYTES {
            return Ok(None);
        }
        let mut best: Option<Label> = None;
        let mut list = vec![0u8; LIST_BYTES];
        for start in [0, LABEL_BYTES, size - 2 * LABEL_BYTES, size - LABEL_BYTES] {
            file.read_exact_at(&mut list, start + LIST_OFFSET).map_err(io("reading the labels of", path))?;
            let label = nvlist::decode(&list).and_then(|list| Label::from_list(&list));
            best = best.into_iter().chain(label).max_by_key(|label| label.txg);
        }
        Ok(best)
    }

    fn from_list(list: &List) -> Option<Label> {
        let state = match list.number("state")? {
            0 => State::Active,
            1 => State::Exported,
            2 => State::Destroyed,
            3 => State::Spare,
            4 => State::Cache,
            _ => return None,
        };
        let txg = list.number("txg").unwrap_or(0);
        if txg == 0 && !matches!(state, State::Spare | State::Cache) {
            // The vdev was detached, or its addition was not completed.
            return None;
        }
        Some(Label {
            pool: list.text("name").map(str::to_owned),
            pool_guid: list.number("pool_guid").unwrap_or(0),
            state,
            txg,
            guid: list.number("guid")?,
            host: list.text("hostname").map(str::to_owned),
            // A removed log leaves a hole among the pool's children.
            tops: list
                .number("vdev_children")
                .unwrap_or(0)
                .saturating_sub(list.numbers("hole_array").len() as u64),
            top: list.list("vdev_tree").map(Vdev::from_list),
        })
    }
}

impl Vdev {
    fn from_list(list: &List) -> Vdev {
        let number = |name| list.number(name).unwrap_or(0);
        Vdev {
            kind: list.text("type").unwrap_or("unknown").to_owned(),
            id: number("id"),
            guid: number("guid"),
            parity: number("nparity"),
            ashift: number("ashift"),
            is_log: number("is_log") != 0,
            path: list.text("path").map(PathBuf::from),
            children: list.lists("children").iter().map(Vdev::from_list).collect(),
        }
    }

    /// Its name as in `zpool status`: `mirror-0`, `raidz2-1`; for a leaf, its path.
    pub fn title(&self) -> String {
        match (&self.path, self.kind.as_str()) {
            (Some(path), _) => path.display().to_string(),
            (None, "raidz") => format!("raidz{}-{}", self.parity, self.id),
            (None, kind) => format!("{kind}-{}", self.id),
        }
    }

    /// The vdev and those below it with their depths: each before the vdevs below it.
    pub fn walk(&self) -> impl Iterator<Item = (usize, &Vdev)> {
        walk(std::slice::from_ref(self), |vdev| &vdev.children)
    }

    /// All leaves below it, or itself if it is a leaf.
    pub fn leaves(&self) -> impl Iterator<Item = &Vdev> {
        self.walk().map(|(_, vdev)| vdev).filter(|vdev| vdev.children.is_empty())
    }

    /// Sets the current paths of the leaves, and adds the old path of each leaf that was not found to `missing`.
    fn locate(&mut self, at: &BTreeMap<u64, PathBuf>, missing: &mut Vec<PathBuf>) {
        if !self.children.is_empty() {
            return self.children.iter_mut().for_each(|child| child.locate(at, missing));
        }
        match at.get(&self.guid) {
            Some(path) => self.path = Some(path.clone()),
            None => missing.push(self.path.clone().unwrap_or_else(|| "(unknown)".into())),
        }
    }
}

/// A pool assembled from the labels of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoundPool {
    /// Its name.
    pub pool: String,
    /// Its GUID.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub guid: u64,
    /// Its state.
    pub state: State,
    /// The host that had it open last.
    pub host: Option<String>,
    /// Transaction group of the newest label.
    pub txg: u64,
    /// Its files that were found; those of available spares and cache vdevs last.
    pub files: Vec<PathBuf>,
    /// The GUIDs in the labels of its files.
    #[serde(skip)]
    pub guids: BTreeMap<PathBuf, u64>,
    /// Its top-level vdevs, with the current paths of their files.
    pub vdevs: Vec<Vdev>,
    /// Files of cache vdevs.
    pub cache: Vec<PathBuf>,
    /// Files of available hot spares. A spare in use is in `vdevs`, in a vdev of the kind `spare`.
    pub spares: Vec<PathBuf>,
    /// Files that its labels name but that were not found.
    pub missing: Vec<PathBuf>,
    /// Number of top-level vdevs of which no file was found.
    pub missing_tops: u64,
}

impl FoundPool {
    /// The GUID in the label of a file of the pool; 0 if the file is not one of those that were found.
    pub fn guid_of(&self, file: &Path) -> u64 {
        self.guids.get(file).copied().unwrap_or_default()
    }

    /// The file of the pool with this GUID in its label.
    pub fn file_of(&self, guid: u64) -> Option<&Path> {
        self.guids.iter().find(|(_, known)| **known == guid).map(|(file, _)| file.as_path())
    }
}

/// Assembles pools from files and their labels. The labels of available spares and of cache vdevs do not name their pool: they are
/// assigned to the pool only if exactly one was found.
pub fn group(labels: &[(PathBuf, Label)]) -> Vec<FoundPool> {
    let mut pools: BTreeMap<u64, Vec<&(PathBuf, Label)>> = BTreeMap::new();
    for one in labels.iter().filter(|(_, label)| label.pool.is_some()) {
        pools.entry(one.1.pool_guid).or_default().push(one);
    }
    let mut found: Vec<FoundPool> = pools.values().map(|members| assemble(members)).collect();
    if let [only] = found.as_mut_slice() {
        let of = |state| labels.iter().filter(move |(_, label)| label.state == state);
        only.spares = of(State::Spare).map(|(path, _)| path.clone()).collect();
        only.cache = of(State::Cache).map(|(path, _)| path.clone()).collect();
        only.files.extend(only.spares.iter().chain(&only.cache).cloned());
        let auxiliary = labels.iter().filter(|(_, label)| label.is_auxiliary());
        only.guids.extend(auxiliary.map(|(path, label)| (path.clone(), label.guid)));
    }
    found.sort_by(|a, b| a.pool.cmp(&b.pool));
    found
}

fn assemble(members: &[&(PathBuf, Label)]) -> FoundPool {
    let newest = &members.iter().max_by_key(|(_, label)| label.txg).expect("a group has a member").1;
    let at: BTreeMap<u64, PathBuf> = members.iter().map(|(p, label)| (label.guid, p.clone())).collect();
    let mut tops: BTreeMap<u64, (u64, Vdev)> = BTreeMap::new();
    for (_, label) in members {
        let Some(top) = &label.top else { continue };
        let known = tops.entry(top.id).or_insert_with(|| (label.txg, top.clone()));
        if label.txg > known.0 {
            *known = (label.txg, top.clone());
        }
    }
    let mut missing = Vec::new();
    let mut vdevs: Vec<Vdev> = tops.into_values().map(|(_, vdev)| vdev).collect();
    vdevs.iter_mut().for_each(|vdev| vdev.locate(&at, &mut missing));
    FoundPool {
        pool: newest.pool.clone().unwrap_or_default(),
        guid: newest.pool_guid,
        state: newest.state,
        host: newest.host.clone(),
        txg: newest.txg,
        files: members.iter().map(|(path, _)| path.clone()).collect(),
        guids: members.iter().map(|(path, label)| (path.clone(), label.guid)).collect(),
        missing_tops: newest.tops.saturating_sub(vdevs.len() as u64),
        vdevs,
        cache: Vec::new(),
        spares: Vec::new(),
        missing,
    }
}

/// Reads the labels of these files. Omits files without a label.
///
/// # Errors
/// If one of them cannot be read.
pub fn read_all(files: &[PathBuf]) -> Result<Vec<(PathBuf, Label)>> {
    let one = |path: &PathBuf| match Label::read(path) {
        Ok(label) => label.map(|label| Ok((path.clone(), label))),
        Err(why) => Some(Err(why)),
    };
    files.iter().filter_map(one).collect()
}

/// Finds all pools in the files of a directory, without its subdirectories. Skips files that cannot be read.
///
/// # Errors
/// If the directory cannot be listed.
pub fn scan(dir: &Path) -> Result<Vec<FoundPool>> {
    let dir = std::path::absolute(dir).map_err(io("resolving", dir))?;
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .map_err(io("listing", &dir))?
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() >= 4 * LABEL_BYTES))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let labels: Vec<_> =
        files.into_iter().filter_map(|path| Some((path.clone(), Label::read(&path).ok()??))).collect();
    Ok(group(&labels))
}

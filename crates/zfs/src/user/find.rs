//! Finds a pool among files, by their labels.

use std::path::{Path, PathBuf};

use poolwright_base::quoted;

use crate::user::error::{io, list};
use crate::user::label::{self, FoundPool, Label};
use crate::user::{Error, Result, name, registry};

/// The pool, or the pools, that the arguments of an import name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All pools of a directory.
    Directory(PathBuf),
    /// The pool that these files belong to.
    Files(Vec<PathBuf>),
    /// The pool with this name, in these files.
    Named(String, Vec<PathBuf>),
    /// The pool with this name, in a directory.
    InDirectory(String, PathBuf),
}

impl Selection {
    /// Interprets the arguments `[POOL] FILE…` or `[POOL]` with a directory. A first argument that is not a valid pool name is
    /// a file. An argument that could be both is a file if it is the only one and the file exists; before other files it is
    /// the pool's name.
    ///
    /// # Errors
    /// [`Error::Find`].
    pub fn new(first: Option<&str>, files: &[PathBuf], directory: Option<&Path>) -> Result<Selection> {
        let first = match (first, directory) {
            (None, None) => return Err(Error::Find("no pool file given".to_owned())),
            (None, Some(dir)) => return Ok(Selection::Directory(dir.to_owned())),
            (Some(pool), Some(dir)) => {
                name::check_pool(pool).map_err(|fault| Error::Find(fault.message))?;
                return Ok(Selection::InDirectory(pool.to_owned(), dir.to_owned()));
            }
            (Some(first), None) => first,
        };
        let (path, is_name) = (PathBuf::from(first), name::check_pool(first).is_ok());
        match files {
            [] if path.is_dir() => Ok(Selection::Directory(path)),
            [] if path.exists() || !is_name => Ok(Selection::Files(vec![path])),
            [] => Err(Error::Find(format!("cannot import {first:?}: it is neither a file nor a directory"))),
            files if !is_name => {
                Ok(Selection::Files([path].into_iter().chain(files.iter().cloned()).collect()))
            }
            [dir] if dir.is_dir() => Ok(Selection::InDirectory(first.to_owned(), dir.clone())),
            files => Ok(Selection::Named(first.to_owned(), files.to_vec())),
        }
    }
}

/// The files of a pool: `given`, ordered by [`order_files`], or if it is empty those of the registry without files that were
/// detached.
///
/// # Errors
/// [`Error::Unknown`] if no files are given and the registry has no entry; as [`order_files`] and [`registry::find`].
pub fn pool_files(pool: &str, given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if !given.is_empty() {
        return order_files(given);
    }
    let entry = registry::find(pool)?.ok_or_else(|| Error::Unknown(pool.to_owned()))?;
    Ok(without_detached(pool, entry.files))
}

/// Omits files that were detached from the pool, and puts those of spares that have become available last: the process that had
/// the pool open ended before it could update the registry. The label of a detached file is erased, and those of the other files
/// show a complete pool.
fn without_detached(pool: &str, mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    let labels: Vec<(PathBuf, Label)> =
        files.iter().filter_map(|path| Some((path.clone(), Label::read(path).ok()??))).collect();
    files.sort_by_key(|file| is_auxiliary(&labels, file));
    let is_labelled = |file: &PathBuf| labels.iter().any(|(path, _)| path == file);
    if files.iter().all(is_labelled) {
        return files;
    }
    let found = label::group(&labels);
    let is_complete =
        matches!(&found[..], [one] if one.pool == pool && one.missing.is_empty() && one.missing_tops == 0);
    if !is_complete {
        return files;
    }
    // A missing file after the data vdevs may be a spare or a cache vdev, which no label of another file names.
    let is_data = |file: &PathBuf| is_labelled(file) && !is_auxiliary(&labels, file);
    let last_data = files.iter().rposition(is_data).unwrap_or(0);
    let files = files.into_iter().enumerate();
    let stays = |(at, file): (usize, PathBuf)| {
        (is_labelled(&file) || at > last_data && is_missing(&file)).then_some(file)
    };
    files.filter_map(stays).collect()
}

fn is_auxiliary(labels: &[(PathBuf, Label)], file: &Path) -> bool {
    labels.iter().any(|(path, label)| path == file && label.is_auxiliary())
}

/// The files as absolute paths, with those of available spares and cache vdevs last, because their labels do not name the pool.
///
/// # Errors
/// If a path cannot be resolved or a label cannot be read.
pub fn order_files(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(io("resolving", path));
    let mut files = files.iter().map(absolute).collect::<Result<Vec<PathBuf>>>()?;
    let labels = label::read_all(&files)?;
    files.sort_by_key(|file| is_auxiliary(&labels, file));
    Ok(files)
}

/// Whether a file does not exist. A file that cannot be inspected may exist.
pub(crate) fn is_missing(file: &Path) -> bool {
    std::fs::metadata(file).is_err_and(|why| why.kind() == std::io::ErrorKind::NotFound)
}

/// Checks that the pool's files exist.
///
/// # Errors
/// [`Error::MissingFiles`].
pub fn check_exist(pool: &str, files: &[PathBuf]) -> Result<()> {
    let missing: Vec<PathBuf> = files.iter().filter(|file| is_missing(file)).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let some_remain = missing.len() < files.len();
    Err(Error::MissingFiles { pool: pool.to_owned(), missing, some_remain })
}

/// Assembles the pool from the labels of its files, and checks that all of them belong to it.
///
/// # Errors
/// [`Error::Find`]; [`Error::Io`] if a label cannot be read.
pub fn check_files(pool: &str, files: &[PathBuf]) -> Result<FoundPool> {
    let mut found = label::group(&label::read_all(files)?);
    match (found.pop(), found.is_empty()) {
        (Some(one), true) if one.pool == pool => Ok(one),
        (None, _) => Err(no_label(files)),
        (Some(last), _) => {
            let found: Vec<String> = found.into_iter().chain([last]).map(|f| f.pool).collect();
            Err(Error::Find(format!("{} contains the pool {}, not {pool}", list(files), found.join(" and "))))
        }
    }
}

/// The pool that these files belong to. If only one file is named, the pool's other files are searched for in the same
/// directory.
///
/// # Errors
/// [`Error::Find`]; [`Error::Io`] if a file or the directory cannot be read.
pub fn pool_of(files: &[PathBuf]) -> Result<FoundPool> {
    let mut labels = label::read_all(&order_files(files)?)?;
    let only = |labels: &[(PathBuf, Label)]| -> Result<FoundPool> {
        let mut found = label::group(labels);
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(_), false) => Err(Error::Find(format!("{} belong to several pools", list(files)))),
            (None, _) => Err(no_label(files)),
        }
    };
    let found = only(&labels)?;
    if files.len() > 1 || found.missing.is_empty() && found.missing_tops == 0 {
        return Ok(found);
    }
    for (path, label) in neighbours(&found.files[0], found.guid)? {
        match labels.iter().find(|(_, other)| other.guid == label.guid) {
            None => labels.push((path, label)),
            Some((other, _)) if *other == path => {}
            Some((other, _)) => {
                return Err(Error::Find(format!(
                    "{} and {} are the same vdev\nhint: name all files of the pool",
                    quoted(other),
                    quoted(&path)
                )));
            }
        }
    }
    only(&labels)
}

/// The files of a pool in the directory of this one, sorted.
fn neighbours(file: &Path, pool_guid: u64) -> Result<Vec<(PathBuf, Label)>> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    let listing = std::fs::read_dir(dir).map_err(io("listing", dir))?;
    let mut paths: Vec<PathBuf> =
        listing.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let label = |path: PathBuf| Label::read(&path).ok().flatten().map(|label| (path, label));
    Ok(paths.into_iter().filter_map(label).filter(|(_, label)| label.pool_guid == pool_guid).collect())
}

/// The pool with this name among the files of a directory.
///
/// # Errors
/// [`Error::Find`]; [`Error::Io`] if the directory cannot be listed.
pub fn pool_in(directory: &Path, pool: &str) -> Result<FoundPool> {
    let all = label::scan(directory)?;
    let names: Vec<String> = all.iter().map(|found| found.pool.clone()).collect();
    let mut matching: Vec<FoundPool> = all.into_iter().filter(|found| found.pool == pool).collect();
    let directory = quoted(directory);
    let why = match (matching.pop(), matching.is_empty()) {
        (Some(one), true) => return Ok(one),
        (Some(_), false) => {
            format!("{directory} contains several pools named {pool}\nhint: name the files of one of them")
        }
        (None, _) if names.is_empty() => format!("{directory} contains no pool"),
        (None, _) => format!("{directory} contains no pool {pool}, only {}", names.join(", ")),
    };
    Err(Error::Find(why))
}

fn no_label(files: &[PathBuf]) -> Error {
    Error::Find(format!("{} contains no pool: no label in it can be read", list(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_an_import() {
        let dir = tempfile::tempdir().unwrap();
        let (directory, file) = (dir.path().to_owned(), dir.path().join("d0"));
        std::fs::write(&file, "").unwrap();
        let select = |first: &str, files: &[&Path], directory: Option<&Path>| {
            let files: Vec<PathBuf> = files.iter().map(|file| file.to_path_buf()).collect();
            Selection::new(Some(first).filter(|first| !first.is_empty()), &files, directory)
        };
        let (dir_name, file_name) = (directory.to_str().unwrap(), file.to_str().unwrap());
        let refused = |first, directory| select(first, &[], directory).unwrap_err().to_string();
        assert_eq!(refused("", None), "no pool file given");
        assert_eq!(refused("tank", None), "cannot import \"tank\": it is neither a file nor a directory");
        assert!(refused("a/b", Some(&*directory)).contains("name"));
        let tank = || "tank".to_owned();
        for (selected, expected) in [
            (select("", &[], Some(&directory)), Selection::Directory(directory.clone())),
            (select(dir_name, &[], None), Selection::Directory(directory.clone())),
            (select(file_name, &[], None), Selection::Files(vec![file.clone()])),
            (select("./none", &[&file], None), Selection::Files(vec!["./none".into(), file.clone()])),
            (select("tank", &[&file], None), Selection::Named(tank(), vec![file.clone()])),
            (select("tank", &[&directory], None), Selection::InDirectory(tank(), directory.clone())),
            (select("tank", &[], Some(&directory)), Selection::InDirectory(tank(), directory.clone())),
        ] {
            assert_eq!(selected.unwrap(), expected);
        }
    }
}

//! Errors of finding a pool among files.

use std::path::PathBuf;

use poolwright_host::quoted;

use crate::user::fault::Fault;

/// Files that are not those of one whole pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// Neither a file nor a directory is named.
    #[error("no file of a pool is named")]
    NothingNamed,
    /// The only argument is neither a file nor a directory.
    #[error("cannot import {0:?}: it is neither a file nor a directory")]
    NoSuchFile(String),
    /// The pool's name is invalid.
    #[error(transparent)]
    Name(#[from] Fault),
    /// None of the files has a readable label.
    #[error("{} holds no pool: no label in it can be read", list(.0))]
    NoLabel(Vec<PathBuf>),
    /// The files belong to several pools.
    #[error("{} belong to several pools", list(.0))]
    SeveralPools(Vec<PathBuf>),
    /// The files belong to another pool than the named one, or to several.
    #[error("{} holds the pool {}, not {wanted}", list(files), found.join(" and "))]
    OtherPool {
        /// The files.
        files: Vec<PathBuf>,
        /// The pools that they belong to.
        found: Vec<String>,
        /// The named pool.
        wanted: String,
    },
    /// Two files in one directory are the same vdev.
    #[error("{} and {} are the same vdev\nhint: name all files of the pool", quoted(.0), quoted(.1))]
    SameVdev(PathBuf, PathBuf),
    /// The directory has no file of a pool with this name.
    #[error("{} holds no pool{}", quoted(directory), not_there(wanted, found))]
    NotInDirectory {
        /// The directory.
        directory: PathBuf,
        /// The named pool.
        wanted: String,
        /// The pools in the directory.
        found: Vec<String>,
    },
    /// The directory has files of several pools with this name.
    #[error("{} holds several pools called {wanted}\nhint: name the files of one", quoted(directory))]
    Ambiguous {
        /// The directory.
        directory: PathBuf,
        /// The pools' name.
        wanted: String,
    },
    /// Whole top-level vdevs are missing.
    #[error(
        "{pool} is incomplete: these files lack {missing} of its top-level vdevs\nhint: name all of its files"
    )]
    Incomplete {
        /// The pool's name.
        pool: String,
        /// Number of missing top-level vdevs.
        missing: u64,
    },
    /// Some of the pool's files were moved and named, others are where they were.
    #[error("{pool} is incomplete: {} of it is not named\nhint: name all of its files", list(files))]
    Unnamed {
        /// The pool's name.
        pool: String,
        /// The files that were not named.
        files: Vec<PathBuf>,
    },
    /// The pool was destroyed.
    #[error("importing {pool}: the pool was destroyed")]
    Destroyed {
        /// The pool's name.
        pool: String,
        /// One of its files.
        file: PathBuf,
    },
}

/// Paths separated by commas.
pub(crate) fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| quoted(file).to_string()).collect::<Vec<_>>().join(", ")
}

fn not_there(wanted: &str, found: &[String]) -> String {
    if found.is_empty() { String::new() } else { format!(" {wanted}; it holds {}", found.join(", ")) }
}

//! The subject of a recording: a directory, a process and its children, or a block device.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use poolwright_base::process;
use poolwright_trace::path_text;

use crate::device::BlockDevice;
use crate::error::{Error, Result};

/// The subject of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every regular file below this directory, used by any process.
    Dir(PathBuf),
    /// Every regular file that the process with this id and its children use.
    Pid(u32),
    /// The requests of all processes and file systems to this block device.
    Device(BlockDevice),
}

impl Subject {
    /// Returns the spelling in a trace's `subject`.
    pub fn describe(&self) -> String {
        match self {
            Subject::Dir(dir) => format!("dir:{}", path_text::encode(dir)),
            Subject::Pid(pid) => format!("pid:{pid}"),
            Subject::Device(device) => format!("zvol:{}", path_text::encode(device.path())),
        }
    }

    /// Returns the directory, if the subject is one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Subject::Dir(dir) => Some(dir),
            Subject::Pid(_) | Subject::Device(_) => None,
        }
    }

    /// Returns the subject with an absolute path.
    pub(crate) fn checked(self) -> Result<Subject> {
        match self {
            Subject::Dir(path) => {
                let found = fs::canonicalize(&path).and_then(|real| {
                    if real.is_dir() { Ok(real) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
                });
                found.map(Subject::Dir).map_err(|source| Error::Directory { path, source })
            }
            Subject::Pid(pid) if alive(pid) => match process::thread_group(pid as i32) {
                Some(process) if process as u32 != pid => {
                    Err(Error::Thread { tid: pid, pid: process as u32 })
                }
                _ => Ok(Subject::Pid(pid)),
            },
            Subject::Pid(pid) => Err(Error::Process(pid)),
            device @ Subject::Device(_) => Ok(device),
        }
    }
}

/// Whether any thread of the process still runs.
pub(crate) fn alive(pid: u32) -> bool {
    process::is_running(pid as i32)
}

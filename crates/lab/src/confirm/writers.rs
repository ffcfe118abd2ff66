//! Processes that may be writing a database's files: a copy made meanwhile would be of no moment in time.

use std::fs;
use std::path::{Path, PathBuf};

/// A process with a file open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its id.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// One of the files.
    pub path: PathBuf,
}

/// The first process that has a file below one of `roots` open, or mapped, for writing. Other users' processes are seen by
/// root only.
pub fn writer(roots: &[PathBuf]) -> Option<Writer> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number);
    pids.into_iter().find_map(|pid| {
        let path = open(pid, roots).or_else(|| mapped(pid, roots))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
        Some(Writer { pid, name, path })
    })
}

fn is_below(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

fn open(pid: i32, roots: &[PathBuf]) -> Option<PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    files.into_iter().find_map(|file| {
        let path = fs::read_link(file.path()).ok().filter(|path| is_below(path, roots))?;
        let info = format!("/proc/{pid}/fdinfo/{}", file.file_name().to_str()?);
        is_writable(&fs::read_to_string(info).ok()?).then_some(path)
    })
}

/// By the access mode in `flags`, which is octal.
fn is_writable(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}

fn mapped(pid: i32, roots: &[PathBuf]) -> Option<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    maps.lines().filter_map(shared_writable).find(|path| is_below(path, roots)).map(Path::to_owned)
}

/// The file of a line of `/proc/PID/maps`, where writes to the memory reach it.
fn shared_writable(line: &str) -> Option<&Path> {
    let mode = line.split_ascii_whitespace().nth(1)?;
    let path = line.find('/').map(|at| &line[at..])?;
    (mode.as_bytes().get(1) == Some(&b'w') && mode.ends_with('s')).then(|| Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_open_for_writing_is_found_and_one_for_reading_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let roots = [dir.path().canonicalize().unwrap()];
        let path = roots[0].join("table");
        fs::write(&path, "rows").unwrap();
        let reader = fs::File::open(&path).unwrap();
        assert_eq!(writer(&roots), None);
        drop(reader);
        let open = fs::File::options().append(true).open(&path).unwrap();
        let found = writer(&roots).unwrap();
        assert_eq!((found.pid, &found.path), (std::process::id() as i32, &path));
        drop(open);
        assert_eq!(writer(&roots), None);
    }

    #[test]
    fn lines_of_maps() {
        let line = |mode: &str| format!("7f00-7f01 {mode} 00000000 fd:01 1234    /srv/my db/data.mdb");
        assert_eq!(shared_writable(&line("rw-s")), Some(Path::new("/srv/my db/data.mdb")));
        for mode in ["rw-p", "r--s", "r-xp"] {
            assert_eq!(shared_writable(&line(mode)), None, "{mode}");
        }
        assert_eq!(shared_writable("7f00-7f01 rw-s 00000000 00:00 0"), None);
        assert!(is_writable("pos:\t0\nflags:\t0100002\n") && is_writable("flags:\t0100001"));
        assert!(!is_writable("pos:\t0\nflags:\t0100000\n") && !is_writable(""));
    }
}

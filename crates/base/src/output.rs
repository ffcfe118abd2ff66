//! Output files. They are opened before the work starts, so that an unwritable path or a user's file is refused at once. A file
//! appears at its path only when it is complete.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use crate::{Exit, Part, PathError, ReportedError, cannot, quoted};

/// Bytes at the start of a file from which [`Format::is_ours`] recognizes it.
const HEAD: u64 = 4096;

/// How output files of one format are replaced.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Whether a file that starts with this text was made by this program, which may replace it. `None` if the format does not
    /// name its writer.
    pub is_ours: Option<fn(&str) -> bool>,
    /// The mode of the file before the umask.
    pub mode: u32,
    /// Whether the previous file is kept as `NAME.1`.
    pub keeps_previous: bool,
}

impl Format {
    /// Whether this program made the file. Empty files count as such, because replacing one loses nothing.
    fn made(&self, file: &mut File) -> io::Result<bool> {
        let mut head = Vec::new();
        file.take(HEAD).read_to_end(&mut head)?;
        Ok(head.is_empty() || self.is_ours.is_some_and(|is_ours| is_ours(&String::from_utf8_lossy(&head))))
    }
}

/// Which files an output may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Files that this program made, and empty files.
    OwnFiles,
    /// All files.
    AllFiles,
}

/// Why an output file was not opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error(transparent)]
    Host(#[from] PathError),
    /// The path is a directory.
    #[error("cannot write {}: it is a directory", quoted(.0))]
    Directory(PathBuf),
    /// Two outputs have the same path.
    #[error("{} is named for two outputs", quoted(.0))]
    SamePath(PathBuf),
    /// The path is a file that this program did not make, or, with `false`, one whose format does not tell.
    #[error("cannot replace {}: it exists{}", quoted(.0), if *.1 { ", and Poolwright did not write it" } else { "" })]
    Foreign(PathBuf, bool),
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Host(_) => Exit::Failed,
            Error::Directory(_) | Error::SamePath(_) => Exit::Usage,
            Error::Foreign(..) => Exit::Refused,
        }
    }

    fn hint(&self) -> Option<String> {
        let is_foreign = matches!(self, Error::Foreign(..));
        is_foreign.then(|| "name another file, or use --force to replace this one".to_owned())
    }
}

/// An output file. If it is dropped before [`Output::commit`], the file at the path does not change.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    format: Format,
    file: File,
    /// The temporary file beside the path; `None` for a device or a pipe, which is written directly.
    part: Option<Part>,
}

impl Output {
    /// Opens the output: a temporary file beside the path, if the path is a regular file or does not exist.
    ///
    /// # Errors
    /// If the path cannot be written; [`Error::Foreign`] if it is a file that `overwrite` protects.
    pub fn open(
        path: &Path,
        format: impl Into<Format>,
        overwrite: impl Into<Overwrite>,
    ) -> Result<Output, Error> {
        let format = format.into();
        let failed = |why| cannot("write", path)(why);
        let found = match fs::metadata(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            found => Some(found.map_err(failed)?),
        };
        let (file, part) = match found {
            Some(meta) if meta.is_dir() => return Err(Error::Directory(path.to_owned())),
            Some(meta) if !meta.is_file() => (File::options().write(true).open(path).map_err(failed)?, None),
            existing => {
                if existing.is_some() && overwrite.into() == Overwrite::OwnFiles {
                    refuse_foreign(path, format)?;
                }
                let (part, file) = Part::create(path, format.mode).map_err(failed)?;
                (file, Some(part))
            }
        };
        Ok(Output { path: path.to_owned(), format, file, part })
    }

    /// Opens two outputs, which must be different files.
    ///
    /// # Errors
    /// As [`Output::open`]; [`Error::SamePath`] if both paths name one file.
    pub fn open_both(
        (one, format): (&Path, impl Into<Format>),
        (other, other_format): (&Path, impl Into<Format>),
        overwrite: impl Into<Overwrite>,
    ) -> Result<(Output, Output), Error> {
        let overwrite = overwrite.into();
        let first = Output::open(one, format, overwrite)?;
        let same = std::path::absolute(one).ok() == std::path::absolute(other).ok();
        if same && first.part.is_some() {
            return Err(Error::SamePath(one.to_owned()));
        }
        Ok((first, Output::open(other, other_format, overwrite)?))
    }

    /// Writes the text and commits.
    ///
    /// # Errors
    /// If the file cannot be written; the file at the path then does not change.
    pub fn write(mut self, text: &str) -> Result<(), Error> {
        self.write_all(text.as_bytes()).map_err(cannot("write", &self.path))?;
        self.commit()
    }

    /// Renames the file to its path.
    ///
    /// # Errors
    /// If the file cannot be synced or renamed; the file at the path then does not change.
    pub fn commit(mut self) -> Result<(), Error> {
        let put = |part: &Part| {
            self.file.sync_all()?;
            if self.format.keeps_previous && self.path.metadata().is_ok_and(|meta| meta.len() > 0) {
                keep(&self.path)?;
            }
            part.rename(&self.path)
        };
        if let Some(part) = &self.part {
            put(part).map_err(cannot("write", &self.path))?;
            self.part = None;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn refuse_foreign(path: &Path, format: Format) -> Result<(), Error> {
    let made = File::open(path).and_then(|mut file| format.made(&mut file));
    match made.map_err(cannot("read", path))? {
        true => Ok(()),
        false => Err(Error::Foreign(path.to_owned(), format.is_ours.is_some())),
    }
}

/// Links the file to NAME.1, and replaces an older one.
fn keep(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    let kept = PathBuf::from(name);
    match fs::remove_file(&kept) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    // Some file systems have no hard links.
    fs::hard_link(path, &kept).or_else(|_| fs::copy(path, &kept).map(drop))
}

#[cfg(test)]
mod tests {
    use super::Overwrite::{AllFiles, OwnFiles};
    use super::*;
    use crate::private;

    const PLAN: Format = Format {
        is_ours: Some(|head| head.starts_with("plan")),
        mode: private::SHARED_FILE,
        keeps_previous: true,
    };
    const EXPORT: Format = Format { is_ours: None, mode: private::FILE, keeps_previous: false };

    fn write(path: &Path, format: Format, overwrite: Overwrite, text: &str) -> Result<(), Error> {
        Output::open(path, format, overwrite)?.write(text)
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_users_file_is_replaced_by_force_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.json");
        for format in [PLAN, EXPORT] {
            fs::write(&path, "{\"mine\": true}").unwrap();
            let error = Output::open(&path, format, OwnFiles).unwrap_err();
            assert!(matches!(error, Error::Foreign(..)), "{format:?}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "{\"mine\": true}");
            assert_eq!(names(dir.path()), ["notes.json"]);
            write(&path, format, AllFiles, "new").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            let _ = fs::remove_file(dir.path().join("notes.json.1"));
        }
        fs::write(&path, "").unwrap();
        write(&path, PLAN, OwnFiles, "over an empty file").unwrap();
    }

    #[test]
    fn the_previous_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        for n in 1..=3 {
            write(&path, PLAN, OwnFiles, &format!("plan {n}")).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "plan 3");
        assert_eq!(fs::read_to_string(dir.path().join("p.json.1")).unwrap(), "plan 2");
        drop(Output::open(&path, PLAN, OwnFiles).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "plan 3", "an output that was not written");
        assert_eq!(names(dir.path()), ["p.json", "p.json.1"]);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &Path| Output::open(path, PLAN, OwnFiles);
        assert!(matches!(at(dir.path()), Err(Error::Directory(_))));
        assert!(at(&dir.path().join("no/such/page.html")).is_err());
        let one = dir.path().join("one");
        let both = Output::open_both((&one, PLAN), (&one, EXPORT), OwnFiles);
        assert!(matches!(both, Err(Error::SamePath(_))));
        assert!(names(dir.path()).is_empty());
        // A device is written directly.
        at(Path::new("/dev/null")).unwrap().write("page").unwrap();
        assert!(at(Path::new("/dev/full")).unwrap().write("page").is_err());
    }
}

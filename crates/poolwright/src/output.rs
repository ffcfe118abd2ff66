//! Output files. A verb opens them before its work starts, so that an unwritable path or a user's file is refused at once.
//! A file appears at its path only when it is complete.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use poolwright_host::{Part, private};

use crate::failure::{Refused, Usage, hint};

/// The format of an output file, by which Poolwright recognizes files that it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plan of `tune`: JSON with the format's name.
    Plan,
    /// An HTML page with Poolwright as its generator.
    Page,
    /// Another program's format, which does not name its writer.
    Export,
}

impl Kind {
    /// Whether Poolwright made this file. Empty files count as such, because replacing one loses nothing.
    fn made(self, file: &mut File) -> io::Result<bool> {
        let mut head = Vec::new();
        file.take(4096).read_to_end(&mut head)?;
        let head = String::from_utf8_lossy(&head);
        let start: String = head.split_whitespace().collect();
        Ok(head.is_empty()
            || match self {
                Kind::Plan => start.starts_with(r#"{"format":"poolwright-plan""#),
                Kind::Page => head.contains(poolwright_report::GENERATOR),
                Kind::Export => false,
            })
    }

    /// The mode of the file. Plans and pages are meant to be shown and contain no pages of a database, so the umask applies. An
    /// export is as private as the trace from which it was made.
    fn mode(self) -> u32 {
        match self {
            Kind::Plan | Kind::Page => private::SHARED_FILE,
            Kind::Export => private::FILE,
        }
    }

    /// Whether the previous file is kept as NAME.1.
    fn is_kept(self) -> bool {
        matches!(self, Kind::Plan | Kind::Page)
    }
}

/// The option of each verb that writes an output file.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Force {
    /// Replace an output file that Poolwright did not make
    #[arg(long)]
    pub force: bool,
}

/// An output file. If it is dropped before [`Output::commit`], the file at the path does not change.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    kind: Kind,
    file: File,
    /// The temporary file beside the path; `None` for a device or a pipe, which is written directly.
    part: Option<Part>,
}

impl Output {
    /// Opens the output: a temporary file beside the path, if the path is a regular file or does not exist.
    ///
    /// # Errors
    /// If the path cannot be written; with [`Refused`] if it is a file that Poolwright did not make and `force` is not set.
    pub fn open(path: &Path, kind: Kind, force: Force) -> anyhow::Result<Output> {
        let failed = || format!("cannot write {}", path.display());
        let found = match fs::metadata(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            found => Some(found.with_context(failed)?),
        };
        let (file, part) = match found {
            Some(meta) if meta.is_dir() => {
                return Err(anyhow!("it is a directory")).with_context(failed).context(Usage);
            }
            Some(meta) if !meta.is_file() => {
                (File::options().write(true).open(path).with_context(failed)?, None)
            }
            existing => {
                if existing.is_some() && !force.force {
                    refuse_foreign(path, kind)?;
                }
                let (part, file) = Part::create(path, kind.mode()).with_context(failed)?;
                (file, Some(part))
            }
        };
        Ok(Output { path: path.to_owned(), kind, file, part })
    }

    /// Opens two outputs, which must be different files.
    ///
    /// # Errors
    /// As [`Output::open`]; with [`Usage`] if two paths name one file.
    pub fn open_both(
        (one, kind): (&Path, Kind),
        (other, other_kind): (&Path, Kind),
        force: Force,
    ) -> anyhow::Result<(Output, Output)> {
        let first = Output::open(one, kind, force)?;
        let same = std::path::absolute(one).ok() == std::path::absolute(other).ok();
        if same && first.part.is_some() {
            return Err(anyhow!("{} is named for two outputs", one.display())).context(Usage);
        }
        Ok((first, Output::open(other, other_kind, force)?))
    }

    /// Writes the text and commits.
    ///
    /// # Errors
    /// If the file cannot be written; the file at the path then does not change.
    pub fn write(mut self, text: &str) -> anyhow::Result<()> {
        self.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))?;
        self.commit()
    }

    /// Renames the file to its path. A previous plan or page is kept as NAME.1.
    ///
    /// # Errors
    /// If the file cannot be synced or renamed; the file at the path then does not change.
    pub fn commit(mut self) -> anyhow::Result<()> {
        let put = |part: &Part| {
            self.file.sync_all()?;
            if self.kind.is_kept() && self.path.metadata().is_ok_and(|meta| meta.len() > 0) {
                keep(&self.path)?;
            }
            part.rename(&self.path)
        };
        if let Some(part) = &self.part {
            put(part).with_context(|| format!("cannot write {}", self.path.display()))?;
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

fn refuse_foreign(path: &Path, kind: Kind) -> anyhow::Result<()> {
    let read = || File::open(path).and_then(|mut file| kind.made(&mut file));
    if read().with_context(|| format!("cannot read {}", path.display()))? {
        return Ok(());
    }
    let why = match kind {
        Kind::Export => "it exists",
        Kind::Plan | Kind::Page => "it exists, and Poolwright did not make it",
    };
    Err(anyhow!(why))
        .with_context(|| format!("cannot replace {}", path.display()))
        .context(hint("name another file, or use --force to replace this one"))
        .context(Refused)
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
    use super::*;

    const NOT_FORCED: Force = Force { force: false };
    const FORCED: Force = Force { force: true };

    fn write(path: &Path, kind: Kind, force: Force, text: &str) -> anyhow::Result<()> {
        Output::open(path, kind, force)?.write(text)
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
        for kind in [Kind::Plan, Kind::Page, Kind::Export] {
            fs::write(&path, "{\"mine\": true}").unwrap();
            let error = Output::open(&path, kind, NOT_FORCED).unwrap_err();
            assert!(error.is::<Refused>(), "{kind:?}: {error:#}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "{\"mine\": true}");
            assert_eq!(names(dir.path()), ["notes.json"]);
            write(&path, kind, FORCED, "new").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            let _ = fs::remove_file(dir.path().join("notes.json.1"));
        }
        fs::write(&path, "").unwrap();
        write(&path, Kind::Plan, NOT_FORCED, "over an empty file").unwrap();
    }

    #[test]
    fn the_previous_plan_and_page_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let text = |kind, n: u32| match kind {
            Kind::Page => format!("<!doctype html>\n<head>{}</head>{n}", poolwright_report::GENERATOR),
            _ => format!("{{\n  \"format\": \"poolwright-plan\",\n  \"n\": {n}\n}}\n"),
        };
        for (name, kind) in [("p.json", Kind::Plan), ("r.html", Kind::Page)] {
            let path = dir.path().join(name);
            let text = |n| text(kind, n);
            for n in 1..=3 {
                write(&path, kind, NOT_FORCED, &text(n)).unwrap();
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text(3));
            assert_eq!(fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap(), text(2));
            drop(Output::open(&path, kind, NOT_FORCED).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), text(3), "an output that was not written");
        }
        assert_eq!(names(dir.path()), ["p.json", "p.json.1", "r.html", "r.html.1"]);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &Path| Output::open(path, Kind::Page, NOT_FORCED);
        assert!(at(dir.path()).unwrap_err().is::<Usage>());
        assert!(at(&dir.path().join("no/such/page.html")).is_err());
        assert!(at(Path::new("/usr")).unwrap_err().is::<Usage>());
        let one = dir.path().join("one");
        let both = Output::open_both((&one, Kind::Plan), (&one, Kind::Page), NOT_FORCED);
        assert!(both.unwrap_err().is::<Usage>());
        assert!(names(dir.path()).is_empty());
        // A device is written directly.
        at(Path::new("/dev/null")).unwrap().write("page").unwrap();
        assert!(at(Path::new("/dev/full")).unwrap().write("page").is_err());
    }
}

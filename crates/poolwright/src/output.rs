//! A file that is written whole or not at all: opened before a long run, so that a place that cannot be written shows
//! then, and put in its place at the end.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A file beside its place, which it gets when it is written. Dropped before, it leaves what was there as it was.
pub struct Output {
    path: PathBuf,
    part: PathBuf,
    file: File,
}

impl Output {
    /// Opens it.
    pub fn open(path: &Path) -> anyhow::Result<Output> {
        let name = path.file_name().with_context(|| format!("{} is not a file name", path.display()))?;
        let part = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        let file = File::create(&part).with_context(|| format!("writing beside {}", path.display()))?;
        Ok(Output { path: path.to_owned(), part, file })
    }

    /// Writes it, and puts it in its place.
    pub fn write(mut self, text: &str) -> anyhow::Result<()> {
        let written =
            self.file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&self.part, &self.path));
        written.with_context(|| format!("writing {}", self.path.display()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.part); // gone already where it was renamed
    }
}

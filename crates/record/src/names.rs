//! The names of the followed files, as calls change them.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A followed file.
#[derive(Debug, Default)]
pub(crate) struct NamedFile {
    /// The name by which the trace calls it.
    pub path: PathBuf,
    /// Other names that are known.
    pub others: Vec<PathBuf>,
    /// The number of its names. 0 for a file that was removed, or that never had a name (`O_TMPFILE`).
    pub links: u32,
    /// Its id in the trace, assigned with its first event.
    pub id: Option<u32>,
    /// The kernel's device number, with the major number in the upper 12 bits.
    pub dev: u32,
    pub ino: u64,
    pub size: u64,
    /// Whether its content is the path of another file.
    pub leads: bool,
}

impl NamedFile {
    pub fn unlinked(&self) -> bool {
        self.links == 0
    }

    /// Returns the present size if the path still leads to the file. The size is `None` if that cannot be determined: stacked file systems
    /// show other inode numbers than the kernel's.
    pub fn now(&self) -> Option<Option<u64>> {
        let found = std::fs::symlink_metadata(&self.path).ok()?;
        match (found.ino() == self.ino, self.is_on_device()) {
            (true, _) => Some(Some(found.len())),
            (false, true) => None,
            (false, false) => Some(None),
        }
    }

    /// Whether the file system is on a block device, and so shows the kernel's device and inode numbers.
    fn is_on_device(&self) -> bool {
        self.dev >> 20 != 0
    }

    fn is(&self, found: &Metadata) -> bool {
        let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
        if found.ino() != self.ino {
            return false;
        }
        if major << 20 | minor == self.dev {
            return true;
        }
        !self.is_on_device()
            || std::fs::symlink_metadata(&self.path).is_ok_and(|own| own.dev() == found.dev())
    }
}

/// The followed files by the numbers that the BPF programs assign.
#[derive(Debug, Default)]
pub(crate) struct Names {
    files: Vec<Option<NamedFile>>,
    by_path: HashMap<PathBuf, u32>,
    by_inode: HashMap<u64, Vec<u32>>,
}

impl Names {
    pub fn add(&mut self, number: u32, file: NamedFile) {
        let index = number as usize;
        if self.files.len() <= index {
            self.files.resize_with(index + 1, || None);
        }
        self.by_path.insert(file.path.clone(), number);
        self.by_inode.entry(file.ino).or_default().push(number);
        self.files[index] = Some(file);
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut NamedFile> {
        self.files.get_mut(number as usize)?.as_mut()
    }

    pub fn files(&self) -> impl Iterator<Item = &NamedFile> {
        self.files.iter().flatten()
    }

    /// Returns the file with this name.
    pub fn at(&self, path: &Path) -> Option<u32> {
        self.by_path.get(path).copied()
    }

    /// Returns the file to which the path leads now, by its inode. Links are followed.
    pub fn same_file(&self, path: &Path) -> Option<u32> {
        let found = std::fs::metadata(path).ok()?;
        let numbers = self.by_inode.get(&found.ino())?;
        let is = |number: &&u32| self.files[**number as usize].as_ref().is_some_and(|file| file.is(&found));
        numbers.iter().rev().find(is).copied()
    }

    /// Gives the file another name. A file without a name is called by it.
    pub fn link(&mut self, number: u32, to: PathBuf) {
        let Some(file) = self.get_mut(number) else { return };
        file.links += 1;
        if file.links == 1 {
            let old = std::mem::replace(&mut file.path, to.clone());
            self.by_path.remove(&old);
        } else {
            file.others.push(to.clone());
        }
        self.by_path.insert(to, number);
    }

    /// Removes a name. Returns the file if it was the last one.
    pub fn unlink(&mut self, path: &Path) -> Option<u32> {
        let number = self.by_path.remove(path)?;
        let file = self.get_mut(number)?;
        file.links = file.links.saturating_sub(1);
        if file.path == path {
            if let Some(other) = file.others.pop() {
                file.path = other;
            }
        } else {
            file.others.retain(|other| other != path);
        }
        file.unlinked().then_some(number)
    }

    pub fn rename(&mut self, number: u32, from: &Path, to: PathBuf) {
        self.by_path.remove(from);
        if let Some(file) = self.get_mut(number) {
            match file.others.iter_mut().find(|other| *other == from) {
                Some(other) => other.clone_from(&to),
                None => file.path.clone_from(&to),
            }
        }
        self.by_path.insert(to, number);
    }

    /// Exchanges two names, of which the second may be unknown.
    pub fn exchange(&mut self, from: &Path, to: &Path) {
        let (first, second) = (self.at(from), self.at(to));
        if let Some(number) = first {
            self.rename(number, from, to.to_owned());
        }
        if let Some(number) = second {
            self.rename(number, to, from.to_owned());
            // This removed the first file's new name.
            if let Some(number) = first {
                self.by_path.insert(to.to_owned(), number);
            }
        }
    }

    /// Updates the names of the files in a renamed directory.
    pub fn rename_directory(&mut self, from: &Path, to: &Path) {
        let inside: Vec<(u32, PathBuf)> = self
            .by_path
            .iter()
            .filter_map(|(path, &number)| Some((number, path.strip_prefix(from).ok()?.to_owned())))
            .collect();
        for (number, rest) in inside {
            self.rename(number, &from.join(&rest), to.join(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        for (number, path) in [(1, "/d/a"), (2, "/d/b")] {
            names.add(
                number,
                NamedFile { path: path.into(), links: 1, ino: u64::from(number), ..NamedFile::default() },
            );
        }
        names
    }

    fn path(names: &mut Names, number: u32) -> PathBuf {
        names.get_mut(number).unwrap().path.clone()
    }

    #[test]
    fn a_file_keeps_a_name_until_the_last_is_removed() {
        let mut names = names();
        names.link(1, "/d/c".into());
        assert_eq!(path(&mut names, 1), Path::new("/d/a"));
        assert_eq!(names.unlink(Path::new("/d/a")), None);
        assert_eq!(path(&mut names, 1), Path::new("/d/c"));
        names.rename(1, Path::new("/d/c"), "/d/e".into());
        assert_eq!(names.unlink(Path::new("/d/c")), None, "it has that name no more");
        assert_eq!(names.unlink(Path::new("/d/e")), Some(1));
        assert_eq!(path(&mut names, 1), Path::new("/d/e"));
        assert!(names.get_mut(1).unwrap().unlinked());
    }

    #[test]
    fn names_are_exchanged_and_move_with_their_directory() {
        let mut names = names();
        names.exchange(Path::new("/d/a"), Path::new("/d/b"));
        assert_eq!((path(&mut names, 1), path(&mut names, 2)), ("/d/b".into(), "/d/a".into()));
        assert_eq!((names.at(Path::new("/d/a")), names.at(Path::new("/d/b"))), (Some(2), Some(1)));
        names.rename_directory(Path::new("/d"), Path::new("/e"));
        assert_eq!((names.at(Path::new("/e/a")), names.at(Path::new("/d/b"))), (Some(2), None));
    }
}

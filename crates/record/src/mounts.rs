//! Mount points: where a file system's own paths appear, and which lie below a directory.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// One line of `/proc/<pid>/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The kernel's device number, major in the upper 12 bits.
    pub dev: u32,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
}

/// All mounts, in the order they were made.
pub(crate) fn mounts() -> Result<Vec<Mount>> {
    let path = Path::new("/proc/self/mountinfo");
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let dev = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
    Some(Mount { dev, root: unescape(fields.next()?), point: unescape(fields.next()?) })
}

/// Blanks, tabs, line ends and backslashes come as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).filter(|_| *first == b'\\');
        let code = octal.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// Mount points strictly below `dir`.
pub(crate) fn below<'a>(mounts: &'a [Mount], dir: &'a Path) -> impl Iterator<Item = &'a Path> {
    mounts.iter().map(|m| m.point.as_path()).filter(move |point| *point != dir && point.starts_with(dir))
}

/// Where `inner`, a path within the file system `dev`, appears: through the mount that shows the least of it.
pub(crate) fn outside(mounts: &[Mount], dev: u32, inner: &Path) -> Option<PathBuf> {
    let shows = |m: &&Mount| m.dev == dev && inner.starts_with(&m.root);
    let mount = mounts.iter().filter(shows).max_by_key(|m| m.root.components().count())?;
    let rest = inner.strip_prefix(&mount.root).ok()?;
    Some(if rest.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 0:35 / /dev/shm rw - tmpfs tmpfs rw
41 22 254:16 /var /srv/my\\040data rw - xfs /dev/vdb rw
42 22 254:16 / /srv/all rw shared:5 - xfs /dev/vdb rw";

    fn table() -> Vec<Mount> {
        LINES.lines().filter_map(parse).collect()
    }

    #[test]
    fn lines_are_read() {
        let mounts = table();
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[2].point, Path::new("/srv/my data"));
        assert_eq!(mounts[2].dev, 254 << 20 | 16);
    }

    #[test]
    fn a_path_is_shown_by_the_closest_mount() {
        let mounts = table();
        let dev = 254 << 20 | 16;
        assert_eq!(outside(&mounts, dev, Path::new("/var/a")).unwrap(), Path::new("/srv/my data/a"));
        assert_eq!(outside(&mounts, dev, Path::new("/etc/a")).unwrap(), Path::new("/srv/all/etc/a"));
        assert_eq!(outside(&mounts, dev, Path::new("/var")).unwrap(), Path::new("/srv/my data"));
        assert_eq!(outside(&mounts, 7, Path::new("/var")), None);
    }

    #[test]
    fn mounts_below_exclude_the_directory_itself() {
        let mounts = table();
        let found: Vec<_> = below(&mounts, Path::new("/srv")).collect();
        assert_eq!(found, [Path::new("/srv/my data"), Path::new("/srv/all")]);
        assert_eq!(below(&mounts, Path::new("/dev/shm")).count(), 0);
    }
}

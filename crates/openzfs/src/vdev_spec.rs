//! The specification of vdevs and of new pools, in the grammar of `zpool`.

use std::path::PathBuf;

use poolwright_base::quoted;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The size in bytes of a vdev file that is created without one. The file is sparse. A small vdev forces a transaction group
/// every few seconds of writing, which changes measurements.
pub const DEFAULT_VDEV_BYTES: u64 = 200 << 30;

/// How the files of a group form vdevs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Each file is a top-level vdev.
    Stripe,
    /// All files contain the same data.
    Mirror,
    /// raidz with this number of parity files, 1 to 3.
    Raidz(u8),
}

/// The purpose of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Data and, without a separate log, the intent log.
    Data,
    /// A separate intent log.
    Log,
    /// L2ARC.
    Cache,
    /// Hot spares.
    Spare,
}

impl Use {
    /// Whether the files are auxiliary vdevs: spares and cache vdevs, whose labels do not name the pool.
    pub fn is_auxiliary(self) -> bool {
        matches!(self, Use::Cache | Use::Spare)
    }
}

/// Files that form one vdev or, striped, several. Missing files are created sparse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevGroup {
    /// How the files form vdevs.
    pub layout: Layout,
    /// Their purpose.
    pub usage: Use,
    /// The path and size in bytes of each file.
    pub files: Vec<(PathBuf, u64)>,
}

/// The specification of a new pool.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The pool's name.
    pub name: String,
    /// Sector size as a power of two, 9 to 16.
    pub ashift: u32,
    /// The vdevs.
    pub groups: Vec<VdevGroup>,
}

impl Spec {
    /// Specifies a pool on one sparse file of [`DEFAULT_VDEV_BYTES`].
    pub fn single(name: &str, file: impl Into<PathBuf>, ashift: u32) -> Spec {
        let files = vec![(file.into(), DEFAULT_VDEV_BYTES)];
        Spec {
            name: name.into(),
            ashift,
            groups: vec![VdevGroup { layout: Layout::Stripe, usage: Use::Data, files }],
        }
    }

    /// Parses the vdev grammar of `zpool create`: `FILE… [mirror|raidz[1-3] FILE…] [log [mirror] FILE…] [cache FILE…]
    /// [spare FILE…]`, each file with an optional `:SIZE`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a size is invalid or too small, if a group has too few files, or if there is no data vdev.
    pub fn parse_vdevs(words: &[String]) -> Result<Vec<VdevGroup>> {
        let groups = parse_groups(words)?;
        check_has_data(&groups)?;
        check_groups(&groups)?;
        Ok(groups)
    }

    /// Parses the vdev grammar of `zpool add`: that of [`Spec::parse_vdevs`], in which the data vdevs may be absent.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a size is invalid or too small, or if a group has too few files.
    pub fn parse_added(words: &[String]) -> Result<Vec<VdevGroup>> {
        let groups = parse_groups(words)?;
        check_groups(&groups)?;
        Ok(groups)
    }

    /// Parses a file of a vdev: its path and, after a colon, the size in bytes with which it is created.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the size is invalid.
    pub fn parse_file(word: &str) -> Result<(PathBuf, Option<u64>)> {
        match word.rsplit_once(':') {
            Some((path, size)) if !size.contains('/') => {
                Ok((path.into(), Some(crate::property::parse_size(size)?)))
            }
            _ => Ok((word.into(), None)),
        }
    }
}

fn parse_groups(words: &[String]) -> Result<Vec<VdevGroup>> {
    let mut groups: Vec<VdevGroup> = Vec::new();
    let mut usage = Use::Data;
    let mut fresh = true;
    for word in words {
        let layout = match word.as_str() {
            "mirror" => Some(Layout::Mirror),
            "raidz" | "raidz1" => Some(Layout::Raidz(1)),
            "raidz2" => Some(Layout::Raidz(2)),
            "raidz3" => Some(Layout::Raidz(3)),
            _ => None,
        };
        if let Some(keyword) = parse_use(word) {
            usage = keyword;
            fresh = true;
            continue;
        }
        if let Some(layout) = layout {
            groups.push(VdevGroup { layout, usage, files: Vec::new() });
            fresh = false;
            continue;
        }
        if fresh {
            groups.push(VdevGroup { layout: Layout::Stripe, usage, files: Vec::new() });
            fresh = false;
        }
        let group = groups.last_mut().expect("a group was just pushed");
        let (path, bytes) = Spec::parse_file(word)?;
        group.files.push((path, bytes.unwrap_or(DEFAULT_VDEV_BYTES)));
    }
    Ok(groups)
}

fn parse_use(word: &str) -> Option<Use> {
    match word {
        "log" => Some(Use::Log),
        "cache" => Some(Use::Cache),
        "spare" => Some(Use::Spare),
        _ => None,
    }
}

pub(crate) fn check_has_data(groups: &[VdevGroup]) -> Result<()> {
    match groups.iter().any(|g| g.usage == Use::Data && !g.files.is_empty()) {
        true => Ok(()),
        false => Err(Error::Invalid("a pool needs at least one file for data".into())),
    }
}

pub(crate) fn check_groups(groups: &[VdevGroup]) -> Result<()> {
    if groups.is_empty() {
        return Err(Error::Invalid("name at least one file".into()));
    }
    for g in groups {
        let (name, least) = match g.layout {
            Layout::Stripe => ("a vdev".to_owned(), 1),
            Layout::Mirror => ("a mirror".to_owned(), 2),
            Layout::Raidz(parity) => (format!("raidz{parity}"), usize::from(parity) + 1),
        };
        if g.files.len() < least {
            return Err(Error::Invalid(format!(
                "{name} needs at least {least} files; {} given",
                g.files.len()
            )));
        }
        if g.usage.is_auxiliary() && g.layout != Layout::Stripe {
            let kind = if g.usage == Use::Cache { "cache vdevs" } else { "spares" };
            return Err(Error::Invalid(format!("{kind} cannot be mirrored")));
        }
        if let Some((path, bytes)) = g.files.iter().find(|(_, bytes)| *bytes < 64 << 20) {
            return Err(Error::Invalid(format!(
                "{}: {:.1} MiB is too small: a vdev needs at least 64M",
                quoted(&path),
                *bytes as f64 / (1 << 20) as f64
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn zpool_grammar() {
        let g = Spec::parse_vdevs(&words("a b:10G mirror c d raidz2 e f g log h cache i spare j k")).unwrap();
        assert_eq!(g.len(), 6);
        assert_eq!(g[0].files[1], ("b".into(), 10 << 30));
        assert_eq!((g[1].layout, g[1].files.len()), (Layout::Mirror, 2));
        assert_eq!((g[2].layout, g[2].files.len()), (Layout::Raidz(2), 3));
        assert_eq!((g[3].usage, g[4].usage), (Use::Log, Use::Cache));
        assert_eq!((g[5].usage, g[5].files.len()), (Use::Spare, 2));
        for bad in ["", "log a", "spare a", "mirror a", "raidz3 a b c", "a:1K", "a spare b:1K"] {
            assert!(Spec::parse_vdevs(&words(bad)).is_err(), "{bad}");
        }
        for (bad, why) in
            [("cache", "cache vdevs cannot be mirrored"), ("spare", "spares cannot be mirrored")]
        {
            let refused = Spec::parse_vdevs(&words(&format!("a {bad} mirror b c"))).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
        for added in ["log a", "spare a"] {
            assert_eq!(Spec::parse_added(&words(added)).unwrap().len(), 1, "{added}");
        }
        assert!(Spec::parse_added(&[]).is_err());
    }
}

//! The selection of datasets and snapshots for a list.

use crate::user::{DatasetInfo, Error, Fault, Kind, Result, name};

/// Which datasets and snapshots to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetFilter {
    /// Full names; if empty, everything.
    pub names: Vec<String>,
    /// Whether to include everything below the names.
    pub recursive: bool,
    /// The kind to list; `None` for both.
    pub kind: Option<Kind>,
}

impl DatasetFilter {
    /// Keeps what matches. A named snapshot matches even if only file systems are listed. If snapshots are listed, those of a
    /// named dataset match.
    ///
    /// # Errors
    /// `ENOENT` if a name does not exist.
    pub fn apply(&self, all: Vec<DatasetInfo>) -> Result<Vec<DatasetInfo>> {
        if let Some(missing) = self.names.iter().find(|name| !all.iter().any(|d| d.name == **name)) {
            return Err(Error::Refused(Fault::new(
                libc::ENOENT,
                format!("{missing}: no such dataset or snapshot"),
            )));
        }
        Ok(all.into_iter().filter(|dataset| self.matches(dataset)).collect())
    }

    fn matches(&self, dataset: &DatasetInfo) -> bool {
        let is_named = self.names.contains(&dataset.name);
        let kind_matches = match self.kind {
            None => true,
            Some(Kind::Filesystem) => dataset.kind == Kind::Filesystem || is_named,
            Some(Kind::Snapshot) => dataset.kind == Kind::Snapshot,
        };
        kind_matches
            && (self.names.is_empty() || is_named || self.names.iter().any(|n| self.covers(n, dataset)))
    }

    /// Whether a dataset or snapshot is listed because of another name.
    fn covers(&self, name: &str, dataset: &DatasetInfo) -> bool {
        let is_its_snapshot = dataset.name.split('@').next() == Some(name);
        is_its_snapshot && self.kind != Some(Kind::Filesystem)
            || self.recursive && name::is_below(&dataset.name, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str], recursive: bool, kind: Option<Kind>) -> Vec<String> {
        let all = ["tank", "tank/a", "tank/a@one", "tank/a/b", "tank/a/b@one", "tank/c"];
        let info = |name: &&str| DatasetInfo {
            name: (*name).to_owned(),
            kind: if name.contains('@') { Kind::Snapshot } else { Kind::Filesystem },
            stats: None,
            available: None,
            mounted_on: Vec::new(),
            trouble: None,
        };
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let filter = DatasetFilter { names, recursive, kind };
        filter.apply(all.iter().map(info).collect()).unwrap().into_iter().map(|d| d.name).collect()
    }

    #[test]
    fn names_kinds_and_what_is_below() {
        let (files, snapshots) = (Some(Kind::Filesystem), Some(Kind::Snapshot));
        assert_eq!(listed(&[], false, files), ["tank", "tank/a", "tank/a/b", "tank/c"]);
        assert_eq!(listed(&["tank/a"], false, files), ["tank/a"]);
        assert_eq!(listed(&["tank/a"], true, files), ["tank/a", "tank/a/b"]);
        assert_eq!(listed(&["tank/a"], false, snapshots), ["tank/a@one"]);
        assert_eq!(listed(&["tank/a"], true, snapshots), ["tank/a@one", "tank/a/b@one"]);
        assert_eq!(listed(&["tank/a"], false, None), ["tank/a", "tank/a@one"]);
        assert_eq!(listed(&["tank/a@one"], false, files), ["tank/a@one"]);
    }
}

//! Clones of snapshots.

use poolwright_openzfs::property::Settings;

use super::{Answer, LocalPool};
use crate::user::{Fault, FaultKind, name};

impl LocalPool {
    /// Creates a clone, and its missing parents if `parents`.
    pub(super) fn clone_snapshot(
        &self,
        snapshot: &str,
        dataset: &str,
        settings: &Settings,
        parents: bool,
    ) -> Answer<()> {
        let _tree = self.lock();
        let (of, _) = name::check_snapshot(snapshot)?;
        self.check_mine(of)?;
        self.check_mine(dataset)?;
        self.must_exist(snapshot)?;
        self.refuse_unwritable()?;
        if !self.make_place(dataset, parents)? {
            return Err(Fault::new(libc::EEXIST, format!("the dataset {dataset} exists already")));
        }
        let inside = name::inside(dataset);
        self.pool.clone_snapshot(name::inside(snapshot), inside)?;
        let set = self.open(dataset).and_then(|made| Self::set_all(&made, settings));
        if set.is_err() {
            // Remove the new dataset. The caller needs the first error, so ignore this one.
            let _ = self.pool.destroy(inside);
        }
        set
    }

    /// Makes a clone the owner of the snapshots up to its origin.
    pub(super) fn promote(&self, dataset: &str) -> Answer<()> {
        let _tree = self.lock();
        self.check_mine(dataset)?;
        self.must_exist(dataset)?;
        self.refuse_unwritable()?;
        let inside = name::inside(dataset);
        let Some(origin) = self.pool.origin(inside)? else {
            return Err(Fault::invalid(format!("{dataset} is not a clone, and cannot be promoted")));
        };
        let (of, latest) = name::check_snapshot(&origin)?;
        let later = self.later_snapshots(of, latest)?;
        for full in self.names()? {
            // A mount may have this snapshot open, which is about to belong to another dataset.
            if let Some((_, snapshot)) = full.split_once('@').filter(|(owner, _)| *owner == of)
                && !later.iter().any(|later| later == snapshot)
            {
                self.mounts.without_snapshot(of, snapshot, &mut || Ok(())).unwrap_or(Ok(()))?;
            }
        }
        Ok(self.pool.promote(inside)?)
    }

    /// Refuses to destroy these objects, in this order, if one of them is a snapshot that then still has a clone.
    pub(super) fn refuse_origins(&self, all: &[String]) -> Answer<()> {
        if !all.iter().any(|name| name.contains('@')) {
            return Ok(());
        }
        for clone in self.names()?.iter().filter(|name| !name.contains('@')) {
            let Some(origin) = self.pool.origin(name::inside(clone))? else { continue };
            let place = |wanted: &String| all.iter().position(|name| name == wanted);
            let is_in_the_way = place(&origin).is_some_and(|at| place(clone).is_none_or(|first| first > at));
            if is_in_the_way {
                let fault = Fault::new(libc::EBUSY, format!("{origin} has a clone: {clone}"));
                return Err(fault.of_kind(FaultKind::HasClone { clone: clone.clone() }));
            }
        }
        Ok(())
    }
}

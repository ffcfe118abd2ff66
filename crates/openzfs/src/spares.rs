//! Hot spares, and the order of a pool's files: those of auxiliary vdevs, which are available spares and cache vdevs, are last.

use std::path::PathBuf;

use poolwright_base::quoted;

use crate::c_text::c_paths;
use crate::changed::{LABEL_BYTES, OpenFile};
use crate::error::check;
use crate::leaf::Leaf;
use crate::{Error, Pool, Result, VdevError, ffi};

/// Moves the files of auxiliary vdevs to the end.
fn sort_by_use(files: &mut [OpenFile], leaves: &[Leaf]) {
    for file in files.iter_mut() {
        // Of a spare in use, the first leaf is that in the tree.
        file.is_auxiliary = leaves.iter().find(|leaf| leaf.is_at(&file.path)).is_some_and(Leaf::is_auxiliary);
    }
    files.sort_by_key(|file| file.is_auxiliary);
}

impl Pool {
    /// Replaces a vdev by an available spare, and starts a resilver. The library detaches neither of them at its end.
    pub(crate) fn use_spare(
        &self,
        what: &'static str,
        leaf: &Leaf,
        (spare, bytes): (&Leaf, Option<u64>),
    ) -> Result<()> {
        if let Some(why) = leaf.why_not_spared() {
            return Err(self.refusal(what, why));
        }
        if bytes.is_some() {
            let why =
                format!("{} is a spare of the pool, which keeps its size: omit :SIZE", quoted(&spare.path));
            return Err(Error::Invalid(why));
        }
        if spare.raw.readable == 0 {
            return Err(self.refusal(what, VdevError::UnavailableSpare(spare.path.clone())));
        }
        // The library would find that out only after it has overwritten the spare's label.
        if spare.raw.size / LABEL_BYTES * LABEL_BYTES < leaf.raw.least {
            let (spare, device) = (spare.path.clone(), leaf.path.clone());
            return Err(self.refusal(what, VdevError::SmallSpare { spare, device, least: leaf.raw.least }));
        }
        let paths = c_paths(std::slice::from_ref(&spare.path))?;
        // SAFETY: the name of an imported, writable pool and the path, a C string, which the call copies.
        let errno =
            unsafe { ffi::pw_pool_attach(self.inner.name.as_ptr(), leaf.raw.guid, paths[0].as_ptr(), 1) };
        check(what, self.name(), errno)?;
        self.sort_files()
    }

    /// Returns the files of the spares that replace a vdev.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn spares_in_use(&self) -> Result<Vec<PathBuf>> {
        let is_in_use = |leaf: &Leaf| leaf.raw.spare != 0 && !leaf.is_available_spare();
        Ok(self.leaves()?.into_iter().filter(is_in_use).map(|leaf| leaf.path).collect())
    }

    /// Closes and unlocks files that the pool does not use any more, because they were detached, and moves those of auxiliary
    /// vdevs to the end. Returns whether the list of files has changed. Does nothing if the pool is read-only, because the
    /// library then does not open all vdevs.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn forget_unused(&self) -> Result<bool> {
        if self.is_readonly() {
            return Ok(false);
        }
        let leaves = self.leaves()?;
        let mut files = self.inner.files();
        let paths = |files: &[OpenFile]| files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        let before = paths(&files);
        files.retain(|file| leaves.iter().any(|leaf| leaf.is_at(&file.path)));
        sort_by_use(&mut files, &leaves);
        Ok(paths(&files) != before)
    }

    /// Moves the files of auxiliary vdevs to the end of the list.
    pub(crate) fn sort_files(&self) -> Result<()> {
        let leaves = self.leaves()?;
        sort_by_use(&mut self.inner.files(), &leaves);
        Ok(())
    }
}

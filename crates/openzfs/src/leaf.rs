//! The leaves of a pool's tree of vdevs, its spares and its cache vdevs.

use std::ffi::c_int;
use std::path::{Path, PathBuf};

use crate::{Layout, VdevError, ffi};

/// A leaf of the pool's tree of vdevs, an entry of its list of spares, or a cache vdev.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) path: PathBuf,
    pub(crate) raw: ffi::pw_leaf,
}

impl Leaf {
    pub(crate) fn is_used_for(&self, usage: u32) -> bool {
        self.raw.use_ == usage as c_int
    }

    pub(crate) fn is_in(&self, layout: u32) -> bool {
        self.raw.layout == layout as c_int
    }

    /// The layout of its top-level vdev, and the number of files of that.
    pub(crate) fn layout(&self) -> (Layout, u64) {
        match self.raw.layout as u32 {
            ffi::PW_MIRROR => (Layout::Mirror, self.raw.children),
            ffi::PW_RAIDZ => (Layout::Raidz(self.raw.parity as u8), self.raw.children),
            _ => (Layout::Stripe, 1),
        }
    }

    pub(crate) fn is_at(&self, place: &Path) -> bool {
        self.path == place || canonical(&self.path) == canonical(place)
    }

    /// Whether it is a spare that is not in use. One in use is also in the list of spares, after the leaves of the tree.
    pub(crate) fn is_available_spare(&self) -> bool {
        self.is_used_for(ffi::PW_SPARE_VDEV)
    }

    /// Whether it is the vdev that a spare replaces, and not the spare.
    pub(crate) fn is_spared(&self) -> bool {
        self.raw.substitution == ffi::PW_SPARE as c_int && self.raw.spare == 0
    }

    pub(crate) fn is_auxiliary(&self) -> bool {
        self.is_available_spare() || self.is_used_for(ffi::PW_CACHE)
    }

    /// Why no spare can replace this vdev.
    pub(crate) fn why_not_spared(&self) -> Option<VdevError> {
        let unsuitable = |kind| {
            let (device, action) = (self.path.clone(), "replaced by a spare");
            Some(VdevError::Unsuitable { device, kind, action })
        };
        match self {
            leaf if leaf.is_available_spare() => unsuitable("an available spare"),
            leaf if leaf.is_used_for(ffi::PW_CACHE) => unsuitable("a cache vdev"),
            leaf if leaf.is_used_for(ffi::PW_LOG) => unsuitable("a log vdev"),
            leaf if leaf.is_used_for(ffi::PW_OTHER) => unsuitable("a special or dedup vdev"),
            leaf => leaf.why_substituted(),
        }
    }

    /// Why this vdev cannot be mirrored or replaced, if it is substituted or substitutes another one.
    pub(crate) fn why_substituted(&self) -> Option<VdevError> {
        match self.raw.substitution as u32 {
            0 => None,
            ffi::PW_SPARE => Some(VdevError::Spared(self.path.clone())),
            _ => Some(VdevError::BeingReplaced(self.path.clone())),
        }
    }
}

/// A path whose directory has no symbolic links; unchanged if the directory does not exist.
fn canonical(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|dir| dir.canonicalize().ok());
    match (parent, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path.to_owned(),
    }
}

/// The available spare at this place.
pub(crate) fn spare_at<'a>(leaves: &'a [Leaf], place: &Path) -> Option<&'a Leaf> {
    leaves.iter().find(|leaf| leaf.is_at(place)).filter(|leaf| leaf.is_available_spare())
}

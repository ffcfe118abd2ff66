//! Groups of vdevs for C.

use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;

use crate::c_text::c_paths;
use crate::{Layout, Result, Use, VdevGroup, ffi};

/// Groups with the absolute paths of their files as C strings.
pub(crate) struct RawGroups<'a> {
    groups: &'a [VdevGroup],
    paths: Vec<CString>,
}

impl<'a> RawGroups<'a> {
    /// `paths` are the absolute paths of the groups' files, in their order.
    pub(crate) fn new(groups: &'a [VdevGroup], paths: &[PathBuf]) -> Result<RawGroups<'a>> {
        Ok(RawGroups { groups, paths: c_paths(paths)? })
    }

    /// Calls `then` with the groups and their number. The pointers are valid during the call.
    pub(crate) fn with<T>(&self, then: impl FnOnce(*const ffi::pw_vdev_group, usize) -> T) -> T {
        let raw: Vec<*const c_char> = self.paths.iter().map(|path| path.as_ptr()).collect();
        let mut at = 0;
        let one = |g: &VdevGroup| {
            let (layout, parity) = match g.layout {
                Layout::Stripe => (ffi::PW_STRIPE, 0),
                Layout::Mirror => (ffi::PW_MIRROR, 0),
                Layout::Raidz(parity) => (ffi::PW_RAIDZ, parity),
            };
            let usage = match g.usage {
                Use::Data => ffi::PW_DATA,
                Use::Log => ffi::PW_LOG,
                Use::Cache => ffi::PW_CACHE,
                Use::Spare => ffi::PW_SPARE_VDEV,
            };
            let start = at;
            at += g.files.len();
            ffi::pw_vdev_group {
                layout: layout as c_int,
                parity: c_int::from(parity),
                use_: usage as c_int,
                npaths: g.files.len(),
                paths: raw[start..].as_ptr(),
            }
        };
        let groups: Vec<ffi::pw_vdev_group> = self.groups.iter().map(one).collect();
        then(groups.as_ptr(), groups.len())
    }
}

//! Reads the label of a pool file, and decides whether another system may have the pool open.

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};

use poolwright_base::quoted;

use crate::c_text::c_paths;
use crate::error::check;
use crate::{Error, Result, ffi};

/// Where the OpenZFS kernel module shows imported pools: a directory for each pool, with the pool's name.
const KERNEL_POOLS: &str = "/proc/spl/kstat/zfs";

/// The best label of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// The pool's name; empty in the label of a spare or cache vdev.
    pub(crate) pool: String,
    /// The pool's GUID; 0 in the label of a spare or cache vdev.
    guid: u64,
    /// Whether the pool was not exported: it is open, or its last user was killed.
    active: bool,
    /// The host that had the pool open last.
    host: String,
    /// The number of the pool's top-level vdevs, or the index of this file's if that is higher.
    tops: u64,
}

/// The largest accepted number of top-level vdevs, including removed ones. The library allocates an entry for each that a
/// label counts, whether it exists or not.
const MAX_TOPS: u64 = 4096;

fn text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Label {
    /// Reads the best label of a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file contains no pool; [`Error::Engine`] if it cannot be read.
    pub(crate) fn read(file: &Path) -> Result<Label> {
        let c = c_paths(&[file.to_owned()])?;
        let mut raw = ffi::pw_label::default();
        // SAFETY: a C string and a writable struct, whose strings the callee ends with a NUL.
        let errno = unsafe { ffi::pw_pool_label(c[0].as_ptr(), &mut raw) };
        if errno == libc::ENOENT && file.exists() {
            return Err(Error::Invalid(format!(
                "{} contains no pool: none of its four labels is valid",
                quoted(&file)
            )));
        }
        check("reading the pool labels of", quoted(&file), errno)?;
        let (pool, host) = (text(&raw.pool), text(&raw.host));
        Ok(Label { pool, guid: raw.guid, active: raw.active != 0, host, tops: raw.tops })
    }
}

/// Returns the host's name as this engine writes it to labels.
fn own_host() -> String {
    // SAFETY: a C string that exists as long as the calling thread.
    unsafe { CStr::from_ptr(ffi::pw_engine_host()) }.to_string_lossy().into_owned()
}

/// Refuses files whose pool another system may have open: two systems that write to a pool destroy it. The locks of the files
/// do not help, because a kernel takes none. Refused are pools that the host's kernel has imported and, without `force`, pools
/// that their last user did not export, unless that was this engine on this host. Labels with so many vdevs that an import
/// would take all memory are refused too.
pub(crate) fn refuse_open_elsewhere(files: &[PathBuf], force: bool) -> Result<()> {
    let imported = kernel_pools(Path::new(KERNEL_POOLS)).map_err(|why| Error::Host {
        what: "listing the kernel's pools in",
        path: KERNEL_POOLS.into(),
        why,
    })?;
    for file in files {
        // The import refuses a file without a label. The label of a spare or cache vdev does not name its pool.
        let Ok(label) = Label::read(file) else { continue };
        if label.tops > MAX_TOPS {
            let (file, tops) = (quoted(&file), label.tops);
            let why = format!("{file}: its label counts {tops} top-level vdevs; {MAX_TOPS} is the limit");
            return Err(Error::Invalid(why));
        }
        if label.pool.is_empty() {
            continue;
        }
        if imported.iter().any(|pool| pool.is(&label)) {
            return Err(Error::ImportedByKernel { pool: label.pool, file: file.clone() });
        }
        if label.active && !force && label.host != own_host() {
            return Err(Error::NotExported { pool: label.pool, file: file.clone(), host: label.host });
        }
    }
    Ok(())
}

/// A pool that the kernel has imported.
#[derive(Debug, PartialEq, Eq)]
struct KernelPool {
    name: String,
    /// `None` if the kernel does not show it (before OpenZFS 2.2). Then the names are compared.
    guid: Option<u64>,
}

impl KernelPool {
    fn is(&self, label: &Label) -> bool {
        self.guid.map_or(self.name == label.pool, |guid| guid == label.guid)
    }
}

/// Returns the pools below `root`; none if the directory does not exist, as without the kernel module.
fn kernel_pools(root: &Path) -> std::io::Result<Vec<KernelPool>> {
    let listing = match std::fs::read_dir(root) {
        Ok(listing) => listing,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(why),
    };
    let mut pools = Vec::new();
    for entry in listing {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let guid = std::fs::read_to_string(entry.path().join("guid")).ok();
        pools.push(KernelPool {
            name: entry.file_name().to_string_lossy().into_owned(),
            guid: guid.and_then(|text| text.trim().parse().ok()),
        });
    }
    Ok(pools)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(pool: &str, guid: u64) -> Label {
        Label { pool: pool.into(), guid, active: false, host: "db1".into(), tops: 1 }
    }

    /// A tree as OpenZFS 2.3.2 shows it in `/proc/spl/kstat/zfs`, and, in `old`, as 2.1 does.
    #[test]
    fn pools_of_the_kernel_are_found_by_their_number() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kstat-zfs");
        let pools = kernel_pools(&root).unwrap();
        let is = |name: &str, guid| pools.iter().any(|pool| pool.is(&label(name, guid)));
        assert!(is("tank", 17_313_046_012_841_462_823), "{pools:?}");
        assert!(is("renamed on import", 17_313_046_012_841_462_823), "the number counts, not the name");
        assert!(!is("tank", 5), "another pool of the same name");
        assert!(is("old", 5) && !is("older", 5), "without a number the name has to do");
        assert_eq!(kernel_pools(Path::new("/nonexistent")).unwrap(), Vec::new());
    }
}

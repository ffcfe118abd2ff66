//! Hints for failed commands on pools: the commands and options of Poolwright that help.

use poolwright_host::quoted;
use poolwright_openzfs::FileChange;
use poolwright_zfs::user::{FaultKind, FileFault};

/// What the user can do about an error of this kind.
pub fn pool_hint(kind: &FaultKind) -> Option<String> {
    Some(match kind {
        FaultKind::NotFound { pool } => {
            format!("`poolwright dataset list -t all -r {pool}` lists datasets and snapshots")
        }
        FaultKind::NoParent => "-p creates parents".to_owned(),
        FaultKind::HasDependents { count: 1 } => "-r destroys it too".to_owned(),
        FaultKind::HasDependents { .. } => "-r destroys them too".to_owned(),
        FaultKind::HasClone { clone } => format!(
            "destroy the clone first, or let it take the snapshot over: `poolwright dataset promote {clone}`"
        ),
        FaultKind::RootDataset { pool } => format!("`poolwright pool destroy {pool}` destroys a pool"),
        FaultKind::NewerSnapshots { snapshot } => {
            format!("-r destroys all snapshots newer than {snapshot}")
        }
        FaultKind::NotInheritable { property, dataset } => {
            format!("`poolwright dataset set {property}=none {dataset}` clears it")
        }
        FaultKind::ScrubRunning => "wait for its end with -w, or stop it with -s".to_owned(),
        FaultKind::ChangedFile { pool, file } => changed_file(pool, file),
        FaultKind::UnenforcedAcls { dataset } => {
            format!("-o ignore-acls mounts {dataset} read-only, with modes and without ACLs")
        }
        FaultKind::HiddenFiles => "name an empty directory, or mount over it with -O".to_owned(),
        FaultKind::MountedOver => "unmount that first, or mount over it with -O".to_owned(),
        FaultKind::WorkingDirectory => {
            "change to another directory first, or mount over it with -O".to_owned()
        }
        FaultKind::PartlyUnmounted => "mount these again with `poolwright mount DATASET DIR`".to_owned(),
        FaultKind::NotExported => {
            "make sure that no virtual machine and no other host has the pool open, then use --force"
                .to_owned()
        }
        FaultKind::UnknownPool { pool } => {
            format!("name its files with --pool-file, or run `poolwright pool import {pool} FILE…` once")
        }
        FaultKind::MissingFiles { pool, some_remain: true } => format!(
            "`poolwright pool import {pool} FILE…` with all files, where they are now; a pool with redundancy can be used without those that \
             are lost"
        ),
        FaultKind::MissingFiles { pool, some_remain: false } => format!(
            "if the files were moved, `poolwright pool import {pool} -d DIR` finds them in their new directory; if they are lost, `poolwright \
             pool export {pool}` forgets the pool"
        ),
        FaultKind::NameTaken { pool } => format!(
            "give the new pool another name, or forget the old one with `poolwright pool export {pool}`"
        ),
        FaultKind::OtherRegistered { pool } => {
            format!("forget it first with `poolwright pool export {pool}`")
        }
        FaultKind::MountedPool { pool } => format!("`poolwright pool destroy -f {pool}` unmounts it first"),
        FaultKind::DestroyedPool { file } => {
            format!("`poolwright pool import -D {}` recovers it", quoted(file))
        }
        _ => return None,
    })
}

/// How to keep the data of a file that has changed while its pool was open.
fn changed_file(pool: &str, file: &FileFault) -> String {
    let (path, content, pid) = (quoted(&file.path), quoted(&file.content), file.owner());
    if file.moved_to.is_some() {
        return "move it back, or import the pool from there next time".to_owned();
    }
    if !file.lost {
        return format!(
            "before the next mount, import the pool from the remaining files: `poolwright pool import {pool} FILE…`"
        );
    }
    match file.change {
        FileChange::Truncated => {
            format!("end process {pid} with `kill {pid}` and restore the file from a backup")
        }
        FileChange::Replaced => {
            let saved = format!("{}.saved", file.path.display());
            format!(
                "save it with `cp --sparse=always {content} {}`, end the process with `kill {pid}`, then import the pool \
                 with the saved file in place of {path}: `poolwright pool import {pool} FILE…`",
                quoted(&saved)
            )
        }
        _ => format!(
            "save it with `cp --sparse=always {content} {path}`, end the process with `kill {pid}`, then mount again"
        ),
    }
}

//! Node IDs: identify an object in a tree to the kernel.
//!
//! In the dataset itself, an ID is the object's number, except for the root directory: FUSE requires 1 (object 1 is the
//! master node and never a file). In a snapshot, the bits from 48 up hold the number of the open snapshot. The two
//! directories of `.zfs` have the numbers that the ZFS kernel module gives them.

use crate::proto::wire::ROOT_ID;

const TREE_SHIFT: u32 = 48;
const OBJECT_MASK: u64 = (1 << TREE_SHIFT) - 1;

/// Node ID and inode number of `.zfs`.
pub(crate) const CONTROL_ID: u64 = 0x0000_ffff_ffff_ffff;
/// Node ID and inode number of `.zfs/snapshot`.
pub(crate) const SNAPSHOTS_ID: u64 = 0x0000_ffff_ffff_fffd;

/// Number of the dataset's own tree; open snapshots are numbered from 1.
pub(crate) const HEAD: u16 = 0;

/// The meaning of a node ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeId {
    /// An object of a tree.
    Object {
        /// [`HEAD`] or an open snapshot.
        tree: u16,
        /// Its number.
        object: u64,
    },
    /// `.zfs`.
    Control,
    /// `.zfs/snapshot`.
    Snapshots,
}

impl NodeId {
    /// Decodes a node ID; `root` is the number of the dataset's root directory.
    pub(crate) fn of(nodeid: u64, root: u64) -> NodeId {
        match nodeid {
            ROOT_ID => NodeId::Object { tree: HEAD, object: root },
            CONTROL_ID => NodeId::Control,
            SNAPSHOTS_ID => NodeId::Snapshots,
            _ => NodeId::Object { tree: (nodeid >> TREE_SHIFT) as u16, object: nodeid & OBJECT_MASK },
        }
    }
}

/// The node ID of an object; `root` is the number of the dataset's root directory.
pub(crate) fn id(tree: u16, object: u64, root: u64) -> u64 {
    if tree == HEAD && object == root { ROOT_ID } else { inode(tree, object) }
}

/// The inode number that programs see.
pub(crate) fn inode(tree: u16, object: u64) -> u64 {
    u64::from(tree) << TREE_SHIFT | object
}

/// The tree of a node ID.
pub(crate) fn tree(nodeid: u64) -> u16 {
    (nodeid >> TREE_SHIFT) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back() {
        for (tree, object) in [(HEAD, 34), (HEAD, 2), (1, 34), (7, 1 << 40)] {
            let nodeid = id(tree, object, 34);
            assert_eq!(NodeId::of(nodeid, 34), NodeId::Object { tree, object });
        }
        assert_eq!(id(HEAD, 34, 34), ROOT_ID);
        assert_ne!(id(1, 34, 34), ROOT_ID);
        assert_eq!(NodeId::of(CONTROL_ID, 34), NodeId::Control);
        assert_eq!((tree(CONTROL_ID), tree(SNAPSHOTS_ID)), (HEAD, HEAD));
    }
}

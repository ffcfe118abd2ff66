//! Rewriting the files of a dataset, so that they take its present record size, compression and checksum.
//!
//! A file keeps the block size with which it was first written, and its blocks keep their codec. So each file is copied to a
//! new file in the same dataset by reading and writing (`copy_file_range` and `FICLONE` would share the old blocks), and the
//! copy is renamed over the file.
//!
//! 1. [`scan`](FileScan::of) lists the files.
//! 2. [`copies`](Copies) copies each file into a hidden directory of the dataset, and updates the copies. The database may run at the same
//!    time.
//! 3. While the database is stopped, the copies are updated once more, compared, and
//!    [committed](Copies::commit): renamed over the files.
//!
//! [`FileIdentity`] describes the state of the file at the time of the copy. It includes the change time, which no program can set, so a
//! file whose identity is unchanged has not been written to since.

pub mod attributes;
mod compare;
mod copies;
mod copy;
pub mod directories;
mod entry;
mod hidden_dir;
mod rate;
mod records;
mod scan;
mod tree;

pub use compare::{Buffers, difference as first_difference};
pub use copies::Copies;
pub use copy::{Proceed, copy as copy_file, verify as compare_file};
pub use entry::{EntryAt, make_trusted, open_trusted, parent_of};
pub use hidden_dir::HiddenDir;
pub use rate::Rate;
pub use records::{CopyRecord, CopyRecords};
pub use scan::{DirectoryEntry, FileEntry, FileIdentity, FileScan};
pub use tree::{CopiedSnapshot, TreeContents, TreeCopier, copy_directory_attributes};

#[cfg(test)]
mod tests;

//! Derives the role of a file that no layout covers from its use.

use super::Role;

/// The use of one file during a recording, computed by [`crate::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Read operations and page faults whose pages were not in the page cache.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Synchronous writes and sync calls.
    pub syncs: u64,
    /// Share of writes that began at the end of the file, as far as it was known.
    pub appended: f64,
    /// Share of writes that began where the same thread's previous write ended, or that of any thread.
    pub sequential_writes: f64,
    /// Share of reads that began where the same thread's previous read ended, or that of any thread.
    pub sequential_reads: f64,
    /// Bytes read per distinct byte read.
    pub reread: f64,
    /// Bytes written per distinct byte written.
    pub overwrite: f64,
    /// Whether a program mapped the file or had page faults in it.
    pub mapped: bool,
    /// Whether the file was created during the recording.
    pub created: bool,
    /// Whether the file was removed during the recording.
    pub unlinked: bool,
    /// Length of the file in bytes; 0 if unknown.
    pub size: u64,
}

/// A file with fewer bytes moved than this has too little use to derive a role.
const TOO_LITTLE: u64 = 64 * 1024;
/// The minimum share of sequential reads in a file that is read once in smaller requests. Only its first read is not sequential.
const ENTIRELY: f64 = 0.995;
/// The minimum share of sequential writes in a log. It is below 1 because threads may write at the same time.
const MOSTLY: f64 = 0.8;
/// The maximum number of writes per sync in a log that is overwritten in a cycle.
const WRITES_PER_SYNC: u64 = 64;
/// The minimum mean write or read, and the minimum size, in bytes, of a file that is copied.
const LARGE: u64 = 16 * 1024;
const COPIED: u64 = 4 << 20;
/// Bytes moved per distinct byte, below which a file was read or written once.
const ONCE: f64 = 1.1;

/// Returns the role that matches the file's use:
///
/// - created and removed during the recording, and never synced: temp;
/// - mapped, and synced or rewritten in place, like the pages of LMDB and bbolt: data;
/// - appended or written sequentially, synced, rarely read: wal;
/// - created during the recording, written once sequentially in large writes, and not read: archive;
/// - written sequentially and never synced, or hardly used: other (text logs);
/// - only read, once: sequentially in large reads, or completely from its beginning to its end: import;
/// - otherwise, if read or rewritten: data.
pub fn by_use(usage: &Usage) -> Role {
    if usage.created && usage.unlinked && usage.syncs == 0 {
        return Role::Temp;
    }
    // What a program writes through a map is not visible, only that it syncs it. The map may be older than the recording.
    let synced_map = usage.syncs > 0 && usage.mapped || usage.syncs > 1 && usage.writes == 0;
    if synced_map {
        return Role::Data;
    }
    if usage.read_bytes + usage.write_bytes < TOO_LITTLE {
        return Role::Other;
    }
    if usage.writes == 0 {
        let once = usage.reread < ONCE && usage.read_bytes >= COPIED;
        let in_large = usage.sequential_reads >= MOSTLY && usage.read_bytes / usage.reads.max(1) >= LARGE;
        // A part of a table is also scanned sequentially, in its pages.
        let whole = usage.size > 0 && usage.read_bytes >= usage.size && usage.sequential_reads >= ENTIRELY;
        return if once && (in_large || whole && !usage.mapped) { Role::Import } else { Role::Data };
    }
    let one_way = usage.appended.max(usage.sequential_writes) >= MOSTLY;
    let hardly_read = usage.read_bytes <= usage.write_bytes / 10;
    let large = usage.write_bytes >= COPIED && usage.write_bytes / usage.writes >= LARGE;
    let unread = usage.reads == 0 && usage.overwrite < ONCE;
    if usage.created && one_way && unread && large && usage.syncs <= 1 {
        return Role::Archive;
    }
    if one_way && hardly_read && usage.syncs > 0 {
        // Merged tables are also written sequentially, but synced only once, when complete.
        let often = usage.writes / usage.syncs.max(1) <= WRITES_PER_SYNC && usage.syncs > 1;
        return if often { Role::Wal } else { Role::Data };
    }
    let rewritten = usage.overwrite >= 1.5 || (usage.mapped && usage.appended < MOSTLY);
    if one_way && hardly_read && !rewritten { Role::Other } else { Role::Data }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn each_kind_of_use_has_its_role() {
        let log = Usage {
            writes: 10_000,
            write_bytes: 40 * MIB,
            syncs: 5_000,
            appended: 0.99,
            sequential_writes: 0.6,
            overwrite: 1.1,
            ..Usage::default()
        };
        assert_eq!(by_use(&log), Role::Wal);
        let cycled = Usage { appended: 0.0, sequential_writes: 0.97, overwrite: 4.0, ..log };
        assert_eq!(by_use(&cycled), Role::Wal);
        let text_log = Usage { syncs: 0, ..log };
        assert_eq!(by_use(&text_log), Role::Other);
        let merged = Usage { syncs: 1, ..log };
        assert_eq!(by_use(&merged), Role::Data);
        let table = Usage {
            reads: 1000,
            read_bytes: 16 * MIB,
            writes: 1000,
            write_bytes: 16 * MIB,
            syncs: 50,
            overwrite: 2.0,
            ..Usage::default()
        };
        assert_eq!(by_use(&table), Role::Data);
        let spill = Usage { created: true, unlinked: true, syncs: 0, ..table };
        assert_eq!(by_use(&spill), Role::Temp);
        assert_eq!(
            by_use(&Usage { created: true, unlinked: true, ..log }),
            Role::Wal,
            "a log that was removed"
        );
        assert_eq!(by_use(&Usage { reads: 1, read_bytes: 100, ..Usage::default() }), Role::Other);
        let mapped_log = Usage { mapped: true, appended: 0.2, sequential_writes: 0.9, ..log };
        assert_eq!(by_use(&mapped_log), Role::Data, "pages written in order, as bbolt does");
        assert_eq!(by_use(&Usage { syncs: 0, ..mapped_log }), Role::Data, "the same without syncs");
        assert_eq!(
            by_use(&Usage { mapped: true, ..text_log }),
            Role::Other,
            "a text log that a program mapped"
        );
        let through_a_map =
            Usage { mapped: true, reads: 8, read_bytes: 8 * 4096, syncs: 50, ..Usage::default() };
        assert_eq!(by_use(&through_a_map), Role::Data);
        let older_map = Usage { syncs: 50, ..Usage::default() };
        assert_eq!(by_use(&older_map), Role::Data, "mapped before the recording");
        assert_eq!(by_use(&Usage { syncs: 0, ..through_a_map }), Role::Other, "a lock file");
        let scanned = Usage {
            reads: 144,
            read_bytes: 9 * MIB,
            sequential_reads: 0.99,
            reread: 1.0,
            ..Usage::default()
        };
        assert_eq!(by_use(&scanned), Role::Import);
        assert_eq!(by_use(&Usage { reread: 2.0, ..scanned }), Role::Data, "read twice");
        assert_eq!(by_use(&Usage { sequential_reads: 0.1, ..scanned }), Role::Data, "read here and there");
        let small = Usage { reads: 2304, ..scanned };
        assert_eq!(by_use(&small), Role::Data, "the pages of a table");
        let whole = Usage { sequential_reads: 0.999, size: 9 * MIB, ..small };
        assert_eq!(by_use(&whole), Role::Import, "the calls of an LDIF's importer");
        assert_eq!(by_use(&Usage { size: 90 * MIB, ..whole }), Role::Data, "a part of a table is scanned");
        assert_eq!(by_use(&Usage { size: 0, ..whole }), Role::Data, "of unknown length");
        assert_eq!(by_use(&Usage { mapped: true, ..whole }), Role::Data, "a cursor through a mapping");
        assert_eq!(
            by_use(&Usage { sequential_reads: 0.99, ..whole }),
            Role::Data,
            "nearly in the order of its pages"
        );
        let copied = Usage {
            writes: 144,
            write_bytes: 9 * MIB,
            appended: 1.0,
            overwrite: 1.0,
            created: true,
            ..Usage::default()
        };
        assert_eq!(by_use(&copied), Role::Archive);
        assert_eq!(by_use(&Usage { reads: 10, ..copied }), Role::Other, "read again");
        assert_eq!(by_use(&Usage { created: false, ..copied }), Role::Other, "existed before");
    }
}

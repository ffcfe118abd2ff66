//! The publications on which rules are based.

use poolwright_tune::advice::Publication;

const fn publication(title: &'static str, url: &'static str) -> Publication {
    Publication { title, url }
}

pub const SYNC: Publication = publication(
    "zfsprops(7), sync",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#sync",
);
pub const CHECKSUM: Publication = publication(
    "zfsprops(7), checksum",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#checksum",
);
pub const REDUNDANT_METADATA: Publication = publication(
    "zfsprops(7), redundant_metadata",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#redundant_metadata",
);
pub const RECORDSIZE: Publication = publication(
    "zfsprops(7), recordsize",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#recordsize",
);
pub const RECORDSIZE_GUIDE: Publication = publication(
    "OpenZFS documentation, Workload Tuning: Dataset recordsize",
    "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#dataset-recordsize",
);
pub const INNODB_NEIGHBORS: Publication = publication(
    "MariaDB documentation, innodb_flush_neighbors",
    "https://mariadb.com/kb/en/innodb-system-variables/#innodb_flush_neighbors",
);
pub const COMPRESSION: Publication = publication(
    "OpenZFS documentation, Compression",
    "https://openzfs.github.io/openzfs-docs/Basic%20Concepts/Data%20Storage/Compression.html",
);
pub const PRIMARYCACHE: Publication = publication(
    "zfsprops(7), primarycache",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#primarycache",
);
pub const LOGBIAS: Publication = publication(
    "zfsprops(7), logbias",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#logbias",
);
pub const RELATIME: Publication = publication(
    "zfsprops(7), relatime",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#relatime",
);
pub const XATTR: Publication = publication(
    "zfsprops(7), xattr",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#xattr",
);
pub const DEDUP: Publication = publication(
    "OpenZFS documentation, Deduplication",
    "https://openzfs.github.io/openzfs-docs/Basic%20Concepts/Data%20Storage/Deduplication.html",
);
pub const SPECIAL_SMALL_BLOCKS: Publication = publication(
    "zfsprops(7), special_small_blocks",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#special_small_blocks",
);
pub const DIRECT: Publication = publication(
    "zfsprops(7), direct",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#direct",
);
pub const SPECIAL: Publication = publication(
    "OpenZFS documentation, Special vdev",
    "https://openzfs.github.io/openzfs-docs/Basic%20Concepts/Pool%20Structure/Special%20vdev.html",
);
pub const POOL_STATE: Publication = publication(
    "zpoolconcepts(7), Device Failure and Recovery",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zpoolconcepts.7.html#Device_Failure_and_Recovery",
);
pub const PARAMETERS: Publication =
    publication("zfs(4)", "https://openzfs.github.io/openzfs-docs/man/master/4/zfs.4.html");
pub const SECTORS: Publication = publication(
    "OpenZFS documentation, Workload Tuning: Alignment Shift",
    "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#alignment-shift-ashift",
);
pub const CAPACITY: Publication = publication(
    "Oracle Solaris documentation, Recommended Storage Pool Practices",
    "https://docs.oracle.com/cd/E53394_01/html/E54801/zfspools-4.html",
);
pub const RELEASES: Publication =
    publication("OpenZFS, release notes", "https://github.com/openzfs/zfs/releases");
pub const FREE_SPACE: Publication = publication(
    "OpenZFS documentation, Workload Tuning: Free Space",
    "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#free-space",
);
pub const RAIDZ: Publication = publication(
    "OpenZFS documentation, RAIDZ",
    "https://openzfs.github.io/openzfs-docs/Basic%20Concepts/Pool%20Structure/RAIDZ.html",
);
pub const SWAP: Publication = publication(
    "OpenZFS FAQ, Using a zvol for a swap device on Linux",
    "https://openzfs.github.io/openzfs-docs/Project%20and%20Community/FAQ.html#using-a-zvol-for-a-swap-device-on-linux",
);
pub const TORN: Publication = publication(
    "OpenZFS issue 17879; Poolwright's crash tests (docs/mount-tests.md)",
    "https://github.com/openzfs/zfs/issues/17879",
);
pub const POSTGRESQL_WAL: Publication = publication(
    "PostgreSQL documentation, Write Ahead Log",
    "https://www.postgresql.org/docs/current/runtime-config-wal.html",
);
pub const INNODB_FLUSH: Publication =
    publication("MariaDB pull request 3091 (MDEV-33545)", "https://github.com/MariaDB/server/pull/3091");
pub const INNODB_COMMIT: Publication = publication(
    "MariaDB documentation, innodb_flush_log_at_trx_commit",
    "https://mariadb.com/kb/en/innodb-system-variables/#innodb_flush_log_at_trx_commit",
);
pub const QUOTA: Publication = publication(
    "zfsprops(7), quota",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#quota",
);
pub const SNAPSHOTS: Publication = publication(
    "zfsprops(7), usedbysnapshots",
    "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html#usedbysnapshots",
);

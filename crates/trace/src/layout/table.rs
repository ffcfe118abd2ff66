//! The table of layouts. To support another database, add an entry.
//!
//! Patterns match the end of a path, absolute or relative; see `glob.rs` for the wildcards. A directory with a common
//! name (`tmp`, `wal`, `base`) must not claim everything below it, because a database may be in `/tmp`. The order
//! matters: within a layout, the first matching pattern applies; among layouts, the first whose markers match.

use super::Role::{Backup, Binlog, Data, Index, Other, Temp, Wal};
use super::{Layout, page};

/// The fields of a layout without pages.
const NO_PAGES: Layout = Layout {
    name: "",
    title: "",
    markers: &[],
    files: &[],
    default_page: None,
    needs_header: false,
    page_header: None,
};

/// Every known layout.
pub static LAYOUTS: &[Layout] = &[
    Layout {
        name: "mariadb",
        title: "MariaDB / MySQL",
        markers: &[&["ibdata1"], &["mysql.ibd"], &["aria_log_control", "mysql"]],
        files: &[
            ("\\#sql-temptable*", Temp),
            ("\\#sql_*", Temp),
            ("\\#innodb_temp/**", Temp),
            ("ibtmp#", Temp),
            ("\\#innodb_redo/**", Wal),
            ("\\#ib_redo#*", Wal),
            ("ib_logfile*", Wal),
            ("aria_log.#", Wal),
            ("tc.log", Wal),
            // Double-write buffers are appended, synced and read only after a crash.
            ("\\#ib_*.dblwr", Wal),
            ("\\#rocksdb/*.log", Wal),
            ("\\#rocksdb/*.sst", Data),
            ("*-relay-bin.#", Binlog),
            ("*-bin.#", Binlog),
            ("binlog.#", Binlog),
            ("*.ibd", Data),
            ("ibdata#", Data),
            ("undo#", Data),
            ("undo_#", Data),
            ("*.ibu", Data),
            ("*.MAD", Data),
            ("*.MYD", Data),
            ("*.MAI", Index),
            ("*.MYI", Index),
            ("xtrabackup_*", Backup),
            ("mariadb_backup_*", Backup),
            ("*.frm", Other),
            ("ib_buffer_pool", Other),
            ("aria_log_control", Other),
        ],
        default_page: Some(16384),
        page_header: Some(&page::INNODB),
        ..NO_PAGES
    },
    Layout {
        name: "postgresql",
        title: "PostgreSQL",
        markers: &[&["PG_VERSION", "base", "global/pg_control"]],
        files: &[
            ("pgsql_tmp/**", Temp),
            ("base/#/t#_#*", Temp),
            ("pg_wal/archive_status/**", Other),
            ("pg_wal/**", Wal),
            ("pg_xlog/**", Wal),
            // Segments of a log directory elsewhere (`initdb -X`): timeline, log and segment, 24 hexadecimal digits.
            ("0000????????????????????", Wal),
            ("global/pg_control", Other),
            ("base/#/pg_*", Other),
            ("base/#/#*", Data),
            ("global/#*", Data),
            ("pg_tblspc/**", Data),
            ("PG_*/#/#*", Data),
            ("pg_xact/*", Data),
            ("pg_clog/*", Data),
            ("pg_multixact/**", Data),
            ("pg_subtrans/*", Data),
            ("pg_commit_ts/*", Data),
            ("pg_serial/*", Data),
            ("pg_logical/**", Other),
            ("pg_replslot/**", Other),
            ("pg_stat*/**", Other),
            ("postmaster.*", Other),
        ],
        default_page: Some(8192),
        page_header: Some(&page::POSTGRESQL),
        ..NO_PAGES
    },
    Layout {
        name: "orientdb",
        title: "OrientDB",
        markers: &[&["database.ocf"], &["*.pcl", "*.cpm"]],
        files: &[
            ("luceneIndexes/**", Index),
            ("*.wal", Wal),
            ("*.wmr", Wal),
            ("*.dwl", Wal),
            ("*.pcl", Data),
            ("*.cpm", Data),
            ("*.grb", Data),
            ("*.sbc", Data),
            ("*.irs", Index),
            ("*.sbt", Index),
            ("*.cbt", Index),
            ("*.mbt", Index),
            ("*.nbt", Index),
            ("*.hib", Index),
            ("*.him", Index),
            ("*.hit", Index),
            ("*.hnb", Index),
            ("*.fl", Index),
            ("*.zip", Backup),
            ("*.ocf", Other),
            ("name_id_map*.cm", Other),
        ],
        default_page: Some(65536), // storage.diskCache.pageSize
        ..NO_PAGES
    },
    Layout {
        name: "opendj",
        title: "OpenDJ / ForgeRock DS",
        markers: &[&["config/config.ldif", "db"]],
        files: &[
            ("changelogDb/**", Binlog),
            ("import-tmp/**", Temp),
            ("bak/backup-*", Backup),
            ("bak/*/backup-*", Backup),
            ("*.jdb", Data),
            ("je.*", Other),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "berkeleydb-je",
        title: "Berkeley DB Java Edition",
        markers: &[&["#*.jdb"]],
        // The log is the database: records stay in it until the cleaner moves them to its end.
        files: &[("*.jdb", Data), ("je.*", Other)],
        ..NO_PAGES
    },
    Layout {
        name: "openldap-bdb",
        title: "OpenLDAP (bdb, hdb)",
        markers: &[&["id2entry.bdb"], &["__db.#", "log.#"]],
        files: &[
            ("id2entry.bdb", Data),
            ("*.bdb", Index),
            ("log.#", Wal),
            ("__db.*", Other),
            ("alock", Other),
        ],
        default_page: Some(4096),
        page_header: Some(&page::BERKELEY_DB),
        ..NO_PAGES
    },
    Layout {
        name: "lmdb",
        title: "LMDB (also OpenLDAP mdb)",
        markers: &[&["data.mdb"]],
        files: &[("data.mdb", Data), ("lock.mdb", Other), ("*.mdb", Data), ("*.mdb-lock", Other)],
        default_page: Some(4096),
        page_header: Some(&page::LMDB),
        ..NO_PAGES
    },
    Layout {
        name: "prometheus",
        title: "Prometheus",
        markers: &[&["wal", "chunks_head"]],
        files: &[
            ("wal/#", Wal),
            ("wal/checkpoint.#/#", Wal),
            ("wbl/#", Wal),
            ("chunks_head/#", Data),
            // Blocks are named by ULIDs, which begin with 01 until the year 3084.
            ("01*.tmp-for-creation/**", Temp),
            ("01*/chunks/#", Data),
            ("01*/index", Index),
            ("01*/*", Other),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "victoriametrics",
        title: "VictoriaMetrics",
        markers: &[&["data/small", "data/big"]],
        files: &[
            ("data/*/snapshots/**", Backup),
            ("indexdb/snapshots/**", Backup),
            ("data/*/tmp/**", Temp),
            ("data/indexdb/**", Index),
            ("indexdb/*/**", Index),
            ("data/small/**", Data),
            ("data/big/**", Data),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "rocksdb",
        title: "LevelDB / RocksDB",
        markers: &[&["CURRENT", "MANIFEST-#"]],
        files: &[
            ("*.dbtmp", Temp),
            ("archive/#*.log", Wal),
            ("#*.log", Wal),
            ("#*.sst", Data),
            ("#*.ldb", Data),
            ("#*.blob", Data),
            ("MANIFEST-#", Other),
            ("OPTIONS-#", Other),
            ("CURRENT", Other),
            ("LOG*", Other),
        ],
        default_page: Some(4096), // block_size of both
        ..NO_PAGES
    },
    Layout {
        name: "clickhouse",
        title: "ClickHouse",
        markers: &[&["metadata", "store/???/*-*-*-*-*"], &["data", "metadata", "format_schemas"]],
        files: &[
            ("tmp/tmp*", Temp),
            ("changelog_#_#.bin*", Wal), // of ClickHouse Keeper
            ("shadow/*/data/**", Backup),
            ("shadow/*/store/**", Backup),
            // A part: partition, first block, last block, level. While it is written, `tmp_insert_` or the like precedes.
            ("*_#_#_#/skp_idx*", Index),
            ("*_#_#_#/*idx", Index),
            ("*_#_#_#/*mrk*", Index),
            ("*_#_#_#/*.bin", Data),
            ("*.proj/*idx", Index),
            ("*.proj/*mrk*", Index),
            ("*.proj/*.bin", Data),
            // Tables without parts (`Log`, `StripeLog`, `TinyLog`).
            ("data/*/*/*.mrk", Index),
            ("data/*/*/*.bin", Data),
            ("store/???/*/*.mrk", Index),
            ("store/???/*/*.bin", Data),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "influxdb",
        title: "InfluxDB 1, 2",
        markers: &[&["data/*/_series"], &["*/_series"], &["influxd.bolt"]],
        files: &[
            ("_#.wal", Wal),
            ("*.tsm", Data),
            ("*.tsm.tmp", Data),
            ("*.tombstone", Data),
            // The index of a shard (`.tsi`), its log (`.tsl`), and the keys of all series.
            ("index/#/*.tsi", Index),
            ("index/#/*.tsl", Index),
            ("_series/**", Index),
            ("fields.idx*", Index),
            ("influxd.bolt", Data),
            ("influxd.sqlite", Data),
            ("meta/meta.db", Other),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "etcd",
        title: "etcd",
        markers: &[&["member/snap/db"], &["snap/db", "wal"]],
        files: &[
            ("????????????????-????????????????.wal", Wal),
            ("member/wal/#.tmp", Wal), // the next segment, preallocated
            ("snap/db", Data),
            ("snap/db.tmp*", Data), // `etcdctl defrag` renames it to `db`
            ("snap/*.snap.db", Data),
            ("snap/*.snap", Other), // the members and the position in the log: some KiB
        ],
        default_page: Some(4096),
        page_header: Some(&page::ETCD),
        ..NO_PAGES
    },
    Layout {
        name: "wiredtiger",
        title: "MongoDB / WiredTiger",
        markers: &[&["WiredTiger.wt"]],
        files: &[
            ("_tmp/*", Temp),
            ("WiredTigerLAS.wt", Temp), // cache overflow, emptied at start
            ("WiredTigerLog.#", Wal),
            ("WiredTigerPreplog.#", Wal),
            ("WiredTigerTmplog.#", Wal),
            ("index-*.wt", Index),
            ("index/*.wt", Index), // `directoryForIndexes`
            ("*.wti", Index),
            ("*.wt", Data),
            ("*.lsm", Data),
            ("diagnostic.data/*", Other),
            ("WiredTiger*", Other),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "redis",
        title: "Redis / Valkey",
        markers: &[&["appendonlydir"], &["appendonly.aof"], &["dump.rdb"]],
        files: &[
            // The whole database, written at once. Without the log it is the only copy on disk, so it is not a backup.
            ("*.rdb", Data),
            ("*.base.aof", Data),
            ("temp-rewriteaof-*.aof", Data), // becomes the base
            ("*.aof", Wal),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "kafka",
        title: "Kafka",
        markers: &[&["recovery-point-offset-checkpoint"], &["*-#/leader-epoch-checkpoint"]],
        files: &[
            // Segments are named after their first offset, with 20 digits. The log is the database: consumers read it.
            ("0000????????????????.log*", Data),
            ("0000????????????????.index*", Index),
            ("0000????????????????.timeindex*", Index),
            ("0000????????????????.txnindex*", Index),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "elasticsearch",
        title: "Elasticsearch / OpenSearch",
        markers: &[&["nodes/#/indices"], &["indices", "node.lock"]],
        files: &[
            ("indices/*/#/translog/*", Wal),
            ("indices/*/#/index/_*.tmp", Temp),
            ("indices/*/#/index/*", Index),
            ("_state/*", Index), // the state of the cluster, in another Lucene index
        ],
        ..NO_PAGES
    },
    Layout {
        name: "lucene",
        title: "Lucene",
        markers: &[&["segments_*", "_*"], &["index/segments_*"]],
        files: &[
            ("translog*.tlog", Wal),
            ("_*.tmp", Temp),
            ("segments_*", Index),
            ("pending_segments_*", Index),
            ("_*.*", Index),
            ("write.lock", Other),
        ],
        ..NO_PAGES
    },
    Layout {
        name: "sqlite",
        title: "SQLite",
        markers: &[&["*.sqlite"], &["*.sqlite3"], &["*.db3"], &["*.db-wal"], &["*.db-journal"], &["*.db"]],
        files: &[
            ("*-wal", Wal),
            ("*-journal", Wal),
            ("*-shm", Other),
            ("etilqs_*", Temp),
            ("*.sqlite", Data),
            ("*.sqlite3", Data),
            ("*.db", Data),
            ("*.db3", Data),
        ],
        default_page: Some(4096),
        needs_header: true,
        page_header: Some(&page::SQLITE),
    },
    Layout {
        name: "bbolt",
        title: "bbolt (Bolt)",
        markers: &[&["*.db"], &["*.bolt"], &["*.boltdb"], &["*.bbolt"]],
        files: &[("*.db", Data), ("*.bolt", Data), ("*.boltdb", Data), ("*.bbolt", Data)],
        default_page: Some(4096),
        needs_header: true,
        page_header: Some(&page::BBOLT),
    },
    Layout {
        name: "duckdb",
        title: "DuckDB",
        markers: &[&["*.duckdb"], &["*.ddb"], &["*.db"]],
        files: &[
            ("*.wal", Wal),
            ("*.tmp/duckdb_temp_*", Temp),
            ("*.duckdb", Data),
            ("*.ddb", Data),
            ("*.db", Data),
        ],
        default_page: Some(262_144),
        needs_header: true,
        page_header: Some(&page::DUCKDB),
    },
];

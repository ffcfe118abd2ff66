//! Layouts of databases made by the real programs, if they are installed, and of synthetic trees.

use std::path::Path;
use std::process::Command;

use poolwright_trace::layout::{LAYOUTS, Layout, PageSource, Role, detect, detect_paths, locate};

fn touch(dir: &Path, names: &[&str]) {
    for name in names {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"").unwrap();
    }
}

/// A layout, files of a database with this layout, and the roles they must get.
const TREES: &[(&str, &[(&str, Role)])] = &[
    (
        "mariadb",
        &[
            ("ibdata1", Role::Data),
            ("ib_logfile0", Role::Wal),
            ("#innodb_redo/#ib_redo12", Role::Wal),
            ("#ib_16384_0.dblwr", Role::Wal),
            ("undo001", Role::Data),
            ("undo_002", Role::Data),
            ("ibtmp1", Role::Temp),
            ("#innodb_temp/temp_1.ibt", Role::Temp),
            ("shop/orders.ibd", Role::Data),
            ("shop/orders#P#p0.ibd", Role::Data),
            ("shop/#sql-temptable-5b9-4-1.MAI", Role::Temp),
            ("mysql/db.MAD", Role::Data),
            ("mysql/db.MAI", Role::Index),
            ("aria_log.00000001", Role::Wal),
            ("aria_log_control", Role::Other),
            ("mysqld-bin.000007", Role::Binlog),
            ("binlog.000001", Role::Binlog),
            ("binlog.index", Role::Other),
            ("ib_buffer_pool", Role::Other),
        ],
    ),
    (
        "postgresql",
        &[
            ("PG_VERSION", Role::Other),
            ("global/pg_control", Role::Other),
            ("global/1262", Role::Data),
            ("base/5/16384", Role::Data),
            ("base/5/16384_fsm", Role::Data),
            ("base/5/t3_16390", Role::Temp),
            ("base/pgsql_tmp/pgsql_tmp123.0", Role::Temp),
            ("pg_wal/000000010000000000000001", Role::Wal),
            ("pg_wal/archive_status/000000010000000000000001.done", Role::Other),
            ("pg_xact/0000", Role::Data),
            ("pg_tblspc/16400/PG_15_202209061/5/16401", Role::Data),
            ("pg_tblspc/16400/PG_15_202209061/pgsql_tmp/pgsql_tmp9.0", Role::Temp),
        ],
    ),
    (
        "orientdb",
        &[
            ("database.ocf", Role::Other),
            ("v.pcl", Role::Data),
            ("v.cpm", Role::Data),
            ("demo.3.wal", Role::Wal),
            ("demo.2.dwl", Role::Wal),
            ("luceneIndexes/V.name/_0.cfs", Role::Index),
        ],
    ),
    (
        "opendj",
        &[
            ("config/config.ldif", Role::Other),
            ("db/userRoot/00000000.jdb", Role::Data),
            ("db/userRoot/je.lck", Role::Other),
            ("changelogDb/1.dom/1.server/head.log", Role::Binlog),
        ],
    ),
    ("berkeleydb-je", &[("00000000.jdb", Role::Data), ("je.lck", Role::Other)]),
    ("openldap-bdb", &[("id2entry.bdb", Role::Data), ("cn.bdb", Role::Index), ("log.0000000001", Role::Wal)]),
    ("lmdb", &[("data.mdb", Role::Data), ("lock.mdb", Role::Other)]),
    (
        "prometheus",
        &[
            ("wal/00000003", Role::Wal),
            ("chunks_head/000001", Role::Data),
            ("01BKGV7JBM69T2G1BGBGM6KB12/chunks/000001", Role::Data),
            ("01BKGV7JBM69T2G1BGBGM6KB12/index", Role::Index),
        ],
    ),
    (
        "victoriametrics",
        &[
            ("data/small/2024_01/1_1_1/values.bin", Role::Data),
            ("data/big/2024_01/1_1_1/timestamps.bin", Role::Data),
            ("indexdb/17A/1_1_1/items.bin", Role::Index),
            ("cache/metricName/metadata.bin", Role::Other),
        ],
    ),
    (
        "rocksdb",
        &[
            ("CURRENT", Role::Other),
            ("MANIFEST-000004", Role::Other),
            ("000005.sst", Role::Data),
            ("000007.ldb", Role::Data),
            ("000003.log", Role::Wal),
            ("LOG", Role::Other),
        ],
    ),
    (
        "clickhouse",
        &[
            ("metadata/d.sql", Role::Other),
            ("store/3ac/3ac0b0a1-5f3c-4f0e-9c5e-2f6f0f3f7a11/all_1_1_0/a.bin", Role::Data),
            ("store/3ac/3ac0b0a1-5f3c-4f0e-9c5e-2f6f0f3f7a11/all_1_1_0_2/a.cmrk2", Role::Index),
            ("store/3ac/3ac0b0a1-5f3c-4f0e-9c5e-2f6f0f3f7a11/all_1_1_0/primary.cidx", Role::Index),
            ("store/3ac/3ac0b0a1-5f3c-4f0e-9c5e-2f6f0f3f7a11/all_1_1_0/skp_idx.packed", Role::Index),
            ("store/3ac/3ac0b0a1-5f3c-4f0e-9c5e-2f6f0f3f7a11/all_1_1_0/checksums.txt", Role::Other),
            ("store/3ac/3ac0b0a1-5f3c-4f0e-9c5e-2f6f0f3f7a11/tmp_insert_all_2_2_0/data.bin", Role::Data),
            ("store/3ac/3ac0b0a1-5f3c-4f0e-9c5e-2f6f0f3f7a11/all_1_1_0/p.proj/a.bin", Role::Data),
            ("store/101/101ac0d2-0a2d-4d2b-8f0f-4f9f1f7a2b33/a.bin", Role::Data),
            ("data/default/t/20261128_20261128_1_1_0/a.mrk", Role::Index),
            ("data/default/t/20261128_20261128_1_1_0/minmax_d.idx", Role::Index),
            ("data/default/l/a.bin", Role::Data),
            ("tmp/tmp15640aaaaa", Role::Temp),
            ("coordination/log/changelog_1_100000.bin.zstd", Role::Wal),
        ],
    ),
    (
        "influxdb",
        &[
            ("data/x/_series/03/0000", Role::Index),
            ("data/x/autogen/1/000000001-000000001.tsm", Role::Data),
            ("data/x/autogen/1/index/3/L0-00000001.tsl", Role::Index),
            ("data/x/autogen/1/index/3/L1-00000001.tsi", Role::Index),
            ("data/x/autogen/1/index/3/MANIFEST", Role::Other),
            ("data/x/autogen/1/fields.idx", Role::Index),
            ("wal/x/autogen/1/_00004.wal", Role::Wal),
            ("meta/meta.db", Role::Other),
        ],
    ),
    (
        "influxdb",
        &[
            ("influxd.bolt", Role::Data),
            ("influxd.sqlite", Role::Data),
            ("engine/data/0a1b2c3d4e5f6789/_series/03/0000", Role::Index),
            ("engine/data/0a1b2c3d4e5f6789/autogen/1/000000001-000000001.tsm", Role::Data),
            ("engine/wal/0a1b2c3d4e5f6789/autogen/1/_00001.wal", Role::Wal),
        ],
    ),
    (
        "etcd",
        &[
            ("member/snap/db", Role::Data),
            ("member/snap/0000000000000002-0000000000000033.snap", Role::Other),
            ("member/snap/0000000000000033.snap.db", Role::Data),
            ("member/wal/0000000000000000-0000000000000000.wal", Role::Wal),
            ("member/wal/0.tmp", Role::Wal),
        ],
    ),
    (
        "wiredtiger",
        &[
            ("WiredTiger", Role::Other),
            ("WiredTiger.turtle", Role::Other),
            ("WiredTiger.wt", Role::Data),
            ("WiredTigerHS.wt", Role::Data),
            ("_mdb_catalog.wt", Role::Data),
            ("collection-0-601483983079373625.wt", Role::Data),
            ("index-1-601483983079373625.wt", Role::Index),
            ("shop/index/3-601483983079373625.wt", Role::Index),
            ("journal/WiredTigerLog.0000000001", Role::Wal),
            ("journal/WiredTigerPreplog.0000000002", Role::Wal),
            ("_tmp/extsort-index.3-17", Role::Temp),
            ("diagnostic.data/metrics.interim", Role::Other),
        ],
    ),
    ("wiredtiger", &[("WiredTiger.wt", Role::Data), ("WiredTigerLog.0000000001", Role::Wal)]),
    (
        "redis",
        &[
            ("dump.rdb", Role::Data),
            ("temp-15640.rdb", Role::Data),
            ("appendonlydir/appendonly.aof.2.base.rdb", Role::Data),
            ("appendonlydir/appendonly.aof.2.incr.aof", Role::Wal),
            ("appendonlydir/appendonly.aof.manifest", Role::Other),
            ("temp-rewriteaof-bg-15640.aof", Role::Data),
        ],
    ),
    (
        "kafka",
        &[
            ("recovery-point-offset-checkpoint", Role::Other),
            ("meta.properties", Role::Other),
            ("orders-0/00000000000000009548.log", Role::Data),
            ("orders-0/00000000000000009548.index", Role::Index),
            ("orders-0/00000000000000009548.timeindex", Role::Index),
            ("orders-0/00000000000000000000.log.deleted", Role::Data),
            ("orders-0/00000000000000009548.snapshot", Role::Other),
            ("orders-0/leader-epoch-checkpoint", Role::Other),
        ],
    ),
    (
        "elasticsearch",
        &[
            ("nodes/0/_state/segments_9", Role::Index),
            ("nodes/0/_state/_6.cfs", Role::Index),
            ("nodes/0/indices/udjIjVq4SHm6kH7SyW41IQ/_state/state-2.st", Role::Index),
            ("nodes/0/indices/udjIjVq4SHm6kH7SyW41IQ/0/index/segments_3", Role::Index),
            ("nodes/0/indices/udjIjVq4SHm6kH7SyW41IQ/0/index/_0.cfs", Role::Index),
            ("nodes/0/indices/udjIjVq4SHm6kH7SyW41IQ/0/index/_2_Lucene90_0.tmp", Role::Temp),
            ("nodes/0/indices/udjIjVq4SHm6kH7SyW41IQ/0/translog/translog-3.tlog", Role::Wal),
            ("nodes/0/indices/udjIjVq4SHm6kH7SyW41IQ/0/translog/translog.ckp", Role::Wal),
        ],
    ),
    (
        "elasticsearch",
        &[
            ("node.lock", Role::Other),
            ("_state/_6.cfs", Role::Index),
            ("indices/udjIjVq4SHm6kH7SyW41IQ/0/index/_0.cfs", Role::Index),
            ("indices/udjIjVq4SHm6kH7SyW41IQ/0/translog/translog-3.tlog", Role::Wal),
        ],
    ),
    ("lucene", &[("segments_2", Role::Index), ("_0.cfs", Role::Index), ("write.lock", Role::Other)]),
];

#[test]
fn every_layout_is_recognised_and_its_files_have_roles() {
    for (name, files) in TREES {
        let layout = Layout::by_name(name).unwrap();
        let dir = tempfile::tempdir().unwrap();
        touch(&dir.path().join("srv"), &files.iter().map(|(file, _)| *file).collect::<Vec<_>>());
        let found = locate(dir.path()).unwrap_or_else(|| panic!("{name} is not found"));
        assert_eq!((found.layout.name, found.root), (*name, dir.path().join("srv")));
        for (file, expected) in *files {
            for path in [Path::new(file), &Path::new("/srv/x").join(file)] {
                assert_eq!(layout.role_of(path).unwrap_or_default(), *expected, "{name}: {}", path.display());
            }
        }
        let paths: Vec<_> = files.iter().map(|(file, _)| format!("/srv/x/{file}")).collect();
        let by_paths = detect_paths(paths.iter().map(String::as_str)).unwrap().name;
        assert_eq!(by_paths, *name, "{name} by paths");
    }
    let with_header = ["sqlite", "bbolt", "duckdb"];
    let tested: Vec<_> = TREES.iter().map(|(name, _)| *name).chain(with_header).collect();
    assert!(LAYOUTS.iter().all(|layout| tested.contains(&layout.name)), "a layout without a test");
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    assert!(detect(dir.path()).is_none());
    touch(dir.path(), &["notes.txt", "Thumbs.db", "a/b/c.log"]);
    assert!(detect(dir.path()).is_none(), "a .db without SQLite's header is none");
    assert!(detect(&dir.path().join("missing")).is_none());
    assert!(detect_paths(["/etc/passwd"]).is_none());
}

#[test]
fn everyday_directories_claim_nothing() {
    let everyday =
        ["tmp", "var", "wal", "base", "data", "cache", "logs", "index", "backup", "db", "snapshots"];
    for dir in everyday {
        for name in ["f1", "notes.txt", "file.0.0", "deep/er/still"] {
            let path = format!("/{dir}/{name}");
            assert!(detect_paths([path.as_str()]).is_none(), "{path}");
            for layout in LAYOUTS {
                assert_eq!(layout.role_of(Path::new(&path)), None, "{path} as {}", layout.name);
            }
        }
    }
}

#[test]
fn what_is_above_the_root_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("pg_wal/db");
    touch(&root, &["PG_VERSION", "global/pg_control", "base/1/1259"]);
    let found = locate(dir.path()).unwrap();
    assert_eq!(found.layout.name, "postgresql");
    assert_eq!(found.role_of(&root.join("base/1/1259")), Some(Role::Data));
    assert_eq!(found.role_of(Path::new("/log/00000001000000000000002A")), Some(Role::Wal));
}

/// Whether `program` succeeded. Prints a message if it is missing.
fn ran(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            println!("skipped: {} cannot be started ({error})", command.get_program().to_string_lossy());
            false
        }
    }
}

fn page_of(dir: &Path, name: &str) -> u32 {
    let found = locate(dir).unwrap_or_else(|| panic!("{name} is not found"));
    assert_eq!(found.layout.name, name);
    let page = found.layout.page_size(&found.root).unwrap();
    assert!(matches!(page.source, PageSource::Header(_)), "{page:?}");
    page.bytes
}

#[test]
fn mariadb_pages_of_every_size_are_read() {
    for (size, bytes) in [("4k", 4096), ("16k", 16384), ("64k", 65536)] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal"]);
        install.arg(format!("--datadir={}", data.display())).arg(format!("--innodb-page-size={size}"));
        if !ran(&mut install) {
            return;
        }
        assert_eq!(page_of(dir.path(), "mariadb"), bytes);
    }
}

#[test]
fn sqlite_pages_of_every_size_are_read() {
    for bytes in [512, 4096, 65536] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("pragma page_size={bytes}; create table t(x);");
        if !ran(Command::new("sqlite3").arg(dir.path().join("app.sqlite")).arg(script)) {
            return;
        }
        assert_eq!(page_of(dir.path(), "sqlite"), bytes);
    }
}

/// The first bytes of files that bbolt 1.4.3 and DuckDB 2.0.1 made, without what detection ignores.
#[test]
fn bbolt_and_duckdb_are_known_by_their_headers() {
    let bbolt = |page: u32| {
        let mut head = [0; 80];
        head[8] = 4;
        head[16..24].copy_from_slice(&[0xed, 0xda, 0x0c, 0xed, 2, 0, 0, 0]);
        head[24..28].copy_from_slice(&page.to_le_bytes());
        head.to_vec()
    };
    let duckdb = |block: u32| {
        let mut head = [0; 12288];
        head[8..12].copy_from_slice(b"DUCK");
        head[4136..4140].copy_from_slice(&block.to_le_bytes());
        head.to_vec()
    };
    let cases = [
        ("bbolt", "meta.db", bbolt(4096), 4096),
        ("bbolt", "a.bolt", bbolt(16384), 16384),
        ("etcd", "member/snap/db", bbolt(4096), 4096),
        ("duckdb", "shop.duckdb", duckdb(262_144), 262_144),
        ("duckdb", "shop.db", duckdb(16384), 16384),
        ("duckdb", "old.duckdb", duckdb(0), 262_144), // made before the size could be chosen
    ];
    for (name, file, head, bytes) in cases {
        let dir = tempfile::tempdir().unwrap();
        touch(dir.path(), &[file]);
        assert!(name == "etcd" || detect(dir.path()).is_none(), "{file} without a header");
        std::fs::write(dir.path().join(file), &head).unwrap();
        assert_eq!(page_of(dir.path(), name), bytes, "{file}");
        let layout = Layout::by_name(name).unwrap();
        assert_eq!(layout.role_of(Path::new(file)), Some(Role::Data), "{file}");
        std::fs::write(dir.path().join(file), &head[..20]).unwrap();
        assert!(name == "etcd" || detect(dir.path()).is_none(), "a torn {file}");
    }
    let paths = ["/x/shop.db", "/x/shop.db.wal", "/x/shop.db.tmp/duckdb_temp_storage_DEFAULT-0.tmp"];
    assert_eq!(detect_paths(paths).unwrap().name, "duckdb");
    assert_eq!(detect_paths(["/x/app.db", "/x/app.db-wal"]).unwrap().name, "sqlite");
}

#[test]
fn postgresql_pages_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let programs = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let Some(initdb) = programs.map(|version| version.path().join("bin/initdb")).find(|path| path.exists())
    else {
        println!("skipped: initdb is not installed below /usr/lib/postgresql");
        return;
    };
    // initdb refuses to run as root.
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let mut command = if root {
        assert!(ran(Command::new("chown").arg("postgres").arg(dir.path())));
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(initdb);
        command
    } else {
        Command::new(initdb)
    };
    let data = dir.path().join("data");
    assert!(ran(command.current_dir("/").arg("--no-sync").arg("-D").arg(&data)));
    assert_eq!(page_of(dir.path(), "postgresql"), 8192);
}

#[test]
fn lmdb_pages_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut load = Command::new("mdb_load");
    load.arg("-f").arg("/dev/null").arg(dir.path());
    match load.output() {
        Ok(_) if dir.path().join("data.mdb").metadata().is_ok_and(|found| found.len() > 0) => {
            let bytes = page_of(dir.path(), "lmdb");
            assert!(bytes.is_power_of_two() && bytes >= 4096); // LMDB takes the machine's page size
        }
        other => println!("skipped: mdb_load made no database ({:?})", other.map(|output| output.status)),
    }
}

/// The database's user can put a fifo in the place of any file. Opening it would block until a process writes to it.
#[test]
fn fifos_do_not_block_detection() {
    let (ended, wait) = std::sync::mpsc::channel();
    for (name, files) in TREES {
        let dir = tempfile::tempdir().unwrap();
        let headers = ["mysql.ibd", "data.mdb", "db.sqlite", "environment"];
        for file in files.iter().map(|(file, _)| *file).chain(headers) {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !path.exists() {
                assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
            }
        }
        let ended = ended.clone();
        std::thread::spawn(move || {
            let located = locate(dir.path());
            let page = located.and_then(|found| found.layout.page_size(&found.root));
            ended.send(page.is_none_or(|page| page.source == PageSource::Default))
        });
        let is_default = wait.recv_timeout(std::time::Duration::from_secs(300));
        assert_eq!(is_default, Ok(true), "{name}");
    }
}

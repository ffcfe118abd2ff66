//! Compares full estimates of real database files with the space that `zdb` reports for a pool with these files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{content, full, pool, rng, store};
use poolwright_estimate::Layout;

/// recordsize, codec, ashift.
const COMBINATIONS: &[(u64, &str, u32)] = &[
    (16 << 10, "off", 12),
    (4 << 10, "lz4", 9),
    (8 << 10, "lz4", 12),
    (16 << 10, "lz4", 12),
    (128 << 10, "lz4", 12),
    (16 << 10, "lz4", 13),
    (16 << 10, "zle", 12),
    (16 << 10, "lzjb", 9),
    (16 << 10, "gzip-6", 12),
    (64 << 10, "gzip-1", 9),
    (16 << 10, "zstd-3", 12),
    (128 << 10, "zstd-3", 12),
    (128 << 10, "zstd-9", 9),
    (1 << 20, "zstd-1", 13),
    (1 << 20, "zstd-3", 12),
];

/// Returns level-0 and indirect `asize` of an object, from the block list that `zdb -dddddd` prints.
fn zdb(dir: &Path, dataset: &str, object: u64) -> (u64, u64) {
    let mut zdb = Command::new("zdb");
    // The address of a block is vdev:offset:asize, in hexadecimal.
    zdb.args(["-e", "-p"]).arg(dir).args(["-dddddd", dataset, &object.to_string()]);
    let out = zdb.output().expect("zdb is in zfsutils-linux");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.contains("Indirect blocks:"),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let (mut data, mut indirect) = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, level, rest @ ..] = words.as_slice() else { continue };
        let Some(level) = level.strip_prefix('L').and_then(|l| l.parse::<u32>().ok()) else { continue };
        let addresses =
            rest.iter().map_while(|word| word.rsplit_once(':').filter(|(front, _)| front.contains(':')));
        let asize: u64 = addresses.map(|(_, asize)| u64::from_str_radix(asize, 16).unwrap()).sum();
        *(if level == 0 { &mut data } else { &mut indirect }) += asize;
    }
    (data, indirect)
}

fn have(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    let found = found.is_ok_and(|s| s.success());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

fn sh(script: &str, dir: &Path) {
    let out = Command::new("bash").args(["-euc", script]).env("D", dir).output().unwrap();
    assert!(out.status.success(), "{script}\n{}", String::from_utf8_lossy(&out.stderr));
}

/// Generates rows like those of a shop: numbers, names, a sentence, a price.
fn rows(sql_end: &str, n: usize) -> String {
    let mut rng = rng(11);
    let mut out = String::from(
        "create table orders (id integer primary key, customer varchar(40), note varchar(400), price decimal(9,2))",
    );
    out.push_str(sql_end);
    for chunk in 0..n / 500 {
        let row = |i: usize, rng: &mut _| {
            let words = String::from_utf8(content(2, 60 + i % 200, rng)).unwrap().replace(['\'', '\n'], " ");
            let code = String::from_utf8(content(4, 24, rng)).unwrap();
            format!("({},'{code}','{words}',{}.{:02})", chunk * 500 + i, i * 7 % 900, i % 100)
        };
        let values: Vec<String> = (0..500).map(|i| row(i, &mut rng)).collect();
        out.push_str(&format!(";\ninsert into orders values {}", values.join(",")));
    }
    out + ";\n"
}

fn sqlite(dir: &Path) -> Option<PathBuf> {
    if !have("sqlite3") {
        return None;
    }
    std::fs::write(dir.join("rows.sql"), format!("begin;\n{}commit;\n", rows("", 60_000))).unwrap();
    sh("sqlite3 $D/sqlite.db <$D/rows.sql", dir);
    Some(dir.join("sqlite.db"))
}

fn mariadb(dir: &Path) -> Option<PathBuf> {
    if !have("mariadbd") || !have("mariadb-install-db") {
        return None;
    }
    std::fs::write(dir.join("rows.sql"), rows(" engine=InnoDB", 60_000)).unwrap();
    sh(
        "U=$(id -un); mkdir $D/maria
         mariadb-install-db --no-defaults --datadir=$D/maria --user=$U --auth-root-authentication-method=normal >$D/log 2>&1
         mariadbd --no-defaults --datadir=$D/maria --user=$U --socket=$D/s --pid-file=$D/pid --skip-networking \
             --innodb-use-native-aio=0 >>$D/log 2>&1 & server=$!
         trap 'kill $server; wait $server || true' EXIT
         for i in $(seq 3000); do [ -S $D/s ] && break; sleep 0.1; done
         mariadb --no-defaults -uroot -S $D/s -e 'create database shop'
         mariadb --no-defaults -uroot -S $D/s shop <$D/rows.sql",
        dir,
    );
    Some(dir.join("maria/shop/orders.ibd"))
}

fn postgres(dir: &Path) -> Option<PathBuf> {
    let found =
        Command::new("sh").args(["-c", "command -v initdb || ls /usr/lib/postgresql/*/bin/initdb"]).output();
    let initdb = String::from_utf8(found.unwrap().stdout).unwrap().lines().next().map(str::to_owned);
    let Some(initdb) = initdb.filter(|_| have("psql")) else {
        println!("skipped: PostgreSQL is not installed");
        return None;
    };
    std::fs::write(dir.join("rows.sql"), rows("", 60_000)).unwrap();
    let bin = std::fs::canonicalize(initdb).unwrap().parent().unwrap().display().to_string();
    // The server refuses to run as root.
    let script = r#"
         run() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; else "$@"; fi; }
         mkdir $D/pg; chmod 711 $D; [ "$(id -u)" != 0 ] || chown nobody:nogroup $D/pg
         cd $D/pg
         run BIN/initdb -D $D/pg/data -U app --auth=trust >/dev/null
         run BIN/pg_ctl -D $D/pg/data -w -t 300 -l $D/pg/log -o "-k $D/pg -c listen_addresses=''" start >/dev/null
         trap 'run BIN/pg_ctl -D $D/pg/data -w -t 300 -m fast stop >/dev/null' EXIT
         psql -q -h $D/pg -U app postgres <$D/rows.sql
         psql -q -h $D/pg -U app postgres -c checkpoint
         psql -qtA -h $D/pg -U app postgres -c "select pg_relation_filepath('orders')" >$D/path"#;
    sh(&script.replace("BIN", &bin), dir);
    let relative = std::fs::read_to_string(dir.join("path")).unwrap();
    Some(dir.join("pg/data").join(relative.trim()))
}

/// Extracts a file of the Silesia corpus, if the tests have its zip file.
fn silesia(dir: &Path, name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("POOLWRIGHT_SHARED").map_or(beside, PathBuf::from);
    let zip = shared.join(format!("data/silesia-{name}.zip"));
    if !zip.exists() || !have("python3") {
        println!("skipped: {name}: {} does not exist", zip.display());
        return None;
    }
    let status = Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&zip).arg(dir).status().unwrap();
    assert!(status.success());
    Some(dir.join(name))
}

#[test]
fn full_equals_zdb_on_database_files() {
    if !have("zdb") {
        return;
    }
    let mut files: Vec<(&str, PathBuf)> = Vec::new();
    let dirs: Vec<_> = (0..5).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut add = |name, path: Option<PathBuf>| files.extend(path.map(|p| (name, p)));
    add("sqlite", sqlite(dirs[0].path()));
    add("mariadb", mariadb(dirs[1].path()));
    add("postgresql", postgres(dirs[2].path()));
    add("osdb", silesia(dirs[3].path(), "osdb"));
    add("nci", silesia(dirs[4].path(), "nci"));
    assert!(!files.is_empty(), "no database is installed and no corpus is there: nothing was tested");
    println!(
        "{:<11} {:>6} {:<7} {:>2} {:>11} {:>11} {:>7}",
        "file", "record", "codec", "as", "level 0", "total", "off by"
    );
    for ashift in [9, 12, 13] {
        compare(&files, ashift);
    }
}

fn compare(files: &[(&str, PathBuf)], ashift: u32) {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(dir.path(), ashift, Layout::Plain);
    let name = pool.name().to_owned();
    let combinations: Vec<_> = COMBINATIONS.iter().filter(|c| c.2 == ashift).collect();
    let mut stored = HashMap::new();
    for (i, (file, path)) in files.iter().enumerate() {
        for (j, (recordsize, codec, _)) in combinations.iter().enumerate() {
            stored.insert((i, j), store(&pool, &format!("{file}{j}"), *recordsize, codec, path));
        }
    }
    pool.export().unwrap();
    for (i, (file, path)) in files.iter().enumerate() {
        for (j, (recordsize, codec, _)) in combinations.iter().enumerate() {
            let estimate = full(path, &[*recordsize], &[codec], &[9, 12, 13], &[Layout::Plain]);
            let cell = estimate.cell(*recordsize, codec, ashift).unwrap();
            let (blocks, object) = stored[&(i, j)];
            let (data, indirect) = zdb(dir.path(), &format!("{name}/{file}{j}"), object);
            assert_eq!(
                (blocks.asize, blocks.indirect_asize),
                (data, indirect),
                "engine and zdb: {file} {codec}"
            );
            let total = data + indirect;
            let off = cell.total_bytes as f64 / total as f64 - 1.0;
            println!(
                "{file:<11} {recordsize:>6} {codec:<7} {ashift:>2} {data:>11} {total:>11} {:>+6.2}%{}",
                off * 100.0,
                if cell.allocated_bytes == data { "" } else { " WRONG" }
            );
            assert_eq!(cell.allocated_bytes, data, "{file} recordsize={recordsize} {codec} ashift={ashift}");
            assert!(
                off.abs() <= 0.005,
                "{file} recordsize={recordsize} {codec} ashift={ashift}: {cell:?} zdb {total}"
            );
        }
    }
}

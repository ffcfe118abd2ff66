//! Imports and exports, with fio if it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::trace;
use poolwright_trace::export::{Format, export};
use poolwright_trace::import::import;
use poolwright_trace::layout::Role;
use poolwright_trace::{Error, Op, Reader, Trace};
use proptest::prelude::*;

const V2: &str = "fio version 2 iolog\n/db/t.ibd add\n/db/t.ibd open\n/db/t.ibd read 0 4096\n/db/t.ibd wait 250 0\n\
                  /db/t.ibd write 16384 16384\r\n\n/db/t.ibd datasync 0 0\n/db/t.ibd trim 4096 4096\n/db/t.ibd close\n";

fn import_text(dir: &Path, text: &[u8]) -> Result<Trace, Error> {
    let (source, target) = (dir.join("log"), dir.join("t.parquet"));
    std::fs::write(&source, text).unwrap();
    let done = import(&source, None, &target);
    if let Err(error) = done {
        assert!(!target.exists(), "a failed import leaves nothing");
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1);
        return Err(error);
    }
    Trace::load(&target)
}

#[test]
fn version_2_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let trace = import_text(dir.path(), V2.as_bytes()).unwrap();
    let seen: Vec<_> = trace.events.iter().map(|e| (e.t_ns, e.op, e.offset, e.len)).collect();
    let expected = [
        (0, Op::Open, 0, 0),
        (0, Op::Read, 0, 4096),
        (250_000, Op::Write, 16384, 16384),
        (250_000, Op::Fdatasync, 0, 0),
        (250_000, Op::Punch, 4096, 4096),
        (250_000, Op::Close, 0, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(trace.files[0].path, "/db/t.ibd");
    assert_eq!((trace.files[0].role, trace.files[0].size), (Some(Role::Data), 32768));
    assert_eq!(trace.meta.probe_set, "fio-iolog");
    assert_eq!(trace.meta.unseen[0].1, 6, "version 2 has no times");
}

#[test]
fn errors_name_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&str, &str); 7] = [
        ("fio version 2 iolog\n/a add\n/a read zero 1\n", "log:3: expected the offset"),
        ("fio version 2 iolog\n/a read 0 1\n", "log:2: \"/a\" is used before its \"add\""),
        ("fio version 3 iolog\n0 /a add\nx /a read 0 1\n", "log:3: expected a timestamp"),
        ("fio version 3 iolog\n0 /a add\n1 /a wait 0 1\n", "log:3: \"wait\" is not allowed"),
        ("fio version 1 iolog\n", "unrecognised format"),
        ("fio version 2 iolog\n/a add\nfio version 3 iolog\n0 /a add\n", "log:3: another log begins here"),
        ("", "file is empty"),
    ];
    for (text, part) in cases {
        let error = import_text(dir.path(), text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
}

#[test]
fn an_encoded_log_is_named_with_the_command_that_decodes_it() {
    let dir = tempfile::tempdir().unwrap();
    let utf16: Vec<u8> = V2.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases: [(Vec<u8>, &str); 5] = [
        ([&[0x1f, 0x8b, 8, 0][..], &[9; 40]].concat(), "gzip -dc <"),
        ([&[0x28, 0xb5, 0x2f, 0xfd][..], &[9; 40]].concat(), "zstd -dc <"),
        ([&[0xff, 0xfe][..], &utf16].concat(), "iconv -f UTF-16"),
        (utf16.clone(), "iconv -f UTF-16"),
        ([&[0xef, 0xbb, 0xbf][..], V2.as_bytes()].concat(), "tail -c +4 <"),
    ];
    for (bytes, command) in cases {
        let error = import_text(dir.path(), &bytes).unwrap_err().to_string();
        assert!(error.contains(command), "{error}");
    }
}

#[test]
fn times_of_the_day_are_counted_from_the_first_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("log"), dir.path().join("t.parquet"));
    let at = |us: u64| 1_700_000_000_000_000 + us;
    let text = format!(
        "fio version 3 iolog\n0 /a add\n{} /a read 0 512\n{} /a read 512 512\n",
        at(0),
        at(2_500_000)
    );
    std::fs::write(&source, text).unwrap();
    let imported = import(&source, None, &target).unwrap();
    assert!(imported.notes[0].contains("since 1970"), "{:?}", imported.notes);
    assert_eq!(imported.duration_s, 2.5);
    std::fs::write(&source, V2).unwrap();
    assert!(import(&source, None, &target).unwrap().notes.is_empty());
}

#[test]
fn names_that_are_not_utf_8_stay_different_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let log = b"fio version 2 iolog\n/d/\xff add\n/d/\xfe add\n/d/\xff open\n/d/\xfe open\n/d/\xff read 0 1\n/d/\xfe read 0 2\n";
    let trace = import_text(dir.path(), log).unwrap();
    let paths: Vec<&str> = trace.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/d/\\xff", "/d/\\xfe"]);
    let names: Vec<Vec<u8>> =
        trace.files.iter().map(|file| file.host_path().into_os_string().into_encoded_bytes()).collect();
    assert_eq!(names, [b"/d/\xff".to_vec(), b"/d/\xfe".to_vec()]);
    let mut exported = Vec::new();
    let reader = Reader::open(dir.path().join("t.parquet")).unwrap();
    export(&reader, Format::FioIolog, None, &mut exported, Path::new("x")).unwrap();
    let reads = |log: &[u8]| {
        log.split(|b| *b == b'\n').filter(|line| line.windows(6).any(|w| w == b" read ")).count()
    };
    assert_eq!((reads(&exported), reads(log)), (2, 2));
    assert!(exported.windows(3).any(|bytes| bytes == b"/\xff "), "the bytes of the name");
}

#[test]
fn a_foreign_target_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("log"), dir.path().join("t.ibd"));
    std::fs::write(&source, V2).unwrap();
    std::fs::write(&target, b"precious").unwrap();
    assert!(matches!(import(&source, None, &target), Err(Error::NotOverwritten(_))));
    assert!(matches!(import(&source, None, &source), Err(Error::NotOverwritten(_))));
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
}

#[test]
fn an_exported_log_comes_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut trace = trace(3000, 11);
    trace.files[2].path = "/db/tmp.MAD".to_owned();
    let path = dir.path().join("t.parquet");
    trace.save(&path).unwrap();
    let mut log = Vec::new();
    let done =
        export(&Reader::open(&path).unwrap(), Format::FioIolog, None, &mut log, Path::new("log")).unwrap();
    assert_eq!(done.events + done.skipped.values().sum::<u64>(), 3000);
    let back = import_text(&dir.path().join(""), &log).map_err(|e| e.to_string());
    let kept = |t: &Trace| -> Vec<_> {
        let ops = [Op::Read, Op::Write, Op::Fsync, Op::Fdatasync, Op::Punch];
        let io = t.events.iter().filter(|e| ops.contains(&e.op));
        let extent = |e: &poolwright_trace::Event| if e.op.is_sync() { (0, 0) } else { (e.offset, e.len) };
        io.map(|e| (e.t_ns / 1000, e.op, t.files[e.file as usize].path.clone(), extent(e))).collect()
    };
    assert!(kept(&back.unwrap()) == kept(&trace));
}

#[test]
fn a_file_name_with_blanks_is_refused_for_fio_and_quoted_in_csv() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let mut trace = trace(50, 2);
    trace.files[2].path = "/db/a, \"b\"".to_owned();
    trace.save(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    let refused = export(&reader, Format::FioIolog, None, &mut Vec::new(), Path::new("x"));
    assert!(matches!(refused, Err(Error::Export { .. })));
    let mut csv = Vec::new();
    assert_eq!(export(&reader, Format::Csv, None, &mut csv, Path::new("x")).unwrap().events, 50);
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 51);
    let header = "t_ns,dur_ns,op,file,path,role,offset,len,pid,tid,flags,gap_cpu_ns,gap_ready_ns,gap_wake_ns,waker,gap_served_ns\n";
    assert!(csv.starts_with(header));
    for (line, event) in csv.lines().skip(1).zip(&trace.events) {
        let gap = event
            .gap
            .map(|g| format!(",{},{},{},{},{}", g.cpu_ns, g.ready_ns, g.wake_ns, g.waker, g.served_ns));
        assert!(line.ends_with(&gap.unwrap_or_else(|| ",-1,0,0,0,0".to_owned())), "{line}: {event:?}");
    }
    assert!(csv.contains(",2,\"/db/a, \"\"b\"\"\",temp,"));
}

/// Runs fio in `dir`. Returns `None` if it is not installed.
fn fio(dir: &Path, args: &[&str]) -> Option<String> {
    let output = match Command::new("fio").args(args).current_dir(dir).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: fio cannot be started ({error})");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn fio_replays_an_exported_log_and_its_log_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let target: PathBuf = dir.path().join("data");
    let filename = format!("--filename={}", target.display());
    let job = ["--name=j", &filename, "--size=1M", "--rw=randrw", "--bs=4k", "--ioengine=psync", "--fsync=8"];
    let counted = ["--number_ios=200", "--write_iolog=log", "--output-format=json", "--randseed=1"];
    let Some(report) = fio(dir.path(), &[job.as_slice(), counted.as_slice()].concat()) else { return };
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let path = dir.path().join("t.parquet");
    import(&dir.path().join("log"), None, &path).unwrap();
    let trace = Trace::load(&path).unwrap();
    for (name, op) in [("read", Op::Read), ("write", Op::Write)] {
        let ours = trace.events.iter().filter(|e| e.op == op).count() as u64;
        assert_eq!(report["jobs"][0][name]["total_ios"].as_u64(), Some(ours), "{name}");
    }
    let mut log = Vec::new();
    export(&Reader::open(&path).unwrap(), Format::FioIolog, None, &mut log, Path::new("again")).unwrap();
    std::fs::write(dir.path().join("again"), log).unwrap();
    let replay =
        ["--name=r", "--read_iolog=again", "--replay_no_stall=1", "--output-format=json", "--ioengine=psync"];
    let replayed: serde_json::Value = serde_json::from_str(&fio(dir.path(), &replay).unwrap()).unwrap();
    for name in ["read", "write"] {
        assert_eq!(replayed["jobs"][0][name]["io_bytes"], report["jobs"][0][name]["io_bytes"], "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_imported_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600), head in 0..3usize) {
        let dir = tempfile::tempdir().unwrap();
        let heads = ["", "fio version 2 iolog\n/a add\n", "fio version 3 iolog\n0 /a add\n"];
        let _ = import_text(dir.path(), &[heads[head].as_bytes(), &bytes].concat());
    }

    #[test]
    fn any_log_shaped_text_is_imported_or_an_error(
        lines in prop::collection::vec("([0-9]{1,20} )?/a (read|write|wait|sync|trim|open) [0-9]{1,20} [0-9]{1,20}", 0..8),
        version in 2..4u32,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let add = if version == 3 { "0 /a add" } else { "/a add" };
        let text = format!("fio version {version} iolog\n{add}\n{}\n", lines.join("\n"));
        if let Ok(trace) = import_text(dir.path(), text.as_bytes()) {
            prop_assert!(trace.events.len() <= lines.len());
        }
    }
}

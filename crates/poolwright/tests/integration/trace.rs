//! `poolwright trace` as a user runs it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use assert_cmd::Command;
use poolwright_trace::{Event, File, Flags, Meta, Reader, Trace};

fn poolwright(dir: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("poolwright"));
    command.current_dir(dir);
    command
}

const LOG: &str = "fio version 3 iolog\n0 /db/t.ibd add\n1 /db/t.ibd open\n10 /db/t.ibd read 0 16384\n\
                   20 /db/t.ibd write 16384 16384\n30 /db/t.ibd sync 0 0\n40 /db/t.ibd close\n";

fn imported() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("log"), LOG).unwrap();
    poolwright(dir.path()).args(["trace", "import", "log", "-o", "t.parquet"]).assert().success();
    dir
}

/// The JSON of a command, which follows a schema.
fn json(schema: &str, command: &mut Command) -> serde_json::Value {
    let output = command.assert().success().get_output().stdout.clone();
    crate::common::json_output(schema, &output)
}

#[test]
fn a_fio_log_is_imported_and_shown() {
    let dir = imported();
    let shown = json("trace-show", poolwright(dir.path()).args(["trace", "show", "t.parquet", "--json"]));
    assert_eq!(shown["ops"]["read"], 1);
    assert_eq!(shown["ops"]["fsync"], 1);
    assert_eq!(shown["bytes"]["write"], 16384);
    assert_eq!(shown["write_size_histogram"], serde_json::json!([[16384, 1]]));
    assert_eq!(shown["files"][0]["role"], "data");
    assert_eq!(shown["layout"], "mariadb");
    let text = poolwright(dir.path()).args(["trace", "show", "t.parquet"]).assert().success();
    let text = String::from_utf8(text.get_output().stdout.clone()).unwrap();
    assert!(text.contains("data writes by size") && text.contains("16K"), "{text}");
}

#[test]
fn import_says_what_it_wrote() {
    let dir = imported();
    let args = ["trace", "import", "log", "-o", "again.parquet", "--format", "fio-iolog", "--json"];
    let done = json("trace-import", poolwright(dir.path()).args(args));
    assert_eq!((done["events"].as_u64(), done["files"].as_u64()), (Some(5), Some(1)));
    assert_eq!(done["format"], "fio-iolog");
}

#[test]
fn an_export_comes_back() {
    let dir = imported();
    let csv = poolwright(dir.path()).args(["trace", "export", "t.parquet"]).assert().success();
    assert_eq!(String::from_utf8_lossy(&csv.get_output().stdout).lines().count(), 6);
    let args = ["trace", "export", "t.parquet", "-o", "back", "--format", "fio-iolog"];
    poolwright(dir.path()).args(args).assert().success();
    poolwright(dir.path()).args(["trace", "import", "back", "-o", "back.parquet"]).assert().success();
    assert_eq!(Reader::open(dir.path().join("back.parquet")).unwrap().len(), 5);
    // The second export needs --force.
    poolwright(dir.path()).args(args).assert().code(3);
    poolwright(dir.path()).args(args).arg("--force").assert().success();
    let onto = ["trace", "export", "t.parquet", "-o", "t.parquet", "--force"];
    poolwright(dir.path()).args(onto).assert().code(2);
    assert_eq!(Reader::open(dir.path().join("t.parquet")).unwrap().len(), 5);
}

#[test]
fn an_anonymised_trace_has_no_names_and_the_same_figures() {
    let dir = tempfile::tempdir().unwrap();
    let log = LOG.replace("/db/t.ibd", "/srv/customers/orders.ibd");
    std::fs::write(dir.path().join("customers.iolog"), log).unwrap();
    let run = |args: &[&str]| {
        let mut command = poolwright(dir.path());
        command.env("POOLWRIGHT_STATE_DIR", dir.path().join("state")).args(args);
        command
    };
    run(&["trace", "import", "customers.iolog", "-o", "t.parquet"]).assert().success();
    let hidden = ["trace", "export", "t.parquet", "--format", "trace", "-o", "hidden.parquet", "--anonymise"];
    let done = json("trace-export", run(&hidden).arg("--json"));
    assert_eq!((done["format"].as_str(), done["events"].as_u64()), (Some("trace"), Some(5)));
    let show = |name: &str| {
        let mut shown = json("trace-show", &mut run(&["trace", "show", name, "--json"]));
        shown["subject"] = serde_json::Value::Null;
        let path = shown["files"][0]["path"].take();
        (shown, path.as_str().unwrap().to_owned())
    };
    let (before, after) = (show("t.parquet"), show("hidden.parquet"));
    assert_eq!(before.0, after.0);
    assert!(after.1.ends_with(".ibd") && !after.1.contains("orders"), "{}", after.1);
    let bytes = std::fs::read(dir.path().join("hidden.parquet")).unwrap();
    for name in [&b"customers"[..], b"orders"] {
        assert!(!bytes.windows(name.len()).any(|window| window == name), "{}", String::from_utf8_lossy(name));
    }
    // The key stays, so that later exports have the same pseudonyms.
    let csv = run(&["trace", "export", "t.parquet", "--anonymise"]).assert().success();
    let csv = String::from_utf8_lossy(&csv.get_output().stdout).into_owned();
    assert!(csv.contains(&after.1) && !csv.contains("orders"), "{csv}");
    let key = std::fs::metadata(dir.path().join("state/pseudonyms.key")).unwrap();
    assert_eq!((key.len(), key.permissions().mode() & 0o777), (32, 0o600));
    run(&hidden).assert().code(3);
    run(&hidden).arg("--force").assert().success();
    run(&hidden[..hidden.len() - 1]).arg("--force").assert().code(2);
    run(&["trace", "export", "t.parquet", "--format", "trace", "--anonymise"]).assert().code(2);
}

#[test]
fn bad_input_is_a_clear_message_and_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("table.ibd"), vec![1; 9000]).unwrap();
    std::fs::write(dir.path().join("bad.log"), "fio version 3 iolog\n0 /a add\n1 /a read x 1\n").unwrap();
    std::fs::write(dir.path().join("cut.parquet"), b"PAR1PWTRSEAL").unwrap();
    let cases: [(u8, &[&str], &str); 6] = [
        (1, &["show", "missing.parquet"], "cannot open missing.parquet"),
        (1, &["show", "table.ibd"], "table.ibd is not a Poolwright trace: it is not a Parquet file"),
        (1, &["show", "."], "it is a directory"),
        (1, &["show", "cut.parquet"], "cut.parquet is truncated"),
        (
            1,
            &["import", "bad.log", "-o", "t.parquet"],
            "bad.log:3: expected the offset in bytes, found \"x\"",
        ),
        (3, &["import", "bad.log", "-o", "table.ibd"], "will not overwrite table.ibd"),
    ];
    for (code, args, part) in cases {
        let failed = poolwright(dir.path()).arg("trace").args(args).assert().code(i32::from(code));
        let output = failed.get_output();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(part), "{args:?}: {message}");
        assert!(output.stdout.is_empty() && !message.contains("panicked"), "{message}");
    }
    assert_eq!(std::fs::read(dir.path().join("table.ibd")).unwrap(), vec![1; 9000]);
    assert!(!dir.path().join("t.parquet").exists());
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let dir = imported();
    poolwright(dir.path()).args(["trace", "export", "t.parquet", "--json"]).assert().code(2);
    poolwright(dir.path()).args(["trace", "export", "t.parquet", "--format", "xml"]).assert().code(2);
    poolwright(dir.path()).args(["trace", "import", "log"]).assert().code(2);
}

#[test]
fn a_torn_trace_is_shown_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let event = Event { flags: Flags::SYNC, ..crate::common::event() };
    let files = vec![File { path: "/db/x".to_owned(), ..File::default() }];
    Trace { meta: Meta::default(), files, events: vec![event] }.save(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 100]);
    std::fs::write(&path, bytes).unwrap();
    let mut show = poolwright(dir.path());
    let output = show.args(["trace", "show", "t.parquet", "--json"]).assert().success();
    let output = output.get_output();
    let shown = crate::common::json_output("trace-show", &output.stdout);
    assert_eq!((shown["events"].as_u64(), shown["torn_bytes"].as_u64()), (Some(1), Some(100)));
    assert!(String::from_utf8_lossy(&output.stderr).contains("torn"));

    // Truncated before the first complete event: an error that reports the loss.
    let torn: Vec<Event> = (0..5000).map(|i| Event { t_ns: i, offset: i * 8192, ..event }).collect();
    let files = vec![File { path: "/db/x".to_owned(), ..File::default() }];
    Trace { meta: Meta::default(), files, events: torn }.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() * 7 / 10]).unwrap();
    for line in
        ["trace show t.parquet", "trace show t.parquet --json", "trace export t.parquet", "mrc t.parquet"]
    {
        let done = poolwright(dir.path()).args(line.split(' ')).assert().code(1);
        let messages = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        let of = format!("of its {} bytes", whole.len() * 7 / 10);
        assert!(
            messages.contains("no event precedes the torn part") && messages.contains(&of),
            "{line}: {messages}"
        );
        assert!(done.get_output().stdout.is_empty(), "{line}");
    }
}

#[test]
fn a_failed_import_leaves_an_older_trace_and_nothing_else() {
    let dir = imported();
    let before = std::fs::read(dir.path().join("t.parquet")).unwrap();
    std::fs::write(dir.path().join("nothing"), "fio version 3 iolog\n").unwrap();
    std::fs::write(dir.path().join("bad"), format!("{LOG}50 /db/t.ibd read x 1\n")).unwrap();
    for source in ["nothing", "bad", "missing"] {
        for target in ["t.parquet", "new.parquet"] {
            poolwright(dir.path()).args(["trace", "import", source, "-o", target]).assert().code(1);
        }
    }
    assert_eq!(std::fs::read(dir.path().join("t.parquet")).unwrap(), before);
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["bad", "log", "nothing", "t.parquet"]);
}

use std::ffi::OsStr;
use std::io::BufRead as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use poolwright_base::device::Device;

use super::*;
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, Flags, Meta};

fn trace(paths: &[&str]) -> Trace {
    let file = |path: &&str| File { path: (*path).to_owned(), role: Some(Role::Data), ..File::default() };
    let event = |file: usize| Event {
        t_ns: 1,
        dur_ns: 1,
        op: Op::Read,
        file: file as u32,
        offset: 0,
        len: 1,
        pid: 1,
        tid: 1,
        flags: Flags::default(),
        gap: None,
    };
    Trace {
        meta: Meta { subject: "dir:/db".into(), ..Meta::default() },
        files: paths.iter().map(file).collect(),
        events: (0..paths.len()).map(event).collect(),
    }
}

#[test]
fn files_are_found_below_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("sub")).unwrap();
    for name in ["sub/a", "b"] {
        std::fs::write(at(name), "x").unwrap();
    }
    let trace = trace(&["/db/sub/a", "/elsewhere/b", "/db/c"]);
    let files = SourceFiles::new(&trace, Some(dir.path()));
    assert_eq!(files.locate(&trace.files[0]), at("sub/a"));
    assert_eq!(files.locate(&trace.files[1]), at("b"), "by its name");
    assert_eq!(files.locate(&trace.files[2]), at("db/c"), "never outside of the directory");
    assert_eq!(SourceFiles::new(&trace, None).locate(&trace.files[2]), Path::new("/db/c"));
    let missing = files.missing(&trace, &[]).unwrap().unwrap();
    assert_eq!((missing.count, missing.of, missing.first.as_str()), (1, 3, "/db/c"));
    assert!(missing.to_string().starts_with("1 of the 3 files"), "{missing}");
    assert_eq!(files.missing(&trace, &[Role::Wal]).unwrap(), None);
}

#[test]
fn a_directory_without_any_of_the_files_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |paths: &[&str], dir: &Path| {
        let trace = trace(paths);
        SourceFiles::new(&trace, Some(dir)).missing(&trace, &[]).unwrap_err().to_string()
    };
    assert!(refusal(&["/db/a"], dir.path()).starts_with("the only file that"));
    assert!(refusal(&["/db/a", "/db/b"], dir.path()).starts_with("none of the 2 files"));
    assert_eq!(refusal(&["/db/a"], &dir.path().join("no")), "no such directory");
}

/// The file of a trace that is this one.
fn recorded(path: &Path) -> File {
    let meta = std::fs::metadata(path).unwrap();
    let device = Device::from_raw(meta.dev());
    let device = format!("{}:{}", device.major, device.minor);
    File { path: path_text::encode(path), role: Some(Role::Data), device, ino: meta.ino(), ..File::default() }
}

fn content(files: &SourceFiles, file: &File) -> Option<String> {
    files.open(file).map(|opened| std::io::read_to_string(opened).unwrap())
}

#[test]
fn another_file_at_the_path_is_not_the_recorded_one() {
    let dir = tempfile::tempdir().unwrap();
    // Not UTF-8, as a name may be.
    let path = dir.path().join(OsStr::from_bytes(b"t\xff"));
    std::fs::write(&path, "recorded").unwrap();
    let mut trace = trace(&["/"]);
    trace.files[0] = recorded(&path);
    let files = SourceFiles::new(&trace, None);
    assert_eq!(content(&files, &trace.files[0]).as_deref(), Some("recorded"));
    assert_eq!(files.others(&trace, &[]), None);
    let unknown = File { device: String::new(), ino: 0, ..trace.files[0].clone() };

    std::fs::rename(&path, dir.path().join("old")).unwrap(); // keeps the inode in use
    std::fs::write(&path, "another").unwrap();
    assert_eq!(content(&files, &trace.files[0]), None);
    let others = files.others(&trace, &[]).unwrap();
    assert_eq!((others.count, others.of, others.first.as_str()), (1, 1, trace.files[0].path.as_str()));
    assert_eq!(content(&files, &unknown).as_deref(), Some("another"), "the trace does not know the file");
    let named = SourceFiles::new(&trace, Some(dir.path()));
    assert_eq!(content(&named, &trace.files[0]).as_deref(), Some("another"), "the user names the directory");
    assert_eq!(content(&SourceFiles::at_recorded_paths(&trace), &trace.files[0]).as_deref(), Some("another"));
}

#[test]
fn files_of_a_process_with_other_mounts_are_found_through_it() {
    // The host has a file at the path, and the process sees another one there, on a file system that only it has.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t"), "the host's").unwrap();
    let script = "mount -t tmpfs none \"$0\" && printf 'the process\\047s' > \"$0/t\" && stat -c '%Hd:%Ld %i' \"$0/t\" && read end";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .arg(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let Some((device, ino)) = line.trim().split_once(' ') else {
        process.wait().unwrap();
        return println!("skipped: this user may not create a mount namespace");
    };
    let mut trace = trace(&["/"]);
    trace.meta.subject = format!("pid:{}", process.id());
    let (device, ino) = (device.to_owned(), ino.parse().unwrap());
    // As the recorder names it, which does not see the file system, and as the process does.
    for path in ["/t", dir.path().join("t").to_str().unwrap()] {
        let device = device.clone();
        trace.files[0] =
            File { path: path.to_owned(), role: Some(Role::Data), device, ino, ..File::default() };
        let files = SourceFiles::new(&trace, None);
        assert_eq!(content(&files, &trace.files[0]).as_deref(), Some("the process's"), "{path}");
        assert_eq!(files.others(&trace, &[]), None);
    }
    drop(process.stdin.take());
    process.wait().unwrap();
    let files = SourceFiles::new(&trace, None);
    assert_eq!(content(&files, &trace.files[0]), None, "not the host's");
    assert_eq!(files.others(&trace, &[]).unwrap().count, 1);
}

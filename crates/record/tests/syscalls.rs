//! Compares the events of each system call that accesses a file with the known effects of the call.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Live, events_on, ops_on, python, scratch};
use poolwright_record::{Ended, NO_FILE, Subject};
use poolwright_trace::layout::Role;
use poolwright_trace::{Flags, Op, Trace, stats};

/// Records `program` in a fresh directory; `None` if recording is not permitted.
fn record(program: &str) -> Option<Trace> {
    let scratch = scratch();
    let dir = scratch.path().join("db");
    std::fs::create_dir(&dir).unwrap();
    let live = Live::start(Subject::Dir(dir.clone()), &scratch.path().join("t.parquet"))?;
    python(&dir, program);
    Some(live.finish().1)
}

#[test]
fn transfers_have_their_places() {
    let Some(trace) = record(
        "import os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'a' * 8192, 4096)
os.lseek(fd, 100, os.SEEK_SET)
os.write(fd, b'b' * 10)
os.read(fd, 50)
os.writev(fd, [b'c' * 10, b'd' * 20])
os.lseek(fd, -12, os.SEEK_END)
os.readv(fd, [bytearray(4), bytearray(100)])
os.preadv(fd, [bytearray(7), bytearray(3)], 5000)
os.pwritev(fd, [b'e' * 3], 20000, os.RWF_DSYNC)
os.pread(fd, 4096, 1 << 40)
os.close(fd)",
    ) else {
        return;
    };
    let expected = [
        (Op::Create, 0, 0),
        (Op::Write, 4096, 8192),
        (Op::Write, 100, 10),
        (Op::Read, 110, 50),
        (Op::Write, 160, 30),
        (Op::Read, 12276, 12),
        (Op::Read, 5000, 10),
        (Op::Write, 20000, 3),
        (Op::Read, 1 << 40, 0),
        (Op::Close, 0, 0),
    ];
    assert_eq!(ops_on(&trace, "db/f"), expected);
    let synced = events_on(&trace, "db/f").into_iter().find(|e| e.offset == 20000).unwrap();
    assert!(synced.flags.contains(Flags::SYNC), "RWF_DSYNC: {synced:?}");
    assert_eq!(trace.files[0].size, 20003);
}

#[test]
fn appends_say_where_they_landed() {
    let Some(trace) = record(
        "import os
open('f', 'wb').write(b'x' * 1000)
fd = os.open('f', os.O_WRONLY | os.O_APPEND | os.O_DSYNC)
os.write(fd, b'y' * 24)
os.lseek(fd, 0, os.SEEK_SET)
os.write(fd, b'y' * 6)
os.pwrite(fd, b'z' * 70, 0)",
    ) else {
        return;
    };
    let appends: Vec<_> =
        events_on(&trace, "db/f").into_iter().filter(|e| e.flags.contains(Flags::APPEND)).collect();
    let writes: Vec<_> = appends.iter().filter(|e| e.op == Op::Write).map(|e| (e.offset, e.len)).collect();
    assert_eq!(writes, [(1000, 24), (1024, 6), (1030, 70)]);
    assert!(appends.iter().all(|e| e.flags.contains(Flags::SYNC)));
}

#[test]
fn lengths_and_holes() {
    let Some(trace) = record(
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
long = ctypes.c_long
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.posix_fallocate(fd, 0, 1 << 20)
assert libc.fallocate(fd, 3, long(65536), long(8192)) == 0
os.ftruncate(fd, 500000)
os.fsync(fd)
os.fdatasync(fd)
assert libc.sync_file_range(fd, long(4096), long(8192), 7) == 0
os.close(fd)
os.truncate('f', 4000)
open('f', 'r+').close()
open('f', 'w').close()",
    ) else {
        return;
    };
    let expected = [
        (Op::Create, 0, 0),
        (Op::Allocate, 0, 1 << 20),
        (Op::Punch, 65536, 8192),
        (Op::Truncate, 500_000, 0),
        (Op::Fsync, 0, 0),
        (Op::Fdatasync, 0, 0),
        (Op::Fdatasync, 4096, 8192),
        (Op::Close, 0, 0),
        (Op::Truncate, 4000, 0),
        (Op::Open, 0, 4000),
        (Op::Close, 0, 0),
        (Op::Open, 0, 0),
        (Op::Truncate, 0, 0),
        (Op::Close, 0, 0),
    ];
    assert_eq!(ops_on(&trace, "db/f"), expected);
}

#[test]
fn locks_say_who_got_them() {
    let Some(trace) = record(
        "import fcntl, os, subprocess, sys
fd = os.open('f', os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 100)
other = '''
import fcntl, os
fd = os.open('f', os.O_RDWR)
try: fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 105)
except OSError: pass
fcntl.lockf(fd, fcntl.LOCK_SH, 7, 200)
'''
subprocess.run([sys.executable, '-c', other], check=True)
fcntl.lockf(fd, fcntl.LOCK_UN, 10, 100)
fcntl.fcntl(fd, fcntl.F_GETFL)
fcntl.flock(fd, fcntl.LOCK_SH)
fcntl.flock(fd, fcntl.LOCK_UN)",
    ) else {
        return;
    };
    let shared = Flags::SHARED;
    let expected = [
        (Op::Lock, 100, 10, Flags::default()),
        (Op::Lock, 105, 1, shared | Flags::FAILED),
        (Op::Lock, 200, 7, shared),
        (Op::Unlock, 100, 10, Flags::default()),
        (Op::Lock, 0, 0, shared),
        (Op::Unlock, 0, 0, Flags::default()),
    ];
    let locks = events_on(&trace, "db/f").into_iter().filter(|e| matches!(e.op, Op::Lock | Op::Unlock));
    let locks: Vec<_> = locks.map(|e| (e.op, e.offset, e.len, e.flags)).collect();
    assert_eq!(locks, expected);
}

#[test]
fn copies_inside_the_kernel_are_a_read_and_a_write() {
    let Some(trace) = record(
        "import os
open('a', 'wb').write(b'x' * 100000)
a, b = os.open('a', os.O_RDONLY), os.open('b', os.O_RDWR | os.O_CREAT)
os.lseek(a, 1000, 0)
os.sendfile(b, a, None, 5000)
os.sendfile(b, a, 20000, 3000)
os.copy_file_range(a, b, 4096, 40960, 8192)",
    ) else {
        return;
    };
    let reads: Vec<_> = ops_on(&trace, "db/a").into_iter().filter(|(op, ..)| *op == Op::Read).collect();
    let writes: Vec<_> = ops_on(&trace, "db/b").into_iter().filter(|(op, ..)| *op == Op::Write).collect();
    assert_eq!(reads, [(Op::Read, 1000, 5000), (Op::Read, 20000, 3000), (Op::Read, 40960, 4096)]);
    assert_eq!(writes, [(Op::Write, 0, 5000), (Op::Write, 5000, 3000), (Op::Write, 8192, 4096)]);
}

#[test]
fn maps_and_faults() {
    let Some(trace) = record(
        "import mmap, os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.write(fd, b'x' * (1 << 20))
m = mmap.mmap(fd, 1 << 19, offset=1 << 18)
m[100000] = 1
m.flush(0, 1 << 17)",
    ) else {
        return;
    };
    let events = events_on(&trace, "db/f");
    let maps: Vec<_> = events.iter().filter(|e| e.op == Op::Map).collect();
    let called: Vec<_> = maps.iter().filter(|e| e.dur_ns > 0).map(|e| (e.offset, e.len)).collect();
    assert_eq!(called, [(1 << 18, 1 << 19)]);
    let touched = (1 << 18) + 100_000;
    let hit = maps.iter().any(|e| e.dur_ns == 0 && (e.offset..e.offset + e.len).contains(&touched));
    assert!(hit, "no fault covers the byte that was written: {maps:?}");
    let synced: Vec<_> = events.iter().filter(|e| e.op == Op::Fdatasync).map(|e| (e.offset, e.len)).collect();
    assert_eq!(synced, [(1 << 18, 1 << 17)]);
    assert!(trace.meta.unseen.iter().any(|(what, n)| what.contains("shared writable maps") && *n == 1));
    // No layout knows the file: its role is that of its use.
    assert_eq!(trace.files.iter().map(|file| file.role).collect::<Vec<_>>(), [None]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    trace.save(&path).unwrap();
    assert_eq!(stats::load_with_roles(&path).unwrap().files[0].role, Some(Role::Data));
}

#[test]
fn names_are_followed() {
    let Some(trace) = record(
        "import os
def put(name): open(name, 'w').write(name)
put('old'); put('target'); put('gone'); os.mkdir('sub'); put('sub/deep')
os.rename('old', 'target')
os.rename(os.getcwd() + '/target', 'sub/last')
d = os.open('sub', os.O_RDONLY)
os.rename('deep', 'deeper', src_dir_fd=d, dst_dir_fd=d)
os.rename('sub', 'moved')
os.unlink('gone')
put('tail')
os.rename('tail', 'moved/tail')
put('by_strangers'); put('from_above')
assert os.system('rm \"$PWD/by_strangers\"; cd ..; rm db/from_above') == 0",
    ) else {
        return;
    };
    let paths: Vec<&str> = trace.files.iter().map(|f| f.path.rsplit_once("/db/").unwrap().1).collect();
    // Files are in the order of their first events, and have their last names.
    assert_eq!(
        paths,
        ["moved/last", "target", "gone", "moved/deeper", "moved/tail", "by_strangers", "from_above"]
    );
    let renames: Vec<_> =
        trace.events.iter().filter(|e| e.op == Op::Rename).map(|e| (e.file, e.offset)).collect();
    assert_eq!(renames, [(0, 1), (0, NO_FILE), (3, NO_FILE), (4, NO_FILE)]);
    let unlinks: Vec<_> = trace.events.iter().filter(|e| e.op == Op::Unlink).map(|e| e.file).collect();
    assert_eq!(unlinks, [2, 5, 6]);
    assert_eq!(trace.files[2].size, 4, "a removed file keeps the size it had");
}

#[test]
fn a_process_is_followed_with_its_children() {
    let scratch = scratch();
    let dir = scratch.path();
    // Waits for a line of input, so that the process runs before it is recorded; then writes, and starts a grandchild
    // that writes.
    let program = "import os, sys
sys.stdin.readline()
open('parent', 'w').write('12345')
if os.fork() == 0:
    if os.fork() == 0:
        open('grandchild', 'w').write('123')
        os._exit(0)
    os.wait(); os._exit(0)
os.wait()";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .current_dir(dir)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let live = Live::start(Subject::Pid(child.id()), &dir.join("t.parquet"));
    python(dir, "open('stranger', 'w').write('1')");
    drop(child.stdin.take());
    child.wait().unwrap();
    let Some(live) = live else { return };
    let (summary, trace) = live.join();
    assert_eq!(summary.ended, Ended::SubjectGone);
    let path = |name: &str| dir.canonicalize().unwrap().join(name);
    for (name, bytes) in [("parent", 5), ("grandchild", 3)] {
        let written: Vec<_> = ops_on(&trace, name).into_iter().filter(|(op, ..)| *op == Op::Write).collect();
        assert_eq!(written, [(Op::Write, 0, bytes)], "{name}");
        assert!(trace.files.iter().any(|f| Path::new(&f.path) == path(name)), "{:?}", trace.files);
    }
    assert_eq!(ops_on(&trace, "stranger"), []);
    assert!(trace.files.iter().all(|f| !f.path.starts_with("/proc/")), "{:?}", trace.files);
}

#[test]
fn threads_of_other_recorders_are_left_out_and_counted() {
    let Some(trace) = record(
        "import ctypes, os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.write(fd, b'own')
assert ctypes.CDLL(None).prctl(15, b'pw-recorder', 0, 0, 0) == 0
os.pread(fd, 100, 0)
open('g', 'w').close()
assert ctypes.CDLL(None).prctl(15, b'python', 0, 0, 0) == 0
os.write(fd, b'again')",
    ) else {
        return;
    };
    assert_eq!(ops_on(&trace, "db/f"), [(Op::Create, 0, 0), (Op::Write, 0, 3), (Op::Write, 3, 5)]);
    assert_eq!(ops_on(&trace, "db/g"), []);
    let counted = trace.meta.unseen.iter().find(|(what, _)| what.contains("other recorders"));
    assert!(counted.is_some(), "{:?}", trace.meta.unseen);
}

/// A log directory elsewhere, as `initdb -X` and `poolwright apply` make it.
#[test]
fn files_behind_links_of_a_database_are_recorded_by_the_names_of_the_links() {
    let scratch = scratch();
    let (dir, wal) = (scratch.path().join("db"), scratch.path().join("db-wal"));
    for path in ["base", "global"] {
        std::fs::create_dir_all(dir.join(path)).unwrap();
    }
    std::fs::create_dir_all(wal.join("archive_status")).unwrap();
    std::fs::write(dir.join("PG_VERSION"), "15\n").unwrap();
    std::fs::write(dir.join("global/pg_control"), "").unwrap();
    std::fs::write(wal.join("0001"), [1; 5000]).unwrap();
    std::os::unix::fs::symlink(&wal, dir.join("pg_wal")).unwrap();
    std::os::unix::fs::symlink("/etc", dir.join("other")).unwrap();
    let Some(live) = Live::start(Subject::Dir(dir.clone()), &scratch.path().join("t.parquet")) else {
        return;
    };
    python(
        &dir,
        "open('pg_wal/0001', 'r+b', buffering=0).write(b'a' * 300)
open('../db-wal/0002', 'xb', buffering=0).write(b'a' * 400)
open('base/1', 'xb', buffering=0).write(b'a' * 500)
open('other/hostname').read()",
    );
    let trace = live.finish().1;
    let real = dir.canonicalize().unwrap();
    let found = |name: &str| trace.files.iter().find(|file| Path::new(&file.path) == real.join(name));
    for (name, length) in [("pg_wal/0001", 300), ("pg_wal/0002", 400), ("base/1", 500)] {
        assert!(found(name).is_some(), "{name}: {:?}", trace.files);
        assert!(ops_on(&trace, name).contains(&(Op::Write, 0, length)), "{name}");
    }
    assert_eq!(found("pg_wal/0001").map(|file| (file.role, file.size)), Some((Some(Role::Wal), 5000)));
    assert_eq!(trace.files.len(), 3, "/etc is not a part of the database: {:?}", trace.files);
}

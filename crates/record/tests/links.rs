//! Files outside of the directory that links, mounts and replacements bring into it, before and during the recording.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use common::{Live, scratch, skip};
use poolwright_record::{Summary, Watcher};
use poolwright_trace::{Event, File, Op};

const LIMIT: Duration = Duration::from_secs(300);

/// Sends the path of each file that is written to.
struct Writes {
    files: Vec<String>,
    to: Sender<String>,
}

impl Watcher for Writes {
    fn file(&mut self, file: &File) {
        self.files.push(file.path.clone());
    }

    fn event(&mut self, event: &Event) {
        if event.op == Op::Write {
            // The test may have ended.
            let _ = self.to.send(self.files[event.file as usize].clone());
        }
    }
}

/// A recording in the background.
struct Watched {
    writes: Receiver<String>,
    live: Live,
}

impl Watched {
    /// `None` if recording is not permitted.
    fn start(dir: &Path) -> Option<Watched> {
        let (to, writes) = channel();
        Some(Watched { writes, live: Live::watch(dir, Writes { files: Vec::new(), to })? })
    }

    /// Waits until a write to each of the files has been recorded.
    fn expect(&self, files: &[PathBuf]) {
        let end = Instant::now() + LIMIT;
        let mut missing = files.to_vec();
        while !missing.is_empty() {
            match self.writes.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(path) => missing.retain(|file| file != Path::new(&path)),
                Err(_) => panic!("no write to {missing:?} was recorded"),
            }
        }
    }

    fn finish(self) -> Summary {
        self.live.stop()
    }
}

/// Writes to each of the files again and again, opening them anew, until it is killed.
struct Writer(Child);

impl Writer {
    fn start(files: &[PathBuf]) -> Writer {
        let program = "import sys, time
while True:
    for name in sys.argv[1:]:
        try: open(name, 'ab', buffering=0).write(b'x')
        except OSError: pass
    time.sleep(0.02)";
        let mut command = Command::new("python3");
        Writer(
            command.args(["-c", program]).args(files).stdin(Stdio::null()).spawn().expect("python3 starts"),
        )
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory for a database, and one outside of it.
fn places(scratch: &Path) -> (PathBuf, PathBuf) {
    let places = ["db", "elsewhere"].map(|name| scratch.canonicalize().unwrap().join(name));
    places.iter().for_each(|place| fs::create_dir(place).unwrap());
    let [dir, elsewhere] = places;
    (dir, elsewhere)
}

/// As MySQL documents for databases and for tables of MyISAM, and MariaDB for `DATA DIRECTORY`.
#[test]
fn links_to_directories_and_files_are_followed() {
    let scratch = scratch();
    let (dir, elsewhere) = places(scratch.path());
    fs::create_dir_all(elsewhere.join("big/sub")).unwrap();
    symlink(elsewhere.join("big"), dir.join("big")).unwrap();
    fs::create_dir(dir.join("shop")).unwrap();
    for table in ["t.MYD", "u.ibd"] {
        fs::write(elsewhere.join(table), "x").unwrap();
    }
    symlink(elsewhere.join("t.MYD"), dir.join("shop/t.MYD")).unwrap();
    fs::write(dir.join("shop/u.isl"), elsewhere.join("u.ibd").to_str().unwrap()).unwrap();
    symlink("/etc/hostname", dir.join("certificate")).unwrap();
    symlink("/nonexistent", dir.join("broken")).unwrap();
    let Some(watched) = Watched::start(&dir) else { return };
    let _writer = Writer::start(
        &["big/sub/table", "shop/t.MYD", "../elsewhere/u.ibd", "../elsewhere/foreign"]
            .map(|name| dir.join(name)),
    );
    watched.expect(&[dir.join("big/sub/table"), dir.join("shop/t.MYD"), elsewhere.join("u.ibd")]);
    let unseen = watched.finish().meta.unseen;
    let ignored: Vec<_> = unseen.iter().filter(|(what, _)| what.contains("not followed")).collect();
    assert!(matches!(ignored[..], [(what, 1)] if what.ends_with("/certificate")), "{unseen:?}");
    assert!(!unseen.iter().any(|(what, _)| what.contains("during the recording")), "{unseen:?}");
}

#[test]
fn links_made_during_the_recording_are_followed_and_named() {
    let scratch = scratch();
    let (dir, elsewhere) = places(scratch.path());
    fs::create_dir(dir.join("pg_tblspc")).unwrap();
    let Some(watched) = Watched::start(&dir) else { return };
    let space = elsewhere.join("space");
    fs::create_dir(&space).unwrap();
    // The recorder leaves out this process, so another one makes the links, one of them under another name first.
    let made = Command::new("sh")
        .args(["-c", "ln -s $0/space pg_tblspc/16384; ln -s $0/t.MYD ../new; mv ../new t.MYD; touch $0/t.MYD; printf %s $0/u.ibd >u.isl"])
        .arg(&elsewhere)
        .current_dir(&dir)
        .status();
    assert!(made.unwrap().success());
    let files = ["pg_tblspc/16384/1", "t.MYD"].map(|name| dir.join(name));
    let table = elsewhere.join("u.ibd");
    let _writer = Writer::start(&[&files[..], std::slice::from_ref(&table)].concat());
    watched.expect(&[&files[..], &[table]].concat());
    let unseen = watched.finish().meta.unseen;
    let late = unseen.iter().find(|(what, _)| what.contains("made during the recording"));
    assert_eq!(late.map(|(_, count)| *count), Some(3), "{unseen:?}");
}

#[test]
fn another_directory_of_that_name_is_followed() {
    let scratch = scratch();
    let (dir, elsewhere) = places(scratch.path());
    let Some(watched) = Watched::start(&dir) else { return };
    fs::create_dir(elsewhere.join("restored")).unwrap();
    fs::rename(&dir, elsewhere.join("old")).unwrap();
    fs::rename(elsewhere.join("restored"), &dir).unwrap();
    let _writer = Writer::start(&[dir.join("table")]);
    watched.expect(&[dir.join("table")]);
    let unseen = watched.finish().meta.unseen;
    assert!(
        unseen.iter().any(|(what, n)| what.contains("made during the recording") && *n == 1),
        "{unseen:?}"
    );
}

/// A loop device's own reads and writes pass no system call.
#[test]
fn files_of_loop_devices_are_named() {
    let scratch = scratch();
    let (dir, _) = places(scratch.path());
    fs::File::create(dir.join("image")).unwrap().set_len(1 << 20).unwrap();
    let made = Command::new("losetup").args(["-f", "--show"]).arg(dir.join("image")).output();
    let Some(made) = made.ok().filter(|output| output.status.success()) else {
        return skip("cannot make a loop device");
    };
    let unseen = Watched::start(&dir).map(|watched| watched.finish().meta.unseen);
    let detached =
        Command::new("losetup").arg("-d").arg(String::from_utf8(made.stdout).unwrap().trim()).status();
    assert!(detached.unwrap().success());
    let Some(unseen) = unseen else { return };
    assert!(unseen.iter().any(|(what, n)| what.starts_with("loop devices") && *n == 1), "{unseen:?}");
}

/// Unmounts when dropped.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_file_system_mounted_during_the_recording_is_followed() {
    let scratch = scratch();
    let (dir, _) = places(scratch.path());
    let point = dir.join("mnt");
    fs::create_dir(&point).unwrap();
    let Some(watched) = Watched::start(&dir) else { return };
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&point).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip("cannot mount");
    }
    let _mount = Unmount(point.clone());
    let _writer = Writer::start(&[point.join("table")]);
    watched.expect(&[point.join("table")]);
    let unseen = watched.finish().meta.unseen;
    assert!(
        unseen.iter().any(|(what, n)| what.contains("made during the recording") && *n == 1),
        "{unseen:?}"
    );
}

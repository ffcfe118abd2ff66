use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

fn contents(mut file: File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn files_are_reached_by_relative_paths_and_links_are_not_followed() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("precious"), "precious").unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/file"), "text").unwrap();
    symlink(outside.path(), dir.path().join("link")).unwrap();
    symlink(outside.path().join("precious"), dir.path().join("a/file_link")).unwrap();
    let top = Directory::open(dir.path()).unwrap();
    assert_eq!(contents(top.file("a/b/file", Access::Read).unwrap()), "text");
    assert_eq!(top.names().unwrap(), ["a", "link"]);
    assert!(top.inspect("link").unwrap().unwrap().is_symlink());
    assert!(top.inspect("a/b/none").unwrap().is_none());
    assert_eq!(top.directory("a").unwrap().read_link("file_link").unwrap(), outside.path().join("precious"));
    for path in ["link/precious", "a/file_link", "../x", "/etc/passwd"] {
        top.file(path, Access::ReadWrite).unwrap_err();
    }
    top.directory("link").unwrap_err();
    top.inspect("link/precious").unwrap_err();
    Directory::open(&dir.path().join("link")).unwrap_err();
    for name in ["a/new", "..", "", "."] {
        assert_eq!(top.create_file(name, 0o600).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
    }
    top.directory("a").unwrap().create_file("file_link", 0o600).unwrap_err();
    assert_eq!(fs::read_to_string(outside.path().join("precious")).unwrap(), "precious");
}

#[test]
fn what_is_not_a_regular_file_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let top = Directory::open(dir.path()).unwrap();
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, dir.path().join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    for name in ["pipe", "sub"] {
        let why = top.file(name, Access::Read).unwrap_err();
        assert_eq!(private::refusal(&why), Some(Unsafe::NotAFile), "{name}");
    }
    assert_eq!(top.file("none", Access::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn files_are_created_renamed_linked_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let top = Directory::open(dir.path()).unwrap();
    let sub = top.create_directory("sub").unwrap();
    sub.create_file("file", 0o600).unwrap().write_all(b"text").unwrap();
    sub.hard_link("file", &top, "other").unwrap();
    sub.set_times_of("file", (5, 6), (7, 8)).unwrap();
    let meta = top.inspect("other").unwrap().unwrap();
    assert_eq!((meta.nlink(), meta.atime(), meta.mtime(), meta.mtime_nsec()), (2, 5, 7, 8));
    sub.rename("file", &top, "renamed").unwrap();
    top.exchange("renamed", &top, "other").unwrap();
    assert_eq!(top.exchange("renamed", &top, "none").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(top.directory("").unwrap().path().as_os_str(), dir.path());
    top.create_link("sub_link", Path::new("sub")).unwrap();
    let (parent, name) = top.parent_of(Path::new("sub/deep")).unwrap();
    parent.create_directory(name).unwrap().create_file("x", 0o600).unwrap();
    top.remove_all("sub_link").unwrap();
    assert_eq!(top.names().unwrap(), ["other", "renamed", "sub"]);
    for name in ["sub", "other", "renamed", "none"] {
        top.remove_all(name).unwrap();
    }
    assert!(top.names().unwrap().is_empty());
    top.sync().unwrap();
}

/// The owner of a directory exchanges it for a link while another process works below it.
#[test]
fn nothing_outside_changes_while_directories_are_exchanged() {
    const DURATION: Duration = Duration::from_secs(1);
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(outside.path().join("deep")).unwrap();
    fs::write(outside.path().join("deep/file"), "precious").unwrap();
    let inside = dir.path().join("sub");
    fs::create_dir_all(inside.join("deep")).unwrap();
    symlink(outside.path(), dir.path().join("link")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let link = dir.path().join("link");
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            while !stop.load(Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, &inside, CWD, &link, flags);
            }
        });
        let top = Directory::open(dir.path()).unwrap();
        let start = Instant::now();
        while start.elapsed() < DURATION {
            for path in ["sub/deep/file", "link/deep/file"] {
                if let Ok((parent, name)) = top.parent_of(Path::new(path)) {
                    if let Ok(mut file) = parent.create_file(name, 0o600) {
                        file.write_all(b"overwritten").unwrap();
                    }
                    if let Ok(file) = parent.file(name, Access::Read) {
                        assert_ne!(contents(file), "precious");
                    }
                    let _ = parent.remove_all(name);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(outside.path().join("deep/file")).unwrap(), "precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_link_leads_to_what_it_led_to_when_it_was_looked_at() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = outside.path().canonicalize().unwrap();
    fs::create_dir(outside.join("sub")).unwrap();
    for file in ["sub/inner", "file"] {
        fs::write(outside.join(file), file).unwrap();
    }
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, outside.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let top = Directory::open(dir.path()).unwrap();
    for name in ["sub", "file", "pipe", "none"] {
        symlink(outside.join(name), dir.path().join(name)).unwrap();
    }
    symlink("loop", dir.path().join("loop")).unwrap();
    let target = |name: &str| top.link_target(name).unwrap();
    let (sub, file, pipe) = (target("sub").unwrap(), target("file").unwrap(), target("pipe").unwrap());
    assert!(target("none").is_none() && target("loop").is_none());
    assert_eq!(sub.path(), outside.join("sub"));
    assert!(sub.metadata().unwrap().is_dir() && file.metadata().unwrap().is_file());
    for name in ["sub", "file"] {
        fs::remove_file(dir.path().join(name)).unwrap();
        symlink("/etc/passwd", dir.path().join(name)).unwrap();
    }
    assert_eq!(contents(sub.directory().unwrap().file("inner", Access::Read).unwrap()), "sub/inner");
    assert_eq!(contents(file.file().unwrap()), "file");
    file.directory().unwrap_err();
    for other in [&sub, &pipe] {
        assert_eq!(private::refusal(&other.file().unwrap_err()), Some(Unsafe::NotAFile));
    }
}

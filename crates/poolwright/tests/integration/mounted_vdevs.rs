//! Changes of the vdevs of mounted pools, and kills of the process that makes them.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::mounted::{Mounted, until, write};
use crate::common::{TestDir, skip_without_fuse};

/// Incompressible bytes.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut one = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 56) as u8
    };
    (0..len).map(|_| one()).collect()
}

/// The names of the files in the pool's registry entry.
fn registered(p: &Mounted) -> BTreeSet<String> {
    let text = std::fs::read_to_string(p.at("state/pools/tank.json")).unwrap();
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    let name = |file: &serde_json::Value| file.as_str().unwrap().rsplit_once('/').unwrap().1.to_owned();
    entry["files"].as_array().unwrap().iter().map(name).collect()
}

/// The names of the files that the pool's process has open.
fn used(p: &Mounted) -> BTreeSet<String> {
    let (_, status) = p.status();
    let files = status["info"]["files"].as_array().unwrap().clone();
    files.iter().map(|file| file.as_str().unwrap().rsplit_once('/').unwrap().1.to_owned()).collect()
}

fn names(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn is_sound(p: &Mounted) {
    let scrub = p.json("pool scrub -w tank");
    assert_eq!(
        (scrub["state"].as_str(), scrub["checksum_errors"].as_u64()),
        (Some("finished"), Some(0)),
        "{scrub}"
    );
    let (code, status) = p.status();
    assert_eq!((code, status["state"].as_str()), (0, Some("ONLINE")), "{status}");
}

#[test]
fn vdevs_are_changed_while_programs_write() {
    skip_without_fuse!();
    let mut p = Mounted::on("a:256M");
    let content = noise(30_000_000, 1);
    write(p.at("m/f"), &content).unwrap();
    p.run("pool add tank b:256M log l:128M cache x:128M");
    assert_eq!(registered(&p), names("a b l x"));
    write(p.at("m/g"), &content).unwrap();
    p.run("pool attach -w tank a c");
    p.run("pool attach tank b d");
    let during = noise(5_000_000, 2);
    write(p.at("m/during"), &during).unwrap();
    is_sound(&p);
    p.run("pool detach tank a");
    assert_eq!(registered(&p), names("b c d l x"));
    std::fs::remove_file(p.at("a")).unwrap();
    p.run("pool replace tank c a");
    until("the old file is detached", || registered(&p) == names("a b d l x"));
    std::fs::remove_file(p.at("c")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!p.log().contains("was removed"), "{}", p.log());
    is_sound(&p);

    // A file that is lost, and its replacement in its place.
    std::fs::remove_file(p.at("d")).unwrap();
    until("the loss is noticed", || p.status().1["state"].as_str() == Some("DEGRADED"));
    p.run("pool replace -w tank d");
    is_sound(&p);
    p.fails("pool add tank mirror e:128M f:128M f:128M", 2, &["f is named twice"]);
    p.umount();
    until("the pool is exported", || !p.is_alive());
    assert_eq!(registered(&p), names("a b d l x"));
    p.run("pool export tank");
    p.run("pool import tank -d .");
    p.mount();
    for (file, wanted) in [("m/f", &content), ("m/g", &content), ("m/during", &during)] {
        assert!(std::fs::read(p.at(file)).unwrap() == *wanted, "{file}");
    }
    is_sound(&p);
}

/// The state of each spare in the JSON of the status.
fn spares(p: &Mounted) -> Vec<String> {
    let (_, status) = p.status();
    let vdevs = status["info"]["vdevs"].as_array().unwrap().clone();
    let states = vdevs.iter().filter(|vdev| vdev["spare"] == true);
    states.map(|vdev| vdev["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_spare_is_added_and_used_while_programs_write() {
    skip_without_fuse!();
    let mut p = Mounted::on("mirror a:256M b:256M");
    let content = noise(30_000_000, 1);
    write(p.at("m/f"), &content).unwrap();
    p.run("pool add tank spare s:256M");
    assert_eq!((registered(&p), spares(&p)), (names("a b s"), vec!["AVAIL".to_owned()]));
    p.fails("pool create other s", 3, &["s exists and is not empty"]);
    std::fs::remove_file(p.at("b")).unwrap();
    until("the loss is noticed", || p.status().1["state"].as_str() == Some("DEGRADED"));
    assert_eq!(spares(&p), ["AVAIL"], "nothing activates a spare automatically");
    let changed = p.json("pool replace -w tank b s");
    assert_eq!(changed["spares_in_use"].as_array().unwrap().len(), 1, "{changed}");
    write(p.at("m/g"), &content).unwrap();
    assert_eq!(spares(&p), ["INUSE"]);
    let text = p.command("pool status tank").output().unwrap().stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("  spare-1 ") && text.contains("\nspares ") && text.contains(" INUSE "), "{text}");

    // A new file relieves the spare.
    p.run("pool replace -w tank b c");
    until("the spare is available again", || spares(&p) == ["AVAIL"] && registered(&p) == names("a c s"));
    is_sound(&p);
    p.umount();
    until("the pool is exported", || !p.is_alive());
    std::fs::rename(p.at("s"), p.at("moved")).unwrap();
    p.run("pool import tank -d .");
    assert_eq!(registered(&p), names("a c moved"));
    p.mount();
    assert_eq!(spares(&p), ["AVAIL"]);
    p.run("pool replace -w tank a moved");
    p.run("pool detach tank a");
    assert_eq!((registered(&p), spares(&p).len()), (names("c moved"), 0));
    for file in ["m/f", "m/g"] {
        assert!(std::fs::read(p.at(file)).unwrap() == content, "{file}");
    }
    is_sound(&p);
}

/// Appends and syncs pages to a file until `stop`; returns their number.
fn append_synced(path: &Path, stop: &AtomicBool) -> usize {
    let mut file = std::fs::File::create(path).unwrap();
    let mut pages = 0;
    while !stop.load(Ordering::Relaxed) {
        file.write_all(&noise(4096, pages as u64)).unwrap();
        file.sync_data().unwrap();
        pages += 1;
    }
    pages
}

#[test]
fn a_log_is_removed_while_a_program_syncs() {
    skip_without_fuse!();
    let mut p = Mounted::on("a:256M log mirror k:128M l:128M cache x:128M");
    let stop = AtomicBool::new(false);
    let path = p.at("m/synced");
    let pages = std::thread::scope(|threads| {
        let writer = threads.spawn(|| append_synced(&path, &stop));
        until("it has written", || std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 100 * 4096));
        p.run("pool remove tank l");
        let before = std::fs::metadata(&path).unwrap().len();
        until("it goes on", || std::fs::metadata(&path).unwrap().len() > before + 10 * 4096);
        p.run("pool remove tank x");
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert_eq!(registered(&p), names("a"));
    is_sound(&p);
    p.umount();
    until("the pool is exported", || !p.is_alive());
    // The removed files are still there, and belong to no pool.
    p.run("pool import tank -d .");
    assert_eq!(registered(&p), names("a"));
    p.mount();
    let wanted: Vec<u8> = (0..pages).flat_map(|page| noise(4096, page as u64)).collect();
    assert!(std::fs::read(&path).unwrap() == wanted, "{pages} pages");
}

#[test]
fn a_clone_is_mounted_beside_its_origin() {
    skip_without_fuse!();
    let p = Mounted::on("a:256M");
    write(p.at("m/f"), b"before").unwrap();
    p.run("dataset snapshot tank@s");
    write(p.at("m/f"), b"after").unwrap();
    assert_eq!(std::fs::read(p.at("m/.zfs/snapshot/s/f")).unwrap(), b"before");
    p.run("dataset clone tank@s tank/copy -o recordsize=16K");
    std::fs::create_dir(p.at("n")).unwrap();
    p.run("mount tank/copy n");
    assert_eq!(std::fs::read(p.at("n/f")).unwrap(), b"before");
    write(p.at("n/f"), b"clone").unwrap();
    assert_eq!(std::fs::read(p.at("m/f")).unwrap(), b"after");
    p.fails("dataset destroy tank@s", 3, &["tank@s has a clone: tank/copy", "dataset promote tank/copy"]);
    assert_eq!(std::fs::read(p.at("n/f")).unwrap(), b"clone");
}

/// Kills the pool's process, and unmounts what it leaves.
fn kill(p: &Mounted) {
    Command::new("kill").args(["-KILL", &p.pid.to_string()]).status().unwrap();
    until("the process is gone", || !p.is_alive());
    until("the mount is gone", || crate::common::mounted::umount(&p.at("m")) || !p.at("m/f").exists());
}

/// After `kill -9` of the mount process at different points of an attachment and a replacement, the pool is found by its name
/// and has all data.
#[test]
fn a_pool_survives_a_kill_of_its_process() {
    skip_without_fuse!();
    for (round, verb) in ["attach tank a b", "replace tank a b"].into_iter().cycle().take(8).enumerate() {
        let mut p = Mounted::on("a:256M");
        let content = noise(40_000_000, round as u64);
        write(p.at("m/f"), &content).unwrap();
        let mut asking = p.command(&format!("pool {verb}"));
        let asking = std::thread::spawn(move || asking.output().unwrap());
        std::thread::sleep(Duration::from_millis(20 + 40 * round as u64));
        kill(&p);
        asking.join().unwrap();
        let left = registered(&p);
        p.run("pool import tank -d .");
        p.mount();
        assert!(std::fs::read(p.at("m/f")).unwrap() == content, "round {round}, {verb}, {left:?}");
        until("a resilver ends", || {
            let (_, status) = p.status();
            status["info"]["scan"]["state"].as_str() != Some("scanning")
        });
        is_sound(&p);
        until("the registry has the pool's files", || registered(&p) == used(&p));
    }
}

/// The files are moved after `kill -9` of the mount process. The registry and the labels have their old paths, at which other files may be.
#[test]
fn a_pool_whose_files_were_moved_after_a_kill_is_imported() {
    skip_without_fuse!();
    let test_dir = TestDir::new();
    let dir = |name: &str| std::fs::create_dir(test_dir.at(name)).unwrap();
    ["m", "old", "other"].into_iter().for_each(dir);
    test_dir.run("pool create tank mirror old/a:128M other/b:128M log old/l:128M cache other/c:128M");
    let mut p = Mounted { test_dir, pid: 0 };
    p.mount();
    let move_to = |p: &Mounted, from: &str, to: &str| std::fs::rename(p.at(from), p.at(to)).unwrap();
    let content = noise(10_000_000, 1);
    let is_whole = |p: &mut Mounted, files: &str| {
        p.mount();
        assert_eq!(registered(p), names(files));
        assert!(std::fs::read(p.at("m/f")).unwrap() == content);
        is_sound(p);
        let (_, status) = p.status();
        let states = status["info"]["vdevs"].as_array().unwrap().iter().map(|vdev| vdev["state"].clone());
        assert!(states.clone().all(|state| state == "ONLINE" || state.is_null()), "{status}");
    };
    write(p.at("m/f"), &content).unwrap();
    kill(&p);
    move_to(&p, "old", "new");
    // A part of them.
    let todo = "hint: `poolwright pool import tank FILE…` with the present paths of all files";
    p.fails("mount tank m --background", 1, &["old/a", "no such file", todo]);
    p.fails("pool import tank -d new", 1, &["other/b of it is not named", "hint: name all of its files"]);
    p.run("pool import tank new/a new/l other/b other/c");
    is_whole(&mut p, "a b l c");

    // All of them.
    write(p.at("m/later"), b"later").unwrap();
    kill(&p);
    ["b", "c"].into_iter().for_each(|file| move_to(&p, &format!("other/{file}"), &format!("new/{file}")));
    move_to(&p, "new", "newer");
    p.fails(
        "mount tank m --background",
        1,
        &["no such file", "hint: if the files were moved, `poolwright pool import tank -d DIR`"],
    );
    std::fs::create_dir(p.at("new")).unwrap();
    std::fs::File::create(p.at("new/a")).unwrap().set_len(128 << 20).unwrap();
    std::fs::write(p.at("new/l"), "no vdev").unwrap();
    std::os::unix::fs::symlink(p.at("newer/b"), p.at("other/b")).unwrap();
    p.run("pool import tank -d newer");
    is_whole(&mut p, "a b l c");
    assert_eq!(std::fs::read(p.at("m/later")).unwrap(), b"later");

    // A copy of a pool that still is where it was.
    kill(&p);
    std::fs::create_dir(p.at("copy")).unwrap();
    for file in ["a", "b", "l"] {
        std::fs::copy(p.at("newer").join(file), p.at("copy").join(file)).unwrap();
    }
    p.fails(
        "pool import tank -d copy",
        3,
        &["another pool named tank is registered, in ", "newer/a", "pool export tank"],
    );
    p.run("pool export tank");
    // The cache vdev was not copied.
    p.run("pool import tank -d copy");
    assert_eq!(registered(&p), names("a b l c"));
}

/// A killed process that has not ended yet accepts connections and answers none.
#[test]
fn commands_wait_for_a_process_that_was_killed() {
    skip_without_fuse!();
    for verb in ["pool import tank -d .", "pool status tank", "dataset create tank/new", "pool export tank"] {
        let p = Mounted::on("a:256M");
        let signal = |name: &str| Command::new("kill").args([name, &p.pid.to_string()]).status().unwrap();
        // A stopped process does not accept the connection, as one whose threads are ending.
        signal("-STOP");
        let mut asking = p.plain();
        asking.args(verb.split(' ')).stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut asking = asking.spawn().unwrap();
        until("it asks", || has_socket(asking.id()) || asking.try_wait().unwrap().is_some());
        signal("-KILL");
        let asked = asking.wait_with_output().unwrap();
        assert!(asked.status.success(), "{verb}: {}", String::from_utf8_lossy(&asked.stderr));
        crate::common::mounted::umount(&p.at("m"));
    }
}

/// Whether a process has a socket open.
fn has_socket(pid: u32) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|fd| std::fs::read_link(fd.path()).ok())
        .any(|to| to.to_string_lossy().starts_with("socket:"))
}

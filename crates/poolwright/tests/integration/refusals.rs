//! Refusals with exit code 3 that protect a pool: a pool that another host has open.
//! Also: a read-only mount changes nothing, and a mirror survives a full disk.

use std::path::Path;
use std::process::Command;

use crate::common::mounted::{Mounted, umount, until, write};
use crate::common::{TestDir, skip_without_fuse};

/// OpenZFS is part of the program: a package upgrade cannot replace it by one with other structures.
#[test]
fn the_program_loads_no_library_of_openzfs() {
    let listed = Command::new("ldd").arg(assert_cmd::cargo::cargo_bin!("poolwright")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("libc.so"), "{listed}");
    assert!(!["libzpool", "libzfs", "libnvpair"].iter().any(|library| listed.contains(library)), "{listed}");
}

/// The shipped program does not contain test switches that weaken durability.
#[test]
fn the_program_has_no_simulated_power_cuts() {
    let program = std::fs::read(assert_cmd::cargo::cargo_bin!("poolwright")).unwrap();
    let has = |fragment: &[u8]| program.windows(fragment.len()).any(|w| w == fragment);
    assert!(has(b"POOLWRIGHT_RUNTIME_DIR"), "the search works");
    assert!(!has(b"POOLWRIGHT_POWER"));
}

/// Creates a pool on `img` with data that are only in its log, because its mount was killed.
fn crashed(p: &TestDir, host: Option<&str>) -> bool {
    p.run("pool create tank img:256M");
    std::fs::create_dir(p.at("m")).unwrap();
    let mut command = p.plain();
    if let Some(host) = host {
        let program = command.get_program().to_owned();
        let mut other = p.on_host(host);
        other.arg(program);
        command = other;
    }
    let done = command
        .args("mount tank m --tunable zfs_txg_timeout=3600 --background --json".split(' '))
        .output()
        .unwrap();
    if host.is_some() && !done.status.success() && String::from_utf8_lossy(&done.stderr).contains("unshare") {
        eprintln!("skipped: no other host name can be set: {}", String::from_utf8_lossy(&done.stderr));
        return false;
    }
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let pid = crate::common::json_output("mount", &done.stdout)["pid"].to_string();
    // A log begins with a transaction group, which contains the first file.
    write(p.at("m/first"), b"acknowledged").unwrap();
    write(p.at("m/row"), b"acknowledged").unwrap();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    until("the mount process is gone", || !Path::new(&format!("/proc/{pid}/fd/0")).exists());
    until("it can be unmounted", || umount(&p.at("m")));
    true
}

#[test]
fn a_pool_that_another_host_has_open_is_refused() {
    skip_without_fuse!();
    let p = TestDir::new();
    if !crashed(&p, Some("elsewhere")) {
        return;
    }
    let fragments = ["refused", "elsewhere", "--force"];
    for line in [
        "pool import tank img",
        "pool scrub tank",
        "pool export tank",
        "dataset list -r tank",
        "dataset set compression=off tank",
        "mount tank m",
        "mount -o readonly tank m",
    ] {
        p.fails(line, 3, &fragments);
    }
    p.run("pool import --force tank img");
    p.run("dataset list -r tank");
}

#[test]
fn a_read_only_mount_changes_no_byte() {
    skip_without_fuse!();
    let p = TestDir::new();
    crashed(&p, None);
    let before = std::fs::read(p.at("img")).unwrap();
    let messages = p.command("mount -o readonly tank m --background").assert().success();
    let messages = String::from_utf8_lossy(&messages.get_output().stderr).into_owned();
    assert!(messages.contains("a read-only pool does not include them"), "{messages}");
    assert!(!p.at("m/row").exists(), "data that is only in the log is visible");
    assert_eq!(write(p.at("m/new"), b"x").unwrap_err().raw_os_error(), Some(libc::EROFS));
    for line in [
        "dataset set compression=off tank",
        "dataset snapshot tank@s",
        "pool scrub tank",
        "dataset create tank/d",
    ] {
        p.fails(line, 3, &["refused", "read-only", "unmount"]);
    }
    p.run("dataset list -r tank");
    p.run("dataset get recordsize tank");
    until("it can be unmounted", || umount(&p.at("m")));
    // Not with a verb, which would open the pool for writing.
    until("the owner has ended", || !p.at("run/tank.sock").exists());
    assert!(std::fs::read(p.at("img")).unwrap() == before, "the file has changed");
    p.run("pool import tank img");
    assert!(std::fs::read(p.at("img")).unwrap() != before, "the search for changes works");
}

/// If the file system under one side of a mirror is full, the pool continues and reports it.
#[test]
fn a_full_disk_under_one_side_of_a_mirror() {
    skip_without_fuse!();
    let Some(small) = Small::new() else {
        eprintln!("skipped: no small file system can be mounted");
        return;
    };
    let mounted = Mounted::on(&format!("mirror img:1G {}:1G", small.0.path().join("img").display()));
    let block: Vec<u8> = (0..1u32 << 20).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for i in 0..12 {
        write(mounted.at("m").join(format!("f{i}")), &block).unwrap();
    }
    until("the file is taken out of use", || mounted.status().1["state"] == "DEGRADED");
    for i in 0..12 {
        assert!(std::fs::read(mounted.at("m").join(format!("f{i}"))).unwrap() == block, "f{i}");
    }
    assert!(mounted.log().contains("the pool continues without that file"), "{}", mounted.log());
    mounted.umount();
    until("the owner has ended", || !mounted.is_alive());
}

/// A small file system.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=24M", "poolwright-test"]).arg(dir.path());
        mount.status().is_ok_and(|status| status.success()).then(|| Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

//! Pools that are mounted in the background: their files, snapshots, limits and counters.

use std::io::Write as _;
use std::process::Command;

use crate::common::mounted::{Mounted, until, write};
use crate::common::skip_without_fuse;

/// Incompressible bytes.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut one = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 56) as u8
    };
    (0..len).map(|_| one()).collect()
}

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

#[test]
fn snapshots_that_a_program_has_looked_into() {
    skip_without_fuse!();
    let p = Mounted::on("img:512M");
    for name in ["one", "two", "three", "four"] {
        write(p.at("m").join(name), b"x").unwrap();
        p.run(&format!("dataset snapshot tank@{name}"));
    }
    let inside = |name: &str| p.at("m/.zfs/snapshot").join(name);
    for name in ["two", "three", "four"] {
        assert_eq!(std::fs::read(inside(name).join("two")).unwrap(), b"x");
        assert!(std::fs::read_dir(inside(name)).unwrap().count() >= 2);
    }
    let list = p.json("dataset list -t snapshot tank");
    for snapshot in list["datasets"].as_array().unwrap() {
        assert!(snapshot["stats"]["referenced"].as_u64().unwrap() > 0, "{snapshot}");
    }
    assert!(p.run("dataset get all tank@two").contains("referenced"));
    p.run("dataset destroy tank@two");
    assert!(!inside("two").exists() && inside("three").join("two").exists());

    let open = std::fs::File::open(inside("three").join("two")).unwrap();
    let messages = [
        "refused",
        "tank@three is in use in",
        "1 file or directory of it is open",
        "\nhint: end the programs that `fuser -vm",
    ];
    p.fails("dataset destroy tank@three", 3, &messages);
    p.fails("dataset rollback -r tank@one", 3, &messages);
    drop(open);
    let mut shell = Command::new("sleep").arg("1000").current_dir(inside("three")).spawn().unwrap();
    p.fails("dataset rollback -r tank@one", 3, &["tank@three is in use", "working directory"]);
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert!(inside("four").join("four").exists(), "none is destroyed if one of them is in use");
    p.run("dataset rollback -r tank@one");
    let left: Vec<_> = std::fs::read_dir(p.at("m")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["one"]);
    assert!(!p.run("dataset list -H -t snapshot").contains("@three"));
}

#[test]
fn a_pool_file_that_is_removed_can_be_saved() {
    skip_without_fuse!();
    let mut p = Mounted::on("img:512M");
    write(p.at("m/precious"), b"data").unwrap();
    let before = std::fs::File::open(p.at("m/precious")).unwrap();
    std::fs::remove_file(p.at("img")).unwrap();
    let (code, status) = p.status();
    assert_eq!((code, status["state"].as_str()), (1, Some("UNAVAIL")), "{status}");
    let fault = &status["info"]["file_faults"][0];
    assert_eq!((fault["change"].as_str(), fault["lost"].as_bool()), (Some("removed"), Some(true)), "{fault}");
    let text = p.command("pool status tank").assert().code(1);
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    for fragment in [
        "state: UNAVAIL",
        "img was removed while tank was open",
        "action: save it",
        "file was removed",
        "EIO",
    ] {
        assert!(text.contains(fragment), "no {fragment:?} in\n{text}");
    }
    assert_eq!(p.json("pool list")["pools"][0]["health"], "UNAVAIL");
    until("the log reports it", || p.log().contains("img was removed"));

    assert_eq!(errno(write(p.at("m/new"), b"lost")), libc::EIO);
    assert_eq!(errno(std::fs::create_dir(p.at("m/d"))), libc::EIO);
    assert_eq!(errno(std::fs::remove_file(p.at("m/precious"))), libc::EIO);
    assert_eq!(errno(before.sync_all()), libc::EIO, "no further data becomes durable");
    assert_eq!(std::fs::read(p.at("m/precious")).unwrap(), b"data", "reading still works");
    drop(before);
    p.fails("dataset set recordsize=8K tank", 1, &["was removed", "\nhint: save it with `cp"]);
    p.fails("pool export tank", 1, &["was removed", "\nhint: save it with `cp"]);

    p.umount();
    until("the process reports that it keeps the data", || p.log().contains("keeps the data"));
    assert!(p.is_alive());
    std::fs::copy(fault["content"].as_str().unwrap(), p.at("img")).unwrap();
    p.kill();
    until("the process ends", || !p.is_alive());
    // Another process writes the log.
    until("the log reports it", || p.log().contains("tank was not exported"));
    p.mount();
    assert_eq!(std::fs::read(p.at("m/precious")).unwrap(), b"data");
    assert!(!p.at("m/new").exists());
    assert_eq!(p.status().0, 0);
    p.umount();
    until("the process ends", || !p.is_alive());
}

#[test]
fn pool_files_that_are_truncated_replaced_or_moved() {
    skip_without_fuse!();
    let p = Mounted::on("img:512M");
    std::fs::rename(p.at("img"), p.at("elsewhere")).unwrap();
    let (code, status) = p.status();
    assert_eq!((code, status["state"].as_str()), (1, Some("ONLINE")), "{status}");
    assert!(status["trouble"].as_str().unwrap().contains("/elsewhere while"), "{status}");
    write(p.at("m/f"), b"safe: the file has a name").unwrap();
    std::fs::rename(p.at("elsewhere"), p.at("img")).unwrap();
    assert_eq!(p.status().0, 0);

    let file = std::fs::OpenOptions::new().write(true).open(p.at("img")).unwrap();
    file.set_len(256 << 20).unwrap();
    let (code, status) = p.status();
    assert_eq!((code, status["state"].as_str()), (1, Some("UNAVAIL")), "{status}");
    assert!(status["trouble"].as_str().unwrap().contains("was truncated"), "{status}");
    assert_eq!(errno(write(p.at("m/g"), b"no")), libc::EIO);
    until("the log reports it", || p.log().contains("img was truncated"));
    p.kill();
    until("the process ends", || !p.is_alive());

    let p = Mounted::on("img:512M");
    std::fs::write(p.at("other"), b"another file").unwrap();
    std::fs::rename(p.at("other"), p.at("img")).unwrap();
    let (code, status) = p.status();
    let trouble = status["trouble"].as_str().unwrap_or_default();
    assert!(code == 1 && trouble.contains("was replaced") && trouble.contains("img.saved"), "{status}");
    until("the log reports it", || p.log().contains("img was replaced"));
    p.kill();
    until("the process ends", || !p.is_alive());
    assert_eq!(std::fs::read(p.at("img")).unwrap(), b"another file");
}

#[test]
fn a_mirror_continues_without_a_file() {
    skip_without_fuse!();
    let mut p = Mounted::on("mirror a:512M b:512M");
    write(p.at("m/before"), b"before").unwrap();
    std::fs::remove_file(p.at("a")).unwrap();
    let (code, status) = p.status();
    assert_eq!((code, status["state"].as_str()), (1, Some("DEGRADED")), "{status}");
    assert_eq!(status["info"]["file_faults"][0]["lost"], false);
    let text = p.command("pool status tank").assert().code(1);
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    let line = text.lines().find(|line| line.contains("/a ") && line.contains("FAULTED")).unwrap_or_default();
    assert!(line.contains("file was removed"), "{text}");
    write(p.at("m/after"), b"after").unwrap();
    p.umount();
    until("the process ends", || !p.is_alive());
    let refused = p.command("pool export tank").assert().code(1);
    let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(text.contains("/a: no such file\nhint: ") && text.contains("pool import tank FILE…"), "{text}");
    p.run("pool import tank b");
    p.mount();
    assert_eq!(std::fs::read(p.at("m/before")).unwrap(), b"before");
    assert_eq!(std::fs::read(p.at("m/after")).unwrap(), b"after");
}

#[test]
fn iostat_shows_levels_and_the_space_of_vdevs() {
    skip_without_fuse!();
    let p = Mounted::on("mirror a:512M b:512M log l:128M");
    write(p.at("m/f"), &noise(8 << 20, 1)).unwrap();
    let out = p.run("pool iostat tank 200ms 3 --json");
    for report in out.lines().map(|line| crate::common::json_output("pool-iostat", line.as_bytes())) {
        let arc = &report["arc"];
        assert_eq!((arc["max"].as_u64(), arc["target"].as_u64()), (Some(64 << 20), Some(64 << 20)), "{arc}");
        let size = arc["size"].as_u64().unwrap();
        assert!((1 << 20..1 << 30).contains(&size), "{arc}");
        let vdevs = report["vdevs"].as_array().unwrap();
        let sizes: Vec<bool> = vdevs.iter().map(|v| v["size"].as_u64().unwrap() > 0).collect();
        assert_eq!(sizes, [true, true, false, false, true], "root, mirror, its files, log: {vdevs:?}");
        assert!(vdevs[1]["allocated"].as_u64().unwrap() >= 8 << 20, "{vdevs:?}");
    }
    let text = p.run("pool iostat -v tank");
    for fragment in ["arc size", "arc target", "arc hit%"] {
        assert!(text.contains(fragment), "{text}");
    }
    let cells = |title: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.contains(title)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert!(cells("mirror-0")[1].ends_with('M') && cells("mirror-0")[2].ends_with('M'), "{text}");
    assert_eq!(&cells("/a ")[1..3], ["-", "-"], "a file of a mirror has no space of its own: {text}");
    assert_eq!(cells("tank")[12], "64M", "the ARC's target may be grown to: {text}");
}

#[test]
fn a_write_over_a_quota_fails() {
    skip_without_fuse!();
    let p = Mounted::on("img:1G -O refquota=32M");
    let df = Command::new("df").args(["-B1", "--output=size"]).arg(p.at("m")).output().unwrap();
    let size: u64 = String::from_utf8_lossy(&df.stdout).split_whitespace().last().unwrap().parse().unwrap();
    assert!((24 << 20..=32 << 20).contains(&size), "{size}");
    let fill = |name: &str| -> std::io::Result<()> {
        let mut file = std::fs::File::create(p.at("m").join(name))?;
        (0..256).try_for_each(|i| {
            file.write_all(&noise(1 << 20, i))?;
            file.sync_all()
        })
    };
    assert_eq!(errno(fill("one")), libc::EDQUOT);
    p.run("dataset set refquota=none quota=64M tank");
    assert_eq!(errno(fill("two")), libc::EDQUOT);
    p.fails("dataset set quota=1M tank", 1, &["quota=1M", "already uses or has reserved more"]);
    p.run("dataset set quota=none tank");
    write(p.at("m/three"), &noise(1 << 20, 7)).unwrap();
}

#[test]
fn a_mounted_pool_is_destroyed_only_by_force() {
    skip_without_fuse!();
    let mut p = Mounted::on("img:512M");
    write(p.at("m/f"), b"kept for now").unwrap();
    p.fails(
        "pool destroy tank",
        3,
        &["refused", "mounted on", "/m", "\nhint: `poolwright pool destroy -f tank`"],
    );
    assert_eq!(std::fs::read(p.at("m/f")).unwrap(), b"kept for now");
    until("it is destroyed", || p.command("pool destroy -f tank").output().unwrap().status.success());
    assert!(!p.is_alive());
    p.fails("mount tank m", 1, &["no such pool: \"tank\""]);
    p.fails("pool import img", 1, &["the pool was destroyed", "\nhint: `poolwright pool import -D"]);
    p.run("pool import -D img");
    p.mount();
    assert_eq!(std::fs::read(p.at("m/f")).unwrap(), b"kept for now");
    p.umount();
    until("the process ends", || !p.is_alive());
}

/// A refusal reads the same from the process that owns the pool as from one that opens the pool for one request.
#[test]
fn refusals_are_the_same_with_and_without_an_owner() {
    skip_without_fuse!();
    let mut p = Mounted::on("img:512M");
    p.umount();
    until("the process ends", || !p.is_alive());
    p.run("dataset create tank/db");
    p.run("dataset snapshot tank/db@one");
    p.run("dataset snapshot tank/db@two");
    let lines = [
        "dataset destroy tank/db",
        "dataset destroy tank",
        "dataset rollback tank/db@one",
        "dataset create tank/a/b",
        "dataset inherit quota tank/db",
        "dataset set recordsize=5K tank/db",
        "dataset list tank/none",
        "dataset get all tank/none",
    ];
    let refusals = |p: &Mounted| {
        lines.map(|line| {
            let done = p.command(line).output().unwrap();
            (line, done.status.code(), String::from_utf8(done.stderr).unwrap())
        })
    };
    let alone = refusals(&p);
    p.mount();
    assert_eq!(refusals(&p), alone);
    let (_, code, message) = &alone[0];
    let expected = "poolwright: refused: tank/db has 2 snapshots and datasets below it: tank/db@one, …\n\
                    hint: -r destroys them too\n";
    assert_eq!((*code, message.as_str()), (Some(3), expected));
    p.umount();
    until("the process ends", || !p.is_alive());
}

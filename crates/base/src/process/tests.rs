use super::*;

#[test]
fn processes_with_names_of_any_kind() {
    let line =
        "7163 (a (b) c) S 7152 7152 31101 0 -1 4194304 99 0 0 0 12 34 56 78 20 0 1 0 3549611 3133440 394";
    let found = ProcessStat::parse(line).unwrap();
    assert_eq!((found.pid, found.parent, found.state), (7163, 7152, 'S'));
    assert_eq!((found.name.as_str(), found.flags), ("a (b) c", 4_194_304));
    assert_eq!(found.own, CpuTicks { user: 12, system: 34 });
    assert_eq!(found.waited, CpuTicks { user: 56, system: 78 });
    assert_eq!(found.own.total(), 46);
    assert_eq!(ProcessStat::read(std::process::id() as i32).unwrap().pid, std::process::id() as i32);
    assert_eq!(ProcessStat::parse("7163 (cat"), None);
    assert_eq!(ProcessStat::parse("77 (a) S"), None);
}

#[test]
fn an_exiting_thread_does_not_run() {
    let stat = |state: char, flags: u32| {
        let line = format!("77 (a) b (c) {state} 12 77 77 0 -1 {flags} 0 0 0 0 1 2 3 4 20 0 1 0 5678");
        ProcessStat::parse(&line).unwrap()
    };
    assert!(stat('S', 4_194_304).is_running() && !stat('S', 4_194_304).is_kernel_thread());
    assert!(!stat('Z', 0).is_running() && stat('Z', 0).has_ended());
    // Between the tracepoint and its end a thread is running, with this flag set.
    assert!(!stat('R', 4_194_304 | PF_EXITING).is_running());
    assert!(stat('S', PF_KTHREAD).is_kernel_thread());
    assert_eq!(stat('S', 0).start_ticks, 5678);
    assert!(is_running(std::process::id() as i32) && !is_running(-1));
}

#[test]
fn a_killed_process_is_ending_until_it_has_ended() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = child.id() as i32;
    assert!(!is_ending(pid));
    child.kill().unwrap();
    // It is exiting, or a zombie until its parent has waited for it.
    while !is_ending(pid) {
        std::thread::yield_now();
    }
    child.wait().unwrap();
    assert!(!is_ending(pid));
}

#[test]
fn lines_of_maps_and_fdinfo() {
    let line =
        |mode: &str| format!("7f00-7f01 {mode} 00000000 fd:01 1234    /srv/my db/data.mdb").into_bytes();
    assert_eq!(
        shared_writable(&line("rw-s")),
        Some((Device { major: 0xfd, minor: 1 }, PathBuf::from("/srv/my db/data.mdb")))
    );
    for mode in ["rw-p", "r--s", "r-xp"] {
        assert_eq!(shared_writable(&line(mode)), None, "{mode}");
    }
    assert_eq!(shared_writable(b"7f00-7f01 rw-s 00000000 00:00 0"), None);
    assert_eq!(open_flags("pos:\t0\nflags:\t0140002\n"), Some(0o140_002));
    assert_eq!(open_flags("pos:\t0\n"), None);
    assert_eq!(number("pos:\t0\nflags:\t02\nmnt_id:\t31\nino:\t7\n", "mnt_id:"), Some(31));
}

#[test]
fn this_process() {
    let pid = std::process::id() as i32;
    assert!(ids().unwrap().contains(&pid) && all().iter().any(|process| process.pid == pid));
    assert_eq!(working_directory(pid), std::env::current_dir().ok());
    assert!(!command_line(pid).is_empty() && !name(pid).is_empty());
    assert_eq!(path_as_seen_by(7, Path::new("/a/b")), Path::new("/proc/7/root/a/b"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().canonicalize().unwrap();
    let found = open_for_writing(pid).find(|open| open.path == path).unwrap();
    let mounts = crate::mountinfo::read().unwrap();
    let device = mounts.iter().find(|mount| Some(mount.id) == found.mount).unwrap().device;
    assert_eq!(Some(device), Device::of_file(&path));
    drop(file);
    assert_eq!(own_executable().canonicalize().unwrap(), own_executable_for_others().canonicalize().unwrap());
    assert!(effective_capabilities().is_ok());
}

#[test]
fn files_open_for_writing_and_with_o_direct() {
    use std::os::unix::fs::OpenOptionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let open = |name: &str, flags: i32| {
        std::fs::File::options().write(true).create(true).custom_flags(flags).open(root.join(name))
    };
    let plain = open("plain", 0).unwrap();
    let direct = open("direct", rustix::fs::OFlags::DIRECT.bits() as i32);
    let found: Vec<_> = open_for_writing(std::process::id() as i32).collect();
    let is_direct = |name: &str| found.iter().find(|of| of.path == root.join(name)).map(|of| of.is_direct);
    assert_eq!(is_direct("plain"), Some(false));
    match direct {
        Ok(_open) => assert_eq!(is_direct("direct"), Some(true)),
        Err(why) => eprintln!("skipped: this file system has no direct I/O: {why}"),
    }
    drop(plain);
}

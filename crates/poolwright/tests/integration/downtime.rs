//! The time without the database in `apply` and `undo`: whatever happens to the run, the database runs afterwards, and nothing that it
//! has written is lost.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::mounted::{Mounted, PATIENCE, umount, until};
use crate::common::second_pool::write_plan;
use crate::common::skip_without_fuse;
use crate::common::systemctl::{self, take_verbs, with_unit};
use serde_json::json;

/// The files of a directory, with their content.
type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// A database: `db.sh start`, which refuses while it runs, and `db.sh stop`, which waits until it has ended. It needs a while for that, and
/// longer while there is a file `hold`.
const SERVER: &str = r#"
    case $1 in
    start)
        [ ! -e pid ] || ! kill -0 $(cat pid) 2>/dev/null || { echo it runs already; exit 1; }
        setsid sh -c 'cd m; exec 9>>table; trap "sleep 0.2; while [ -e ../hold ]; do sleep 0.05; done; exit 0" TERM
            while :; do sleep 0.05; done' \
            >/dev/null 2>&1 </dev/null &
        echo $! >pid; echo started >>log
        until readlink /proc/$(cat pid)/fd/9 >/dev/null; do sleep 0.05; done;;
    stop)
        echo stopped >>log
        kill $(cat pid) && while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done;;
    esac"#;
const COMMANDS: [&str; 4] = ["--stop", "sh db.sh stop", "--start", "sh db.sh start"];

/// A running database on a mounted pool, and a plan for it.
struct Database(Mounted);

impl std::ops::Deref for Database {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.0
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.at("pid")).unwrap_or_default();
        let _ = Command::new("kill").args(["-KILL", pid.trim()]).stderr(Stdio::null()).status();
    }
}

impl Database {
    fn new() -> Database {
        let database = Database(Mounted::on("a.img:1G"));
        for i in 0..12_u32 {
            let row = format!("{i} row of a table that compresses well; ").repeat(3000);
            fs::write(database.at(&format!("m/{i}")), row).unwrap();
        }
        fs::write(database.at("m/table"), "row\n".repeat(20_000)).unwrap();
        fs::write(database.at("db.sh"), SERVER).unwrap();
        let m = database.at("m").canonicalize().unwrap();
        write_plan(&database, None, &m, &m, json!({"recordsize": "16K"}));
        database.server("start");
        database
    }

    fn server(&self, verb: &str) {
        let mut command = Command::new("sh");
        let done = command.args(["db.sh", verb]).current_dir(self.dir.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }

    fn runs(&self) -> bool {
        let pid = fs::read_to_string(self.at("pid")).unwrap_or_default();
        let table = fs::read_link(format!("/proc/{}/fd/9", pid.trim()));
        // A process that is replaced by a later one has an old file open.
        table.is_ok_and(|table| table == self.at("m").canonicalize().unwrap().join("table"))
    }

    fn contents(&self) -> Contents {
        let entries = fs::read_dir(self.at("m")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Starts `apply` or `undo` with these options.
    fn start(&self, verb: &str, options: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
        let mut command = self.plain();
        command.args([verb, "plan.json", "--yes"]).args(options);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let messages = BufReader::new(child.stderr.take().unwrap());
        (child, messages)
    }

    fn finish(&self, verb: &str) {
        let done = self.plain().args([verb, "plan.json", "--yes"]).args(COMMANDS).output().unwrap();
        assert!(done.status.success(), "{}", messages(&done));
    }

    /// Sends a signal after so many lines of messages, or earlier if there are no more. Returns whether the run succeeded, and the messages.
    fn interrupt(&self, verb: &str, signal: &str, lines: usize) -> (bool, String) {
        let (mut child, mut messages) = self.start(verb, &COMMANDS);
        let mut text = String::new();
        for _ in 0..lines {
            messages.read_line(&mut text).unwrap();
        }
        let server = PathBuf::from(format!("/proc/{}", fs::read_to_string(self.at("pid")).unwrap().trim()));
        let is_stopping = text.ends_with(&format!("+ {}\n", COMMANDS[1]));
        if is_stopping {
            // The database does not end before the run could have ended, if it did not wait.
            fs::write(self.at("hold"), "").unwrap();
        }
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        if is_stopping {
            std::thread::sleep(Duration::from_millis(700));
            fs::remove_file(self.at("hold")).unwrap();
        }
        std::io::Read::read_to_string(&mut messages, &mut text).unwrap();
        let is_done = child.wait().unwrap().success();
        if is_stopping {
            // It was told to stop, and does so even if the run did not wait for it.
            until("the server has ended", || !server.exists());
        }
        (is_done, text)
    }

    fn is_default(&self) -> bool {
        let found = self.json("dataset get recordsize tank");
        found["values"][0]["source"] == "default"
    }

    fn end(self) {
        self.server("stop");
        self.umount();
    }
}

fn messages(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn another_writer_does_not_leave_the_database_stopped() {
    skip_without_fuse!();
    let database = Database::new();
    let before = database.contents();
    let foreign = File::options().create(true).append(true).open(database.at("m/foreign")).unwrap();
    let done = database.plain().args(["apply", "plan.json", "--yes"]).args(COMMANDS).output().unwrap();
    drop(foreign);
    let text = messages(&done);
    assert_eq!(done.status.code(), Some(3), "{text}");
    for expected in [
        "the database was stopped, but",
        "m/foreign open for writing",
        "everything is as before",
        "stop it too",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(database.runs() && database.is_default(), "{text}");
    fs::remove_file(database.at("m/foreign")).unwrap();
    assert!(database.contents() == before);
    database.finish("apply");
    assert!(database.runs());
    database.end();
}

#[test]
fn ctrl_c_at_any_point_leaves_the_database_running() {
    skip_without_fuse!();
    let database = Database::new();
    let before = database.contents();
    for (verb, other, signal) in [("apply", "undo", "-INT"), ("undo", "apply", "-TERM")] {
        if verb == "undo" {
            database.finish("apply");
        }
        for lines in 0.. {
            let (is_done, text) = database.interrupt(verb, signal, lines);
            assert!(database.runs(), "{verb} after {lines} lines: {text}");
            assert!(database.contents() == before, "{verb} after {lines} lines: {text}");
            assert!(is_done || lines == 0 || text.contains("interrupted"), "{text}");
            // Half of them are continued.
            if lines % 2 == 0 {
                database.finish(verb);
            }
            database.finish(if verb == "apply" { "undo" } else { verb });
            if verb == "undo" {
                database.finish(other);
            }
            assert!(database.runs() && database.contents() == before, "{verb} after {lines} lines: {text}");
            if is_done && text.lines().count() <= lines {
                assert!(lines > 5, "{text}");
                break;
            }
        }
    }
    database.end();
}

#[test]
fn a_killed_run_starts_the_database() {
    skip_without_fuse!();
    let database = Database::new();
    let before = database.contents();
    fs::write(database.at("hold"), "").unwrap();
    let (mut child, messages) = database.start("apply", &COMMANDS);
    let stop = messages.lines().map_while(Result::ok).find(|line| line == "+ sh db.sh stop");
    assert!(stop.is_some());
    until("the database ends", || fs::read_to_string(database.at("log")).unwrap().contains("stopped"));
    child.kill().unwrap();
    child.wait().unwrap();
    // The command that stops it goes on. Until it has ended and the database was started, no other run begins.
    database.fails("undo plan.json --yes", 3, &["another plan is being applied or undone"]);
    fs::remove_file(database.at("hold")).unwrap();
    until("the database was started", || {
        fs::read_to_string(database.at("log")).unwrap().lines().eq(["started", "stopped", "started"])
    });
    until("it runs", || database.runs());
    until("the guardian has ended", || {
        let done = database.plain().args(["apply", "plan.json", "--yes"]).args(COMMANDS).output().unwrap();
        done.status.success()
    });
    let log = fs::read_to_string(database.at("log")).unwrap();
    assert!(log.lines().eq(["started", "stopped", "started", "stopped", "started"]), "{log}");
    assert!(database.runs() && database.contents() == before);
    database.end();
}

#[test]
fn what_is_written_during_an_undo_survives() {
    skip_without_fuse!();
    let database = Database::new();
    database.server("stop");
    database.run("apply plan.json --yes");
    let (mut child, mut messages) = database.start("undo", &[]);
    let (table, mut text, mut acknowledged) = (database.at("m/table"), String::new(), Vec::new());
    let mut write = |n: usize| {
        let row = format!("acknowledged {n}\n");
        let open = File::options().append(true).open(&table);
        let written = open.and_then(|mut file| file.write_all(row.as_bytes()).and_then(|()| file.sync_all()));
        if written.is_ok() {
            acknowledged.push(row);
        }
    };
    // A database that is started between the comparison and the rollback, and goes on.
    while !text.contains("comparing files") && !text.contains("rolling back") && !text.contains("setting") {
        assert!(messages.read_line(&mut text).unwrap() > 0, "{text}");
    }
    let mut n = 0;
    while child.try_wait().unwrap().is_none() {
        write(n);
        n += 1;
    }
    write(n);
    assert!(!acknowledged.is_empty());
    let found = fs::read_to_string(&table).unwrap();
    for row in &acknowledged {
        assert!(found.contains(row), "{row} of {} is lost", acknowledged.len());
    }
    // The writer may have made it fail, but then the same command goes on.
    database.run("undo plan.json --yes");
    assert!(database.is_default());
    assert!(fs::read_to_string(&table).unwrap() == found);
    database.umount();
}

#[test]
fn a_killed_undo_leaves_the_files_writable() {
    skip_without_fuse!();
    let database = Database::new();
    database.server("stop");
    for i in 0..1500 {
        fs::write(database.at(&format!("m/small{i}")), "x").unwrap();
    }
    database.run("apply plan.json --yes");
    let (mut child, messages) = database.start("undo", &[]);
    let compares = messages.lines().map_while(Result::ok).any(|line| line.starts_with("comparing files"));
    assert!(compares);
    child.kill().unwrap();
    child.wait().unwrap();
    until("files can be written", || File::options().append(true).open(database.at("m/table")).is_ok());
    database.run("undo plan.json --yes");
    assert!(database.is_default());
    database.umount();
}

#[test]
fn a_database_that_starts_before_the_commit_keeps_its_files() {
    skip_without_fuse!();
    let database = Database::new();
    let before = database.contents();
    let (mut child, messages) = database.start("apply", &COMMANDS);
    let mut lines = messages.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "copying what has changed"));
    // As a timer does, or the administrator.
    let table = File::options().append(true).open(database.at("m/table")).unwrap();
    let rest: Vec<String> = lines.collect();
    let code = child.wait().unwrap().code();
    let rest = rest.join("\n");
    let inode = table.metadata().unwrap().ino();
    let now = fs::metadata(database.at("m/table")).unwrap().ino();
    // It came before the last look, or it is told that its writes are lost.
    assert!(inode == now || rest.contains("compare its files with the snapshot"), "{code:?} {rest}");
    assert!(code != Some(0) || inode == now, "{rest}");
    drop(table);
    assert!(database.runs() && database.contents() == before, "{rest}");
    database.end();
}

/// A file system whose server does not answer, as NFS without its server: a process with a file there is looked at, but its file is not.
#[test]
fn a_file_system_that_does_not_answer_delays_nothing() {
    skip_without_fuse!();
    let database = Database::new();
    database.server("stop");
    let silent = Mounted::on("b.img:512M");
    let open = File::create(silent.at("m/file")).unwrap();
    let signal = |name: &str| Command::new("kill").args([name, &silent.pid.to_string()]).status().unwrap();
    signal("-STOP");
    let mut child =
        database.plain().args(["apply", "plan.json", "--yes"]).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            None if start.elapsed() < PATIENCE / 3 => std::thread::sleep(Duration::from_millis(20)),
            ended => break ended,
        }
    };
    signal("-CONT");
    let _ = child.kill();
    child.wait().unwrap();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    drop(open);
    silent.umount();
    database.umount();
}

/// The kernel writes these files, and no process has them open.
#[test]
fn files_of_loop_devices_are_in_use() {
    skip_without_fuse!();
    let database = Database::new();
    database.server("stop");
    let image = database.at("m/image");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let attach = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
    let Some(attached) = attach.ok().filter(|done| done.status.success()) else {
        eprintln!("skipped: this machine attaches no loop devices");
        return;
    };
    let device = String::from_utf8(attached.stdout).unwrap();
    let done = database.command("apply plan.json --yes").output().unwrap();
    let text = messages(&done);
    Command::new("losetup").args(["--detach", device.trim()]).status().unwrap();
    assert!(done.status.code() == Some(3) && database.is_default(), "{text}");
    assert!(text.contains("m/image is a loop device") && text.contains("hint: "), "{text}");
    until("the device is detached", || {
        database.command("apply plan.json --yes").output().unwrap().status.success()
    });
    database.umount();
}

#[test]
fn a_unit_is_stopped_masked_and_started_by_its_state() {
    skip_without_fuse!();
    let database = Database::new();
    let write = |name: &str, text: &str| fs::write(database.at(name), text).unwrap();
    systemctl::install(&database, "active");
    let run = |verb: &str| with_unit(&database, &format!("{verb} plan.json --yes")).output().unwrap();
    let verbs = || take_verbs(&database);
    let done = run("apply");
    assert!(done.status.success() && database.runs(), "{}", messages(&done));
    assert!(messages(&done).contains(r"+ systemctl stop 'srv-my\x2ddb.service'"), "{}", messages(&done));
    assert_eq!(verbs(), ["stop", "mask", "unmask", "start"]);

    // The administrator has stopped it. Another program is no reason to start it.
    database.server("stop");
    write("active", "inactive\n");
    let foreign = File::options().append(true).open(database.at("m/0")).unwrap();
    let done = run("undo");
    assert_eq!(done.status.code(), Some(3), "{}", messages(&done));
    assert!(messages(&done).contains("m/0 open for writing"), "{}", messages(&done));
    drop(foreign);
    let done = run("undo");
    assert!(done.status.success() && !database.runs() && database.is_default(), "{}", messages(&done));
    // systemd cannot start it meanwhile.
    assert!(verbs().chunks(2).all(|both| both == ["mask", "unmask"]));
    write("load", "not-found\n");
    let done = run("apply");
    assert!(messages(&done).contains("systemd has no unit"), "{}", messages(&done));
    database.umount();
}

/// A program in a PID namespace, whose files a process of the host writes.
#[test]
fn a_process_that_does_not_see_the_others_changes_nothing() {
    skip_without_fuse!();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: only root can make a PID namespace");
        return;
    }
    let database = Database::new();
    database.server("stop");
    let in_namespace = |script: &str| {
        let plain = database.plain();
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount", "--propagation", "private", "sh", "-c"]);
        command.arg(format!("mount -t proc proc /proc; {script}")).arg(plain.get_program());
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.current_dir(database.dir.path()).output().unwrap()
    };
    let outside = messages(&in_namespace("\"$0\" apply plan.json --yes"));
    assert!(outside.contains("outside the PID namespace") && !outside.contains("Success"), "{outside}");
    until("it can be unmounted", || umount(&database.at("m")));
    until("its process has ended", || !database.is_alive());
    let script =
        "\"$0\" mount tank m --background --arc 64M && \"$0\" apply plan.json --yes; echo $?; umount m";
    let done = in_namespace(script);
    let text = messages(&done);
    assert!(
        text.contains("refused: this process is in a PID namespace") && text.contains("hint: "),
        "{text}"
    );
    assert!(String::from_utf8_lossy(&done.stdout).trim_end().ends_with('3'), "{text}");
}

//! Moving streams between programs that end, fail and are stopped, with the receiving one behind a remote shell; and what is asked before.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_zfs::kernel::command::remote::RemoteHost;
use poolwright_zfs::kernel::command::send::{ReceiveRequest, SendStream, StreamContent, StreamFormat};
use poolwright_zfs::kernel::{CommandError, CommandOptions, Transfer, ZfsCommands};

/// Longer than a program of these tests waits on a busy machine.
const STALL: Duration = Duration::from_secs(300);

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/streams")
}

/// The programs of this host, and of another one, where `receive` keeps the stream in a file.
fn ends(kept: &Path) -> (ZfsCommands, ZfsCommands) {
    let options = CommandOptions { device: None, ..CommandOptions::default() };
    let here = CommandOptions { zfs: Some(programs().join("zfs")), ..options.clone() };
    let path = format!("PATH={}:/usr/bin:/bin", programs().display());
    let kept = format!("KEPT={}", kept.display());
    let shell = programs().join("shell").display().to_string();
    let shell = vec!["env".to_owned(), path, kept, shell];
    let remote = Some(RemoteHost::new("host", Some(shell)).unwrap());
    (ZfsCommands::new(here), ZfsCommands::new(CommandOptions { remote, ..options }))
}

/// Moves a stream, and stops it when this number of bytes was moved. Also returns what was received.
fn transfer(
    snapshot: &str,
    dataset: &str,
    rate: Option<u64>,
    stop_at: u64,
) -> (Result<Option<u64>, CommandError>, String) {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let (here, there) = ends(&kept);
    let content = StreamContent::Full { snapshot: format!("tank/a@{snapshot}") };
    let stream = SendStream { content, format: StreamFormat::Stored };
    let request = ReceiveRequest { dataset: format!("vault/{dataset}"), settings: Vec::new() };
    let (sender, receiver, stall) = (&here, &there, STALL);
    let transfer = Transfer { sender, stream: &stream, receiver, request: &request, rate, stall };
    let done = transfer.run(&mut |bytes| bytes < stop_at);
    if dataset == "keeps" {
        let state = fs::read_to_string(dir.path().join("kept.state")).unwrap();
        assert_eq!(state, "ended\n", "the receiver ended by itself");
    }
    (done, fs::read_to_string(kept).unwrap_or_default())
}

#[test]
fn a_stream_is_moved_whole() {
    let (done, kept) = transfer("long", "keeps", None, u64::MAX);
    assert_eq!((done.unwrap(), kept.len()), (Some(3_000_000), 3_000_000));
    assert!(kept.lines().take(400_000).all(|line| line == "stream"));
    let (done, kept) = transfer("short", "my db", None, u64::MAX);
    assert_eq!((done.unwrap(), kept.as_str()), (Some(7), "stream\n"), "a name with a space, through a shell");
}

#[test]
fn the_rate_is_not_exceeded() {
    let start = Instant::now();
    let (done, _) = transfer("long", "keeps", Some(6_000_000), u64::MAX);
    assert_eq!(done.unwrap(), Some(3_000_000));
    assert!(start.elapsed() >= Duration::from_millis(390), "{:?}", start.elapsed());
}

#[test]
fn a_stopped_stream_lets_the_receiver_keep_what_has_arrived() {
    let (done, kept) = transfer("endless", "keeps", Some(1_000_000), 1);
    assert_eq!(done.unwrap(), None);
    assert!(!kept.is_empty());
}

#[test]
fn an_end_that_stands_still_ends_the_transfer() {
    for (snapshot, dataset, silent) in [
        ("endless", "stands", "zfs receive"),
        // It has taken the whole stream, and does not end.
        ("short", "stands", "zfs receive"),
        ("stands", "keeps", "zfs send"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        let (here, there) = ends(&kept);
        let content = StreamContent::Full { snapshot: format!("tank/a@{snapshot}") };
        let stream = SendStream { content, format: StreamFormat::Stored };
        let request = ReceiveRequest { dataset: format!("vault/{dataset}"), settings: Vec::new() };
        let (sender, receiver, stall) = (&here, &there, Duration::from_secs(1));
        let transfer = Transfer { sender, stream: &stream, receiver, request: &request, rate: None, stall };
        let failure = transfer.run(&mut |_| true).unwrap_err().to_string();
        assert!(failure.contains("no data was moved for 1 s") && failure.contains(silent), "{failure}");
        if dataset == "keeps" {
            let state = fs::read_to_string(dir.path().join("kept.state")).unwrap();
            assert_eq!(state, "ended\n", "the receiver keeps what has arrived");
        }
    }
}

#[test]
fn the_end_that_failed_first_is_reported() {
    let fails = |snapshot: &str, dataset: &str| {
        transfer(snapshot, dataset, None, u64::MAX).0.unwrap_err().to_string()
    };
    assert_eq!(
        fails("fails", "keeps"),
        "zfs send -L -e -c tank/a@fails failed (exit status 1): cannot send 'tank/a@fails': I/O error"
    );
    assert_eq!(
        fails("endless", "fails"),
        "env host zfs receive -s -u vault/fails failed (exit status 1): cannot receive: out of space"
    );
    let early = fails("endless", "stops");
    assert!(early.ends_with("it ended before the stream"), "{early}");
    let unknown = fails("short", "none");
    assert!(unknown.contains("unexpected: receive -s -u vault/none"), "{unknown}");
}

#[test]
fn a_program_that_is_missing() {
    let (here, _) = ends(Path::new("/nonexistent"));
    let remote = Some(RemoteHost::new("host", Some(vec!["/missing/ssh".to_owned()])).unwrap());
    let there = ZfsCommands::new(CommandOptions { remote, ..CommandOptions::default() });
    let content = StreamContent::Full { snapshot: "tank/a@endless".to_owned() };
    let stream = SendStream { content, format: StreamFormat::Stored };
    let request = ReceiveRequest { dataset: "vault/keeps".to_owned(), settings: Vec::new() };
    let transfer = Transfer {
        sender: &here,
        stream: &stream,
        receiver: &there,
        request: &request,
        rate: None,
        stall: STALL,
    };
    let missing = transfer.run(&mut |_| true).unwrap_err();
    assert_eq!(missing.to_string(), "/missing/ssh is not installed");
}

#[test]
fn a_dataset_of_another_host() {
    let (_, there) = ends(Path::new("/nonexistent"));
    let history = there.history_of("vault/pg").unwrap();
    let names: Vec<&str> = history.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["vault/pg@old", "vault/pg@new", "vault/pg#new"], "oldest first");
    let values = there.values_of("vault/pg", ["written@new", "receive_resume_token", "guid"]).unwrap();
    assert_eq!(values, Some([Some("4096".to_owned()), None, Some("99".to_owned())]));
    assert_eq!(there.values_of("vault/none", ["guid"]).unwrap(), None);
    assert_eq!(there.history_of("vault/none").unwrap(), []);
    let wrong = there.history_of("-o/x").unwrap_err();
    assert!(matches!(wrong, CommandError::NoSuchPool { .. }), "{wrong}");
}

#[test]
fn tokens_that_can_be_continued_and_others() {
    let (here, _) = ends(Path::new("/nonexistent"));
    let token = here.resume_token("1-0a-9").unwrap();
    assert_eq!((token.to_guid, token.rest_bytes, token.problem), (17, Some(500), None));
    let gone = here.resume_token("1-0a-8").unwrap();
    assert_eq!((gone.to_guid, gone.to_name.as_str()), (17, "tank/a@1"));
    let problem = "cannot resume send: 'tank/a@1' used in the initial send no longer exists";
    assert_eq!(gone.problem.as_deref(), Some(problem));
    let corrupt = here.resume_token("1-0a-7").unwrap_err().to_string();
    assert!(corrupt.ends_with("resume token is corrupt (bad checksum)"), "{corrupt}");
    let odd = here.resume_token("-F").unwrap_err().to_string();
    assert!(odd.ends_with("it is not a resume token"), "{odd}");
}

//! The socket of an open pool.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use poolwright_openzfs::{Config, Engine, Pool, ScanKind, ScanState, Spec};
use poolwright_zfs::user::{
    Client, Counters, DatasetInfo, Error, LocalPool, NoMounts, PoolInfo, Request, Scrub, ScrubHow, Server,
    Value,
};

struct Served {
    dir: tempfile::TempDir,
    host: Arc<LocalPool>,
    server: Option<Server>,
    pool: String,
}

impl Served {
    fn new(pool: &str) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap();
        let file = dir.path().join("vdev");
        let opened = Pool::create(engine, &Spec::single(pool, &file, 12)).unwrap();
        let host = Arc::new(LocalPool::new(opened, std::time::SystemTime::now(), Arc::new(NoMounts)));
        let mut served = Served { dir, host, server: None, pool: pool.to_owned() };
        served.server = Some(served.serve().unwrap());
        served
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("pool.sock")
    }

    fn serve(&self) -> Result<Server, Error> {
        let server = Server::reserve_at(&self.socket(), &self.pool)?;
        server.serve(Arc::clone(&self.host));
        Ok(server)
    }

    fn client(&self) -> Client {
        Client::connect_at(&self.socket(), &self.pool).unwrap().expect("the server listens")
    }

    fn end(mut self) {
        self.server = None;
        assert!(!self.socket().exists());
        let host = Arc::into_inner(self.host).expect("no thread of the server is left");
        host.into_pool().export().unwrap();
    }
}

fn set(dataset: &str, property: &str, value: &str) -> Request {
    let settings = [(property.to_owned(), value.to_owned())].into();
    Request::Set { dataset: dataset.into(), settings }
}

fn get(client: &mut Client, dataset: &str, property: &str) -> String {
    let request = Request::Get { dataset: dataset.into(), properties: vec![property.into()] };
    client.ask::<Vec<Value>>(&request).unwrap().remove(0).value
}

fn refused(client: &mut Client, request: &Request) -> (i32, String) {
    match client.ask::<serde_json::Value>(request) {
        Err(Error::Refused(fault)) => (fault.errno, fault.message),
        other => panic!("{request:?} gave {other:?}"),
    }
}

fn create(dataset: &str, parents: bool) -> Request {
    Request::Create {
        dataset: dataset.into(),
        settings: [("compression".into(), "zstd".into())].into(),
        parents,
    }
}

#[test]
fn verbs_go_through_the_socket() {
    let served = Served::new("verbs");
    let client = &mut served.client();
    assert_eq!(client.pid(), std::process::id() as i32);
    client.ask::<()>(&create("verbs/a/b", true)).unwrap();
    client.ask::<()>(&set("verbs/a", "recordsize", "16K")).unwrap();
    assert_eq!(get(client, "verbs/a/b", "recsize"), "16384", "inherited, at once");
    assert_eq!(get(client, "verbs/a/b", "compression"), "zstd");
    assert_eq!(get(client, "verbs/a", "compression"), "on", "only the requested dataset gets the property");

    let snapshot = Request::Snapshot { name: "verbs/a@one".into(), recursive: true };
    let taken: Vec<String> = client.ask(&snapshot).unwrap();
    assert_eq!(taken, ["verbs/a@one", "verbs/a/b@one"]);
    let names = |client: &mut Client| -> Vec<String> {
        client.ask::<Vec<DatasetInfo>>(&Request::List).unwrap().into_iter().map(|d| d.name).collect()
    };
    assert_eq!(names(client), ["verbs", "verbs/a", "verbs/a/b", "verbs/a/b@one", "verbs/a@one"]);
    let destroy = |name: &str, recursive| Request::Destroy { name: name.into(), recursive };
    assert_eq!(refused(client, &destroy("verbs/a", false)).0, libc::EBUSY);
    client.ask::<Vec<String>>(&destroy("verbs/a/b@one", false)).unwrap();
    let gone: Vec<String> = client.ask(&destroy("verbs/a", true)).unwrap();
    assert_eq!(gone, ["verbs/a/b", "verbs/a@one", "verbs/a"]);
    assert_eq!(names(client), ["verbs"]);

    ["verbs/c", "verbs/d"].iter().for_each(|name| client.ask::<()>(&create(name, false)).unwrap());
    let all =
        |names: &[&str]| Request::SnapshotAll { names: names.iter().map(|n| (*n).to_owned()).collect() };
    let taken: Vec<String> = client.ask(&all(&["verbs/c@two", "verbs/d@two"])).unwrap();
    assert_eq!(taken, ["verbs/c@two", "verbs/d@two"]);
    let refusals = [
        (&[][..], libc::EINVAL),
        (&["verbs/c@x", "verbs/d@y"], libc::EINVAL),
        (&["verbs/c@x", "verbs/c@x"], libc::EINVAL),
        (&["verbs/c@x", "verbs/none@x"], libc::ENOENT),
        (&["verbs/c@x", "other@x"], libc::EINVAL),
    ];
    for (wrong, errno) in refusals {
        assert_eq!(refused(client, &all(wrong)).0, errno, "{wrong:?}");
    }
    client.ask::<Vec<String>>(&destroy("verbs/d@two", false)).unwrap();
    assert_eq!(refused(client, &all(&["verbs/d@two", "verbs/c@two"])).0, libc::EEXIST);
    assert!(!names(client).contains(&"verbs/d@two".to_owned()), "all of them or none");
    served.end();
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason() {
    let served = Served::new("refusals");
    let client = &mut served.client();
    for (request, errno, word) in [
        (create("refusals/a/b", false), libc::ENOENT, "its parent refusals/a does not exist"),
        (create("other/a", false), libc::EINVAL, "not in the pool"),
        (create("refusals/../a", false), libc::EINVAL, "name"),
        (create("refusals", false), libc::EEXIST, "already"),
        (set("refusals/none", "recordsize", "16K"), libc::ENOENT, "no such dataset"),
        (set("refusals", "recordsize", "3K"), libc::EINVAL, "power of two"),
        (set("refusals", "colour", "red"), libc::EINVAL, "known: recordsize"),
        (Request::Destroy { name: "refusals".into(), recursive: true }, libc::EINVAL, "root dataset"),
        (Request::Snapshot { name: "refusals".into(), recursive: false }, libc::EINVAL, "DATASET@SNAPSHOT"),
    ] {
        let (got, message) = refused(client, &request);
        assert_eq!(got, errno, "{request:?}: {message}");
        assert!(message.contains(word), "{request:?}: {message}");
    }
    let two = [("compression".to_owned(), "lz4".to_owned()), ("recordsize".into(), "3K".into())].into();
    refused(client, &Request::Set { dataset: "refusals".into(), settings: two });
    assert_eq!(get(client, "refusals", "compression"), "on", "all of them or none");
    served.end();
}

#[test]
fn counters_only_grow_and_name_the_files() {
    let served = Served::new("counters");
    let client = &mut served.client();
    let before: Counters = client.ask(&Request::Counters).unwrap();
    client.ask::<()>(&create("counters/a", false)).unwrap();
    client.ask::<()>(&Request::Sync).unwrap();
    let after: Counters = client.ask(&Request::Counters).unwrap();
    assert_eq!((before.pid, before.since_unix_ns), (after.pid, after.since_unix_ns));
    assert!(after.time_unix_ns > before.time_unix_ns);
    assert_eq!(after.files.len(), 1);
    let moved = after.files[0].moved.since(&before.files[0].moved);
    assert!(moved.write_bytes >= 4096 && moved.write_ops > 0 && moved.flushes > 0, "{moved:?}");
    let info: PoolInfo = client.ask(&Request::Status).unwrap();
    assert_eq!((info.pool.as_str(), info.owned, info.stats.checksum_errors), ("counters", false, 0));
    served.end();
}

#[test]
fn a_scrub_and_what_the_pool_remembers_of_it() {
    let served = Served::new("scrubs");
    let client = &mut served.client();
    let before: PoolInfo = client.ask(&Request::Status).unwrap();
    assert_eq!((before.scan, before.data_errors), (None, 0));
    assert_eq!((before.vdevs.len(), before.vdevs[1].state.as_str()), (2, "ONLINE"));
    let done: Scrub = client.ask(&Request::Scrub { how: ScrubHow::Wait }).unwrap();
    assert_eq!((done.state, done.errors(), done.lost), (ScanState::Finished, 0, 0));
    let scan = client.ask::<PoolInfo>(&Request::Status).unwrap().scan.unwrap();
    assert_eq!((scan.kind, scan.state, scan.errors), (ScanKind::Scrub, ScanState::Finished, 0));
    assert_eq!(scan.start_unix_s, done.started_unix_s);
    let (errno, message) = refused(client, &Request::Scrub { how: ScrubHow::Stop });
    assert!(errno == libc::ENOENT && message.contains("not being scrubbed"), "{message}");
    served.end();
}

#[test]
fn the_socket_is_for_its_owner_and_there_is_one() {
    let served = Served::new("single");
    let mode = std::fs::metadata(served.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = served.serve().unwrap_err();
    assert!(matches!(second, Error::InUse { pid, .. } if pid == std::process::id() as i32), "{second}");
    served.end();
}

#[test]
fn a_dead_owners_socket_is_replaced() {
    let mut served = Served::new("stale");
    served.server = None;
    drop(UnixListener::bind(served.socket()).unwrap());
    assert!(served.socket().exists());
    assert!(Client::connect_at(&served.socket(), "stale").unwrap().is_none());
    served.server = Some(served.serve().unwrap());
    served.client().ask::<PoolInfo>(&Request::Status).unwrap();
    served.end();
}

/// Sends bytes and returns the first line of the answer.
fn raw(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    // The server may end the connection before everything is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

#[test]
fn invalid_requests_get_an_error_and_harm_no_client() {
    let served = Served::new("nonsense");
    let mut patient = served.client();
    for bytes in
        [&b"hello\n"[..], b"{\"verb\":\"format\"}\n", b"{}\n", b"\xff\xfe\n", b"{\"verb\":\"status\""]
    {
        let line = raw(&served.socket(), bytes);
        assert!(line.contains("\"error\""), "{bytes:?} gave {line:?}");
    }
    let _ = raw(&served.socket(), &vec![b'x'; 3 << 20]);
    for _ in 0..200 {
        drop(UnixStream::connect(served.socket()).unwrap());
    }
    patient.ask::<PoolInfo>(&Request::Status).unwrap();
    served.end();
}

#[test]
fn many_clients_at_once() {
    let served = Served::new("crowd");
    std::thread::scope(|scope| {
        for i in 0..8 {
            let served = &served;
            scope.spawn(move || {
                let mut client = served.client();
                let name = format!("crowd/d{i}");
                client.ask::<()>(&create(&name, false)).unwrap();
                for size in ["8192", "16384", "1048576"] {
                    client.ask::<()>(&set(&name, "recordsize", size)).unwrap();
                    assert_eq!(get(&mut client, &name, "recordsize"), size);
                }
            });
        }
    });
    assert_eq!(served.client().ask::<Vec<DatasetInfo>>(&Request::List).unwrap().len(), 9);
    served.end();
}

#[test]
fn an_owner_that_is_ending_says_so_until_it_has_ended() {
    let mut served = Served::new("ending");
    let path = served.socket();
    let connect = || Client::connect_at(&path, "ending").unwrap().expect("it listens");
    let (mut before, mut silent) = (connect(), connect());
    before.ask::<PoolInfo>(&Request::Status).unwrap();
    let server = served.server.take().unwrap();
    server.end();
    assert_eq!(Arc::strong_count(&served.host), 1, "the server has dropped the pool");
    for client in [&mut before, &mut connect()] {
        let refused = client.ask::<PoolInfo>(&Request::Status).unwrap_err();
        assert!(refused.is_ending() && refused.to_string().contains("is closing ending"), "{refused}");
        assert!(!client.wait_ended(std::time::Duration::from_millis(1)), "it has not ended");
    }
    drop(server);
    assert!(before.wait_ended(std::time::Duration::from_secs(300)));
    let closed = silent.ask::<PoolInfo>(&Request::Status).unwrap_err();
    assert!(closed.is_ending(), "a request that was not received can be sent to the next owner: {closed}");
    assert!(Client::connect_at(&path, "ending").unwrap().is_none());
    served.end();
}

#[test]
fn requests_wait_for_an_owner_that_is_starting() {
    let mut served = Served::new("starting");
    served.server = None;
    let server = Server::reserve_at(&served.socket(), "starting").unwrap();
    let client = served.client();
    let asking = std::thread::spawn(move || {
        let mut client = client;
        client.ask::<PoolInfo>(&Request::Status).map(|info| info.pool)
    });
    // The request should arrive before the owner serves; a test cannot be sure without sleeping.
    std::thread::yield_now();
    server.serve(Arc::clone(&served.host));
    assert_eq!(asking.join().unwrap().unwrap(), "starting");
    drop(server);

    let server = Server::reserve_at(&served.socket(), "starting").unwrap();
    let mut client = served.client();
    let asking =
        std::thread::spawn(move || client.ask::<PoolInfo>(&Request::Status).unwrap_err().is_ending());
    server.end();
    assert!(asking.join().unwrap(), "an owner that could not start answers like one that is ending");
    drop(server);
    served.end();
}

#[test]
fn the_socket_of_the_next_owner_stays() {
    let mut served = Served::new("next");
    let first = served.server.take().unwrap();
    first.end();
    let next = std::thread::scope(|scope| {
        let next = scope.spawn(|| served.serve());
        // It waits for the first owner to end, and then replaces it.
        drop(first);
        next.join().unwrap().unwrap()
    });
    assert!(served.socket().exists());
    served.client().ask::<PoolInfo>(&Request::Status).unwrap();

    let (path, other) = (served.socket(), served.dir.path().join("other.sock"));
    let third = Server::reserve_at(&other, "next").unwrap();
    third.serve(Arc::clone(&served.host));
    std::fs::rename(&other, &path).unwrap();
    drop(next);
    assert!(path.exists(), "the socket belongs to another owner");
    std::fs::rename(&path, &other).unwrap();
    drop(third);
    served.end();
}

/// An owner that is killed closes its descriptors one after the other. What it has not read, it has not executed.
#[test]
fn a_request_that_no_owner_has_read_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |request: &Request, end: fn(UnixListener)| {
        let path = dir.path().join("owner.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect_at(&path, "tank").unwrap().unwrap();
        std::thread::scope(|threads| {
            // Its connection waits to be accepted.
            let asked = threads.spawn(move || client.ask::<serde_json::Value>(request).unwrap_err());
            end(listener);
            std::fs::remove_file(&path).unwrap();
            asked.join().unwrap()
        })
    };
    let not_accepted = |listener: UnixListener| drop(listener);
    let not_read = |listener: UnixListener| {
        let (stream, _) = listener.accept().unwrap();
        rustix::net::recv(&stream, &mut [0; 1], rustix::net::RecvFlags::PEEK).unwrap();
    };
    let change = create("tank/new", false);
    assert!(ask(&change, not_accepted).is_ending());
    assert!(ask(&change, not_read).is_ending());
    let read = |listener: UnixListener| {
        let (stream, _) = listener.accept().unwrap();
        BufReader::new(&stream).read_line(&mut String::new()).unwrap();
    };
    let why = ask(&change, read);
    assert!(!why.is_ending() && matches!(why, Error::Ended { .. }), "{why}");
    // A status changes nothing.
    assert!(ask(&Request::Status, read).is_ending());
}

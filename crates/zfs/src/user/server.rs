//! The server side of the socket: one thread that accepts connections, and one per connection.
//!
//! A server has three states. While it is *starting*, requests wait. While it *serves*, the owner answers them. While it
//! is *ending* (the owner exports the pool), it answers every request with [`Fault::ending`]. A client can therefore tell
//! an owner that closes its pool from one that failed, and wait for its end.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::user::dirs::private_dir;
use crate::user::error::io;
use crate::user::{Client, Error, Fault, LocalPool, Reply, Request, Result, dirs, runtime_dir, socket_path};

/// How long to wait for an owner that is ending: it may have to write a full ARC of changes.
pub const ENDING: Duration = Duration::from_secs(120);

/// The longest request in bytes; a longer one ends the connection.
const LONGEST: u64 = 1 << 20;
/// The most connections at once; others are closed.
const MOST: usize = 64;

/// Answers requests for a pool until it is dropped, which removes the socket and joins all threads.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    /// Device and inode of the socket, to detect that another owner has replaced it.
    id: (u64, u64),
    listener: Arc<UnixListener>,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    pool: String,
    stop: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    connections: Mutex<Vec<(UnixStream, JoinHandle<()>)>>,
}

struct State {
    answering: Answering,
    /// Number of requests that the owner is executing.
    under_way: usize,
}

enum Answering {
    Starting,
    By(Arc<LocalPool>),
    Ending,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

/// A reference to the owner for one request.
struct Turn<'a> {
    shared: &'a Shared,
    owner: Option<Arc<LocalPool>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Drop the owner before the count: `Server::end` promises that no reference is left.
        if self.owner.take().is_some() {
            self.shared.lock().under_way -= 1;
            self.shared.changed.notify_all();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the server is starting, then returns a turn, which has no owner if the server is ending.
    fn turn(&self) -> Turn<'_> {
        let state = self.lock();
        let mut state = self
            .changed
            .wait_while(state, |state| matches!(state.answering, Answering::Starting))
            .unwrap_or_else(PoisonError::into_inner);
        let owner = match &state.answering {
            Answering::By(owner) => Some(Arc::clone(owner)),
            Answering::Starting | Answering::Ending => None,
        };
        state.under_way += usize::from(owner.is_some());
        Turn { shared: self, owner }
    }

    fn set(&self, answering: Answering) {
        let before = std::mem::replace(&mut self.lock().answering, answering);
        self.changed.notify_all();
        drop(before);
    }
}

impl Server {
    /// Listens on the pool's socket; requests wait until [`Server::serve`]. Because the caller has the pool open, a socket on
    /// which no process listens belonged to a dead owner and is replaced.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process serves a pool of the same name (in other files); [`Error::Io`] or
    /// [`Error::Damaged`] if the socket or its directory cannot be used.
    pub fn reserve(pool: &str) -> Result<Server> {
        let path = socket_path(pool)?;
        private_dir(&runtime_dir())?;
        Server::reserve_at(&path, pool)
    }

    /// Like [`Server::reserve`] on another path, in a directory that only this user can access.
    ///
    /// # Errors
    /// As [`Server::reserve`].
    pub fn reserve_at(path: &Path, pool: &str) -> Result<Server> {
        let path = path.to_owned();
        refuse_other(&path, pool)?;
        let (listener, id) = listen(&path)?;
        let listener = Arc::new(listener);
        let shared = Arc::new(Shared {
            pool: pool.to_owned(),
            stop: AtomicBool::new(false),
            state: Mutex::new(State { answering: Answering::Starting, under_way: 0 }),
            changed: Condvar::new(),
            connections: Mutex::default(),
        });
        let accepting = std::thread::Builder::new().name("control".into()).spawn({
            let (listener, shared) = (Arc::clone(&listener), Arc::clone(&shared));
            move || accept(&listener, &shared)
        });
        let accepting = Some(accepting.map_err(io("starting a thread for", &path))?);
        Ok(Server { path, id, listener, shared, accepting })
    }

    /// Lets `owner` answer all requests from now on.
    pub fn serve(&self, owner: Arc<LocalPool>) {
        self.shared.set(Answering::By(owner));
    }

    /// Answers each further request with [`Fault::ending`]. Waits for the requests in progress, and drops all references to
    /// the owner.
    pub fn end(&self) {
        self.shared.set(Answering::Ending);
        let state = self.shared.lock();
        let done = self.shared.changed.wait_while(state, |state| state.under_way > 0);
        drop(done.unwrap_or_else(PoisonError::into_inner));
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Fails if another owner answers at this socket. Waits for an owner that is ending.
fn refuse_other(path: &Path, pool: &str) -> Result<()> {
    const LOOK: Duration = Duration::from_millis(100);
    let start = Instant::now();
    while let Some(mut other) = Client::connect_at(path, pool)? {
        let ending = other.ask::<serde_json::Value>(&Request::Status).is_err_and(|why| why.is_ending());
        if !ending || start.elapsed() > ENDING {
            return Err(Error::InUse {
                pool: pool.to_owned(),
                pid: other.pid(),
                what: other.command(),
                todo: ": two pools with the same name cannot be open at the same time".into(),
            });
        }
        other.wait_ended(LOOK);
    }
    Ok(())
}

/// Locks the directory of the sockets, so that only one process at a time replaces or removes a socket.
fn lock_directory(path: &Path) -> Result<File> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let file = File::open(dir).map_err(io("opening", dir))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|why| io("locking", dir)(why.into()))?;
    Ok(file)
}

fn id_of(path: &Path) -> std::io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// Binds a socket under a temporary name, makes it private, and renames it. Other users thus never find it accessible.
fn listen(path: &Path) -> Result<(UnixListener, (u64, u64))> {
    let _lock = lock_directory(path)?;
    let fresh = path.with_extension(format!("{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).map_err(io("listening at", path))?;
    let moved = fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))
        .and_then(|()| id_of(&fresh))
        .and_then(|id| fs::rename(&fresh, path).map(|()| id));
    match moved {
        Ok(id) => Ok((listener, id)),
        Err(why) => {
            let _ = fs::remove_file(&fresh);
            Err(io("listening at", path)(why))
        }
    }
}

/// Accepts connections until the listener is shut down, including those that are in its queue at that time.
fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            if shared.stop.load(Ordering::Acquire) {
                return;
            }
            // For example, no descriptor is free: try again after a pause.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|(_, thread)| !thread.is_finished());
        if connections.len() >= MOST || !is_allowed(&stream) {
            continue;
        }
        let Ok(handle) = stream.try_clone() else { continue };
        let served = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            let end = stream.try_clone();
            // An error, such as a peer that disconnects, ends only this connection.
            let _ = serve(stream, &served);
            // The list of connections still holds a descriptor, so closing this one would not tell the peer.
            let _ = end.and_then(|stream| stream.shutdown(std::net::Shutdown::Both));
        });
        if let Ok(thread) = thread {
            connections.push((handle, thread));
        }
    }
}

/// Whether the peer is this user or root. Checked in addition to the socket's mode.
fn is_allowed(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| {
        let uid = peer.uid.as_raw();
        uid == 0 || uid == dirs::uid()
    })
}

fn serve(stream: UnixStream, shared: &Shared) -> std::io::Result<()> {
    let caller =
        rustix::net::sockopt::socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_nonzero().get());
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        let reply = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => reply(shared, request, caller),
            Err(why) => Reply::Error(Fault::new(libc::EPROTO, format!("invalid request: {why}"))),
        };
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        out.write_all(&text)?;
        if !whole {
            return Ok(());
        }
    }
}

fn reply(shared: &Shared, mut request: Request, caller: Option<i32>) -> Reply {
    if let Request::Mount(wanted) = &mut request {
        wanted.caller = caller;
    }
    let turn = shared.turn();
    match &turn.owner {
        Some(owner) => owner.answer(&request),
        None => Reply::Error(Fault::ending(&shared.pool, std::process::id())),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        self.shared.stop.store(true, Ordering::Release);
        // Wakes the accepting thread, which then accepts no more connections.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        // The pool has been exported, so its next owner may already listen here.
        let lock = lock_directory(&self.path);
        if lock.is_ok() && id_of(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
        drop(lock);
        let connections =
            std::mem::take(&mut *self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner));
        for (stream, thread) in connections {
            // The thread still writes an answer in progress, then reads the end of its input.
            let _ = stream.shutdown(std::net::Shutdown::Read);
            let _ = thread.join();
        }
    }
}

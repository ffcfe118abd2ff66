//! The answering end of the socket: one thread that accepts, one per connection.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::error::io;
use crate::place::private_dir;
use crate::{Client, Error, Fault, Owner, Reply, Request, Result, answer, place, runtime_dir, socket_path};

/// The longest request in bytes; a longer one ends the connection.
const LONGEST: u64 = 1 << 20;
/// Connections at once; more are turned away.
const MOST: usize = 64;

/// Answers for a pool until it is dropped; then the socket is gone and no thread of it is left.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: Arc<UnixListener>,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    connections: Mutex<Vec<(UnixStream, JoinHandle<()>)>>,
}

impl Server {
    /// Listens for this pool. The caller has the pool open, so a socket that nobody answers is a dead owner's and is
    /// replaced.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process answers for a pool of this name (one in other files).
    pub fn start(pool: &str, owner: Arc<dyn Owner>) -> Result<Server> {
        let path = socket_path(pool)?;
        private_dir(&runtime_dir())?;
        Server::start_at(&path, pool, owner)
    }

    /// The same at another place, in a directory that only this user can enter.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_at(path: &Path, pool: &str, owner: Arc<dyn Owner>) -> Result<Server> {
        let path = path.to_owned();
        if let Some(other) = Client::connect_at(&path, pool)? {
            return Err(Error::InUse {
                pool: pool.to_owned(),
                pid: other.pid(),
                what: other.command(),
                todo: "two pools of one name cannot be open at the same time".into(),
            });
        }
        let listener = Arc::new(listen(&path)?);
        let shared = Arc::new(Shared::default());
        let accepting = std::thread::Builder::new().name("control".into()).spawn({
            let (listener, shared) = (Arc::clone(&listener), Arc::clone(&shared));
            move || accept(&listener, &shared, &owner)
        });
        let accepting = Some(accepting.map_err(io("starting a thread for", &path))?);
        Ok(Server { path, listener, shared, accepting })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Binds beside the final name and moves it there when it is closed to others, so that nobody finds it open.
fn listen(path: &Path) -> Result<UnixListener> {
    let fresh = path.with_extension(format!("{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).map_err(io("listening at", path))?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&fresh, path))
        .map_err(|why| {
            let _ = fs::remove_file(&fresh);
            io("listening at", path)(why)
        })?;
    Ok(listener)
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>, owner: &Arc<dyn Owner>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // out of descriptors, say: the next attempt may do better, but not at once
            std::thread::sleep(std::time::Duration::from_millis(50));
            continue;
        };
        let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|(_, thread)| !thread.is_finished());
        if connections.len() >= MOST || !is_allowed(&stream) {
            continue;
        }
        let Ok(handle) = stream.try_clone() else { continue };
        let owner = Arc::clone(owner);
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            let end = stream.try_clone();
            // A peer that goes away ends its connection, nothing else.
            let _ = serve(stream, &*owner);
            // The list of connections still holds a descriptor: only this tells the peer that it is over.
            let _ = end.and_then(|stream| stream.shutdown(std::net::Shutdown::Both));
        });
        if let Ok(thread) = thread {
            connections.push((handle, thread));
        }
    }
}

/// Only our own user and root are answered, whatever the socket's mode.
fn is_allowed(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| {
        let uid = peer.uid.as_raw();
        uid == 0 || uid == place::uid()
    })
}

fn serve(stream: UnixStream, owner: &dyn Owner) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        let reply = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => answer(owner, &request),
            Err(why) => Reply::Error(Fault::new(libc::EPROTO, format!("this is no request: {why}"))),
        };
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        out.write_all(&text)?;
        if !whole {
            return Ok(());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Wakes the accepting thread; then nobody new comes in.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
        let connections =
            std::mem::take(&mut *self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner));
        for (stream, thread) in connections {
            // An answer under way is still written, then the thread finds the end of its input.
            let _ = stream.shutdown(std::net::Shutdown::Read);
            let _ = thread.join();
        }
    }
}

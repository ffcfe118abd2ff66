//! The client side of the socket.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::user::error::io;
use crate::user::{Error, Reply, Request, Result, dirs, socket_path};

/// A connection to the process that owns a pool.
#[derive(Debug)]
pub struct Client {
    pool: String,
    pid: i32,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the pool's owner; `None` if no process listens. That includes the socket of a dead process, which the
    /// next owner replaces.
    ///
    /// # Errors
    /// [`Error::Io`] if the socket exists but cannot be used; [`Error::Damaged`] if another user's process listens there.
    pub fn connect(pool: &str) -> Result<Option<Client>> {
        Client::connect_at(&socket_path(pool)?, pool)
    }

    /// Like [`Client::connect`], with the path of the socket.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_at(path: &Path, pool: &str) -> Result<Option<Client>> {
        let Some(stream) = open(path)? else { return Ok(None) };
        // A process outside of this PID namespace has the ID 0, which `rustix` takes for an error without a number. The call has no other one.
        let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(|_| {
            let why =
                "it is outside the PID namespace of this process\nhint: run this command in the PID namespace in which the pool is mounted";
            io("using the process that listens at", path)(std::io::Error::other(why))
        })?;
        let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
        if uid != 0 && uid != dirs::uid() {
            return Err(Error::Damaged {
                path: path.to_owned(),
                why: format!("process {pid} of another user (uid {uid}) listens there"),
            });
        }
        Ok(Some(Client { pool: pool.to_owned(), pid, stream: BufReader::new(stream) }))
    }

    /// The pool's name.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The owner's process ID.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The owner's command line; empty if it cannot be read.
    pub fn command(&self) -> String {
        poolwright_base::process::command_line(self.pid)
    }

    /// Limits the time that each following [`Client::ask`] waits for a part of the answer.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the system refuses, for example a limit of zero.
    pub fn set_timeout(&mut self, limit: Duration) -> Result<()> {
        let stream = self.stream.get_ref();
        let set = stream.set_read_timeout(Some(limit)).and_then(|()| stream.set_write_timeout(Some(limit)));
        set.map_err(|why| self.protocol(why.to_string()))
    }

    /// Sends a request and waits for the answer, without a time limit unless [`Client::set_timeout`] was called.
    ///
    /// # Errors
    /// [`Error::Refused`] with the owner's message, [`Error::Closed`] or [`Error::Ended`] if the owner has ended, and
    /// [`Error::Protocol`] if its answer is invalid.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        let (pool, pid) = (self.pool.clone(), self.pid);
        if let Err(why) = self.send(request) {
            // The owner does not execute an incomplete request.
            let closed = matches!(why.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            return Err(if closed { Error::Closed { pool, pid } } else { self.protocol(why.to_string()) });
        }
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) if request.is_repeatable() => return Err(Error::Closed { pool, pid }),
            Ok(0) => return Err(Error::Ended { pool, pid, log: dirs::state_dir().join("log") }),
            // The kernel resets a connection that was not accepted, or whose data was not read (`unix_release_sock` in
            // net/unix/af_unix.c). The socket of a killed process accepts connections until all of its threads have ended.
            Err(why) if why.kind() == ErrorKind::ConnectionReset => return Err(Error::Closed { pool, pid }),
            Err(why) => return Err(self.protocol(why.to_string())),
            Ok(_) => {}
        }
        match serde_json::from_str(&line) {
            Ok(Reply::Ok(value)) => {
                serde_json::from_value(value).map_err(|why| self.protocol(why.to_string()))
            }
            Ok(Reply::Error(fault)) => Err(Error::Refused(fault)),
            Err(why) => Err(self.protocol(why.to_string())),
        }
    }

    /// Waits until the owner has closed the connection, at most for `longest`. Returns whether it has. An owner that exports
    /// its pool closes connections once it has released the files.
    pub fn wait_ended(&mut self, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        let mut rest = [0; 512];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.get_ref().set_read_timeout(Some(left)).is_err() {
                return false;
            }
            match self.stream.read(&mut rest) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return true,
            }
        }
    }

    fn send(&mut self, request: &Request) -> std::io::Result<()> {
        let mut text = serde_json::to_string(request)?;
        text.push('\n');
        self.stream.get_mut().write_all(text.as_bytes())
    }

    fn protocol(&self, why: String) -> Error {
        Error::Protocol { pool: self.pool.clone(), pid: self.pid, why }
    }
}

/// Connects; `None` if the socket does not exist or no process listens.
pub(crate) fn open(path: &Path) -> Result<Option<UnixStream>> {
    match UnixStream::connect(path) {
        Ok(stream) => Ok(Some(stream)),
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(why) => Err(io("connecting to", path)(why)),
    }
}

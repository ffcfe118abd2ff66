//! The suite on a PostgreSQL server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{conforms, put, run, trial};
use crate::store;

/// A server used only by this test, on a Unix socket.
struct Server {
    dir: tempfile::TempDir,
    programs: PathBuf,
}

impl Server {
    /// Starts a server; returns `None` if PostgreSQL is not installed.
    fn start() -> Option<Server> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let programs = versions.map(|v| v.path().join("bin")).find(|p| p.join("initdb").exists())?;
        let server = Server { dir: tempfile::tempdir().unwrap(), programs };
        if is_root() {
            let own = Command::new("chown").arg("postgres").arg(server.dir.path()).status();
            assert!(own.unwrap().success(), "chown");
        }
        server.call("initdb", &["-A", "trust", "-U", "lab", "-N", "-D", "data"]);
        server.control("start");
        Some(server)
    }

    fn control(&self, verb: &str) {
        let socket = self.dir.path().display();
        let options = format!("-c listen_addresses= -c fsync=off -c unix_socket_directories={socket}");
        self.call(
            "pg_ctl",
            &["-D", "data", "-w", "-t", "300", "-m", "immediate", "-l", "log", "-o", &options, verb],
        );
    }

    /// Runs one of the server's programs; PostgreSQL refuses to run as root.
    fn call(&self, program: &str, arguments: &[&str]) {
        let program = self.programs.join(program);
        let mut command = match is_root() {
            false => Command::new(program),
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
                command
            }
        };
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().unwrap().success(), "{command:?}");
    }

    fn url(&self) -> String {
        let path = self.dir.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://lab:secret@{path}/postgres")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control("stop");
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(Path::new("/proc/self")).unwrap().uid() == 0
}

#[test]
fn postgresql_conforms() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: PostgreSQL's programs are not in /usr/lib/postgresql (package postgresql)");
        return;
    };
    conforms(&|| store::open(&server.url()).unwrap());
    let mut store = store::open(&server.url()).unwrap();
    let id = store.begin(&run(5)).unwrap();
    server.control("restart");
    put(&mut *store, id, trial("a", 0, Ok(1.0)));
    assert_eq!(store.trials(id).unwrap().len(), 1, "reconnects to a restarted server");
}

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use poolwright_base::mountinfo;
use rustix::process::Signal;

use super::*;
use crate::directories::DatabaseDir;
use crate::program::{Programs, command_as};
use crate::server::{ChildServer, tied_command};
use crate::test_users::{
    LoggedPrograms, NOBODY, give, install_mariadb, is_root, passable_dir, postgresql_bindir, succeeds,
};

const LIMIT: Duration = Duration::from_secs(60);

/// The options without anything of the user.
pub(super) fn options() -> QuiesceOptions {
    QuiesceOptions { connect: None, hook: None, limit: LIMIT, programs: Programs::default() }
}

/// A directory that root names, with the database of another user in `db`, and a directory for its socket.
struct Database {
    dir: tempfile::TempDir,
}

impl Database {
    fn new() -> Database {
        let dir = passable_dir();
        for name in ["db", "s"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            give(&dir.path().join(name), NOBODY);
        }
        Database { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn start(&self, program: &Path, arguments: &[String]) -> ChildServer {
        let log = fs::File::options().read(true).write(true).create_new(true).open(self.at("log")).unwrap();
        let mut command = tied_command(&Programs::default(), NOBODY, program).unwrap();
        command.args(arguments);
        ChildServer::start(command, log).unwrap()
    }

    /// Quiesces it, and releases it.
    fn quiesce(&self, kind: DatabaseKind, options: &QuiesceOptions) -> Result<ConsistencyMeans> {
        let mount = mountinfo::parse(b"36 35 0:40 / / rw - zfs tank rw").remove(0);
        let source = DatabaseDir { path: self.at(""), mount, dataset: "tank".to_owned() };
        let sources = DatabaseDirs { all: vec![source] };
        let database = LocatedDatabase { kind, root: self.at("db") };
        let quiesced = Quiesced::begin(&database, &sources, options, &|| false)?;
        let means = quiesced.means();
        quiesced.release(LIMIT)?;
        Ok(means)
    }
}

#[test]
fn the_client_of_mariadb_runs_as_the_owner_of_the_data_directory() {
    let find = |name: &str| Programs::default().find(name).filter(|_| is_root());
    let (Some(server), Some(_), Some(_)) = (find("mariadbd"), find("mariadb"), find("mariadb-install-db"))
    else {
        eprintln!("skipped: needs root and MariaDB");
        return;
    };
    let database = Database::new();
    install_mariadb(&database.at("db"));
    let socket = database.at("s/s");
    let arguments = [
        "--no-defaults".to_owned(),
        "--skip-networking".to_owned(),
        format!("--datadir={}", database.at("db").display()),
        format!("--socket={}", socket.display()),
        format!("--pid-file={}", database.at("s/pid").display()),
    ];
    let mut server = database.start(&server, &arguments);
    let answers = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    server.wait_until(answers, &|| false).unwrap().unwrap();
    let programs = LoggedPrograms::new(find, &["mariadb"]);
    let options = QuiesceOptions {
        connect: Some(format!("--no-defaults --user=root --socket={}", socket.display())),
        programs: Programs::default().after(Some(programs.dir())),
        ..options()
    };
    let means = database.quiesce(DatabaseKind::Mariadb, &options).unwrap();
    assert_eq!(means, ConsistencyMeans::Session);
    programs.check(NOBODY, &["mariadb"]);
    server.stop(Signal::TERM).unwrap().unwrap();
}

/// The server lets in only the user of the operating system who owns the directory (`peer`).
#[test]
fn the_client_of_postgresql_runs_as_the_owner_of_the_data_directory() {
    let Some(bindir) = postgresql_bindir().filter(|_| is_root()) else {
        eprintln!("skipped: needs root and PostgreSQL");
        return;
    };
    let database = Database::new();
    let mut initdb = command_as(NOBODY, &bindir.join("initdb"));
    initdb.arg("-D").arg(database.at("db")).args(["-U", "nobody", "-A", "peer", "--no-locale"]);
    succeeds(initdb.env("TZ", "GMT").stdin(Stdio::null()));
    let socket_dir = database.at("s").display().to_string();
    let arguments =
        ["-D", &database.at("db").display().to_string(), "-k", &socket_dir, "-c", "listen_addresses="];
    let mut server = database.start(&bindir.join("postgres"), &arguments.map(str::to_owned));
    let answers = || {
        let mut psql = command_as(NOBODY, &bindir.join("psql"));
        psql.args(["-h", &socket_dir, "-c", "SELECT 1", "postgres"]).output().unwrap().status.success()
    };
    server.wait_until(answers, &|| false).unwrap().unwrap();
    assert_eq!(database.quiesce(DatabaseKind::Postgresql, &options()).unwrap(), ConsistencyMeans::Session);
    server.stop(Signal::INT).unwrap().unwrap();
}

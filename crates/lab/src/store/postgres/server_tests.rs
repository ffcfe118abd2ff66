//! Connects to a real server with TLS.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::connection::{connect, connect_in};
use super::parameters::ClientEnvironment;

/// A server used only by this test, and the folder of its certificates.
struct Server {
    dir: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
}

const ACCESS: &str = "local all postgres trust\nlocal all all scram-sha-256\n\
    hostssl all carol all trust clientcert=verify-full\nhost all all all scram-sha-256\n";

impl Server {
    /// Starts a server; returns `None` if PostgreSQL is not installed.
    fn start() -> Option<Server> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let programs = versions.map(|v| v.path().join("bin")).find(|p| p.join("initdb").exists())?;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server { dir: tempfile::tempdir().unwrap(), programs, port };
        server.give_to_postgres(server.dir.path());
        server.call("initdb", &["-A", "trust", "-U", "postgres", "-N", "-D", "data"]);
        server.write("data/pg_hba.conf", ACCESS);
        issue_certificates(&server);
        server.control("start", "off");
        Some(server)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file that only the server and root can read.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
        self.give_to_postgres(&self.path(name));
    }

    fn give_to_postgres(&self, path: &Path) {
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(path).status().unwrap().success(), "chown");
        }
    }

    fn control(&self, verb: &str, ssl: &str) {
        let dir = self.dir.path().display();
        let options = format!(
            "-c listen_addresses=127.0.0.1 -p {} -c fsync=off -c unix_socket_directories={dir} -c ssl={ssl} \
             -c ssl_cert_file={dir}/server.crt -c ssl_key_file={dir}/server.key -c ssl_ca_file={dir}/ca.crt",
            self.port
        );
        self.call(
            "pg_ctl",
            &["-D", "data", "-w", "-t", "300", "-m", "immediate", "-l", "log", "-o", &options, verb],
        );
    }

    /// Restarts the server with another certificate.
    fn present(&self, name: &str) {
        for kind in ["crt", "key"] {
            let text = std::fs::read_to_string(self.path(&format!("{name}.{kind}"))).unwrap();
            self.write(&format!("server.{kind}"), &text);
        }
        self.control("restart", "on");
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

    fn connect(&self, user: &str, parameters: &str) -> Result<bool, String> {
        self.connect_to("localhost", user, parameters)
    }

    /// Connects; returns whether the connection is encrypted, or the failure. `DIR` stands for the server's folder.
    fn connect_to(&self, host: &str, user: &str, parameters: &str) -> Result<bool, String> {
        // The home directory has none of the default files.
        let environment = ClientEnvironment { home: Some(self.path("home")), ..Default::default() };
        let parameters = parameters.replace("DIR", &self.dir.path().display().to_string());
        let url = format!("postgres://{user}@{host}:{}/postgres?{parameters}", self.port);
        let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let client = connect_in(&environment, &url);
        let result = client.map(|mut client| client.query_one(encrypted, &[]).unwrap().get(0));
        if let Err(why) = &result {
            assert!(!why.contains("sesame") && !why.contains("PRIVATE"), "a secret is in: {why}");
        }
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control("stop", "off");
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Writes `ca.crt`, `foreign.crt` (another authority), and certificates with their keys.
fn issue_certificates(server: &Server) {
    let authority = |name: &str| {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    };
    let (own, foreign) = (authority("own"), authority("foreign"));
    server.write("ca.crt", &own.pem());
    server.write("foreign.crt", &foreign.pem());
    let issue = |file: &str, hosts: &[&str], name: &str, issuer: Option<&CertifiedIssuer<KeyPair>>| {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut parameters = CertificateParams::new(hosts).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        if file.starts_with("expired") {
            parameters.not_before = rcgen::date_time_ymd(2019, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let certificate = match issuer {
            Some(issuer) => parameters.signed_by(&key, issuer).unwrap(),
            // As `openssl req -x509` does: an authority's.
            None => {
                parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                parameters.self_signed(&key).unwrap()
            }
        };
        server.write(&format!("{file}.crt"), &certificate.pem());
        server.write(&format!("{file}.key"), &key.serialize_pem());
    };
    issue("good", &["localhost"], "good", Some(&own));
    issue("wrong", &["elsewhere.example"], "localhost", Some(&own));
    issue("nameless", &[], "localhost", Some(&own));
    issue("selfsigned", &["localhost"], "localhost", None);
    issue("expired", &["localhost"], "expired", Some(&own));
    issue("expired-selfsigned", &["localhost"], "localhost", None);
    issue("client", &[], "carol", Some(&own));
    issue("mallory", &[], "mallory", Some(&own));
    issue("outsider", &[], "carol", Some(&foreign));
}

/// Asserts that the connection is refused with all the words.
#[track_caller]
fn refused(result: Result<bool, String>, words: &[&str]) {
    let why = result.unwrap_err();
    for word in words {
        assert!(why.contains(word), "no {word:?} in: {why}");
    }
}

#[test]
fn connects_in_libpqs_manner() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: PostgreSQL's programs are not in /usr/lib/postgresql (package postgresql)");
        return;
    };
    without_tls(&server);
    certificates_of_the_server(&server);
    server.present("good");
    passwords(&server);
    certificates_of_the_client(&server);
}

fn without_tls(server: &Server) {
    let socket = server.dir.path().display().to_string().replace('/', "%2F");
    // TLS parameters do not apply to a Unix socket.
    let url = format!(
        "postgres://postgres@{socket}:{}/postgres?sslmode=verify-full&sslrootcert=/none",
        server.port
    );
    let mut client = connect(&url).unwrap();
    let create = "CREATE ROLE ann LOGIN PASSWORD 'sesame'; CREATE ROLE carol LOGIN; CREATE ROLE bob LOGIN";
    client.batch_execute(create).unwrap();
    let named: String = client.query_one("SHOW application_name", &[]).unwrap().get(0);
    assert_eq!(named, "poolwright");

    let hint = "server does not support TLS\nhint: set ssl=on in the server's postgresql.conf, or use sslmode=disable";
    refused(server.connect("ann:sesame", ""), &[hint]);
    refused(server.connect("ann:sesame", "sslrootcert=DIR/ca.crt"), &[hint]);
    refused(server.connect("ann:sesame", "sslmode=require"), &[hint]);
    assert_eq!(server.connect("ann:sesame", "sslmode=disable"), Ok(false));
}

fn certificates_of_the_server(server: &Server) {
    let ann = |parameters: &str| server.connect("ann:sesame", parameters);
    server.present("good");
    assert_eq!(ann("sslrootcert=DIR/ca.crt"), Ok(true), "verify-full is the default");
    assert_eq!(ann("sslmode=verify-full&sslrootcert=DIR/ca.crt&channel_binding=require"), Ok(true));
    assert_eq!(ann("sslmode=require&channel_binding=require"), Ok(true), "an unknown authority");
    assert_eq!(ann("sslmode=disable"), Ok(false), "only on request");
    let untrusted = ["UnknownIssuer\nhint: sslrootcert=FILE names"];
    refused(ann(""), &untrusted);
    for mode in ["require", "verify-ca", "verify-full"] {
        refused(ann(&format!("sslmode={mode}&sslrootcert=DIR/foreign.crt")), &untrusted);
    }
    refused(ann("sslrootcert=DIR/none.crt"), &["read the certificate file", "none.crt': No such file"]);

    server.present("wrong");
    refused(
        ann("sslrootcert=DIR/ca.crt"),
        &["localhost", "elsewhere.example", "\nhint: use a name in the cert"],
    );
    assert_eq!(ann("sslmode=verify-ca&sslrootcert=DIR/ca.crt"), Ok(true));
    server.present("nameless");
    refused(ann("sslrootcert=DIR/ca.crt"), &["\nhint: a certificate names its hosts in subjectAltName"]);
    server.present("selfsigned");
    assert_eq!(ann("sslrootcert=DIR/selfsigned.crt"), Ok(true));
    refused(
        ann("sslrootcert=DIR/ca.crt"),
        &["CaUsedAsEndEntity", "\nhint: the server's certificate is an authority's"],
    );
    for file in ["expired", "expired-selfsigned"] {
        server.present(file);
        let authority = if file == "expired" { "ca" } else { file };
        for mode in ["verify-ca", "verify-full"] {
            let parameters = format!("sslmode={mode}&sslrootcert=DIR/{authority}.crt");
            refused(ann(&parameters), &["certificate expired", "\nhint: renew the server's certificate"]);
        }
    }
}

fn passwords(server: &Server) {
    refused(
        server.connect("ann", "sslmode=require"),
        &["password missing\nhint: set PGPASSWORD, or add a line"],
    );
    refused(
        server.connect("bob:sesame2", "sslmode=require"),
        &["password authentication failed for user \"bob\"\nhint: the password came from the URL"],
    );
    server.write("pgpass", "elsewhere:*:*:*:x\nlocalhost:*:postgres:ann:sesame\nlocalhost:*:*:bob:sesame3\n");
    assert_eq!(server.connect("ann", "sslrootcert=DIR/ca.crt&passfile=DIR/pgpass"), Ok(true));
    let socket = server.dir.path().display().to_string().replace('/', "%2F");
    assert_eq!(server.connect_to(&socket, "ann", "passfile=DIR/pgpass"), Ok(false), "known as localhost");
    refused(
        server.connect("bob", "sslmode=require&passfile=DIR/pgpass"),
        &["came from the file '", "pgpass'"],
    );
    std::fs::set_permissions(server.path("pgpass"), Permissions::from_mode(0o644)).unwrap();
    refused(
        server.connect("ann", "sslmode=require&passfile=DIR/pgpass"),
        &["password missing", "note: ignoring the password file", "(mode 0644)\nhint: chmod 0600"],
    );
}

fn certificates_of_the_client(server: &Server) {
    let carol = |file: &str| {
        let client = format!("sslrootcert=DIR/ca.crt&sslcert=DIR/{file}.crt&sslkey=DIR/{file}.key");
        server.connect("carol", &client)
    };
    assert_eq!(carol("client"), Ok(true));
    refused(carol("mallory"), &["authentication failed for user \"carol\""]);
    refused(carol("outsider"), &["hint: the server did not accept the client's certificate: sslcert=FILE"]);
    refused(
        server.connect("carol", "sslrootcert=DIR/ca.crt"),
        &["requires a valid client certificate\nhint: sslcert=FILE and sslkey=FILE"],
    );
    std::fs::set_permissions(server.path("client.key"), Permissions::from_mode(0o644)).unwrap();
    refused(
        carol("client"),
        &["client.key': group or others have access to it (mode 0644)\nhint: chmod 0600"],
    );
}

//! Opens connections to PostgreSQL in libpq's manner: TLS, password files, several servers.
//!
//! A TCP connection uses TLS and verifies the server unless the URL says otherwise; there is no fallback to plain
//! text. A Unix socket never uses TLS.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use postgres::config::{Host, LoadBalanceHosts, SslMode};
use postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::ConnectFailure;
use super::parameters::{self, ClientEnvironment, ConnectionParameters};
use super::passfile::{self, Login};
use super::server_address::ServerAddress;
use super::tls::{self, TlsMode};

/// Connects to the first server of the URL that can be reached. The error is the cause, without the password, and a
/// line `hint: …` if there is something to do.
pub(super) fn connect(url: &str) -> Result<Client, String> {
    connect_in(&ClientEnvironment::current(), url)
}

pub(super) fn connect_in(environment: &ClientEnvironment, url: &str) -> Result<Client, String> {
    let parameters = parameters::parse(url, environment)?;
    let encrypts = |server: &ServerAddress| matches!(server.host, Host::Tcp(_));
    let connector =
        match parameters.tls.tcp_mode() != TlsMode::Disable && parameters.servers.iter().any(encrypts) {
            true => Some(tls::connector(&parameters.tls)?),
            false => None,
        };
    let mut causes = Vec::new();
    for server in in_order(&parameters) {
        let password = Password::find(&parameters, &server, environment);
        let connector = connector.as_ref().filter(|_| encrypts(&server));
        match connect_to(&server, &parameters, &password, connector) {
            Ok(client) => return Ok(client),
            Err(failure) => {
                causes.push((server, failure.text(password.place.as_deref(), password.note.as_deref())));
                if !failure.is_unreachable() {
                    break;
                }
            }
        }
    }
    Err(match causes.as_slice() {
        [(_, cause)] => cause.clone(),
        causes => {
            causes.iter().map(|(server, cause)| format!("{server}: {cause}")).collect::<Vec<_>>().join("\n")
        }
    })
}

/// Returns the servers in the order in which they are tried.
fn in_order(parameters: &ConnectionParameters) -> Vec<ServerAddress> {
    let mut servers = parameters.servers.clone();
    if parameters.config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        // Every state hashes with another key.
        let random = RandomState::new();
        servers.sort_by_cached_key(|server| random.hash_one(server.to_string()));
    }
    servers
}

/// The password for one server.
#[derive(Default)]
struct Password {
    value: Option<Vec<u8>>,
    /// The place it came from, for messages.
    place: Option<String>,
    /// Why the password file is ignored.
    note: Option<String>,
}

impl Password {
    /// Takes the password from the URL, else from the environment, else from the password file.
    fn find(
        parameters: &ConnectionParameters,
        server: &ServerAddress,
        environment: &ClientEnvironment,
    ) -> Password {
        let from = |value: Vec<u8>, place: &str| Password {
            value: Some(value),
            place: Some(place.to_owned()),
            note: None,
        };
        if let Some(password) = parameters.config.get_password().filter(|password| !password.is_empty()) {
            return from(password.to_vec(), "the URL");
        }
        if let Some(password) = environment.password.clone() {
            return from(password, "the environment variable PGPASSWORD");
        }
        let Some(file) = &parameters.passfile else { return Password::default() };
        let (name, alias) = match &server.host {
            Host::Tcp(name) => (name.clone(), None),
            Host::Unix(folder) => (folder.display().to_string(), Some("localhost")),
        };
        let hosts: Vec<&str> = std::iter::once(name.as_str()).chain(alias).collect();
        let user = parameters.user.as_str();
        let database = parameters.config.get_dbname().unwrap_or(user);
        match passfile::lookup(file, &Login { hosts: &hosts, port: server.port, database, user }) {
            Ok(Some(password)) => from(password, &format!("the file '{}'", file.display())),
            Ok(None) => Password::default(),
            Err(note) => Password { note: Some(note), ..Password::default() },
        }
    }
}

/// Tries the server's addresses.
fn connect_to(
    server: &ServerAddress,
    parameters: &ConnectionParameters,
    password: &Password,
    connector: Option<&MakeRustlsConnect>,
) -> Result<Client, ConnectFailure> {
    let mut config = parameters.config.clone();
    config.port(server.port);
    config.ssl_mode(if connector.is_some() { SslMode::Require } else { SslMode::Disable });
    if let Some(password) = &password.value {
        config.password(password);
    }
    let name = match &server.host {
        Host::Unix(folder) => {
            config.host_path(folder);
            return attempt(config, None, parameters.timeout);
        }
        Host::Tcp(name) => name,
    };
    config.host(name);
    let mut failure = ConnectFailure::Local(format!("the host '{name}' has no address"));
    for address in addresses(name, server)? {
        let mut config = config.clone();
        config.hostaddr(address);
        match attempt(config, connector.cloned(), parameters.timeout) {
            Ok(client) => return Ok(client),
            Err(error) => failure = error,
        }
        if !failure.is_unreachable() {
            break;
        }
    }
    Err(failure)
}

/// Returns the addresses of a host. They are tried one by one here, because the crate `postgres` would go on after a
/// server's refusal and report the failure of the last address.
fn addresses(name: &str, server: &ServerAddress) -> Result<Vec<IpAddr>, ConnectFailure> {
    if let Some(address) = server.address {
        return Ok(vec![address]);
    }
    match (name, server.port).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.map(|address| address.ip()).collect()),
        Err(error) => Err(ConnectFailure::Local(format!("resolve the host '{name}': {error}"))),
    }
}

/// Connects to one address. The thread exists for the time limit: the crate's own limit ends when the server has
/// accepted the TCP connection, and a server that then is silent would block the caller forever.
fn attempt(
    config: Config,
    connector: Option<MakeRustlsConnect>,
    limit: Option<Duration>,
) -> Result<Client, ConnectFailure> {
    let (sender, receiver) = channel();
    let work = move || {
        // After the time limit the receiver is gone: a late connection is closed here.
        let _ = sender.send(match connector {
            Some(connector) => config.connect(connector),
            None => config.connect(NoTls),
        });
    };
    let started = std::thread::Builder::new().name("postgres-connect".to_owned()).spawn(work);
    started.map_err(|e| ConnectFailure::Local(format!("start a thread: {e}")))?;
    let received = match limit {
        Some(limit) => receiver.recv_timeout(limit).map_err(|e| (e, limit)),
        None => receiver.recv().map_err(|_| (RecvTimeoutError::Disconnected, Duration::ZERO)),
    };
    match received {
        Ok(result) => result.map_err(ConnectFailure::Client),
        Err((RecvTimeoutError::Timeout, limit)) => Err(ConnectFailure::Timeout(limit)),
        Err((RecvTimeoutError::Disconnected, _)) => {
            Err(ConnectFailure::Local("the client panicked".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Serves one connection on a free port; returns what the client sent.
    fn serve(answer: &'static [u8]) -> (u16, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = move || {
            let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
            let mut request = vec![0; 8];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(answer).unwrap();
            stream.read_to_end(&mut request).unwrap();
            request
        };
        (port, std::thread::spawn(serve))
    }

    fn failure(url: &str) -> String {
        let environment = ClientEnvironment { user: Some("ann".to_owned()), ..ClientEnvironment::default() };
        connect_in(&environment, url).err().unwrap()
    }

    #[test]
    fn nothing_is_sent_in_plain_text() {
        let (port, server) = serve(b"N");
        let why = failure(&format!("postgres://ann:sesame@127.0.0.1:{port}/lab?sslmode=require"));
        assert!(why.contains("server does not support TLS\nhint: set ssl=on"), "{why}");
        assert!(why.contains("sslmode=disable") && !why.contains("sesame"), "{why}");
        assert_eq!(server.join().unwrap(), [0, 0, 0, 8, 4, 210, 22, 47], "only the request for TLS");
    }

    #[test]
    fn a_silent_server_is_given_up() {
        let (port, server) = serve(b"");
        let start = std::time::Instant::now();
        let why = failure(&format!("postgres://127.0.0.1:{port}/lab?sslmode=require&connect_timeout=1"));
        assert_eq!(why, "no answer from the server within 1 s");
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        drop(server); // its client's thread still waits
    }

    #[test]
    fn the_next_server_is_tried_only_if_one_cannot_be_reached() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (port, server) = serve(b"N");
        let hosts = format!("127.0.0.1:{closed},127.0.0.1:{port},127.0.0.1:{closed}");
        let why = failure(&format!("postgres://{hosts}/lab?sslmode=require"));
        let lines: Vec<&str> = why.lines().collect();
        assert_eq!(lines.len(), 3, "{why}");
        assert!(lines[0].starts_with(&format!("127.0.0.1:{closed}: error connecting to server: ")), "{why}");
        assert!(lines[1].starts_with(&format!("127.0.0.1:{port}: error performing TLS")), "{why}");
        assert!(lines[2].starts_with("hint: "), "{why}");
        server.join().unwrap();
    }

    #[test]
    fn a_random_order_keeps_all_servers() {
        let url = "postgres://a,b,c,d/lab?load_balance_hosts=random";
        let parameters = parameters::parse(url, &ClientEnvironment::default()).unwrap();
        let mut orders: Vec<_> = (0..200).map(|_| in_order(&parameters)).map(|o| format!("{o:?}")).collect();
        orders.sort();
        orders.dedup();
        assert!(orders.len() > 12, "{} of 24 orders", orders.len());
    }
}

//! Reads connection parameters from a URL, with libpq's defaults.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use postgres::Config;
use postgres::config::SslNegotiation;

use super::server_address::{ServerAddress, servers};
use super::tls::{TlsMode, TlsOptions, TrustSource};
use super::words;

/// What the process's environment says about connections.
#[derive(Default)]
pub(super) struct ClientEnvironment {
    pub(super) user: Option<String>,
    pub(super) password: Option<Vec<u8>>,
    pub(super) passfile: Option<PathBuf>,
    pub(super) root_certificate: Option<PathBuf>,
    pub(super) home: Option<PathBuf>,
}

impl ClientEnvironment {
    /// Reads `PGUSER`, `PGPASSWORD`, `PGPASSFILE`, `PGSSLROOTCERT` and the home directory.
    pub(super) fn current() -> ClientEnvironment {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        ClientEnvironment {
            user: variable("PGUSER").and_then(|user| user.into_string().ok()),
            password: variable("PGPASSWORD").map(OsString::into_vec),
            passfile: variable("PGPASSFILE").map(PathBuf::from),
            root_certificate: variable("PGSSLROOTCERT").map(PathBuf::from),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
        }
    }
}

/// The parameters of a URL.
#[derive(Debug)]
pub(super) struct ConnectionParameters {
    /// The parameters that are the same for all servers.
    pub(super) config: Config,
    pub(super) user: String,
    pub(super) servers: Vec<ServerAddress>,
    pub(super) tls: TlsOptions,
    pub(super) passfile: Option<PathBuf>,
    /// Limit of a whole attempt; `None` if the URL turns the limit off.
    pub(super) timeout: Option<Duration>,
}

/// Parses a URL.
pub(super) fn parse(url: &str, environment: &ClientEnvironment) -> Result<ConnectionParameters, String> {
    let parts = split(url)?;
    let home = environment.home.as_deref();
    let mut own = OwnParameters::default();
    own.tls.defaults = home.map(|home| home.join(".postgresql"));
    own.tls.trust = environment.root_certificate.clone().map(trust_source);
    let (mut kept, mut located) = (Vec::new(), Vec::new());
    for pair in parts.query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = percent_decode_str(key).decode_utf8_lossy();
        match key.as_ref() {
            // The crate splits at commas only in the other parameters.
            "host" => located.extend(value.split(',').map(|host| format!("host={host}"))),
            "hostaddr" | "port" => located.push(pair.to_owned()),
            // The name and the crate's name for it.
            "keepalives_count" => kept.push(format!("keepalives_retries={value}")),
            _ if own.take(&key, value)? => {}
            _ => kept.push(pair.to_owned()),
        }
    }
    let parse = |url: String| url.parse::<Config>().map_err(|e| words(&e));
    let servers = servers(&parse(format!("postgres://{}/?{}", parts.hosts, located.join("&")))?)?;
    let config = parse(format!("postgres://{}{}?{}", parts.credentials, parts.path, kept.join("&")))?;
    complete(config, servers, own, environment)
}

/// Fills in the defaults.
fn complete(
    mut config: Config,
    servers: Vec<ServerAddress>,
    mut own: OwnParameters,
    environment: &ClientEnvironment,
) -> Result<ConnectionParameters, String> {
    let user = match config.get_user().filter(|user| !user.is_empty()).or(environment.user.as_deref()) {
        Some(user) => user.to_owned(),
        None => whoami::username().map_err(|e| format!("find the name of the user: {e}"))?,
    };
    config.user(&user);
    if config.get_application_name().is_none() {
        config.application_name("poolwright");
    }
    if !own.tcp_user_timeout.is_some_and(|limit| limit.is_zero()) {
        config.tcp_user_timeout(own.tcp_user_timeout.unwrap_or(Duration::from_secs(30)));
    }
    let timeout = own.connect_timeout.unwrap_or(Duration::from_secs(10));
    let timeout = Some(timeout).filter(|limit| !limit.is_zero());
    if let Some(limit) = timeout {
        config.connect_timeout(limit);
    }
    own.tls.is_direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
    let default = || environment.home.as_ref().map(|home| home.join(".pgpass"));
    let passfile = own.passfile.or_else(|| environment.passfile.clone()).or_else(default);
    Ok(ConnectionParameters { config, user, servers, tls: own.tls, passfile, timeout })
}

/// The parameters that the crate `postgres` does not know, or reads in another unit.
#[derive(Default)]
struct OwnParameters {
    tls: TlsOptions,
    passfile: Option<PathBuf>,
    connect_timeout: Option<Duration>,
    tcp_user_timeout: Option<Duration>,
}

impl OwnParameters {
    /// Takes a parameter; returns `false` if the crate `postgres` is to read it.
    fn take(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let path = || {
            let path = OsString::from_vec(percent_decode_str(value).collect());
            Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty())
        };
        let number = || {
            let text = percent_decode_str(value).decode_utf8_lossy();
            let number =
                text.parse::<i64>().map_err(|_| format!("the parameter {key} is not a whole number"))?;
            // A negative limit is none, as in libpq.
            Ok::<u64, String>(number.max(0).unsigned_abs())
        };
        match key {
            "sslmode" => self.tls.mode = Some(mode(&percent_decode_str(value).decode_utf8_lossy())?),
            "sslrootcert" => {
                self.tls.trust = path().map(trust_source);
            }
            "sslcert" => self.tls.certificate = path(),
            "sslkey" => self.tls.key = path(),
            "passfile" => self.passfile = path(),
            "connect_timeout" => self.connect_timeout = Some(Duration::from_secs(number()?)),
            // Milliseconds, as in libpq; the crate reads seconds.
            "tcp_user_timeout" => self.tcp_user_timeout = Some(Duration::from_millis(number()?)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn mode(name: &str) -> Result<TlsMode, String> {
    let why = match name {
        "disable" => return Ok(TlsMode::Disable),
        "require" => return Ok(TlsMode::Require),
        "verify-ca" => return Ok(TlsMode::VerifyCa),
        "verify-full" => return Ok(TlsMode::VerifyFull),
        "allow" | "prefer" => format!("sslmode={name} falls back to plain text and is not supported"),
        _ => "invalid value of the parameter sslmode".to_owned(),
    };
    Err(format!("{why}\nhint: sslmode is disable, require, verify-ca or verify-full"))
}

/// The parts of `postgres://credentials@hosts/path?query`; `credentials` ends with the `@`, `path` starts with `/`.
struct UrlParts<'a> {
    credentials: &'a str,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

fn split(url: &str) -> Result<UrlParts<'_>, String> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let rest = rest.ok_or("a URL starts with postgres:// or postgresql://")?;
    let (credentials, rest) = rest.split_at(rest.find('@').map_or(0, |at| at + 1));
    // Such a URL would be read wrongly, and a part of the password be taken for a host and shown in messages.
    if credentials.contains('/') || rest.contains('@') {
        return Err("unclear URL: a reserved character is not escaped\n\
            hint: write @ as %40 and / as %2F in the user, the password and the parameters"
            .to_owned());
    }
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, path) = location.split_at(location.find('/').unwrap_or(location.len()));
    Ok(UrlParts { credentials, hosts, path: if path.is_empty() { "/" } else { path }, query })
}

/// The meaning of `sslrootcert`.
fn trust_source(path: PathBuf) -> TrustSource {
    match path == Path::new("system") {
        true => TrustSource::System,
        false => TrustSource::File(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> ConnectionParameters {
        let home = Some(PathBuf::from("/home/ann"));
        parse(url, &ClientEnvironment { user: Some("ann".to_owned()), home, ..Default::default() }).unwrap()
    }

    fn refused(url: &str) -> String {
        parse(url, &ClientEnvironment::default()).unwrap_err()
    }

    #[test]
    fn defaults() {
        let plain = parsed("postgres://db/lab");
        assert_eq!((plain.tls.mode, plain.tls.tcp_mode()), (None, TlsMode::VerifyFull));
        assert_eq!(plain.tls.defaults, Some("/home/ann/.postgresql".into()));
        assert_eq!((plain.user.as_str(), plain.config.get_user()), ("ann", Some("ann")));
        assert_eq!(plain.passfile, Some("/home/ann/.pgpass".into()));
        assert_eq!(plain.config.get_application_name(), Some("poolwright"));
        assert_eq!(plain.config.get_connect_timeout(), Some(&Duration::from_secs(10)));
        assert_eq!(plain.config.get_tcp_user_timeout(), Some(&Duration::from_secs(30)));
        assert!(plain.config.get_keepalives());
        let environment = ClientEnvironment { passfile: Some("/p".into()), ..Default::default() };
        let login = parse("postgresql://", &environment).unwrap();
        assert_eq!(login.passfile, Some("/p".into()));
        assert_eq!(login.user, whoami::username().unwrap());
    }

    #[test]
    fn the_url_wins() {
        let url = "postgres://bob:s%40e%2Fc@db:5433/lab?sslmode=verify-ca&sslrootcert=%2Fca%20dir/ca.crt\
            &sslcert=c.crt&sslkey=c.key&passfile=/p%26q&connect_timeout=0&tcp_user_timeout=1500&%61pplication_name=x\
            &keepalives_count=3&channel_binding=require&sslnegotiation=direct&";
        let given = parsed(url);
        assert_eq!(given.config.get_password(), Some(b"s@e/c".as_slice()));
        assert_eq!((given.user.as_str(), given.config.get_dbname()), ("bob", Some("lab")));
        assert_eq!(given.tls.mode, Some(TlsMode::VerifyCa));
        assert_eq!(given.tls.trust, Some(TrustSource::File("/ca dir/ca.crt".into())));
        assert_eq!((given.tls.certificate, given.tls.key), (Some("c.crt".into()), Some("c.key".into())));
        assert!(given.tls.is_direct);
        assert_eq!(given.passfile, Some("/p&q".into()));
        assert_eq!((given.timeout, given.config.get_connect_timeout()), (None, None));
        assert_eq!(given.config.get_tcp_user_timeout(), Some(&Duration::from_millis(1500)));
        assert_eq!(given.config.get_application_name(), Some("x"));
        assert_eq!(given.config.get_keepalives_retries(), Some(3));
        assert_eq!(parsed("postgres://h/?sslrootcert=system").tls.trust, Some(TrustSource::System));
        let several: Vec<_> =
            parsed("postgres:///lab?host=/run/pg,b&port=7").servers.iter().map(|s| s.to_string()).collect();
        assert_eq!(several, ["/run/pg/.s.PGSQL.7", "b:7"]);
        assert_eq!(parsed("postgres://h/?tcp_user_timeout=0").config.get_tcp_user_timeout(), None);
    }

    #[test]
    fn refusals_name_the_parameter_and_no_value() {
        for name in ["allow", "prefer", "sesame", ""] {
            let why = refused(&format!("postgres://ann:sesame@db/lab?sslmode={name}"));
            assert!(why.ends_with("hint: sslmode is disable, require, verify-ca or verify-full"), "{why}");
            assert!(!why.contains("sesame") && why.contains("sslmode"), "{why}");
        }
        for (url, expected) in [
            ("postgres://ann:sesame@db/lab?sslcrl=x", "invalid connection string: unknown option `sslcrl`"),
            (
                "postgres://ann:sesame@db/?connect_timeout=sesame",
                "parameter connect_timeout is not a whole number",
            ),
            ("postgres://ann:sesame@db:x/lab", "invalid value for option `port`"),
            ("postgres://ann:ses/ame@db/lab", "write @ as %40 and / as %2F"),
            ("postgres://ann:ses@ame@db/lab", "write @ as %40 and / as %2F"),
            ("postgres://ann:sesame@db/lab?channel_binding=x", "invalid value for option `channel_binding`"),
            ("mysql://ann:sesame@db/lab", "a URL starts with postgres://"),
        ] {
            let why = refused(url);
            assert!(why.contains(expected) && !why.contains("ses"), "{why}");
        }
    }
}

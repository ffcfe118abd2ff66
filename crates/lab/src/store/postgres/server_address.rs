//! Lists the servers a URL names.

use std::net::IpAddr;
use std::path::PathBuf;

use postgres::Config;
use postgres::config::Host;

/// A server to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    pub(super) host: Host,
    /// The address, if the URL gives it, so that the name need not resolve.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Tcp(name) if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            Host::Tcp(name) => write!(f, "{name}:{}", self.port),
            Host::Unix(folder) => write!(f, "{}/.s.PGSQL.{}", folder.display(), self.port),
        }
    }
}

/// Returns the servers in the URL's order.
pub(super) fn servers(located: &Config) -> Result<Vec<ServerAddress>, String> {
    let (hosts, addresses, ports) = (located.get_hosts(), located.get_hostaddrs(), located.get_ports());
    let count = hosts.len().max(addresses.len()).max(1);
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err(format!("{} hosts, but {} in hostaddr", hosts.len(), addresses.len()));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(format!("{} ports for {count} hosts", ports.len()));
    }
    let server = |i: usize| {
        let address = addresses.get(i).copied();
        let host = match (hosts.get(i), address) {
            (Some(Host::Tcp(name)), _) if !name.is_empty() => Host::Tcp(name.clone()),
            (Some(Host::Unix(folder)), _) => Host::Unix(folder.clone()),
            (_, Some(address)) => Host::Tcp(address.to_string()),
            (_, None) => Host::Unix(default_socket()),
        };
        let port = ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        ServerAddress { host, address, port }
    };
    Ok((0..count).map(server).collect())
}

/// Returns the folder of the server's Unix socket: Debian's and Red Hat's, or the default of PostgreSQL's sources.
fn default_socket() -> PathBuf {
    let folders = ["/var/run/postgresql", "/tmp"].map(PathBuf::from);
    folders.into_iter().find(|folder| folder.is_dir()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &str) -> Result<Vec<ServerAddress>, String> {
        servers(&url.parse().unwrap())
    }

    fn shown(url: &str) -> Vec<String> {
        found(url).unwrap().iter().map(ServerAddress::to_string).collect()
    }

    fn refused(url: &str) -> String {
        found(url).unwrap_err()
    }

    #[test]
    fn servers_are_listed_in_order() {
        assert_eq!(shown("postgres://a,b:1,[::1]:2/lab"), ["a:5432", "b:1", "[::1]:2"]);
        assert_eq!(shown("postgres://%2Frun%2Fpg:6/lab"), ["/run/pg/.s.PGSQL.6"]);
        assert_eq!(shown("postgres:///lab?host=/run/pg&host=b&port=7"), ["/run/pg/.s.PGSQL.7", "b:7"]);
        assert_eq!(shown("postgres://h/lab?hostaddr=127.0.0.1"), ["h:5432"]);
        assert_eq!(shown("postgres:///lab?hostaddr=127.0.0.1"), ["127.0.0.1:5432"]);
        for url in ["postgres://", "postgres:///lab", "postgres://?user=x", "postgres://u@/lab"] {
            assert_eq!(found(url).unwrap()[0].host, Host::Unix(default_socket()), "{url}");
        }
        assert_eq!(shown("postgres://:9/lab"), [format!("{}/.s.PGSQL.9", default_socket().display())]);
        assert_eq!(refused("postgres:///?hostaddr=127.0.0.1&host=a&host=b"), "2 hosts, but 1 in hostaddr");
        assert_eq!(refused("postgres://a:1,b:2,c:3/?port=4"), "4 ports for 3 hosts");
    }
}

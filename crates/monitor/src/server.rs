//! The HTTP server of the exporter.
//!
//! It listens on loopback addresses. On any other address, it needs TLS, and a token or client certificates. Its memory is
//! bounded: by the number of connections, by the size of a request, and by one copy of the answer for all clients.

mod api;
mod connection;
mod credential;
mod definitions;
mod exporter;
mod generation;
mod page;
mod reloaded;
mod route;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::{Error, Poller, Result};
pub use api::{ApiReadings, ApiResource, ApiSource};
pub use definitions::{ApiDefinitions, ApiFamily, ApiResourceType};
pub use exporter::{AlertSource, Exporter};
use reloaded::Reloaded;

/// How often [`Server::run`] checks whether it should stop.
const STOP_POLL: Duration = Duration::from_millis(200);

/// Where the server listens, and who may connect.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The addresses. Port 0 chooses a free port.
    pub listen: Vec<SocketAddr>,
    /// The files of the server's certificate and key, and of the authority of client certificates.
    pub tls: Option<TlsFiles>,
    /// A file with the token that clients send (`Authorization: Bearer TOKEN`).
    pub token_file: Option<PathBuf>,
    /// How long a scrape waits for the sources.
    pub scrape_limit: Duration,
    /// The program's version, for `poolwright_exporter_info`.
    pub version: String,
}

/// Files for TLS, in PEM format.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by intermediate ones.
    pub certificate: PathBuf,
    /// The key of the server's certificate.
    pub key: PathBuf,
    /// Certificates of the authorities that sign client certificates. If given, a client needs a certificate.
    pub client_authorities: Option<PathBuf>,
}

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listeners: Vec<TcpListener>,
    tls: Option<Arc<Reloaded<TlsAcceptor>>>,
    routes: axum::Router,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

impl Server {
    /// Checks the configuration, reads its files, and listens. Files that change are read again. `alerts` gives `/api/v1/alerts`.
    ///
    /// # Errors
    /// [`Error::Exposed`] for an address that is not loopback without TLS or without authentication,
    /// [`Error::Credential`], [`Error::Listen`], [`Error::Start`].
    pub fn bind(
        config: &ServerConfig,
        poller: Poller,
        alerts: Option<Arc<dyn AlertSource>>,
    ) -> Result<Server> {
        let token = config.token_file.as_ref().map(|path| {
            let file = path.clone();
            Reloaded::new(vec![path.clone()], move || Ok(Arc::from(credential::token(&file)?)))
        });
        let token = token.transpose()?.map(Arc::new);
        let tls = config.tls.as_ref().map(|files| {
            let own = [&files.certificate, &files.key].into_iter().chain(&files.client_authorities);
            let of = files.clone();
            Reloaded::new(own.cloned().collect(), move || credential::acceptor(&of))
        });
        let tls = tls.transpose()?.map(Arc::new);
        let has_client_certificates = config.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
        for address in &config.listen {
            check_exposure(*address, tls.is_some(), token.is_some() || has_client_certificates)?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(2)
            .thread_name("serve")
            .enable_all()
            .build()
            .map_err(|cause| Error::Start { what: "the server's threads", cause })?;
        let listen = |address: &SocketAddr| {
            let bound = runtime.block_on(TcpListener::bind(address));
            bound.map_err(|cause| Error::Listen { address: *address, cause })
        };
        let listeners = config.listen.iter().map(listen).collect::<Result<Vec<_>>>()?;
        let exporter = Exporter::new(poller, config.scrape_limit, config.version.clone(), alerts);
        let exporter = Arc::new(exporter);
        let only_loopback = config.listen.iter().all(|address| address.ip().is_loopback());
        let routes = route::router(exporter, token, only_loopback);
        Ok(Server { runtime, listeners, tls, routes })
    }

    /// The addresses with the actual ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves until `stop` is true, and then ends without waiting for clients or sources.
    pub fn run(self, stop: &AtomicBool) {
        let Server { runtime, listeners, tls, routes } = self;
        runtime.block_on(async {
            let limit = connection::limit();
            for listener in listeners {
                tokio::spawn(connection::accept(listener, tls.clone(), routes.clone(), Arc::clone(&limit)));
            }
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(STOP_POLL).await;
            }
        });
        runtime.shutdown_background();
    }
}

/// Refuses an address that other hosts can reach without encryption or without authentication.
fn check_exposure(address: SocketAddr, has_tls: bool, authenticates: bool) -> Result<()> {
    let missing = match (address.ip().is_loopback(), has_tls, authenticates) {
        (true, _, _) | (false, true, true) => return Ok(()),
        (false, false, _) => "the connection would not be encrypted",
        (false, true, false) => "any client could connect",
    };
    Err(Error::Exposed { address, missing })
}

#[cfg(test)]
mod tests;

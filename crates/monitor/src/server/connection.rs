//! Connections: their number, and the time limits that a slow client cannot exceed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use super::reloaded::Reloaded;

/// The highest number of open connections. Further ones are closed at once.
const CONNECTIONS: usize = 2048;
/// The highest size of a request's head in bytes.
const REQUEST_BYTES: usize = 16 << 10;
/// Time for a TLS handshake, or for the head of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Time without a byte from the client, between requests too. Prometheus scrapes at least every two minutes.
const IDLE_LIMIT: Duration = Duration::from_secs(150);
/// Time without a byte to the client while an answer is sent.
const STALL_LIMIT: Duration = Duration::from_secs(20);
/// Pause after a failed `accept`, for example because the process has no free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Number of connections that were closed because too many were open.
pub static REJECTED: AtomicU64 = AtomicU64::new(0);

/// The limit that all listeners share.
pub fn limit() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(CONNECTIONS))
}

/// Accepts connections without end.
pub async fn accept(
    listener: TcpListener,
    tls: Option<Arc<Reloaded<TlsAcceptor>>>,
    routes: Router,
    limit: Arc<Semaphore>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&limit).try_acquire_owned() else {
            REJECTED.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let (tls, routes) = (tls.clone(), routes.clone());
        tokio::spawn(async move {
            let mut stream = TimeoutStream::new(stream);
            stream.set_read_timeout(Some(IDLE_LIMIT));
            stream.set_write_timeout(Some(STALL_LIMIT));
            let stream = Box::pin(stream);
            match tls {
                None => serve(stream, routes).await,
                Some(tls) => {
                    let accepted = tls.get().accept(stream);
                    if let Ok(Ok(stream)) = tokio::time::timeout(REQUEST_LIMIT, accepted).await {
                        serve(stream, routes).await;
                    }
                }
            }
            drop(permit);
        });
    }
}

/// Answers the requests of one connection. Errors of the client end the connection and concern no other.
async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, routes: Router) {
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .max_buf_size(REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .await;
}

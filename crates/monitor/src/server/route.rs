//! Paths, authentication and headers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;

use super::Exporter;
use super::exporter::AnswerKind;
use crate::exposition::TextFormat;

/// The start page.
const INDEX: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Poolwright exporter</title>\n\
    <h1>Poolwright exporter</h1>\n<ul><li><a href=\"/metrics\">Metrics</a> for Prometheus</li>\n\
    <li><a href=\"/api/v1/readings\">The same readings as JSON</a></li>\n\
    <li><a href=\"/api/v1/alerts\">Alerts as JSON</a></li></ul>\n";

/// Headers of every answer: a page may load nothing from elsewhere, and no other site may show it.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Who may ask.
#[derive(Clone, Debug)]
struct Access {
    token: Option<Arc<str>>,
    only_loopback: bool,
}

/// The routes of the server.
pub fn router(exporter: Arc<Exporter>, token: Option<String>, only_loopback: bool) -> Router {
    let access = Access { token: token.map(Arc::from), only_loopback };
    Router::new()
        .route("/", get(|| async { Html(INDEX) }))
        .route("/metrics", get(metrics))
        .route("/api/v1/readings", get(readings))
        .route("/api/v1/alerts", get(alerts))
        .with_state(exporter)
        .layer(middleware::from_fn_with_state(access, guard))
}

async fn metrics(State(exporter): State<Arc<Exporter>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = TextFormat::accepted(accept);
    answer(&exporter, AnswerKind::Text(format), format.content_type()).await
}

async fn readings(State(exporter): State<Arc<Exporter>>) -> Response {
    answer(&exporter, AnswerKind::Json, "application/json").await
}

async fn alerts(State(exporter): State<Arc<Exporter>>) -> Response {
    match exporter.decides_alerts() {
        true => answer(&exporter, AnswerKind::Alerts, "application/json").await,
        false => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn answer(exporter: &Arc<Exporter>, kind: AnswerKind, content_type: &'static str) -> Response {
    match exporter.answer(kind).await {
        Ok(body) => ([(header::CONTENT_TYPE, content_type)], body).into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response(),
    }
}

/// Refuses clients without the token and requests for other hosts, and adds [`HEADERS`].
async fn guard(State(access): State<Access>, request: Request<Body>, next: Next) -> Response {
    let mut response = match refusal(&access, request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(access: &Access, headers: &HeaderMap) -> Option<Response> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if access.only_loopback && !text(header::HOST).is_none_or(is_this_host) {
        // A page of another site, whose name was made to resolve to 127.0.0.1, must not read the answers.
        return Some((StatusCode::MISDIRECTED_REQUEST, "unknown host name\n").into_response());
    }
    let token = access.token.as_deref()?;
    let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if given.is_some_and(|given| is_equal(given.as_bytes(), token.as_bytes())) {
        return None;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    Some((StatusCode::UNAUTHORIZED, challenge, "missing or wrong token\n").into_response())
}

/// Whether a `Host` header has an IP address or `localhost`.
fn is_this_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Compares in a time that depends only on the lengths.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_this_host() {
        for host in ["localhost", "localhost:9700", "127.0.0.1:9700", "[::1]:9700", "LOCALHOST"] {
            assert!(is_this_host(host), "{host}");
        }
        for host in ["", "example.org", "example.org:9700", "127.0.0.1.example.org", "localhost.example.org"]
        {
            assert!(!is_this_host(host), "{host}");
        }
    }
}

//! Paths, authentication and headers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::Exporter;
use super::definitions::definitions;
use super::generation::AnswerKind;
use super::page;
use super::reloaded::Reloaded;
use crate::exposition::TextFormat;

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

/// The clients that are permitted.
#[derive(Clone, Debug)]
struct Access {
    token: Option<Arc<Reloaded<Arc<str>>>>,
    only_loopback: bool,
}

/// The routes of the server.
pub fn router(
    exporter: Arc<Exporter>,
    token: Option<Arc<Reloaded<Arc<str>>>>,
    only_loopback: bool,
) -> Router {
    let access = Access { token, only_loopback };
    page::add_routes(Router::new())
        .route("/metrics", get(metrics))
        .route("/api/v1/families", get(definitions))
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

/// Refuses requests for data without the token and requests for other hosts, and adds [`HEADERS`].
async fn guard(State(access): State<Access>, request: Request<Body>, next: Next) -> Response {
    let mut response = match refusal(&access, request.uri().path(), request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(access: &Access, path: &str, headers: &HeaderMap) -> Option<Response> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if access.only_loopback && !text(header::HOST).is_none_or(is_this_host) {
        // A page of another site, whose name was made to resolve to 127.0.0.1, must not read the answers.
        return Some((StatusCode::MISDIRECTED_REQUEST, "unknown host name\n").into_response());
    }
    if page::is_public(path) {
        return None;
    }
    let token = access.token.as_ref()?.get();
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

    /// The page must be loadable without the token, because the page asks for it. The answers with data must not.
    #[test]
    fn only_the_page_needs_no_token() {
        let token = Reloaded::new(Vec::new(), || Ok(Arc::from("0123456789abcdef"))).unwrap();
        let access = Access { token: Some(Arc::new(token)), only_loopback: true };
        let status = |path: &str, headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            refusal(&access, path, &headers.collect()).map(|refusal| refusal.status())
        };
        let right = [(header::AUTHORIZATION, "Bearer 0123456789abcdef")];
        for path in ["/", "/app.js", "/app.css"] {
            assert_eq!(status(path, &[]), None, "{path}");
            let elsewhere = [(header::HOST, "example.org")];
            assert_eq!(status(path, &elsewhere), Some(StatusCode::MISDIRECTED_REQUEST), "{path}");
        }
        for path in ["/metrics", "/api/v1/readings", "/api/v1/families", "/api/v1/alerts", "/other"] {
            assert_eq!(status(path, &[]), Some(StatusCode::UNAUTHORIZED), "{path}");
            assert_eq!(status(path, &right), None, "{path}");
        }
    }

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

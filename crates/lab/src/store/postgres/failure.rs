//! Puts failures to connect into words, with a hint where there is something to do.

use std::io;
use std::time::Duration;

use postgres::error::SqlState;
use rustls::{AlertDescription, CertificateError};

use super::verifier::AUTHORITY_AS_SERVER;
use super::words;

/// Why an attempt to connect to one address failed.
#[derive(Debug)]
pub(super) enum ConnectFailure {
    Client(postgres::Error),
    /// The server accepted the connection and then did not answer.
    Timeout(Duration),
    /// No attempt was made: the cause.
    Local(String),
}

impl ConnectFailure {
    /// Returns whether another address or server may be reached, as in libpq: a server's answer is final, unless it
    /// does not accept connections at present.
    pub(super) fn is_unreachable(&self) -> bool {
        match self {
            ConnectFailure::Client(error) => match error.code() {
                Some(code) => *code == SqlState::CANNOT_CONNECT_NOW,
                // The crate keeps the kind of its errors private.
                None => error.to_string() == "error connecting to server",
            },
            ConnectFailure::Timeout(_) | ConnectFailure::Local(_) => true,
        }
    }

    /// Returns the cause and, in a second line, the hint. `place` is where the password came from, `note` tells why
    /// the password file was ignored.
    pub(super) fn text(&self, place: Option<&str>, note: Option<&str>) -> String {
        let error = match self {
            ConnectFailure::Client(error) => error,
            ConnectFailure::Timeout(limit) => {
                return format!("no answer from the server within {} s", limit.as_secs());
            }
            ConnectFailure::Local(cause) => return cause.clone(),
        };
        let cause = words(error);
        if let Some(note) = note.filter(|_| cause.ends_with(PASSWORD_MISSING)) {
            return format!("{cause}\nnote: {note}");
        }
        match hint(error, &cause, place) {
            Some(hint) => format!("{cause}\nhint: {hint}"),
            None => cause,
        }
    }
}

/// The crate's words if the server asks for a password and there is none.
const PASSWORD_MISSING: &str = "password missing";

fn hint(error: &postgres::Error, cause: &str, place: Option<&str>) -> Option<String> {
    let hint = match (tls_error(error), error.code()) {
        (Some(tls), _) => tls_hint(tls),
        (_, Some(code)) if *code == SqlState::INVALID_PASSWORD => {
            return place.map(|place| format!("the password came from {place}"));
        }
        (_, Some(code)) if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => server_hint(cause),
        (_, Some(_)) => None,
        (_, None) => local_hint(cause),
    };
    hint.map(str::to_owned)
}

/// Returns the TLS library's error in the chain of causes.
fn tls_error(error: &postgres::Error) -> Option<&rustls::Error> {
    let cause = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
    cause.get_ref()?.downcast_ref()
}

fn tls_hint(error: &rustls::Error) -> Option<&'static str> {
    match error {
        rustls::Error::InvalidCertificate(error) => Some(certificate_hint(error)),
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::DecryptError,
        ) => Some("the server did not accept the client's certificate: sslcert=FILE and sslkey=FILE name it"),
        rustls::Error::AlertReceived(
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
        )
        | rustls::Error::PeerIncompatible(_) => Some("the server must offer TLS 1.2 or 1.3"),
        _ => None,
    }
}

fn certificate_hint(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "sslrootcert=FILE names the certificate of the authority that issued the server's"
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "a certificate names its hosts in subjectAltName, and CN does not count: issue it with \
             subjectAltName, or use sslmode=verify-ca with a private authority"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use a name in the certificate as the host (hostaddr=ADDRESS says where it is), or sslmode=verify-ca \
             with a private authority"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "renew the server's certificate, or correct the clock of this machine"
        }
        CertificateError::Other(cause) if cause.to_string() == AUTHORITY_AS_SERVER => {
            "the server's certificate is an authority's (CA:TRUE): issue another one with CA:FALSE, or name this \
             very certificate with sslrootcert=FILE"
        }
        _ => "the server needs a certificate of X.509 version 3 with subjectAltName",
    }
}

/// Returns the hint for a refusal by the server's `pg_hba.conf`.
fn server_hint(message: &str) -> Option<&'static str> {
    if message.contains("no encryption") {
        return Some("the server may accept an encrypted connection: omit sslmode=disable");
    }
    message
        .contains("certificate")
        .then_some("sslcert=FILE and sslkey=FILE name the client's certificate and its key")
}

fn local_hint(cause: &str) -> Option<&'static str> {
    if cause.ends_with("server does not support TLS") {
        return Some(
            "set ssl=on in the server's postgresql.conf, or use sslmode=disable on a private network",
        );
    }
    cause
        .ends_with("password missing")
        .then_some("set PGPASSWORD, or add a line host:port:database:user:password to ~/.pgpass (mode 0600)")
}

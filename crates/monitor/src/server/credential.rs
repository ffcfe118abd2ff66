//! Certificates, keys and tokens.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::TlsFiles;
use crate::{Error, Result};

/// The shortest token, in bytes: 128 bits in hexadecimal have 32.
const TOKEN_MIN: usize = 16;

fn failed(path: &Path, cause: impl ToString) -> Error {
    Error::Credential { path: path.to_owned(), cause: cause.to_string() }
}

/// Reads a token: the file's first line.
pub fn token(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|cause| failed(path, cause))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < TOKEN_MIN {
        return Err(failed(path, format!("the token is shorter than {TOKEN_MIN} characters")));
    }
    Ok(token.to_owned())
}

/// Reads the certificates and the key.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|cause| failed(&files.key, cause))?;
    let builder = ServerConfig::builder();
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|cause| failed(path, cause))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
            builder.with_client_cert_verifier(verifier.map_err(|cause| failed(path, cause))?)
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(|cause| failed(&files.certificate, cause))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|cause| failed(path, cause))?.collect();
    let all = all.map_err(|cause| failed(path, cause))?;
    if all.is_empty() {
        return Err(failed(path, "it has no certificate in PEM format"));
    }
    Ok(all)
}

//! Verifies the certificate of a PostgreSQL server.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The text of the cause if the server's certificate is an authority's. rustls does not export the cause's type.
pub(super) const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";

/// The certificates a server's certificate is verified with.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) roots: RootCertStore,
    /// The certificates in the file that `sslrootcert` names.
    pub(super) named: Vec<CertificateDer<'static>>,
    /// Whether the certificate must name the host.
    pub(super) checks_name: bool,
}

/// Verifies the server's certificate. Without trusted certificates (`sslmode=require`) it verifies nothing, not even
/// that the server has the certificate's key: an attacker on the path would present a certificate of their own.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) trusted: Option<Trusted>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(Trusted { roots, named, checks_name }) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let all = self.algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, all) {
            // `openssl req -x509` makes a certificate that may issue others. If such a certificate is the server's
            // own and `sslrootcert` names it, it is trusted. Its period has been verified before.
            Err(error) if is_authority(&error) && named.iter().any(|n| n == end_entity) => {}
            verified => verified?,
        }
        if *checks_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            Some(_) => verify_tls12_signature(message, certificate, signature, &self.algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            Some(_) => verify_tls13_signature(message, certificate, signature, &self.algorithms),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(cause)) = error else { return false };
    cause.to_string() == AUTHORITY_AS_SERVER
}

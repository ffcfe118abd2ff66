//! Configures TLS for connections to PostgreSQL: `sslmode`, the trusted authorities and the client's certificate.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, Error, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::verifier::{Trusted, Verifier};

/// What `sslmode` asks for. libpq's `allow` and `prefer` do not exist here: they fall back to plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsMode {
    /// Plain text.
    Disable,
    /// Encrypts, and accepts every certificate.
    Require,
    /// Verifies that a trusted authority issued the certificate, to whatever host.
    VerifyCa,
    /// Verifies the certificate and that it names the host.
    VerifyFull,
}

/// Where the trusted authorities come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrustSource {
    System,
    File(PathBuf),
}

/// The TLS parameters of a URL. `None` stands for the default.
#[derive(Debug, Default)]
pub(super) struct TlsOptions {
    pub(super) mode: Option<TlsMode>,
    pub(super) trust: Option<TrustSource>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    /// Whether the handshake starts without libpq's request for TLS.
    pub(super) is_direct: bool,
    /// `~/.postgresql`, the folder of the default files.
    pub(super) defaults: Option<PathBuf>,
}

impl TlsOptions {
    /// Returns the mode of TCP connections.
    pub(super) fn tcp_mode(&self) -> TlsMode {
        match (self.mode, &self.trust) {
            (None, _) => TlsMode::VerifyFull,
            // As in libpq: a named authority is verified.
            (Some(TlsMode::Require), Some(TrustSource::File(_))) => TlsMode::VerifyCa,
            (Some(mode), _) => mode,
        }
    }

    /// Returns the path of a default file if the file exists.
    fn default_file(&self, name: &str) -> Option<PathBuf> {
        self.defaults.as_ref().map(|folder| folder.join(name)).filter(|path| path.exists())
    }
}

/// Reads the certificates and returns the connector for TCP connections.
pub(super) fn connector(options: &TlsOptions) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let verifier = Verifier { trusted: trusted(options)?, algorithms };
    let client = client_certificate(options, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match client {
        Some(client) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(client))),
        None => builder.with_no_client_auth(),
    };
    if options.is_direct {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
    }
    Ok(MakeRustlsConnect::new(config))
}

/// Reads the trusted certificates; returns `None` if the server's certificate is not verified.
fn trusted(options: &TlsOptions) -> Result<Option<Trusted>, String> {
    let mode = options.tcp_mode();
    let default = || options.default_file("root.crt").map_or(TrustSource::System, TrustSource::File);
    let trust = match mode {
        TlsMode::Disable | TlsMode::Require if options.trust.is_none() => return Ok(None),
        _ => options.trust.clone().unwrap_or_else(default),
    };
    if trust == TrustSource::System && mode != TlsMode::VerifyFull {
        // A public authority issues a certificate to every owner of a name, so an attacker has one.
        return Err("the system's certificate authorities protect only with sslmode=verify-full\n\
            hint: sslrootcert=FILE names the certificate of a private authority"
            .to_owned());
    }
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    match trust {
        TrustSource::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system has no certificate authorities\n\
                    hint: install ca-certificates, or name the server's authority with sslrootcert=FILE"
                    .to_owned());
            }
        }
        TrustSource::File(path) => {
            named = certificates(&path)?;
            for certificate in &named {
                let invalid = |e| format!("read the certificate file '{}': {e}", path.display());
                roots.add(certificate.clone()).map_err(invalid)?;
            }
        }
    }
    Ok(Some(Trusted { roots, named, checks_name: mode == TlsMode::VerifyFull }))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text =
        std::fs::read(path).map_err(|e| format!("read the certificate file '{}': {e}", path.display()))?;
    match CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("read the certificate file '{}': not a certificate in PEM format", path.display())),
    }
}

/// Reads the client's certificate and key; returns `None` if there are none.
fn client_certificate(
    options: &TlsOptions,
    provider: &CryptoProvider,
) -> Result<Option<CertifiedKey>, String> {
    let certificate = options.certificate.clone().or_else(|| options.default_file("postgresql.crt"));
    let key = options.key.clone().or_else(|| options.default_file("postgresql.key"));
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        _ if options.certificate.is_some() => return Err("sslcert requires sslkey".to_owned()),
        _ if options.key.is_some() => return Err("sslkey requires sslcert".to_owned()),
        _ => return Ok(None),
    };
    let chain = certificates(&certificate)?;
    let unusable = |e: Error| format!("use the private key file '{}': {e}", key.display());
    let certified = CertifiedKey::new(
        chain,
        provider.key_provider.load_private_key(private_key(&key)?).map_err(unusable)?,
    );
    match certified.keys_match() {
        Err(Error::InconsistentKeys(_)) => Err(format!(
            "the private key in '{}' is not the key of the certificate in '{}'",
            key.display(),
            certificate.display()
        )),
        // Certificates of X.509 version 1 cannot be compared with the key; the server will.
        _ => Ok(Some(certified)),
    }
}

/// Reads a private key, which only its owner may have access to, and, as in libpq, the group if the owner is root.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let failed = |why: &str| format!("read the private key file '{}': {why}", path.display());
    let metadata = std::fs::metadata(path).map_err(|e| failed(&e.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("not a regular file"));
    }
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    let mode = metadata.mode() & 0o7777;
    if mode & forbidden != 0 {
        let why = failed(&format!("group or others have access to it (mode {mode:04o})"));
        return Err(format!("{why}\nhint: chmod 0600 '{}'", path.display()));
    }
    let text = std::fs::read(path).map_err(|e| failed(&e.to_string()))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let why = failed("not an unencrypted private key in PEM format");
        format!("{why}\nhint: `openssl pkey -in FILE -out FILE` decrypts and converts keys")
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn with(mode: Option<TlsMode>, trust: Option<TrustSource>) -> TlsOptions {
        TlsOptions { mode, trust, ..TlsOptions::default() }
    }

    #[test]
    fn a_named_authority_is_always_verified() {
        let file = || Some(TrustSource::File("ca.crt".into()));
        assert_eq!(with(None, None).tcp_mode(), TlsMode::VerifyFull);
        assert_eq!(with(None, file()).tcp_mode(), TlsMode::VerifyFull);
        assert_eq!(with(Some(TlsMode::Require), None).tcp_mode(), TlsMode::Require);
        assert_eq!(with(Some(TlsMode::Require), file()).tcp_mode(), TlsMode::VerifyCa);
        for mode in [TlsMode::Disable, TlsMode::VerifyCa, TlsMode::VerifyFull] {
            assert_eq!(with(Some(mode), file()).tcp_mode(), mode);
        }
    }

    #[test]
    fn public_authorities_require_the_name() {
        for options in [
            with(Some(TlsMode::VerifyCa), None),
            with(Some(TlsMode::VerifyCa), Some(TrustSource::System)),
            with(Some(TlsMode::Require), Some(TrustSource::System)),
        ] {
            let why = connector(&options).err().unwrap();
            assert!(why.contains("only with sslmode=verify-full\nhint: sslrootcert=FILE "), "{why}");
        }
        assert!(connector(&with(Some(TlsMode::Require), None)).is_ok());
    }

    /// Writes a certificate and its key; returns their paths.
    fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        (certificate, key)
    }

    #[test]
    fn the_default_files_are_in_the_home_directory() {
        let dir = tempfile::tempdir().unwrap();
        let options = TlsOptions { defaults: Some(dir.path().to_owned()), ..TlsOptions::default() };
        let provider = rustls::crypto::ring::default_provider();
        assert!(client_certificate(&options, &provider).unwrap().is_none());
        let (own, key) = certificate(dir.path(), "postgresql");
        assert!(client_certificate(&options, &provider).unwrap().is_some());
        std::fs::remove_file(&key).unwrap();
        assert!(client_certificate(&options, &provider).unwrap().is_none(), "a certificate without a key");
        let named = TlsOptions { certificate: Some(own), ..options };
        assert_eq!(client_certificate(&named, &provider).unwrap_err(), "sslcert requires sslkey");
        let (_, other) = certificate(dir.path(), "other");
        let mixed = TlsOptions { key: Some(other), ..named };
        let why = client_certificate(&mixed, &provider).unwrap_err();
        assert!(why.contains("is not the key of the certificate"), "{why}");
        let (root, _) = certificate(dir.path(), "root");
        let trusted = trusted(&mixed).unwrap().unwrap();
        assert_eq!((trusted.roots.len(), trusted.named), (1, certificates(&root).unwrap()));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate(dir.path(), "a");
        let is_root = std::fs::metadata(&key).unwrap().uid() == 0;
        for (mode, allowed) in
            [(0o600, true), (0o400, true), (0o640, is_root), (0o660, false), (0o604, false), (0o644, false)]
        {
            std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
            match private_key(&key) {
                Ok(_) => assert!(allowed, "{mode:o}"),
                Err(why) => {
                    assert!(!allowed && why.contains(&format!("(mode {mode:04o})\nhint: chmod")), "{why}")
                }
            }
        }
        let why = private_key(&certificate).unwrap_err();
        assert!(why.contains("mode 0644") || why.contains("not an unencrypted private key"), "{why}");
        assert!(certificates(&key).unwrap_err().ends_with("not a certificate in PEM format"));
        assert!(certificates(&dir.path().join("none")).unwrap_err().contains("No such file"));
    }
}

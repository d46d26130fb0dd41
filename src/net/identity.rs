//! TLS towards clients: who we are, read again when the files change, and whom we ask for a certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The files of `[tls]`, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// `cert`: the certificate and those that lead to its authority.
    pub cert: PathBuf,
    /// `key`: its private key.
    pub key: PathBuf,
    /// `client_ca`: only clients with a certificate of these authorities are let in.
    pub client_ca: Option<PathBuf>,
}

/// Why files cannot be used. Never holds anything of a key.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct IdentityError {
    file: PathBuf,
    why: String,
}

/// A certificate with its key, as it is now.
#[derive(Debug)]
pub struct Identity {
    files: IdentityFiles,
    current: ArcSwap<Read>,
}

/// One reading of the files.
#[derive(Debug)]
struct Read {
    config: Arc<ServerConfig>,
    /// What was read, to see whether a later reading differs.
    content: [Vec<u8>; 3],
}

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// The file that cannot be used, and why.
    pub fn load(files: IdentityFiles) -> Result<Self, IdentityError> {
        let current = ArcSwap::from_pointee(read(&files)?);
        Ok(Self { files, current })
    }

    /// Reads the files again: connections from now on see what they hold now. True when they have changed.
    ///
    /// # Errors
    ///
    /// As [`Identity::load`]; what was read last stays in use.
    pub fn reload(&self) -> Result<bool, IdentityError> {
        let fresh = read(&self.files)?;
        let changed = fresh.content != self.current.load().content;
        if changed {
            self.current.store(Arc::new(fresh));
        }
        Ok(changed)
    }

    /// Shakes hands; the flag says that HTTP/2 was agreed on.
    pub(super) async fn accept(&self, tcp: TcpStream) -> std::io::Result<(TlsStream<TcpStream>, bool)> {
        let config = Arc::clone(&self.current.load().config);
        let stream = TlsAcceptor::from(config).accept(tcp).await?;
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((stream, h2))
    }
}

fn read(files: &IdentityFiles) -> Result<Read, IdentityError> {
    let (cert, key) = (content(&files.cert)?, content(&files.key)?);
    let client_ca = files.client_ca.as_deref().map(content).transpose()?;
    let chain = certificates(&files.cert, &cert)?;
    // The error of a key says where it stands, never what it holds.
    let private =
        PrivateKeyDer::from_pem_slice(&key).map_err(|_| bad(&files.key, "no private key in it, as PEM"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&files.cert, error.to_string()))?;
    let builder = match (&files.client_ca, &client_ca) {
        (Some(file), Some(pem)) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file, pem)? {
                roots.add(certificate).map_err(|error| bad(file, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| bad(file, error.to_string()))?)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config =
        builder.with_single_cert(chain, private).map_err(|error| bad(&files.cert, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Read { config: Arc::new(config), content: [cert, key, client_ca.unwrap_or_default()] })
}

fn content(file: &Path) -> Result<Vec<u8>, IdentityError> {
    std::fs::read(file).map_err(|error| bad(file, error.to_string()))
}

fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(bad(file, "no certificate in it, as PEM")),
        Err(error) => Err(bad(file, error.to_string())),
    }
}

fn bad(file: &Path, why: impl Into<String>) -> IdentityError {
    IdentityError { file: file.to_path_buf(), why: why.into() }
}

//! TLS towards clients: who we are, read again when the files change, and whom we ask for a certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
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
    /// `client_ca`: clients with a certificate of another authority are not let in.
    pub client_ca: Option<PathBuf>,
    /// Clients without any certificate are let in too, to say in another way who they are.
    pub optional: bool,
}

/// A client's certificate, which an authority of `client_ca` has signed: its holder has proved that it has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// X.509 in DER.
    pub der: Vec<u8>,
    /// SHA-256 of it.
    pub sha256: [u8; 32],
}

impl PeerCertificate {
    /// A certificate by its bytes; nothing is verified.
    pub fn new(der: &[u8]) -> Self {
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(digest(&SHA256, der).as_ref());
        Self { der: der.to_vec(), sha256 }
    }

    /// What the other end of a connection has shown, if it has.
    pub(super) fn of(stream: &TlsStream<TcpStream>) -> Option<Self> {
        stream.get_ref().1.peer_certificates()?.first().map(|certificate| Self::new(certificate))
    }
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
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if files.optional { verifier.allow_unauthenticated() } else { verifier }.build();
            builder.with_client_cert_verifier(verifier.map_err(|error| bad(file, error.to_string()))?)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config =
        builder.with_single_cert(chain, private).map_err(|error| bad(&files.cert, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Read { config: Arc::new(config), content: [cert, key, client_ca.unwrap_or_default()] })
}

pub(super) fn content(file: &Path) -> Result<Vec<u8>, IdentityError> {
    std::fs::read(file).map_err(|error| bad(file, error.to_string()))
}

pub(super) fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(bad(file, "no certificate in it, as PEM")),
        Err(error) => Err(bad(file, error.to_string())),
    }
}

pub(super) fn bad(file: &Path, why: impl Into<String>) -> IdentityError {
    IdentityError { file: file.to_path_buf(), why: why.into() }
}

//! TLS towards servers that ask for a certificate: ours, read again when its files change.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::identity::{IdentityError, bad, certificates, content};
use crate::tasks::Tasks;

/// How often the files are looked at.
const RENEW: Duration = Duration::from_secs(10);

/// A certificate and its key, as they are now.
#[derive(Debug)]
pub struct ClientIdentity {
    cert: PathBuf,
    key: PathBuf,
    current: ArcSwap<Read>,
}

/// One reading of the files.
#[derive(Debug)]
struct Read {
    certified: Arc<CertifiedKey>,
    /// What was read, to see whether a later reading differs.
    content: [Vec<u8>; 2],
}

impl ClientIdentity {
    /// Reads the files (PEM). Connections made later show what they hold then: they are read again every ten seconds,
    /// as long as somebody has the value.
    ///
    /// # Errors
    ///
    /// The file that cannot be used, and why: missing, not PEM, a key of another certificate.
    pub fn load(cert: PathBuf, key: PathBuf, tasks: &Tasks) -> Result<Arc<Self>, IdentityError> {
        let current = ArcSwap::from_pointee(read(&cert, &key)?);
        let identity = Arc::new(Self { cert, key, current });
        tasks.spawn("client certificate", renew(Arc::downgrade(&identity)));
        Ok(identity)
    }

    fn reload(&self) -> Result<bool, IdentityError> {
        let fresh = read(&self.cert, &self.key)?;
        let changed = fresh.content != self.current.load().content;
        if changed {
            self.current.store(Arc::new(fresh));
        }
        Ok(changed)
    }
}

impl ResolvesClientCert for ClientIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

async fn renew(identity: Weak<ClientIdentity>) {
    loop {
        tokio::time::sleep(RENEW).await;
        let Some(own) = identity.upgrade() else { return };
        match tokio::task::spawn_blocking(move || own.reload()).await {
            Ok(Ok(true)) => tracing::info!("a new client certificate is in use"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the client certificate in use stays"),
            // The runtime ends.
            Err(_) => return,
        }
    }
}

fn read(cert: &std::path::Path, key: &std::path::Path) -> Result<Read, IdentityError> {
    let (certificate, private) = (content(cert)?, content(key)?);
    let chain = certificates(cert, &certificate)?;
    // The error of a key says where it stands, never what it holds.
    let der =
        PrivateKeyDer::from_pem_slice(&private).map_err(|_| bad(key, "no private key in it, as PEM"))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let certified =
        CertifiedKey::from_der(chain, der, &provider).map_err(|error| bad(cert, error.to_string()))?;
    Ok(Read { certified: Arc::new(certified), content: [certificate, private] })
}

/// Whether the files can be used, and when the certificate ends.
///
/// # Errors
///
/// As [`ClientIdentity::load`].
pub fn examine(cert: &std::path::Path, key: &std::path::Path) -> Result<Validity, IdentityError> {
    let read = read(cert, key)?;
    let first = read.certified.cert.first().ok_or_else(|| bad(cert, "no certificate in it, as PEM"))?;
    validity(first).ok_or_else(|| bad(cert, "its certificate is not X.509"))
}

/// When a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not before this.
    pub from: SystemTime,
    /// Not after this.
    pub until: SystemTime,
}

/// When a certificate (DER) holds; `None`: it is none.
fn validity(der: &[u8]) -> Option<Validity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let at = |seconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    let held = certificate.validity();
    Some(Validity { from: at(held.not_before.timestamp())?, until: at(held.not_after.timestamp())? })
}

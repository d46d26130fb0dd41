//! TLS towards servers: which roots are trusted, and handshake failures in words.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client_identity::ClientIdentity;
use super::error::{ClientError, Stage};

/// How to shake hands with one server.
pub(super) struct Tls {
    /// An error is kept until use: a machine without system roots can still call plain http servers.
    config: Result<Arc<ClientConfig>, ClientError>,
    name: ServerName<'static>,
}

impl Tls {
    /// Trusts the certificates of `ca_file` only (F-076), or the system's roots and those of `also`.
    pub(super) fn new(
        host: &url::Host<&str>,
        ca_file: Option<&Path>,
        also: Option<&Path>,
        identity: Option<&Arc<ClientIdentity>>,
    ) -> Result<Self, ClientError> {
        let name = match host {
            url::Host::Domain(name) => ServerName::try_from((*name).to_owned())
                .map_err(|_| tls_error(format!("{name} is not a host name")))?,
            url::Host::Ipv4(ip) => ServerName::from(std::net::IpAddr::from(*ip)),
            url::Host::Ipv6(ip) => ServerName::from(std::net::IpAddr::from(*ip)),
        };
        let config = match (ca_file, also) {
            (Some(path), _) => Ok(client_config(Arc::new(roots_of(path)?), identity)?),
            (None, Some(path)) => Ok(client_config(Arc::new(with_system_roots(roots_of(path)?)), identity)?),
            (None, None) => system_roots().and_then(|roots| client_config(roots, identity)),
        };
        Ok(Self { config, name })
    }

    /// Shakes hands; the flag says that HTTP/2 was agreed on.
    pub(super) async fn connect(&self, tcp: TcpStream) -> Result<(TlsStream<TcpStream>, bool), ClientError> {
        let config = self.config.clone()?;
        let stream = TlsConnector::from(config)
            .connect(self.name.clone(), tcp)
            .await
            .map_err(|error| tls_error(reason(&error)))?;
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((stream, h2))
    }
}

fn tls_error(message: impl Into<String>) -> ClientError {
    ClientError::unsent(Stage::Tls, message)
}

fn client_config(
    roots: Arc<RootCertStore>,
    identity: Option<&Arc<ClientIdentity>>,
) -> Result<Arc<ClientConfig>, ClientError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_error(error.to_string()))?
        .with_root_certificates(roots);
    let mut config = match identity {
        Some(identity) => {
            let resolver: Arc<ClientIdentity> = Arc::clone(identity);
            builder.with_client_cert_resolver(resolver)
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Whether a file holds certificates that can be trusted.
///
/// # Errors
///
/// What is wrong with it.
pub fn examine_roots(path: &Path) -> Result<(), ClientError> {
    roots_of(path).map(drop)
}

fn roots_of(path: &Path) -> Result<RootCertStore, ClientError> {
    let bad = |why: String| tls_error(format!("ca_file {}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(bad("no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// These roots and the system's, if it has any.
fn with_system_roots(mut roots: RootCertStore) -> RootCertStore {
    if let Ok(system) = system_roots() {
        roots.extend(system.roots.iter().cloned());
    }
    roots
}

/// The system's roots, read once per process: they are the same for every server and take a while.
fn system_roots() -> Result<Arc<RootCertStore>, ClientError> {
    static ROOTS: OnceLock<Result<Arc<RootCertStore>, ClientError>> = OnceLock::new();
    ROOTS
        .get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            let mut roots = RootCertStore::empty();
            // Single odd certificates in a system's store are common and no reason to trust none.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why = found.errors.first().map(ToString::to_string).unwrap_or_default();
                return Err(tls_error(format!(
                    "this system has no root certificates; install them or set ca_file {why}"
                )));
            }
            Ok(Arc::new(roots))
        })
        .clone()
}

/// What an operator can act on.
fn reason(error: &std::io::Error) -> String {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return format!("the connection broke during the handshake: {error}");
    };
    let rustls::Error::InvalidCertificate(why) = tls else {
        return tls.to_string();
    };
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the server's certificate has expired ({why})")
        }
        CertificateError::UnknownIssuer => {
            "the server's certificate is not signed by a trusted authority (ca_file, or the system's roots)"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the server's certificate is for another host ({why})")
        }
        _ => format!("the server's certificate is refused ({why})"),
    }
}

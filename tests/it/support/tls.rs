//! TLS in front of a scripted server: certification authorities of our own, good and bad certificates.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A certification authority.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Its certificate.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes its certificate.
    pub(crate) fn save(&self, file: &Path) {
        std::fs::write(file, self.pem()).unwrap();
    }

    /// Serves TLS for these names in front of a server; `valid` is false for a certificate of the past.
    pub(crate) async fn front(&self, to: SocketAddr, names: &[&str], valid: bool) -> SocketAddr {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        if !valid {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), to));
        address
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, to: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // Who does not trust us leaves here.
            let Ok(mut near) = acceptor.accept(stream).await else { return };
            let Ok(mut far) = TcpStream::connect(to).await else { return };
            let _ = copy_bidirectional(&mut near, &mut far).await;
        });
    }
}

/// A certificate and its key, PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Pair {
    /// Writes NAME.pem and NAME.key.
    pub(crate) fn save(&self, folder: &Path, name: &str) {
        std::fs::write(folder.join(format!("{name}.pem")), &self.cert).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), &self.key).unwrap();
    }
}

impl Authority {
    /// A certificate of this common name for these host names.
    pub(crate) fn sign(&self, common: &str, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, common);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair { cert: certificate.pem(), key: key.serialize_pem() }
    }

    /// Serves TLS for localhost in front of a server, to those who show a certificate of this authority; what they showed
    /// is told.
    pub(crate) async fn front_for(
        &self,
        to: SocketAddr,
        shown: tokio::sync::mpsc::UnboundedSender<Vec<u8>>,
    ) -> SocketAddr {
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let own = self.sign("server", &["localhost"]);
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(own.cert.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shown) = (acceptor.clone(), shown.clone());
                tokio::spawn(async move {
                    let Ok(mut near) = acceptor.accept(stream).await else { return };
                    let certificates = near.get_ref().1.peer_certificates().unwrap_or_default();
                    let _ = shown.send(certificates[0].to_vec());
                    let Ok(mut far) = TcpStream::connect(to).await else { return };
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        address
    }

    /// Shakes hands with a server for localhost that this authority has signed, showing a certificate if there is one.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        own: Option<&Pair>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            Some(own) => {
                let chain = vec![CertificateDer::from_pem_slice(own.cert.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let tcp = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), tcp).await
    }
}

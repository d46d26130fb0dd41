//! TLS: whom we trust, and what an operator reads when we do not (F-076).

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::net::Stage;

/// A certificate authority of one test.
pub(super) struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Ca {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Each has a name of its own, as authorities do.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test authority {}", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, folder: TempDir::new().unwrap() }
    }

    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's certificate, after `before`, in a file.
    pub(super) fn file(&self, before: &str) -> PathBuf {
        let path = self.folder.path().join("ca.pem");
        let mut file = std::fs::File::create(&path).unwrap();
        write!(file, "{before}{}", self.pem()).unwrap();
        path
    }

    /// A certificate for these names or addresses, and its key, both as PEM.
    pub(super) fn signed(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server certificate for these names or addresses.
    pub(super) fn acceptor(&self, names: &[&str], alpn: &[&str], until_year: i32) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(until_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate: CertificateDer<'static> = params.signed_by(&key, &self.issuer).unwrap().into();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// An HTTP/1.1 server over TLS that answers with the body it got; the address without scheme.
async fn echo_tls(acceptor: TlsAcceptor, tasks: &Tasks) -> u16 {
    let (listener, _) = bind().await;
    let port = listener.local_addr().unwrap().port();
    accept(listener, tasks, move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                echo(stream).await;
            }
        }
    });
    port
}

fn trusting(url: &str, ca_file: PathBuf, tasks: &Tasks) -> Client {
    let options = ClientOptions { ca_file: Some(ca_file), ..options(url) };
    Client::new(options, tasks.clone()).unwrap()
}

#[tokio::test]
async fn each_server_has_its_own_authority() {
    let tasks = Tasks::new();
    let (x, y) = (Ca::new(), Ca::new());
    let at_x = echo_tls(x.acceptor(&["localhost", "127.0.0.1"], &["http/1.1"], 2999), &tasks).await;
    let at_y = echo_tls(y.acceptor(&["localhost"], &[], 2999), &tasks).await;
    for (port, ca) in [(at_x, &x), (at_y, &y)] {
        let client = trusting(&format!("https://localhost:{port}"), ca.file(""), &tasks);
        for _ in 0..3 {
            assert_eq!(call(&client, "{}").await.unwrap(), "{}");
        }
        assert_eq!(client.connections(), 1);
    }
    // Two certificates in one file, and a server known by its address only.
    let both = x.file(&y.pem());
    assert_eq!(
        call(&trusting(&format!("https://127.0.0.1:{at_x}"), both.clone(), &tasks), "{}").await.unwrap(),
        "{}"
    );
    assert_eq!(
        call(&trusting(&format!("https://localhost:{at_y}"), both, &tasks), "{}").await.unwrap(),
        "{}"
    );

    let error =
        call(&trusting(&format!("https://localhost:{at_y}"), x.file(""), &tasks), "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Tls, false));
    assert!(error.to_string().contains("not signed by a trusted authority"), "{error}");
    // The system's roots know neither.
    let error = call(&client(&format!("https://localhost:{at_x}"), &tasks), "{}").await.unwrap_err();
    assert_eq!(error.stage, Stage::Tls, "{error}");
}

#[tokio::test]
async fn expired_and_foreign_certificates_are_named() {
    let tasks = Tasks::new();
    let ca = Ca::new();
    let expired = echo_tls(ca.acceptor(&["localhost"], &[], 2002), &tasks).await;
    let error = call(&trusting(&format!("https://localhost:{expired}"), ca.file(""), &tasks), "{}")
        .await
        .unwrap_err();
    assert_eq!(error.stage, Stage::Tls);
    assert!(error.to_string().contains("expired"), "{error}");

    let foreign = echo_tls(ca.acceptor(&["other.example"], &[], 2999), &tasks).await;
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{foreign}");
        let error = call(&trusting(&url, ca.file(""), &tasks), "{}").await.unwrap_err();
        assert_eq!(error.stage, Stage::Tls);
        assert!(error.to_string().contains("for another host"), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_fails_in_words() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    accept(listener, &tasks, |mut stream, _| async move {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        closed(&mut stream).await;
    });
    let ca = Ca::new();
    let client = trusting(&url.replace("http:", "https:"), ca.file(""), &tasks);
    let error = call(&client, "{}").await.unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Tls, false), "{error}");
}

#[tokio::test]
async fn an_unusable_ca_file_is_named_at_once() {
    let ca = Ca::new();
    let missing = ca.folder.path().join("missing.pem");
    let empty = ca.folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    let broken = ca.folder.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    for path in [missing, empty, broken] {
        let options = ClientOptions { ca_file: Some(path.clone()), ..options("https://localhost") };
        let error = Client::new(options, Tasks::new()).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

//! TLS towards clients: both HTTPs, certificates that are renewed, clients that must show one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::tls::Ca;
use super::*;
use crate::net::{Identity, IdentityFiles, ListenOptions, Peer, serve};

/// A certificate for localhost in files, a new one at each call.
fn files(ca: &Ca, folder: &Path, client_ca: Option<PathBuf>) -> IdentityFiles {
    let (cert, key) = ca.signed(&["localhost"]);
    let files = IdentityFiles {
        cert: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        client_ca,
        optional: false,
    };
    std::fs::write(&files.cert, cert).unwrap();
    std::fs::write(&files.key, key).unwrap();
    files
}

/// A listener that answers with the client's address.
async fn run(identity: Arc<Identity>, tasks: &Tasks) -> std::net::SocketAddr {
    let (listener, _) = bind().await;
    let address = listener.local_addr().unwrap();
    let service = handler(|request: Request<Incoming>| async move {
        let Peer(peer) = *request.extensions().get::<Peer>().unwrap();
        Response::new(Body::from(Bytes::from(peer.to_string())))
    });
    let options = ListenOptions { tls: Some(identity), ..super::listener::patient() };
    let drain = CancellationToken::new();
    tasks.spawn("test listener", serve(listener, service, options, tasks.clone(), drain));
    address
}

/// Shakes hands as a client that trusts `ca` and, if it has one, shows a certificate.
async fn connect(
    address: std::net::SocketAddr,
    ca: &Ca,
    own: Option<(String, String)>,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some((cert, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                .unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let tcp = TcpStream::connect(address).await.unwrap();
    soon(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), tcp)).await
}

/// One request over HTTP/1.1; `None` when the server does not want this client.
async fn ask(stream: TlsStream<TcpStream>, tasks: &Tasks) -> Option<String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tasks.spawn("test client", async move { drop(connection.await) });
    let request = Request::get("/").header("host", "localhost").body(Body::empty()).unwrap();
    let answer = soon(sender.send_request(request)).await.ok()?;
    let body = soon(answer.into_body().collect()).await.unwrap().to_bytes();
    Some(String::from_utf8(body.to_vec()).unwrap())
}

fn certificate(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_tls() {
    let (tasks, ca, folder) = (Tasks::new(), Ca::new(), TempDir::new().unwrap());
    let identity = Arc::new(Identity::load(files(&ca, folder.path(), None)).unwrap());
    let address = run(identity, &tasks).await;

    let stream = connect(address, &ca, None, &["http/1.1"]).await.unwrap();
    let own = stream.get_ref().0.local_addr().unwrap().to_string();
    assert_eq!(ask(stream, &tasks).await, Some(own));

    let stream = connect(address, &ca, None, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut sender = h2_client(stream, &tasks).await;
    let request = Request::get("https://localhost/").body(Body::empty()).unwrap();
    assert_eq!(soon(sender.send_request(request)).await.unwrap().status(), 200);

    // Who speaks plainly gets no HTTP, and costs nobody anything.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = soon(plain.read_to_end(&mut said)).await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
}

#[tokio::test]
async fn new_files_are_for_new_connections_and_bad_ones_change_nothing() {
    let (tasks, ca, folder) = (Tasks::new(), Ca::new(), TempDir::new().unwrap());
    let written = files(&ca, folder.path(), None);
    let identity = Arc::new(Identity::load(written.clone()).unwrap());
    let address = run(Arc::clone(&identity), &tasks).await;
    let old = connect(address, &ca, None, &[]).await.unwrap();
    let first = certificate(&old);
    assert!(!identity.reload().unwrap(), "nothing has changed");

    files(&ca, folder.path(), None);
    assert!(identity.reload().unwrap());
    let second = certificate(&connect(address, &ca, None, &[]).await.unwrap());
    assert_ne!(first, second);
    assert!(ask(old, &tasks).await.is_some(), "a connection goes on with what it began with");

    let secret = "not a key at all";
    std::fs::write(&written.key, secret).unwrap();
    let error = identity.reload().unwrap_err().to_string();
    assert!(error.contains("key.pem") && !error.contains(secret), "{error}");
    assert_eq!(certificate(&connect(address, &ca, None, &[]).await.unwrap()), second);
    std::fs::write(&written.cert, "").unwrap();
    assert!(identity.reload().unwrap_err().to_string().contains("no certificate in it"));
}

#[tokio::test]
async fn clients_without_a_certificate_of_the_authority_are_turned_away() {
    let (tasks, ca, clients, folder) = (Tasks::new(), Ca::new(), Ca::new(), TempDir::new().unwrap());
    let identity = Identity::load(files(&ca, folder.path(), Some(clients.file("")))).unwrap();
    let address = run(Arc::new(identity), &tasks).await;
    for (own, welcome) in [
        (Some(clients.signed(&["robot"])), true),
        // Signed by somebody else.
        (Some(ca.signed(&["robot"])), false),
        (None, false),
    ] {
        // In TLS 1.3 the client learns of the refusal only when it reads.
        let answer = match connect(address, &ca, own, &[]).await {
            Ok(stream) => ask(stream, &tasks).await,
            Err(_) => None,
        };
        assert_eq!(answer.is_some(), welcome);
    }
}

//! Whose request it is: addresses behind proxies, and certificates: design §3 (`trusted_proxies`, `tls.client_ca`,
//! `client_cert`), F-020.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::support::cast::{by, caller};
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Mcp, Request, call};
use crate::support::server::{Offer, Server};
use crate::support::tls::{Authority, Pair};
use crate::support::within;

/// The lines of the audit log, once there are so many.
async fn lines(folder: &Path, count: usize) -> Vec<Value> {
    let read = || -> Vec<Value> {
        let text = std::fs::read_to_string(folder.join("audit.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    eventually(&format!("{count} lines"), async || read().len() >= count).await;
    read()
}

fn audit(folder: &Path) -> String {
    format!("[audit]\nfile = \"{}\"", folder.join("audit.jsonl").display())
}

async fn behind(proxies: &str, folder: &Path) -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let setup = Setup::new().gateway(&format!("trusted_proxies = [{proxies}]")).toml(&audit(folder));
    let gateway = setup.http("s", &server.url(), "").start().await;
    (server, gateway)
}

fn from(address: &str) -> Request {
    call("s_t", "{}").request().with("X-Forwarded-For", address)
}

/// Only where the operator says so, and then the rightmost hop that is no proxy of his.
#[tokio::test(flavor = "multi_thread")]
async fn forwarded_addresses_count_from_trusted_proxies_only() {
    let folder = tempfile::tempdir().unwrap();
    for (proxies, says, address) in [
        ("", "203.0.113.9", "127.0.0.1"),
        ("\"192.0.2.0/24\"", "203.0.113.9", "127.0.0.1"),
        ("\"127.0.0.0/8\"", "203.0.113.9", "203.0.113.9"),
        ("\"127.0.0.1\", \"10.0.0.0/8\"", "6.6.6.6, 203.0.113.9, 10.1.1.1", "203.0.113.9"),
    ] {
        let _ = std::fs::remove_file(folder.path().join("audit.jsonl"));
        let (_server, gateway) = behind(proxies, folder.path()).await;
        assert_eq!(gateway.send(from(says)).await.status(), 200);
        assert_eq!(lines(folder.path(), 1).await[0]["address"], address, "{proxies}");
        gateway.stop().await;
    }
}

/// Covers: F-020, A-05: addresses of the gateway itself never come out of forwarded headers.
#[tokio::test(flavor = "multi_thread")]
async fn f_020_forwarded_headers_never_make_urls() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let public = "public_url = \"https://mcp.example.test\"\ntrusted_proxies = [\"127.0.0.0/8\"]\nallowed_hosts = [\"*\"]";
    let setup = Setup::new().gateway(public).toml(&format!("[auth]\n{}", caller("ann", "")));
    let gateway = setup.http("s", &server.url(), "").start().await;
    let spoofed = call("s_t", "{}")
        .request()
        .with("X-Forwarded-Host", "evil.test")
        .with("X-Forwarded-Proto", "http")
        .with("X-Forwarded-For", "203.0.113.9")
        .with("Forwarded", "for=203.0.113.9;host=evil.test;proto=http");
    let reply = gateway.send(spoofed).await;
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    assert!(reply.status() == 401 && !challenge.contains("evil"), "{reply:?}");
    gateway.stop().await;
}

/// Both versions of the PROXY protocol, in front of HTTP/1.1; a proxy without it is served as it is.
#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_protocol_is_heard_from_trusted_proxies() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, gateway) = behind("\"127.0.0.0/8\"", folder.path()).await;
    let v1 = b"PROXY TCP4 203.0.113.9 192.0.2.1 4000 443\r\n".to_vec();
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24".to_vec();
    v2.extend("2001:db8::7".parse::<std::net::Ipv6Addr>().unwrap().octets());
    v2.extend([0; 16]);
    v2.extend([0x0f, 0xa0, 0x01, 0xbb]);
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    let cases = [(v1, "203.0.113.9"), (v2, "2001:db8::7"), (local, "127.0.0.1"), (Vec::new(), "127.0.0.1")];
    for (number, (header, address)) in cases.iter().enumerate() {
        let mut connection = gateway.connect().await;
        // In pieces, as a network may bring it.
        for piece in header.chunks(9) {
            connection.write(piece).await;
        }
        for _ in 0..2 {
            assert_eq!(connection.send(call("s_t", "{}")).await.status(), 200);
        }
        let all = lines(folder.path(), 2 * number + 2).await;
        assert!(all[2 * number..].iter().all(|line| line["address"] == *address), "{address}: {all:?}");
    }
    // Whom the protocol names is a client like any other: its own word about others is not believed.
    let mut connection = gateway.connect().await;
    connection.write(b"PROXY TCP4 203.0.113.9 192.0.2.1 4000 443\r\n").await;
    assert_eq!(connection.send(from("6.6.6.6")).await.status(), 200);
    assert_eq!(lines(folder.path(), 9).await[8]["address"], "203.0.113.9");
    // What begins so and is none ends the connection.
    for wrong in [&b"PROXY TCP4 nobody 192.0.2.1 4000 443\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"] {
        let mut connection = gateway.connect().await;
        connection.write(wrong).await;
        connection.closed().await;
    }
    gateway.stop().await;
}

/// From anybody else it is no HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_protocol_of_others_is_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let (server, gateway) = behind("\"192.0.2.0/24\"", folder.path()).await;
    let mut connection = gateway.connect().await;
    connection.write(b"PROXY TCP4 203.0.113.9 192.0.2.1 4000 443\r\n").await;
    assert_eq!(connection.reply("POST").await.status(), 400);
    assert!(server.requests("tools/call").is_empty());
    gateway.stop().await;
}

/// One request over TLS; status and body. `None`: the handshake failed.
async fn over_tls(
    (authority, gateway): (&Authority, &Gateway),
    own: Option<&Pair>,
    request: impl Into<Request>,
) -> Option<(u16, Value)> {
    let mut stream = within("a handshake", authority.connect(gateway.listen, own)).await.ok()?;
    let request = request.into().with("Connection", "close");
    stream.write_all(&request.bytes("localhost")).await.ok()?;
    let mut answer = Vec::new();
    within("an answer", stream.read_to_end(&mut answer)).await.ok()?;
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// A gateway that ends TLS and asks for certificates; `more` are further tables.
async fn asking(authority: &Authority, folder: &Path, more: &str) -> (Server, Gateway) {
    authority.save(&folder.join("ca.pem"));
    authority.sign("gateway", &["localhost"]).save(folder, "gateway");
    let server = Server::modern("s", Offer::tools(&["t", "u"])).await;
    let file = |name: &str| folder.join(name).display().to_string();
    let tls = format!(
        "[tls]\ncert = \"{}\"\nkey = \"{}\"\nclient_ca = \"{}\"",
        file("gateway.pem"),
        file("gateway.key"),
        file("ca.pem")
    );
    let setup = Setup::new().gateway("public_url = \"https://localhost\"\nallowed_hosts = [\"*\"]");
    let setup = setup.toml(&tls).toml(&audit(folder)).toml(more).http("s", &server.url(), "");
    (server, setup.start().await)
}

fn tool(name: &str) -> Mcp {
    call(name, "{}")
}

/// A certificate says who a client is where no token does; grants look at what it says.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_a_principal_beside_tokens() {
    let (authority, other, folder) = (Authority::new(), Authority::new(), tempfile::tempdir().unwrap());
    let grants = "[[grant]]\nto = { iss = \"x509\", \"x509.dns\" = \"ci.example.test\" }\nservers = [\"s\"]\ntools = [\"t\"]\n\
                  [[grant]]\nto = { team = \"dev\" }\nservers = [\"s\"]\ntools = [\"u\"]";
    let auth = format!(
        "[auth]\nrequired_scopes = [\"mcp:use\"]\n{}{grants}",
        caller("ann", "team = \"dev\", scope = \"mcp:use\"")
    );
    let (_server, gateway) = asking(&authority, folder.path(), &auth).await;
    let at = (&authority, &gateway);
    let (robot, stranger) = (authority.sign("robot", &["ci.example.test"]), authority.sign("x", &["x.test"]));

    let (status, body) = over_tls(at, Some(&robot), tool("s_t")).await.unwrap();
    assert!(status == 200 && body["result"]["isError"] != true, "{body}");
    let (_, body) = over_tls(at, Some(&robot), tool("s_u")).await.unwrap();
    assert_eq!(body["error"]["code"], -32602, "no grant gives it that");
    let (_, body) = over_tls(at, Some(&stranger), tool("s_t")).await.unwrap();
    assert_eq!(body["error"]["code"], -32602, "another certificate is another caller");
    // A token beside a certificate says who calls, a bad one too.
    let (_, body) = over_tls(at, Some(&robot), by("ann", tool("s_u"))).await.unwrap();
    assert!(body["result"].is_object(), "{body}");
    let bad = tool("s_t").request().with("Authorization", "Bearer no-such-key-0123456789abcdef");
    assert_eq!(over_tls(at, Some(&robot), bad).await.unwrap().0, 401);
    // Without a certificate it takes a token, and one of another authority is not let in at all.
    assert_eq!(over_tls(at, None, tool("s_t")).await.unwrap().0, 401);
    assert_eq!(over_tls(at, None, by("ann", tool("s_u"))).await.unwrap().0, 200);
    assert_eq!(over_tls(at, Some(&other.sign("robot", &["ci.example.test"])), tool("s_t")).await, None);

    let line = &lines(folder.path(), 1).await[0];
    assert_eq!((&line["issuer"], &line["subject"]), (&json!("x509"), &json!("ci.example.test")), "{line}");
    gateway.stop().await;
}

/// Without `[auth]` the certificate is what lets a client in.
#[tokio::test(flavor = "multi_thread")]
async fn without_auth_every_client_needs_a_certificate() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let (_server, gateway) = asking(&authority, folder.path(), "").await;
    let at = (&authority, &gateway);
    assert_eq!(over_tls(at, None, tool("s_t")).await, None);
    let own = authority.sign("robot", &["ci.example.test"]);
    assert_eq!(over_tls(at, Some(&own), tool("s_t")).await.unwrap().0, 200);
    assert_eq!(lines(folder.path(), 1).await[0]["subject"], "ci.example.test");
    gateway.stop().await;
}

/// `client_cert` is shown to a server that asks for it, and a new one once its files have changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_the_certificate_it_asks_for() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let (sender, mut shown) = mpsc::unbounded_channel();
    let front = authority.front_for(server.address, sender).await;
    authority.save(&folder.path().join("ca.pem"));
    authority.sign("first", &["gw"]).save(folder.path(), "own");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let more = format!(
        "ca_file = \"{}\"\nclient_cert = \"{}\"\nclient_key = \"{}\"",
        file("ca.pem"),
        file("own.pem"),
        file("own.key")
    );
    let gateway =
        Setup::new().http("s", &format!("https://localhost:{}/mcp", front.port()), &more).start().await;
    let reply = gateway.send(tool("s_t")).await;
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    let first = within("a certificate", shown.recv()).await.unwrap();
    assert!(holds(&first, b"first"));
    authority.sign("second", &["gw"]).save(folder.path(), "own");
    let renewed = |line: &str| line.contains("a new client certificate is in use");
    within("a renewal", async {
        while gateway.log.find(renewed).is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    gateway.stop().await;
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

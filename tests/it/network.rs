//! Between us and a server: certificates and whom they are trusted for, connections that died unseen: F-075, F-076.

use crate::support::eventually;
use crate::support::feed::names;
use crate::support::gateway::Setup;
use crate::support::request::call;
use crate::support::server::{Offer, Server};
use crate::support::tcp::{Gate, Mode};
use crate::support::tls::Authority;

/// Covers: F-076: each server is trusted by its own authorities only; the reason is in the log, the rest works.
#[tokio::test(flavor = "multi_thread")]
async fn f_076_every_server_has_its_own_authorities() {
    let folder = tempfile::tempdir().unwrap();
    let (x, y) = (Authority::new(), Authority::new());
    let (x_file, y_file) = (folder.path().join("x.pem"), folder.path().join("y.pem"));
    x.save(&x_file);
    y.save(&y_file);
    let both = folder.path().join("both.pem");
    std::fs::write(&both, format!("# two of them\n{}\n{}", x.pem(), y.pem())).unwrap();
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let to = server.address;
    let ip = ["127.0.0.1"];
    let rows = [
        ("x", x.front(to, &ip, true).await, Some(&x_file), true),
        ("y", y.front(to, &ip, true).await, Some(&y_file), true),
        ("x-by-both", x.front(to, &ip, true).await, Some(&both), true),
        ("y-by-both", y.front(to, &ip, true).await, Some(&both), true),
        ("x-by-y", x.front(to, &ip, true).await, Some(&y_file), false),
        ("x-by-system", x.front(to, &ip, true).await, None, false),
        ("expired", x.front(to, &ip, false).await, Some(&x_file), false),
        ("other-name", x.front(to, &["elsewhere.test", "10.9.8.7"], true).await, Some(&x_file), false),
    ];
    let mut setup = Setup::new();
    for (name, address, file, _) in &rows {
        let file = file.map(|file| format!("ca_file = {file:?}")).unwrap_or_default();
        setup = setup.http(name, &format!("https://{address}/mcp"), &file);
    }
    let gateway = setup.start().await;
    let mut connection = gateway.connect().await;
    let good: Vec<String> = rows.iter().filter(|row| row.3).map(|row| format!("{}_t", row.0)).collect();
    eventually("those that are trusted", async || names(&mut connection, "tools/list").await == good).await;
    for (name, _, _, trusted) in &rows {
        let reply = gateway.send(call(&format!("{name}_t"), "{}")).await;
        assert_eq!(reply.result()["isError"] == true, !trusted, "{name}: {reply:?}");
        let up = gateway.metric("gatehouse_server_up", &[("server", name)]).await;
        assert_eq!(up, f64::from(u8::from(*trusted)), "{name}");
        if !trusted {
            let of = format!("\"server\":\"{name}\"");
            let why = gateway.log.find(|line| line.contains(&of) && line.contains("certificate"));
            assert!(!why.is_empty(), "{name}: {}", gateway.log.text());
        }
    }
}

/// Covers: F-076: a file that is not there, or holds no certificate, is an error at the start that names it.
#[tokio::test(flavor = "multi_thread")]
async fn f_076_a_missing_ca_file_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    for file in [folder.path().join("absent.pem"), empty] {
        let (code, said) =
            Setup::new().http("s", "https://127.0.0.1:1/mcp", &format!("ca_file = {file:?}")).refused().await;
        assert!(matches!(code, Some(2 | 3)), "{code:?}: {said}");
        assert!(said.contains(file.file_name().unwrap().to_str().unwrap()), "{said}");
        assert!(!said.contains("\"listening\""), "{said}");
    }
}

/// Covers: F-075: pooled connections that died unseen cost the calls on them their own limit, and nobody else anything.
#[tokio::test(flavor = "multi_thread")]
async fn f_075_dead_connections_are_left_behind() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gate = Gate::new(Mode::Pass(server.address)).await;
    let gateway = Setup::new().http("s", &gate.url(), "timeout = \"2s\"").start().await;
    assert_ne!(gateway.send(call("s_t", "{}")).await.result()["isError"], true);
    // What is open now passes nothing any more, and nobody is told; new connections work.
    let dead = gate.accepted();
    gate.set(Mode::Freeze).await;
    gate.set(Mode::Pass(server.address)).await;
    let mut failed = 0;
    for _ in 0..20 {
        let reply = gateway.send(call("s_t", "{}")).await;
        if reply.result()["isError"] == true {
            failed += 1;
            let text = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text.contains("timeout"), "{text}");
        }
    }
    assert!(failed <= dead, "{failed} calls failed by {dead} dead connections");
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "s")]).await, 1.0);
    assert_eq!(server.requests("tools/call").len(), 21 - failed, "none was made twice");
}

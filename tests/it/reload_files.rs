//! What counts as another configuration: the file, what it includes, secrets and certificates in files, links that are
//! turned as Kubernetes does it, and SIGHUP: F-076, issue 6.

use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::feed::names;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::call;
use crate::support::server::{Offer, Server};
use crate::support::tls::Authority;

async fn tools(gateway: &Gateway) -> Vec<String> {
    names(&mut gateway.connect().await, "tools/list").await
}

async fn becomes(gateway: &Gateway, wanted: &[&str]) {
    eventually(&format!("{wanted:?}"), async || tools(gateway).await == wanted).await;
}

fn entry(name: &str, server: &Server) -> String {
    format!("[[server]]\nname = \"{name}\"\nurl = \"{}\"\n", server.url())
}

/// Covers: issue 6: the link to a folder is turned in one step, as the kubelet does it with a ConfigMap; nothing in the
/// folder of the file is written at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_followed() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("old", &server.url(), "").start().await;
    let folder = gateway.folder.path();
    let text = std::fs::read_to_string(&gateway.file).unwrap();
    // From a plain file to the shape that a mounted ConfigMap has.
    let version = |name: &str, text: &str| {
        std::fs::create_dir(folder.join(name)).unwrap();
        std::fs::write(folder.join(name).join("gatehouse.toml"), text).unwrap();
    };
    let turn = |to: &str| {
        symlink(to, folder.join("..data_tmp")).unwrap();
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    version("..1", &text.replace("\"old\"", "\"first\""));
    turn("..1");
    symlink("..data/gatehouse.toml", folder.join("link")).unwrap();
    std::fs::rename(folder.join("link"), &gateway.file).unwrap();
    becomes(&gateway, &["first_t"]).await;
    version("..2", &text.replace("\"old\"", "\"second\""));
    turn("..2");
    std::fs::remove_dir_all(folder.join("..1")).unwrap();
    becomes(&gateway, &["second_t"]).await;
    version("..3", &text.replace("\"old\"", "\"third\""));
    turn("..3");
    becomes(&gateway, &["third_t"]).await;
    assert_eq!(gateway.reloads().await.1, 0.0);
}

/// Covers: design §3, issue 6: an included file that changes, appears or goes; a secret in a file.
#[tokio::test(flavor = "multi_thread")]
async fn included_files_and_secrets_are_followed() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.guard(|seen| {
        let call = seen.method() == "tools/call" && seen.header("authorization").is_some();
        let shown = seen.header("authorization").unwrap_or_default();
        call.then(|| {
            Answer::result(seen, &format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{shown}\"}}]}}"))
        })
    });
    let secrets = tempfile::tempdir().unwrap();
    let secret = secrets.path().join("token");
    std::fs::write(&secret, "one\n").unwrap();
    let credentials =
        format!("[server.credentials]\nkind = \"bearer\"\ntoken = \"${{file:{}}}\"", secret.display());
    let gateway = Setup::new().http("s", &server.url(), &credentials).start().await;
    let shown = async || {
        let reply = gateway.send(call("s_t", "{}")).await;
        reply.result()["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(shown().await, "Bearer one");
    std::fs::write(&secret, "two\n").unwrap();
    eventually("the new token", async || shown().await == "Bearer two").await;
    assert!(!gateway.log.text().contains("Bearer two"));

    let teams = gateway.folder.path().join("conf.d");
    std::fs::create_dir(&teams).unwrap();
    let with = Setup::new().gateway("include = [\"conf.d/*.toml\"]").http("s", &server.url(), &credentials);
    gateway.reload(&with).await;
    std::fs::write(teams.join("a.toml"), entry("a", &server)).unwrap();
    becomes(&gateway, &["s_t", "a_t"]).await;
    std::fs::write(teams.join("b.toml"), entry("b", &server)).unwrap();
    becomes(&gateway, &["s_t", "a_t", "b_t"]).await;
    std::fs::write(teams.join("a.toml"), entry("c", &server)).unwrap();
    becomes(&gateway, &["s_t", "c_t", "b_t"]).await;
    std::fs::remove_file(teams.join("a.toml")).unwrap();
    becomes(&gateway, &["s_t", "b_t"]).await;
    // A file beside them that nobody reads is no other configuration.
    let count = gateway.reloads().await;
    std::fs::write(teams.join("notes.txt"), "x").unwrap();
    std::fs::write(teams.join("d.toml"), entry("d", &server)).unwrap();
    becomes(&gateway, &["s_t", "b_t", "d_t"]).await;
    assert_eq!(gateway.reloads().await, (count.0 + 1.0, count.1));
}

/// Covers: issue 6: SIGHUP reads again, whether anything changed or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_reads_again() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    for n in 1..=3 {
        gateway.signal(Signal::SIGHUP);
        eventually("it was read", async || gateway.reloads().await == (f64::from(n), 0.0)).await;
    }
    assert_eq!(server.requests("server/discover").len(), 1, "nothing is another");
    assert_eq!(tools(&gateway).await, ["s_t"]);
}

/// Covers: F-076: other authorities in `ca_file` are those that count, without a word in the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn f_076_a_ca_file_is_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let (old, new) = (Authority::new(), Authority::new());
    old.save(&file);
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let front = new.front(server.address, &["127.0.0.1"], true).await;
    let plain = Server::modern("p", Offer::tools(&["t"])).await;
    let more = format!("ca_file = {:?}", Path::new(&file));
    let gateway = Setup::new()
        .http("p", &plain.url(), "")
        .http("s", &format!("https://{front}/mcp"), &more)
        .start()
        .await;
    assert_eq!(tools(&gateway).await, ["p_t"], "its authority is not trusted");
    new.save(&file);
    becomes(&gateway, &["p_t", "s_t"]).await;
    assert_eq!(plain.requests("server/discover").len(), 1, "the other server is the same");
}

//! What a configuration leaves behind when another one is in force: nothing.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::App;
use crate::config::Config;
use crate::gateway::Snapshot;

fn config(n: usize) -> Config {
    let more = format!("timeout = \"{}s\"", 10 + n);
    let text = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n[[server]]\nname = \"same\"\nurl = \"http://127.0.0.1:9/mcp\"\n\
         [[server]]\nname = \"other\"\nurl = \"http://127.0.0.1:9/mcp\"\n{more}\n[[server]]\nname = \"n{n}\"\nurl = \"http://127.0.0.1:9/mcp\""
    );
    Config::parse(&text, Path::new("."), &|_| None).unwrap()
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let all = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), all).await.is_ok(), "{what}");
}

/// Covers: issue 6: fifty configurations; of all but the last neither snapshot nor server nor task is left.
#[tokio::test]
async fn old_configurations_are_let_go() {
    let app = App::start(config(0), 0).await.unwrap();
    let servers = |app: &App| app.gateway.servers.all().iter().map(Arc::downgrade).collect::<Vec<_>>();
    let kept = servers(&app)[0].clone();
    app.reload(config(1)).await.unwrap();
    let is_free = |snapshots: &[Weak<Snapshot>]| snapshots.iter().all(|old| old.strong_count() == 0);
    let mut snapshots = Vec::new();
    let mut gone = Vec::new();
    let tasks = app.tasks.running();
    for n in 2..=51 {
        snapshots.push(Arc::downgrade(&app.gateway.snapshot()));
        gone.extend(servers(&app).into_iter().skip(1));
        app.reload(config(n)).await.unwrap();
    }
    eventually("snapshots", || is_free(&snapshots)).await;
    eventually("servers", || gone.iter().all(|server| server.strong_count() == 0)).await;
    eventually("tasks", || app.tasks.running() <= tasks + 4).await;
    assert!(Weak::ptr_eq(&kept, &servers(&app)[0]), "the one that is the same is the same");
    app.stop().await;
}

/// A page of anybody's that a browser was led to by its own name (DNS rebinding) is no page of operators, whatever
/// clients may say.
#[test]
fn operators_come_by_local_names() {
    for hosts in [r#"["*"]"#, r#"["*", "mcp.example.com"]"#] {
        let text = format!(
            "[gateway]\nallowed_hosts = {hosts}\n[[server]]\nname = \"a\"\nurl = \"http://127.0.0.1:9/mcp\""
        );
        let config = Config::parse(&text, Path::new("."), &|_| None).unwrap();
        let guard = super::admin_guard(&config, "127.0.0.1:9090".parse().unwrap()).unwrap();
        let allowed =
            ["localhost:9090", "127.0.0.1:9090", "evil.example:9090"].map(|host| guard.host_allowed(host));
        assert_eq!(allowed, [true, true, false], "{hosts}");
    }
}

//! `[cluster]`: its keys, and what it needs beside it (design §3, §7).

use super::{config, problem, refuses};

const KEYS: &str = "[gateway]\nkeys = [\"c29tZXRoaW5nLWxvbmctZW5vdWdoLXRvLXNlYWwtd2l0aA==\"]\n";

fn with(lines: &str) -> String {
    format!("{KEYS}[cluster]\n{lines}")
}

#[test]
fn what_is_written_is_read() {
    let text =
        with("redis = \"rediss://u:s3@r:6379/1\"\nlisten = \"0.0.0.0:7600\"\nadvertise = \"a.pod:7600\"");
    let cluster = config(&text).cluster.unwrap();
    assert_eq!(cluster.redis.expose(), "rediss://u:s3@r:6379/1");
    assert_eq!(cluster.listen.port(), 7600);
    assert_eq!(cluster.advertise.as_deref(), Some("a.pod:7600"));
    assert!(!format!("{cluster:?}").contains("s3@"), "a password is never printed");
    let alone = config(&with("redis = \"redis://r\"\nlisten = \"10.0.0.7:7600\"")).cluster.unwrap();
    assert_eq!(alone.advertise, None, "the address that is bound");
    assert_eq!(config(KEYS).cluster, None);
}

#[test]
fn replicas_know_each_other_by_keys() {
    let text = "[cluster]\nredis = \"redis://r\"\nlisten = \"10.0.0.7:7600\"";
    refuses(text, 1, "cluster", "needs `gateway.keys`");
}

#[test]
fn addresses_are_such() {
    let redis = |value: &str| problem(&with(&format!("redis = \"{value}\"\nlisten = \"10.0.0.7:1\"")));
    for wrong in ["http://r", "redis", "unix:///x", "redis://", "redis://r:port"] {
        let found = redis(wrong);
        assert_eq!(found.key, "cluster.redis", "{found}");
    }
    assert!(!redis("http://user:s3cret@r").to_string().contains("s3cret"));
    let advertise = |value: &str| {
        problem(&with(&format!("redis = \"redis://r\"\nlisten = \"0.0.0.0:1\"\nadvertise = \"{value}\"")))
    };
    for wrong in ["10.0.0.7", "http://10.0.0.7:1", "a:0", ":1", "a:1/x", "u@a:1", "fd00::7:1"] {
        assert_eq!(advertise(wrong).key, "cluster.advertise", "{wrong}");
    }
    for right in ["10.0.0.7:1", "[fd00::7]:7600", "gatehouse-0.gatehouse:7600"] {
        config(&with(&format!("redis = \"redis://r\"\nlisten = \"0.0.0.0:1\"\nadvertise = \"{right}\"")));
    }
    let nowhere = with("redis = \"redis://r\"\nlisten = \"0.0.0.0:1\"");
    refuses(&nowhere, 5, "cluster.listen", "the other replicas need one of them");
    for (lines, key) in [("listen = \"10.0.0.7:1\"", "redis"), ("redis = \"redis://r\"", "listen")] {
        assert!(problem(&with(lines)).to_string().contains(key), "{lines}");
    }
}

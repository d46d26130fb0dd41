//! What a right configuration becomes: defaults of design §3, units, order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::super::{Credentials, LogFormat, Protocol, SessionScope, Target};
use super::{config, http};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[test]
fn an_empty_file_has_the_defaults_of_the_design() {
    let config = config("");
    let gateway = &config.gateway;
    assert_eq!(gateway.listen, "127.0.0.1:8080".parse::<SocketAddr>().unwrap());
    assert_eq!(gateway.admin_listen, "127.0.0.1:9090".parse::<SocketAddr>().unwrap());
    assert_eq!(gateway.name, "gatehouse");
    assert_eq!((&gateway.public_url, &gateway.title, &gateway.instructions), (&None, &None, &None));
    assert_eq!((&gateway.allowed_hosts, &gateway.allowed_origins, &gateway.state_dir), (&None, &None, &None));
    assert!(!gateway.allow_unauthenticated && !gateway.allow_clashes && gateway.strict_names);
    assert_eq!((gateway.keys.len(), gateway.separator.as_str(), gateway.max_name_length), (0, "_", 64));
    assert_eq!((gateway.max_ttl, gateway.stale_if_error), (seconds(86400), seconds(86400)));
    assert_eq!((gateway.max_body, gateway.max_header, gateway.max_buffered), (4 * MIB, 64 * KIB, 256 * MIB));
    assert_eq!(
        (gateway.max_depth, gateway.max_input_elements, gateway.max_connections),
        (128, 100_000, 20_000)
    );
    assert_eq!((gateway.header_timeout, gateway.body_timeout), (seconds(10), seconds(30)));
    assert_eq!((gateway.idle_timeout, gateway.keepalive_interval), (seconds(75), seconds(15)));
    assert_eq!(gateway.drain_timeout, seconds(30));
    assert_eq!((gateway.max_streams, gateway.max_sessions), (64, 1000));
    assert_eq!((gateway.session_idle, gateway.session_max_age), (seconds(1800), seconds(43_200)));
    assert_eq!((config.telemetry.log.as_str(), config.telemetry.log_format), ("info", None));
    let [endpoint] = &config.endpoints[..] else { panic!("{:?}", config.endpoints) };
    assert_eq!((&*endpoint.path, endpoint.prefix, &endpoint.instructions), ("/mcp", true, &None));
    assert!(endpoint.servers.is_match("anything"));
    assert!(config.servers.is_empty());
}

#[test]
fn a_short_server_has_the_defaults_of_the_design() {
    let config = config(&format!("{}[[server]]\nname = \"b\"\ncommand = [\"x\"]", http("a", "")));
    let [a, b] = &config.servers[..] else { panic!() };
    assert_eq!((a.name.as_str(), a.prefix.as_str(), &a.owner, &a.description), ("a", "a", &None, &None));
    assert_eq!(
        (a.protocol, a.required, a.expose_errors, a.cache_public),
        (Protocol::Auto, false, false, false)
    );
    assert_eq!((a.session_scope, b.session_scope), (SessionScope::Auto, SessionScope::Auto));
    assert_eq!((a.timeout, a.max_timeout, a.connect_timeout), (seconds(15), seconds(300), seconds(5)));
    assert_eq!((a.list_timeout, a.ttl), (seconds(5), None));
    assert_eq!((a.probe_timeout, b.probe_timeout), (seconds(5), seconds(30)));
    assert_eq!((a.list_max_pages, a.list_max_bytes, a.max_result), (1000, 64 * MIB, 4 * MIB));
    assert_eq!((a.max_concurrency, a.queue), (64, 64));
    assert_eq!(a.credentials, Credentials::None);
    assert!(a.tools.admits("x") && a.prompts.admits("x") && a.resources.admits("file:///a/b"));
    assert!(a.overrides.is_empty() && a.resource_uris.patterns().is_empty());
    assert!(!a.is_stdio() && b.is_stdio());
    let Target::Stdio(child) = &b.target else { panic!() };
    assert!(child.env.is_empty() && child.cwd.is_none() && child.user.is_none());
    assert_eq!((child.rlimit.memory, child.rlimit.files, child.rlimit.processes), (None, None, None));
}

#[test]
fn units_are_what_they_say() {
    let config = config(
        "[gateway]\nmax_body = 2000\nmax_header = \"16KiB\"\nmax_buffered = \"1GiB\"\nmax_ttl = \"7d\"\nheader_timeout = \
         \"250ms\"\nbody_timeout = \"5m\"\nstale_if_error = \"24h\"\ndrain_timeout = \"0s\"",
    );
    let gateway = config.gateway;
    assert_eq!((gateway.max_body, gateway.max_header, gateway.max_buffered), (2000, 16 * KIB, 1024 * MIB));
    assert_eq!((gateway.max_ttl, gateway.header_timeout), (seconds(7 * 86400), Duration::from_millis(250)));
    assert_eq!((gateway.body_timeout, gateway.stale_if_error), (seconds(300), seconds(86400)));
    assert_eq!(gateway.drain_timeout, seconds(0));
}

#[test]
fn a_whole_server_is_read() {
    let config = config(
        r#"
        [[server]]
        name = "b"
        prefix = ""
        command = ["npx", "-y", "pkg@1.2.3"]
        env = { A = "1", B = "" }
        cwd = "data"
        user = "nobody"
        rlimit = { memory = "1GiB", files = 64, processes = 8 }
        protocol = "legacy"
        ttl = "0s"
        queue = 0
        cache_scope = "public"
        tools.allow = ["get_*", "search"]
        tools.deny = ["get_secret"]
        resources.uris = ["wiki://*"]
        [server.tools.override.search]
        name = "find"
        description = "Finds."
        timeout = "1m"
        [server.tools.override."get it"]
        enabled = false
        [telemetry]
        log = "info,hyper=warn"
        log_format = "text"
    "#,
    );
    let server = &config.servers[0];
    let Target::Stdio(child) = &server.target else { panic!() };
    assert_eq!(child.argv, ["npx", "-y", "pkg@1.2.3"]);
    assert_eq!((child.env["A"].expose(), child.env["B"].expose()), ("1", ""));
    assert_eq!((child.cwd.clone(), child.user.as_deref()), (Some(PathBuf::from("data")), Some("nobody")));
    assert_eq!(
        (child.rlimit.memory, child.rlimit.files, child.rlimit.processes),
        (Some(1 << 30), Some(64), Some(8))
    );
    assert_eq!((server.prefix.as_str(), server.protocol, server.cache_public), ("", Protocol::Legacy, true));
    assert_eq!((server.ttl, server.queue), (Some(seconds(0)), 0));
    assert!(server.tools.admits("get_it") && server.tools.admits("search"));
    assert!(
        !server.tools.admits("get_secret")
            && !server.tools.admits("delete")
            && !server.tools.admits("Get_it")
    );
    assert_eq!(server.resource_uris.patterns(), ["wiki://*"]);
    assert!(server.resource_uris.is_match("wiki://a/b"));
    let search = &server.overrides["search"];
    assert_eq!((search.name.as_deref(), search.description.as_deref()), (Some("find"), Some("Finds.")));
    assert_eq!((search.timeout, search.disabled), (Some(seconds(60)), false));
    assert!(server.overrides["get it"].disabled);
    assert_eq!(
        (config.telemetry.log.as_str(), config.telemetry.log_format),
        ("info,hyper=warn", Some(LogFormat::Text))
    );
}

#[test]
fn credentials_are_read() {
    let basic = "credentials = { kind = \"basic\", user = \"u\", password = \"p:q\" }";
    let headers = "credentials = { kind = \"header\", headers = { X-A = \"1\", Authorization = \"Key 2\" } }";
    let config = config(&format!("{}{}", http("a", basic), http("b", headers)));
    let Credentials::Basic { user, password } = &config.servers[0].credentials else { panic!() };
    assert_eq!((user.as_str(), password.expose()), ("u", "p:q"));
    let Credentials::Headers(headers) = &config.servers[1].credentials else { panic!() };
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    headers.sort_unstable();
    assert_eq!(headers, [("authorization", "Key 2"), ("x-a", "1")]);
}

#[test]
fn sealing_keys_are_decoded_in_either_alphabet() {
    // RFC 4648 §10 style: 32 bytes of 0xfb are "-_v7" in the URL-safe and "+/v7" in the standard alphabet.
    let bytes = [0xfb_u8; 32];
    let standard = format!("{}+/s=", "+/v7".repeat(10));
    for text in [standard.clone(), standard.replace('=', ""), standard.replace('+', "-").replace('/', "_")] {
        let config = config(&format!("[gateway]\nkeys = [\"{text}\"]"));
        assert_eq!(config.gateway.keys[0].expose(), bytes, "{text}");
    }
}

#[test]
fn disabled_servers_are_checked_and_left_out() {
    let config = config(&format!("{}{}", http("a", "enabled = false"), http("b", "")));
    let names: Vec<_> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    super::refuses(
        &http("a", "enabled = false\ntimeout = \"\""),
        5,
        "server \"a\".timeout",
        "is not a duration",
    );
}

#[test]
fn order_is_that_of_the_file() {
    let config = config(&["z", "a", "m"].map(|name| http(name, "")).concat());
    let names: Vec<_> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "m"]);
}

//! One test a rule of `[gateway]`, `[[endpoint]]`, `[telemetry]` and of prefixes (design §3, §4).

use super::{config, gateway_refuses, http, http_refuses, problems, refuses};

#[test]
fn durations() {
    for wrong in ["15", "s", "", "1.5s", "-1s", "1 s", "1h30m", "15sec", "15S", "1w", "٣s"] {
        gateway_refuses("max_ttl", &format!("{wrong:?}"), "is not a duration");
    }
    for long in ["4000d", "18446744073709551615h", "99999999999999999999s"] {
        let found = super::problem(&format!("[gateway]\nmax_ttl = \"{long}\""));
        assert!(found.help.is_some(), "{found}");
    }
    let periods = ["session_idle", "session_max_age"];
    for key in
        ["header_timeout", "body_timeout", "idle_timeout", "keepalive_interval"].into_iter().chain(periods)
    {
        gateway_refuses(key, "\"0s\"", "must not be zero");
    }
}

#[test]
fn sizes() {
    for wrong in ["4MB", "4 MiB", "", "MiB", "-1", "4.5MiB", "4mib", "1TiB", "99999999999999999999"] {
        gateway_refuses("max_body", &format!("{wrong:?}"), "is not a size");
    }
    gateway_refuses("max_body", "\"18014398509481984KiB\"", "is too large");
    gateway_refuses("max_body", "-1", "whole number from 0");
    for key in ["max_body", "max_buffered"] {
        let other = "must be at least";
        let found = problems(&format!("[gateway]\n{key} = 0"));
        assert!(
            found[0].message.contains("must not be zero") || found[0].message.contains(other),
            "{found:?}"
        );
    }
    gateway_refuses("max_body", "\"257MiB\"", "`max_buffered` must be at least `max_body`");
    gateway_refuses("max_buffered", "\"1MiB\"", "`max_buffered` must be at least `max_body`");
    gateway_refuses("max_header", "\"7KiB\"", "must be at least \"8KiB\"");
}

#[test]
fn counts() {
    gateway_refuses("max_connections", "0", "must not be zero");
    gateway_refuses("max_input_elements", "0", "must not be zero");
    gateway_refuses("max_connections", "99999999999999", "must be at most");
    gateway_refuses("max_depth", "0", "must be between 1 and 10000");
    gateway_refuses("max_name_length", "8", "must be between 16 and 1024");
}

#[test]
fn addresses() {
    for wrong in ["8080", ":8080", "localhost:8080", "127.0.0.1", "::1:80:x", "127.0.0.1:99999"] {
        gateway_refuses("listen", &format!("{wrong:?}"), "is not an IP address and a port");
    }
    for public in ["0.0.0.0:8080", "[::]:8080", "192.168.1.2:8080", "[::ffff:127.0.0.1]:8080"] {
        gateway_refuses("listen", &format!("{public:?}"), "reachable from other machines");
        config(&format!("[gateway]\nallow_unauthenticated = true\nlisten = \"{public}\""));
    }
    config("[gateway]\nlisten = \"[::1]:8080\"\nadmin_listen = \"0.0.0.0:9090\"");
    config("[gateway]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"");
    gateway_refuses("admin_listen", "\"127.0.0.1:8080\"", "the same address");
    gateway_refuses("admin_listen", "\"0.0.0.0:8080\"", "the same address");
    gateway_refuses("listen", "\"127.0.0.1:9090\"", "the same address");
    config("[gateway]\nlisten = \"127.0.0.1:80\"\nadmin_listen = \"127.0.0.2:80\"");
}

#[test]
fn public_urls() {
    config("[gateway]\npublic_url = \"https://mcp.example.com:8443/\"");
    for (wrong, says) in [
        ("https://a/mcp", "neither path nor query"),
        ("https://a/?x=1", "neither path nor query"),
        ("https://a/#x", "fragment"),
        ("https://u:p@a/", "user name or password"),
        ("a.example.com", "is not a URL"),
        ("ws://a", "must begin with http:// or https://"),
        ("https://", "is not a URL"),
    ] {
        gateway_refuses("public_url", &format!("{wrong:?}"), says);
    }
}

#[test]
fn hosts_and_origins() {
    config("[gateway]\nallowed_hosts = [\"a.example\", \"a.example:8443\", \"[::1]:80\", \"*\"]");
    for wrong in ["", "https://a", "a/b", "a b", "*.example.com", "u@a", "a:b", "a:99999"] {
        let text = format!("[gateway]\nallowed_hosts = [\"ok\", {wrong:?}]");
        refuses(&text, 2, "gateway.allowed_hosts[1]", "is not a host");
    }
    config(
        "[gateway]\nallowed_origins = [\"https://a.example\", \"http://localhost:3000\", \"vscode-webview://abc\"]",
    );
    for wrong in
        ["", "*", "null", "a.example", "https://", "https://a/", "https://a?x", "https://*.a", "://a"]
    {
        let text = format!("[gateway]\nallowed_origins = [{wrong:?}]");
        refuses(&text, 2, "gateway.allowed_origins[0]", "is not an origin");
    }
}

#[test]
fn sealing_keys() {
    let short = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"; // 42 digits are 31 bytes
    for (wrong, says) in
        [(short, "shorter than 32 bytes"), ("", "shorter than 32 bytes"), ("s3cr3t!", "is not base64")]
    {
        let text = format!("[gateway]\nkeys = [\"{wrong}\"]");
        refuses(&text, 2, "gateway.keys[0]", says);
    }
}

#[test]
fn separators() {
    config("[gateway]\nseparator = \"__\"");
    config("[gateway]\nseparator = \"\"");
    config("[gateway]\nseparator = \".\"\nstrict_names = false");
    gateway_refuses("separator", "\".\"", "since `strict_names` is on");
    gateway_refuses("separator", "\" \"", "holds a character that names cannot have");
    gateway_refuses("separator", "\":\"\nstrict_names = false", "holds a character that names cannot have");
    gateway_refuses("separator", "\"_________\"", "at most 8");
}

#[test]
fn texts_of_one_line() {
    gateway_refuses("name", "\"\"", "is empty");
    gateway_refuses("name", "\"a\\nb\"", "line break");
    gateway_refuses("title", "\" \"", "is empty");
    config("[gateway]\ninstructions = \"two\\nlines\"");
}

#[test]
fn endpoint_paths() {
    for (wrong, says) in [
        ("mcp", "does not begin with `/`"),
        ("", "does not begin with `/`"),
        ("/mcp/", "ends with `/`"),
        ("/", "ends with `/`"),
        ("/a//b", "is not a plain path"),
        ("/a/../b", "is not a plain path"),
        ("/{x}", "is not a plain path"),
        ("/a%20b", "is not a plain path"),
        ("/a?b", "is not a plain path"),
        ("/é", "is not a plain path"),
        ("/.well-known", "is under /.well-known"),
        ("/.well-known/mcp", "is under /.well-known"),
    ] {
        let text = format!("[[endpoint]]\npath = {wrong:?}");
        let found = super::problem(&text);
        assert!(found.line == 2 && found.to_string().contains(says), "{found}");
    }
    config("[[endpoint]]\npath = \"/.well-knownish\"\n[[endpoint]]\npath = \"/a/b-c_d.e~f\"");
    refuses("[[endpoint]]\nprefix = true", 1, "endpoint[0].path", "is missing");
    let twice = "[[endpoint]]\npath = \"/a\"\n[[endpoint]]\npath = \"/b\"\n[[endpoint]]\npath = \"/a\"";
    refuses(twice, 6, "endpoint \"/a\".path", "already taken at gatehouse.toml:2");
}

#[test]
fn endpoint_globs_match_some_server() {
    let with =
        |servers: &str| format!("{}[[endpoint]]\npath = \"/a\"\nservers = {servers}", http("github", ""));
    config(&with("[\"git*\", \"*\"]"));
    refuses(
        &with("[\"github\",\n\"gitlab\"]"),
        8,
        "endpoint \"/a\".servers[1]",
        "the nearest name is \"github\"",
    );
    refuses(&with("[\"wiki-*\"]"), 7, "endpoint \"/a\".servers[0]", "\"wiki-*\" matches no server");
    refuses(&with("[\"a[\"]"), 7, "endpoint \"/a\".servers[0]", "is not a glob");
    refuses(&with("[\"\"]"), 7, "endpoint \"/a\".servers[0]", "is empty");
    // A server that is switched off is still there.
    config(&format!("{}[[endpoint]]\npath = \"/a\"\nservers = [\"a\"]", http("a", "enabled = false")));
    // All servers, of which there are none yet.
    config("[[endpoint]]\npath = \"/a\"");
    // A server whose name is wrong might be the one: only its own problem is told.
    refuses(
        &format!("{}[[endpoint]]\npath = \"/a\"\nservers = [\"x\"]", http("X", "")),
        2,
        "server \"X\".name",
        "",
    );
}

#[test]
fn endpoints_without_prefix_have_exactly_one_server() {
    let two = format!("{}{}", http("a", ""), http("b", ""));
    let with =
        |servers: &str| format!("{two}[[endpoint]]\npath = \"/x\"\nprefix = false\nservers = {servers}");
    config(&with("[\"a\"]"));
    refuses(&with("[\"*\"]"), 11, "endpoint \"/x\".prefix", "matches 2");
    refuses(&with("[]"), 11, "endpoint \"/x\".prefix", "matches 0");
    let off = format!(
        "{}[[endpoint]]\npath = \"/x\"\nprefix = false\nservers = [\"a\"]",
        http("a", "enabled = false")
    );
    refuses(&off, 7, "endpoint \"/x\".prefix", "matches 0");
}

#[test]
fn prefixes_may_not_begin_alike() {
    let pair = |a: &str, b: &str| {
        format!("{}{}", http("x", &format!("prefix = \"{a}\"")), http("y", &format!("prefix = \"{b}\"")))
    };
    let key = "server \"y\".prefix";
    refuses(
        &pair("gh", "gh"),
        8,
        key,
        "equals that of server \"x\" (gatehouse.toml:4), on endpoint \"/mcp\"",
    );
    refuses(&pair("gh", "gh_ent"), 8, key, "begins with that of server \"x\"");
    refuses(&pair("gh_ent", "gh"), 8, key, "is the beginning of that of server \"x\"");
    refuses(&pair("", ""), 8, key, "is empty like that of server \"x\"");
    // Without the separator they begin alike, with it they do not.
    config(&pair("gh", "ghe"));
    config(&pair("gh", "GH"));
    config(&pair("", "gh"));
    config(&format!("[gateway]\nallow_clashes = true\n{}", pair("gh", "gh")));
    // An empty separator makes a prefix of one the beginning of another.
    refuses(&format!("[gateway]\nseparator = \"\"\n{}", pair("gh", "ghe")), 10, key, "begins with");
    // A prefix that is the name of another server.
    refuses(&format!("{}{}", http("x", "prefix = \"y\""), http("y", "")), 5, key, "equals");
}

#[test]
fn prefixes_count_on_the_endpoints_that_show_them() {
    let servers = format!("{}{}", http("x", "prefix = \"p\""), http("y", "prefix = \"p\""));
    let endpoint =
        |path: &str, servers: &str| format!("[[endpoint]]\npath = \"{path}\"\nservers = {servers}\n");
    config(&format!("{servers}{}{}", endpoint("/x", "[\"x\"]"), endpoint("/y", "[\"y\"]")));
    config(&format!("{servers}{}{}prefix = false", endpoint("/x", "[\"x\"]"), endpoint("/y", "[\"y\"]")));
    // Told once, with the first endpoint.
    let both = format!("{servers}{}{}", endpoint("/one", "[\"*\"]"), endpoint("/two", "[\"*\"]"));
    refuses(&both, 8, "server \"y\".prefix", "on endpoint \"/one\"");
    // A server that is switched off takes no prefix.
    config(&format!("{}{}", http("x", "prefix = \"p\"\nenabled = false"), http("y", "prefix = \"p\"")));
}

#[test]
fn prefixes_can_stand_in_names() {
    let with = |prefix: &str| http("x", &format!("prefix = {prefix:?}"));
    refuses(&with("g.h"), 4, "server \"x\".prefix", "since `strict_names` is on");
    config(&format!("[gateway]\nstrict_names = false\n{}", with("g.h")));
    refuses(&with("g h"), 4, "server \"x\".prefix", "\"g h\" holds a character");
    refuses(&with(&"p".repeat(54)), 4, "server \"x\".prefix", "is 55 characters long and may be 54");
    config(&with(&"p".repeat(53)));
}

#[test]
fn logging() {
    for right in [
        "info",
        "WARN",
        "off",
        "info,hyper=warn",
        "gatehouse=debug, warn",
        "gatehouse::net=trace",
        "[call]=debug",
    ] {
        config(&format!("[telemetry]\nlog = \"{right}\""));
    }
    for wrong in ["inof", "info,hyper", "hyper=loud", "", "a=b=c"] {
        let text = format!("[telemetry]\nlog = \"{wrong}\"");
        assert_eq!(super::problem(&text).key, "telemetry.log");
    }
    refuses("[telemetry]\nlog_format = \"jsn\"", 2, "telemetry.log_format", "did you mean `json`?");
}

#[test]
fn rules_across_tables_hold_for_tables_with_other_problems() {
    let text = "[[endpoint]]\npath = \"x\"\nprefix = false\nservers = [\"none\", \"a\", \"b\"]\n\
                [[server]]\nname = \"a\"\nurl = \"\"\n[[server]]\nname = \"b\"\nprefix = \"a\"\n\
                [[endpoint]]\npath = \"/all\"";
    let found = problems(text);
    let places: Vec<_> = found.iter().map(|problem| (problem.line, problem.key.as_str())).collect();
    let expected = [
        (2, "endpoint \"x\".path"),
        (3, "endpoint \"x\".prefix"),
        (4, "endpoint \"x\".servers[0]"),
        (7, "server \"a\".url"),
        (8, "server \"b\""),
        (10, "server \"b\".prefix"),
    ];
    assert_eq!(places, expected, "{found:#?}");
    // What could not be read is not guessed: one wrong glob is one problem.
    let text = format!(
        "{}{}[[endpoint]]\npath = \"/x\"\nprefix = false\nservers = [3]",
        http("a", ""),
        http("b", "")
    );
    refuses(&text, 12, "endpoint \"/x\".servers[0]", "must be a string");
}

#[test]
fn tls_needs_a_certificate_and_its_key() {
    refuses("[tls]\nkey = \"k.pem\"", 1, "tls.cert", "is missing");
    refuses("[tls]\ncert = \"c.pem\"", 1, "tls.key", "is missing");
    refuses("[tls]\ncert = \"c.pem\"\nkey = \"k.pem\"\nca = \"x\"", 4, "tls.ca", "unknown key");
    let tls = config("[tls]\ncert = \"c.pem\"\nkey = \"/k.pem\"\nclient_ca = \"ca.pem\"").tls.unwrap();
    assert_eq!((tls.cert, tls.key), ("c.pem".into(), "/k.pem".into()));
    assert_eq!(tls.client_ca, Some("ca.pem".into()));
    assert_eq!(config("").tls, None);
}

#[test]
fn networks_of_proxies_are_networks_or_addresses() {
    let config = config("[gateway]\ntrusted_proxies = [\"10.1.2.3/8\", \"fd00::/8\", \"::ffff:192.0.2.1\"]");
    let all: Vec<String> = config.gateway.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(all, ["10.0.0.0/8", "fd00::/8", "192.0.2.1/32"]);
    for wrong in ["10.0.0.0/33", "proxy.internal", "", "10.0.0"] {
        let text = format!("[gateway]\n\ntrusted_proxies = [{wrong:?}]");
        refuses(&text, 3, "gateway.trusted_proxies[0]", "is not a network");
    }
}

#[test]
fn a_certificate_towards_a_server_needs_its_key() {
    http_refuses("client_cert", "\"a.pem\"", "needs `client_key` beside it");
    http_refuses("client_key", "\"a.key\"", "needs `client_cert` beside it");
    let child = "[[server]]\nname = \"a\"\ncommand = [\"x\"]\nclient_cert = \"a\"\nclient_key = \"b\"";
    let found = problems(child);
    assert!(
        found.len() == 2 && found.iter().all(|one| one.message.contains("is only for servers with `url`"))
    );
    let server = config(&http("a", "client_cert = \"c/a.pem\"\nclient_key = \"c/a.key\"")).servers.remove(0);
    let files = server.identity.unwrap();
    assert_eq!((files.cert.to_str(), files.key.to_str()), (Some("c/a.pem"), Some("c/a.key")));
}

#[test]
fn certificates_can_say_who_calls() {
    let tls = |more: &str| format!("[tls]\ncert = \"a\"\nkey = \"b\"\n{more}");
    refuses("[auth]\nskew = \"1s\"", 1, "auth", "nobody could call");
    refuses(&format!("{}[auth]\nskew = \"1s\"", tls("")), 4, "auth", "nobody could call");
    config(&format!("{}[auth]\nskew = \"1s\"", tls("client_ca = \"c\"\n")));
    // Who must show a certificate may come from anywhere.
    let open = "[gateway]\nlisten = \"0.0.0.0:8080\"\n";
    refuses(&format!("{open}{}", tls("")), 2, "gateway.listen", "nothing checks who calls");
    let certified = config(&format!("{open}{}", tls("client_ca = \"c\"\n")));
    assert!(!certified.warnings().iter().any(|one| one.to_string().contains("everybody")));
}

#[test]
fn what_is_cut_is_read_further() {
    let server = |more: &str| config(&http("a", more)).servers.remove(0);
    assert_eq!(server("max_result = 1000").most_read(), 1000);
    assert_eq!(server("max_result = 1000\ntruncate = true").most_read(), 16_000);
}

//! One test a rule of `[[server]]` (design §3).

use std::path::Path;

use super::super::{Config, Guarding, Protocol};
use super::{config, http, http_refuses, refuses, stdio_refuses};

#[test]
fn names() {
    for right in ["a", "0", "git-hub-2", "a123456789012345678901234567890"] {
        config(&http(right, ""));
    }
    for wrong in ["", "-a", "A", "a_b", "a.b", "ä", "a b", "a1234567890123456789012345678901"] {
        let found = super::problem(&format!("[[server]]\nname = {wrong:?}\nurl = \"http://x/\""));
        assert!(found.line == 2 && found.message.contains("is not a server's name"), "{found}");
        assert!(found.key.ends_with(".name"), "{found}");
    }
    refuses("[[server]]\nurl = \"http://x/\"", 1, "server[0].name", "is missing");
    let twice = format!("{}{}{}", http("a", ""), http("b", ""), http("a", "prefix = \"c\""));
    refuses(&twice, 10, "server \"a\".name", "already taken at gatehouse.toml:2");
}

#[test]
fn one_of_url_and_command() {
    refuses("\n[[server]]\nname = \"a\"", 2, "server \"a\"", "has neither `url` nor `command`");
    http_refuses("command", "[\"x\"]", "`url` and `command` are both given");
}

#[test]
fn keys_of_the_other_kind_of_target() {
    http_refuses("env", "{ A = \"1\" }", "is only for servers with `command`");
    http_refuses("cwd", "\"/\"", "is only for servers with `command`");
    http_refuses("user", "\"u\"", "is only for servers with `command`");
    http_refuses("rlimit", "{ files = 5 }", "is only for servers with `command`");
    stdio_refuses("proxy", "\"http://p:1\"", "is only for servers with `url`");
    stdio_refuses("ca_file", "\"f\"", "is only for servers with `url`");
    stdio_refuses("connect_timeout", "\"1s\"", "is only for servers with `url`");
    stdio_refuses("credentials", "{ kind = \"bearer\", token = \"t\" }", "is only for servers with `url`");
    config("[[server]]\nname = \"a\"\ncommand = [\"x\"]\ncredentials = { kind = \"none\" }");
}

#[test]
fn replicas_are_addresses_that_differ() {
    let read =
        config("[[server]]\nname = \"a\"\nurls = [\"http://a/mcp\", \"http://b/mcp\", \"http://c/mcp\"]");
    let super::super::Target::Http { url, others, .. } = &read.servers[0].target else { panic!() };
    let others: Vec<&str> = others.iter().map(url::Url::as_str).collect();
    assert_eq!((url.as_str(), &others[..]), ("http://a/mcp", &["http://b/mcp", "http://c/mcp"][..]));
    for (wrong, says) in [
        ("[]", "is empty"),
        ("[\"http://a/mcp\", \"http://b/\", \"http://a/mcp\"]", "one address twice"),
        ("\"http://a/mcp\"", "must be an array of strings"),
    ] {
        refuses(&format!("[[server]]\nname = \"a\"\nurls = {wrong}"), 3, "server \"a\".urls", says);
    }
    http_refuses("urls", "[\"http://a/\"]", "`url` and `urls` are both given");
    refuses(
        "[[server]]\nname = \"a\"\ncommand = [\"x\"]\nurls = [\"http://a/\"]",
        3,
        "server \"a\".command",
        "are both given",
    );
}

#[test]
fn breakers_and_health() {
    let read = |more: &str| {
        let server = config(&super::http("a", more)).servers.remove(0);
        (server.breaker.failures, server.breaker.open.as_secs(), server.health_interval.map(|i| i.as_secs()))
    };
    assert_eq!(read(""), (5, 10, None));
    assert_eq!(read("breaker = { failures = 0 }\nhealth_interval = \"30s\""), (0, 10, Some(30)));
    assert_eq!(read("breaker = { open = \"1m\" }"), (5, 60, None));
    http_refuses("health_interval", "\"0s\"", "must not be zero");
    for (wrong, key, says) in [
        ("{ open = \"0s\" }", ".open", "must not be zero"),
        ("{ failures = -1 }", ".failures", ""),
        ("{ after = 1 }", ".after", "unknown key"),
    ] {
        let text = format!("[[server]]\nname = \"a\"\nurl = \"https://a/mcp\"\nbreaker = {wrong}");
        refuses(&text, 4, &format!("server \"a\".breaker{key}"), says);
    }
}

#[test]
fn urls() {
    for (wrong, says) in [
        ("a/mcp", "is not a URL"),
        ("ftp://a/", "must begin with http:// or https://"),
        ("unix:/run/x", "must begin with"),
        ("http://", "is not a URL"),
        ("http://a/#b", "fragment"),
        ("http://u:s3cr3t@a/", "credentials with `kind = \"basic\"`"),
        ("http://s3cr3t@a/", "user name or password"),
        ("http://a:s3cr3t/", "is not a URL"),
        ("", "is not a URL"),
    ] {
        let text = format!("[[server]]\nname = \"a\"\nurl = {wrong:?}");
        refuses(&text, 3, "server \"a\".url", says);
    }
    config("[[server]]\nname = \"a\"\nurl = \"https://a:8443/mcp?tenant=b\"");
}

#[test]
fn proxies() {
    config(&http("a", "proxy = \"http://u:p@proxy:3128\""));
    http_refuses("proxy", "\"socks5://p:1\"", "must begin with http://");
    http_refuses("proxy", "\"http://p:1/x\"", "neither path nor query");
}

#[test]
fn commands() {
    let with = |command: &str| format!("[[server]]\nname = \"a\"\ncommand = {command}");
    refuses(&with("[]"), 3, "server \"a\".command", "is empty");
    refuses(&with("[\"\"]"), 3, "server \"a\".command", "its first word is empty");
    refuses(&with("[\"x\", 3]"), 3, "server \"a\".command[1]", "must be a string");
    refuses(&with("[\"x\\u0000\"]"), 3, "server \"a\".command[0]", "NUL");
    config(&with("[\"x\", \"\", \"two\\nlines\"]"));
}

#[test]
fn child_environment_user_and_limits() {
    let key = "env.\"A=B\"";
    refuses(
        "[[server]]\nname = \"a\"\ncommand = [\"x\"]\nenv.\"A=B\" = \"1\"",
        4,
        &format!("server \"a\".{key}"),
        "is not a variable's name",
    );
    stdio_refuses("env.\"\"", "\"1\"", "is not a variable's name");
    stdio_refuses("env.A", "1", "must be a string, not an integer");
    stdio_refuses("env.A", "\"a\\u0000b\"", "NUL");
    stdio_refuses("user", "\"\"", "is empty");
    stdio_refuses("cwd", "\"\"", "is empty");
    stdio_refuses("rlimit.memory", "\"lots\"", "is not a size");
    stdio_refuses("rlimit.files", "0", "must not be zero");
    stdio_refuses("rlimit.processes", "\"8\"", "must be a whole number");
    stdio_refuses("rlimit.cpu", "8", "unknown key");
}

#[test]
fn times_bounds_and_words() {
    for key in ["timeout", "max_timeout", "connect_timeout", "list_timeout", "probe_timeout"] {
        http_refuses(key, "\"0s\"", "must not be zero");
        http_refuses(key, "\"5\"", "is not a duration");
    }
    for key in ["list_max_pages", "max_concurrency", "list_max_bytes", "max_result"] {
        http_refuses(key, "0", "must not be zero");
    }
    http_refuses("queue", "-1", "must be a whole number from 0");
    http_refuses("ttl", "\"soon\"", "is not a duration");
    http_refuses("protocol", "\"modrn\"", "did you mean `modern`?");
    http_refuses("session_scope", "\"principle\"", "did you mean `principal`?");
    http_refuses("cache_scope", "\"shared\"", "must be one of \"private\", \"public\"");
    http_refuses("required", "1", "must be true or false");
    http_refuses("owner", "\"\"", "is empty");
}

#[test]
fn filters() {
    for list in
        ["tools.allow", "tools.deny", "prompts.allow", "prompts.deny", "resources.allow", "resources.uris"]
    {
        let text = http("a", &format!("{list} = [\n\"good_*\",\n\"bad[\"]"));
        refuses(&text, 6, &format!("server \"a\".{list}[1]"), "\"bad[\" is not a glob");
    }
    http_refuses("tools.allow", "\"a\"", "must be an array of globs, not a string");
    http_refuses("tools.uris", "[]", "unknown key");
}

#[test]
fn overrides() {
    let key = "tools.override.x.name";
    http_refuses(key, "\"\"", "is empty");
    http_refuses(key, "\"a b\"", "holds a character that names cannot have");
    http_refuses(key, "\"a.b\"", "since `strict_names` is on");
    http_refuses(key, &format!("{:?}", "n".repeat(65)), "is longer than `gateway.max_name_length`");
    http_refuses("tools.override.x.timeout", "\"0s\"", "must not be zero");
    http_refuses("tools.override.x.enabled", "\"no\"", "must be true or false");
    config(&format!("[gateway]\nstrict_names = false\n{}", http("a", "tools.override.x.name = \"a.b\"")));
}

#[test]
fn migration_aids() {
    http_refuses("tools.override.x.aliases", "[]", "must be a table");
    http_refuses("tools.override.x.aliases", "{ a = \"a\" }", "is an alias of itself");
    http_refuses("tools.override.x.aliases", "{ a = \"b\", b = \"c\" }", "which is an alias as well");
    http_refuses("tools.override.x.deprecated_since", "\"2026-11-30\"", "must be a date without quotes");
    http_refuses("tools.override.x.deprecated_since", "2026-11-30T00:00:00Z", "is not a day alone");
    http_refuses("tools.override.x.values", "{ a = { b = \"b\" } }", "becomes itself");
    http_refuses("validate", "\"output\"", "must be one of");
    let over = |lines: &str| config(&http("a", lines)).servers.remove(0).overrides.remove("x").unwrap();
    let whole = over(
        "tools.override.x = { aliases = { a = \"b\" }, defaults = { c = [1, { d = 1.5 }] }, \
         values = { e = { \"1\" = true } }, deprecated_since = 2026-11-30 }",
    );
    assert_eq!(
        (whole.aliases["a"].as_str(), whole.defaults["c"].to_string().as_str()),
        ("b", "[1,{\"d\":1.5}]")
    );
    assert_eq!(
        (whole.values["e"]["1"].to_string(), whole.deprecated_since.as_deref()),
        ("true".to_owned(), Some("2026-11-30"))
    );
    assert!(!whole.is_retired() && !whole.keeps_name());
    assert!(over("tools.override.x.deprecated_since = 2026-11-30").is_retired());
    assert!(over("tools.override.x = { name = \"y\", deprecated_since = 2026-11-30 }").keeps_name());
}

#[test]
fn credentials() {
    let with = |credentials: &str| http("a", &format!("[server.credentials]\n{credentials}"));
    let key = |key: &str| format!("server \"a\".credentials.{key}");
    refuses(&with("kind = \"bearer\""), 4, &key("token"), "is missing");
    refuses(&with("kind = \"header\""), 4, &key("headers"), "is missing");
    refuses(&with("kind = \"basic\"\nuser = \"u\""), 4, &key("password"), "is missing");
    refuses(&with("token = \"t\""), 5, &key("token"), "write `kind = \"bearer\"`");
    refuses(
        &with("kind = \"bearer\"\ntoken = \"t\"\nuser = \"u\""),
        7,
        &key("user"),
        "means nothing with `kind = \"bearer\"`",
    );
    refuses(&with("kind = \"oauth\"\ntoken = \"t\""), 5, &key("kind"), "must be one of");
    refuses(&with("kind = \"beaer\"\ntoken = \"t\""), 5, &key("kind"), "did you mean `bearer`?");
    refuses(&with("kind = \"basic\"\nuser = \"a:b\"\npassword = \"p\""), 6, &key("user"), "holds a `:`");
    refuses(
        &with("kind = \"basic\"\nuser = \"u\"\npassword = \"s3cr3t\\n\""),
        7,
        &key("password"),
        "line break",
    );
    refuses(&with("kind = \"basic\"\nuser = \"u\"\npassword = \"\""), 7, &key("password"), "is empty");
    refuses(&with("kind = \"bearer\"\ntoken = 5"), 6, &key("token"), "must be a string");
}

#[test]
fn credential_headers() {
    let with = |headers: &str| {
        http("a", &format!("credentials = {{ kind = \"header\", headers = {{ {headers} }} }}"))
    };
    let key = |key: &str| format!("server \"a\".credentials.headers{key}");
    refuses(&with(""), 4, &key(""), "has no header");
    refuses(&with("\"X Y\" = \"v\""), 4, &key(".\"X Y\""), "is not a header's name");
    refuses(&with("\"X:\" = \"v\""), 4, &key(".\"X:\""), "is not a header's name");
    refuses(&with("X-A = \"v\", x-a = \"w\""), 4, &key(""), "names the header `x-a` twice");
    for ours in [
        "Host",
        "Content-Length",
        "Accept",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Proxy-Authorization",
        "TE",
    ] {
        refuses(&with(&format!("{ours} = \"v\"")), 4, &key(&format!(".{ours}")), "sets itself");
    }
}

/// G-70: the transport of 2024 can be pinned, and is for URLs only.
#[test]
fn g70_the_older_transport_is_pinned() {
    let pinned = config(&http("s", "protocol = \"sse\""));
    assert_eq!(pinned.servers[0].protocol, Protocol::Sse);
    stdio_refuses("protocol", "\"sse\"", "is only for servers with `url`");
}

/// Design §7: a pool of children is for children only, and of a size.
#[test]
fn processes() {
    let pool = |lines: &str| format!("[[server]]\nname = \"a\"\ncommand = [\"x\"]\n{lines}");
    assert_eq!(config(&pool("")).servers[0].processes, 1);
    let eight = config(&pool("processes = 8\nmax_concurrency = 2"));
    assert_eq!((eight.servers[0].processes, eight.servers[0].permits()), (8, 16));
    stdio_refuses("processes", "0", "must not be zero");
    stdio_refuses("processes", "257", "must be at most 256");
    http_refuses("processes", "2", "is only for servers with `command`");
}

/// Design §3: `contract` of a server, and where the lock file is.
#[test]
fn contracts_are_off_and_their_lock_file_stands_beside_the_configuration() {
    let plain = config(&http("a", ""));
    assert_eq!(plain.servers[0].contract, Guarding::Off);
    assert_eq!(plain.contract.lock, Path::new("gatehouse.lock"));
    for (word, how) in [("off", Guarding::Off), ("report", Guarding::Report), ("hold", Guarding::Hold)] {
        let one = config(&http("a", &format!("contract = \"{word}\"")));
        assert_eq!(one.servers[0].contract, how);
    }
    let text = format!("[contract]\nlock = \"locks/mcp.lock\"\n{}", http("a", ""));
    let elsewhere = Config::parse(&text, Path::new("/etc/gatehouse"), &|_| None).unwrap();
    assert_eq!(elsewhere.contract.lock, Path::new("/etc/gatehouse/locks/mcp.lock"));
    super::http_refuses("contract", "\"strict\"", "must be one of \"off\", \"report\", \"hold\"");
}

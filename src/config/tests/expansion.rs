//! `${VAR}` and `${file:}`: F-079 in full.

use std::path::Path;

use super::super::{Config, Credentials, Target};
use super::{config, env, http, http_refuses, problem, problems, refuses};

/// The value a child would get for this TOML string.
fn expanded(toml_string: &str) -> String {
    let config = config(&format!("[[server]]\nname = \"a\"\ncommand = [\"x\", {toml_string}]"));
    match &config.servers[0].target {
        Target::Stdio(command) => command.argv[1].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn f_079_variables_expand_once_and_dollars_can_be_written() {
    assert_eq!(expanded(r#""${TOKEN}""#), "s3cr3t-t0ken");
    assert_eq!(expanded(r#""a${TOKEN}b${TOKEN}c""#), "as3cr3t-t0kenbs3cr3t-t0kenc");
    assert_eq!(expanded(r#""${EMPTY}""#), "");
    assert_eq!(expanded(r#""$5""#), "$5");
    assert_eq!(expanded(r#""$$""#), "$");
    assert_eq!(expanded(r#""$$$$""#), "$$");
    assert_eq!(expanded(r#""$${TOKEN}""#), "${TOKEN}");
    assert_eq!(expanded(r#""$$${TOKEN}""#), "$s3cr3t-t0ken");
    assert_eq!(expanded(r#""100%""#), "100%");
    assert_eq!(expanded(r#""a$""#), "a$");
    assert_eq!(expanded(r#""$TOKEN {TOKEN} }""#), "$TOKEN {TOKEN} }");
    assert_eq!(expanded(r#""é$é${TOKEN}é""#), "é$és3cr3t-t0kené");
}

#[test]
fn f_079_a_value_is_not_read_again() {
    // Quotes, a brace, a dollar and a placeholder inside a value stay what they are.
    assert_eq!(expanded(r#""${ODD}""#), r#"s3cr3t"'}$ ${TOKEN} \ #"#);
    assert_eq!(expanded(r#""${LINES}""#), "s3cr3t\nInjected: yes");
}

#[test]
fn f_079_every_field_expands() {
    let text = r#"
        [[server]]
        name = "a"
        url = "https://host/${TOKEN}"
        description = "${TOKEN}"
        tools.allow = ["${TOKEN}"]
        credentials = { kind = "header", headers = { X-Key = "k ${TOKEN}" } }
        [[server]]
        name = "b"
        command = ["x", "--key=${TOKEN}"]
        env = { KEY = "${TOKEN}" }
    "#;
    let config = config(text);
    let a = &config.servers[0];
    assert!(matches!(&a.target, Target::Http { url, .. } if url.as_str() == "https://host/s3cr3t-t0ken"));
    assert_eq!(a.description.as_deref(), Some("s3cr3t-t0ken"));
    assert!(a.tools.admits("s3cr3t-t0ken") && !a.tools.admits("other"));
    let Credentials::Headers(headers) = &a.credentials else { panic!("{:?}", a.credentials) };
    assert_eq!((headers[0].0.as_str(), headers[0].1.expose()), ("x-key", "k s3cr3t-t0ken"));
    let Target::Stdio(child) = &config.servers[1].target else { panic!() };
    assert_eq!(child.argv[1], "--key=s3cr3t-t0ken");
    assert_eq!(child.env["KEY"].expose(), "s3cr3t-t0ken");
}

#[test]
fn f_079_a_missing_variable_is_an_error_naming_key_and_variable() {
    let found =
        problem(&http("a", "credentials = { kind = \"bearer\", token = \"x${NOT_THERE}y${TOKEN}\" }"));
    assert_eq!(found.key, "server \"a\".credentials.token");
    assert_eq!(found.message, "environment variable `NOT_THERE` is not set");
    // Two missing ones are two problems; each element says where it is.
    let both = problems("[[server]]\nname = \"a\"\ncommand = [\"x\",\n \"${ONE} ${TWO}\",\n \"${THREE}\"]");
    let lines: Vec<_> = both.iter().map(|problem| (problem.line, problem.key.as_str())).collect();
    let key = |index| format!("server \"a\".command[{index}]");
    assert_eq!(lines, [(4, &*key(1)), (4, &*key(1)), (5, &*key(2))]);
}

#[test]
fn f_079_a_broken_placeholder_is_an_error_not_a_literal() {
    http_refuses("description", r#""${""#, "without a closing");
    http_refuses("description", r#""a ${TOKEN""#, "without a closing");
    http_refuses("description", r#""${}""#, "neither a variable's name");
    http_refuses("description", r#""${TOKEN:-x}""#, "neither a variable's name");
    http_refuses("description", r#""${1ST}""#, "neither a variable's name");
    http_refuses("description", r#""${file:}""#, "neither a variable's name");
}

#[test]
fn f_079_keys_of_tables_do_not_expand() {
    let config = config("[[server]]\nname = \"a\"\ncommand = [\"x\"]\nenv = { \"${TOKEN}\" = \"v\" }");
    let Target::Stdio(child) = &config.servers[0].target else { panic!() };
    assert_eq!(child.env["${TOKEN}"].expose(), "v");
}

#[test]
fn f_079_an_empty_or_broken_header_is_refused_at_start() {
    let header = |value: &str| {
        http("a", &format!("credentials = {{ kind = \"header\", headers = {{ X-Key = \"{value}\" }} }}"))
    };
    let key = "server \"a\".credentials.headers.X-Key";
    refuses(&header("${LINES}"), 4, key, "holds a line break");
    refuses(&header("literal\\nsecond"), 4, key, "holds a line break");
    refuses(&header("${EMPTY}"), 4, key, "is empty");
    refuses(&header("${TOKEN} "), 4, key, "white space");
    refuses(&header("caf\u{e9}"), 4, key, "cannot stand in a header");
    let bearer =
        |value: &str| http("a", &format!("credentials = {{ kind = \"bearer\", token = \"{value}\" }}"));
    refuses(&bearer("${EMPTY}"), 4, "server \"a\".credentials.token", "is empty");
    refuses(&bearer("Bearer ${TOKEN}"), 4, "server \"a\".credentials.token", "the token alone");
}

#[test]
fn f_079_no_message_shows_an_expanded_value() {
    // Every reader that can refuse a text, given one that no reader takes. `problems` looks for the value.
    let gateway = ["listen", "public_url", "max_body", "max_ttl", "separator", "state_dir", "name"];
    let text: String = gateway.iter().map(|key| format!("{key} = \"${{BAD}}\\n\"\n")).collect();
    let text = format!(
        "[gateway]\n{text}keys = [\"${{BAD}}\"]\nallowed_hosts = [\"${{BAD}}\"]\nallowed_origins = [\"${{BAD}}\"]\ninclude = [\"${{BAD}}\"]\n"
    );
    assert_eq!(problems(&text).len(), 11);
    let endpoint = "[[endpoint]]\npath = \"${BAD}\"\nservers = [\"${BAD}\"]\n";
    let server = r#"
        [[server]]
        name = "${BAD}"
        url = "https://${BAD}"
        protocol = "${BAD}"
        timeout = "${BAD}"
        max_result = "${BAD}"
        prefix = "${BAD}"
        proxy = "${BAD}"
        tools.allow = ["${BAD}"]
        tools.override.x.name = "${BAD}"
        credentials = { kind = "${BAD}" }
    "#;
    let found =
        problems(&format!("{endpoint}{server}[telemetry]\nlog = \"${{BAD}}\"\nlog_format = \"${{BAD}}\""));
    let keys: Vec<&str> = found.iter().map(|problem| problem.key.as_str()).collect();
    for key in
        ["endpoint[0].path", "endpoint[0].servers[0]", "server[0].name", "server[0].tools.override.x.name"]
    {
        assert!(keys.contains(&key), "{key} is not in {keys:?}");
    }
    // A clash of values that came from outside names the places only.
    problems(&format!("{}{}", http("a", "prefix = \"${TOKEN}\""), http("b", "prefix = \"${TOKEN}\"")));
    problems(&format!("{}[[endpoint]]\npath = \"/${{TOKEN}}\"\nservers = [\"${{TOKEN}}\"]", http("a", "")));
}

#[test]
fn f_079_dumps_show_no_secret() {
    let text = r#"
        [gateway]
        keys = ["czNjcjN0czNjcjN0czNjcjN0czNjcjN0czNjcjN0czNjcjN0"]
        [[server]]
        name = "a"
        url = "https://host/${TOKEN}?key=${TOKEN}"
        proxy = "http://user:${TOKEN}@proxy:3128"
        credentials = { kind = "bearer", token = "${TOKEN}" }
        [[server]]
        name = "b"
        command = ["x", "--key=${TOKEN}"]
        env = { KEY = "${TOKEN}" }
        [[server]]
        name = "c"
        url = "http://c/"
        credentials = { kind = "basic", user = "u", password = "${TOKEN}" }
        [[server]]
        name = "d"
        url = "http://d/"
        credentials = { kind = "header", headers = { a = "${TOKEN}" } }
    "#;
    let config = config(text);
    assert_eq!(config.gateway.keys[0].expose(), b"s3cr3t".repeat(6));
    for dump in [format!("{config:?}"), format!("{config:#?}"), format!("{:?}", config.warnings())] {
        assert!(!dump.contains("s3cr3t"), "{dump}");
    }
}

#[test]
fn f_079_files_lose_one_newline_and_are_named_when_missing() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        let text = format!("[[server]]\nname = \"a\"\ncommand = [\"x\"]\nenv.KEY = \"${{file:{name}}}\"");
        Config::parse(&text, dir.path(), &env).map(|config| match &config.servers[0].target {
            Target::Stdio(command) => command.env["KEY"].expose().to_owned(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(read("plain", b"value").unwrap(), "value");
    assert_eq!(read("newline", b"value\n").unwrap(), "value");
    assert_eq!(read("two", b"value\n\n").unwrap(), "value\n");
    assert_eq!(read("crlf", b"value\r\n").unwrap(), "value");
    assert_eq!(read("dollar", b"$$ ${TOKEN}\n").unwrap(), "$$ ${TOKEN}");
    let wrong = read("binary", b"s3cr3t\xff").unwrap_err().to_string();
    assert!(wrong.contains("file `binary` is not UTF-8") && !wrong.contains("s3cr3t"), "{wrong}");
    let wrong = read("large", &vec![b's'; (1 << 20) + 2]).unwrap_err().to_string();
    assert!(wrong.contains("file `large` is larger than 1 MiB"), "{wrong}");

    let absolute = dir.path().join("plain");
    let text = format!("[gateway]\ntitle = \"${{file:{}}}\"", absolute.display());
    let config = Config::parse(&text, Path::new("/nowhere"), &env).unwrap();
    assert_eq!(config.gateway.title.as_deref(), Some("value"));
    refuses(
        "[gateway]\ntitle = \"${file:/not/there}\"",
        2,
        "gateway.title",
        "file `/not/there` cannot be read",
    );
}

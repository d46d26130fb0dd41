//! Tests of the import: files as clients write them, and planted secrets in every place a value can stand.

use std::path::Path;

use proptest::prelude::{Strategy, prop, proptest};

use super::{Imported, import};
use crate::config::{Config, Credentials, Server, Target};

const MCP: &str = include_str!("../../../tests/fixtures/import/mcp.json");
const DESKTOP: &str = include_str!("../../../tests/fixtures/import/claude_desktop_config.json");
const VSCODE: &str = include_str!("../../../tests/fixtures/import/vscode.json");

/// Every secret of the three files.
const SECRETS: &[&str] = &[
    "ghp_16C7",
    "hunter2",
    "NmYxOWQ0",
    "k-1",
    "s3same",
    "github_pat_11",
    "ghp_zyx",
    "sntrys_abc",
    "opensesame",
    "xoxp-not",
];

fn imported(text: &str) -> Imported {
    let imported = import("the.json", text, false).expect("a client's file");
    let said = imported.remarks.join("\n");
    for secret in SECRETS {
        assert!(
            !imported.toml.contains(secret) && !said.contains(secret),
            "{secret} in\n{}\n{said}",
            imported.toml
        );
    }
    imported
}

/// The configuration a result comes to when every variable holds its own name.
fn loaded(imported: &Imported) -> Config {
    let env = |name: &str| Some(name.to_owned());
    Config::parse(&imported.toml, Path::new("/etc"), &env)
        .unwrap_or_else(|problems| panic!("{problems}\n{}", imported.toml))
}

fn server<'c>(config: &'c Config, name: &str) -> &'c Server {
    config.servers.iter().find(|server| server.name == name).unwrap_or_else(|| panic!("no server {name}"))
}

/// Command and environment, variables in angle brackets of their own names.
fn child(server: &Server) -> (Vec<&str>, Vec<(&str, &str)>) {
    let Target::Stdio(command) = &server.target else { panic!("{server:?}") };
    let env = command.env.iter().map(|(name, value)| (name.as_str(), value.expose()));
    (command.argv.iter().map(String::as_str).collect(), env.collect())
}

fn url(server: &Server) -> &str {
    let Target::Http { url, .. } = &server.target else { panic!("{server:?}") };
    url.as_str()
}

fn says(imported: &Imported, server: &str, what: &str) {
    let found = imported
        .remarks
        .iter()
        .any(|said| said.starts_with(&format!("server {server:?}: ")) && said.contains(what));
    assert!(found, "nothing about {server} says {what:?}: {:#?}", imported.remarks);
}

#[test]
fn a_project_file_becomes_servers_without_secrets() {
    let result = imported(MCP);
    let config = loaded(&result);
    let github = server(&config, "github-mcp");
    assert_eq!(url(github), "https://api.githubcopilot.com/mcp/");
    assert!(
        matches!(&github.credentials, Credentials::Bearer(token) if token.expose() == "GITHUB_MCP_TOKEN")
    );
    assert_eq!(
        child(server(&config, "filesystem")).0[2..],
        ["@modelcontextprotocol/server-filesystem@2026.8.1", "HOME/projects", "/srv/data"]
    );
    let (argv, env) = child(server(&config, "postgres"));
    assert_eq!(argv, ["uvx", "postgres-mcp==0.3.0", "POSTGRES_ARGUMENT"]);
    assert_eq!(env, [("LOG_LEVEL", "debug"), ("PGPASSWORD", "PGPASSWORD"), ("PGSSLMODE", "require")]);
    let (_, env) = child(server(&config, "brave"));
    assert_eq!(env, [("BRAVE_API_KEY", "BRAVE_API_KEY"), ("BRAVE_ENDPOINT", "BRAVE_ENDPOINT")]);
    says(&result, "brave", "not pinned");
    says(&result, "github-mcp", "\"Accept\" is left out");
    says(&result, "socket", "not imported: the transport \"ws\" is unknown");
    assert!(result.toml.contains("# was \"GitHub MCP\""));
    assert!(result.refused > 0 && !config.servers.iter().any(|server| server.name == "socket"));
}

#[test]
fn what_is_disabled_stays_so_and_an_address_holds_no_password() {
    let result = imported(MCP);
    // Not among the servers of the configuration, yet in the file.
    assert!(!loaded(&result).servers.iter().any(|server| server.name == "internal"));
    assert!(result.toml.contains("name = \"internal\"\nenabled = false\n"));
    says(&result, "internal", "`timeout` is left out");
    let enabled = result.toml.replace("enabled = false", "");
    let config = Config::parse(&enabled, Path::new(""), &|name| Some(name.to_owned())).expect("as before");
    let internal = server(&config, "internal");
    assert_eq!(url(internal), "https://mcp.internal.example.com/mcp");
    let Credentials::Basic { user, password } = &internal.credentials else { panic!("{internal:?}") };
    assert_eq!((user.as_str(), password.expose()), ("INTERNAL_USER", "INTERNAL_PASSWORD"));
}

#[test]
fn keys_in_addresses_become_variables() {
    let file = MCP.replace("\"type\": \"sse\", ", "");
    let config = loaded(&imported(&file));
    let wanted = "https://mcp.zapier.com/api/mcp/s/ZAPIER_URL_KEY/mcp?apiKey=ZAPIER_API_KEY&region=eu";
    assert_eq!(url(server(&config, "zapier")), wanted);
}

#[test]
fn a_desktop_file_becomes_servers_without_secrets() {
    let result = imported(DESKTOP);
    let config = loaded(&result);
    let (argv, env) = child(server(&config, "github"));
    assert_eq!(argv[4..], ["-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"]);
    assert_eq!(env, [("GITHUB_PERSONAL_ACCESS_TOKEN", "GITHUB_PERSONAL_ACCESS_TOKEN")]);
    says(&result, "github", "`docker` runs a package whose version is not pinned");
    // The same name, another value: another variable.
    let (argv, _) = child(server(&config, "github-ent"));
    assert_eq!(argv[5], "GITHUB_PERSONAL_ACCESS_TOKEN=GITHUB_ENT_GITHUB_PERSONAL_ACCESS_TOKEN");
    assert!(
        !result.remarks.iter().any(|said| said.starts_with("server \"github-ent\"")),
        "{:?}",
        result.remarks
    );
    let (argv, _) = child(server(&config, "sentry"));
    assert_eq!(argv[3..], ["--access-token", "SENTRY_ACCESS_TOKEN", "--host=sentry.example.com"]);
    says(&result, "sentry", "`npx` runs a package");
    let (argv, _) = child(server(&config, "remote"));
    assert_eq!(argv[3..], ["https://mcp.example.com/mcp", "--header", "Authorization: Bearer REMOTE_TOKEN"]);
    says(&result, "remote", "reaches that itself");
    assert_eq!(child(server(&config, "windows")).0, ["npx", "-y", "some-server@1.2.3"]);
    assert_eq!(child(server(&config, "weather")).0[0], "/usr/local/bin/uv");
    let (_, env) = child(server(&config, "slack"));
    assert_eq!(env[1], ("SLACK_MCP_XOXP_TOKEN", "SLACK_MCP_XOXP_TOKEN"));
    assert_eq!(env[2], ("SLACK_TEAM_ID", "T0123ABCD"));
    says(&result, "broken", "neither a command nor an address");
    assert_eq!((result.servers, result.refused), (7, 1));
}

#[test]
fn an_editors_file_has_comments_and_asks_for_values() {
    let result = imported(VSCODE);
    let config = loaded(&result);
    let Credentials::Headers(headers) = &server(&config, "github").credentials else { panic!("no headers") };
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    headers.sort_unstable();
    assert_eq!(
        headers,
        [("x-api-key", "PERPLEXITY_KEY"), ("x-mcp-readonly", "true"), ("x-mcp-toolsets", "repos,issues")]
    );
    let (argv, env) = child(server(&config, "perplexity"));
    assert_eq!(argv[4], "WORKSPACE_FOLDER/.cache");
    assert_eq!(
        env,
        [("DB", "DB_ENV"), ("HOST", "PERPLEXITY_HOST"), ("PERPLEXITY_API_KEY", "PERPLEXITY_KEY")]
    );
    says(&result, "perplexity", "`envFile` is not read");
    says(&result, "playwright", "its client's business: dev");
    assert!(result.toml.contains("#   PERPLEXITY_KEY: server \"github\": header X-Api-Key, server \"perplexity\": env PERPLEXITY_API_KEY (Perplexity API Key)"), "{}", result.toml);
    assert_eq!(result.refused, 0);
}

#[test]
fn unpinned_packages_are_refused_when_told_so() {
    let result = import("x", DESKTOP, true).expect("a client's file");
    assert!(result.toml.contains("[gateway]\npinned_only = true\n"));
    says(&result, "github", "not imported: `docker`");
    says(&result, "sentry", "not imported: `npx`");
    let config = loaded(&result);
    assert!(config.gateway.pinned_only);
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["github-ent", "remote", "windows", "weather", "slack"]);
}

#[test]
fn names_are_made_fit_and_stay_apart() {
    let text = r#"{"mcpServers": {"A b!": {"url": "http://a/"}, "a_B": {"url": "http://a/"}, "ä": {"url": "http://a/"},
        "a-very-long-name-that-goes-on-and-on": {"url": "http://a/"}}}"#;
    let config = loaded(&imported(text));
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["a-b", "a-b-2", "server", "a-very-long-name-that-goes-on-a"]);
}

#[test]
fn files_that_cannot_be_used_are_not_quoted() {
    for (text, says) in [
        ("{\n\"mcpServers\": {\"a\": s3same}}", "is not JSON in line 2"),
        ("[]", "is not a JSON object"),
        ("{\"s3same\": 1}", "lists no servers"),
    ] {
        let problem = import("x", text, false).expect_err(text);
        assert!(problem.contains(says) && !problem.contains("s3same"), "{problem}");
    }
    let odd = imported(r#"{"mcpServers": {"a": ["s3same"], "b": {"type": "s3same!!", "command": "x"}}}"#);
    assert_eq!((odd.servers, odd.refused), (0, 1));
}

#[test]
fn dollars_and_quotes_of_literals_survive() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["$5", "$$", "a\"b\\c", "100%", "tab\there"], "env": {"A-B": "b"}}}}"#;
    let config = loaded(&imported(text));
    let (argv, env) = child(server(&config, "a"));
    assert_eq!(argv, ["x", "$5", "$$", "a\"b\\c", "100%", "tab\there"]);
    assert_eq!(env, [("A-B", "b")]);
}

/// What tokens look like.
fn token() -> impl Strategy<Value = String> {
    let prefix = prop::sample::select(vec!["", "sk-", "ghp_", "xoxb-", "glpat-", "AKIA"]);
    let rest = prop::collection::vec(
        prop::sample::select(('a'..='z').chain('A'..='Z').chain('0'..='9').collect::<Vec<_>>()),
        24..60,
    );
    (prefix, rest)
        .prop_map(|(prefix, rest)| format!("{prefix}{}", rest.into_iter().collect::<String>()))
        .prop_filter("of all kinds of characters", |token| {
            token.bytes().filter(u8::is_ascii_digit).count() >= 3
                && token.bytes().any(|b| b.is_ascii_lowercase())
        })
}

proptest! {
    /// A token is never printed, wherever it stands.
    #[test]
    fn a_token_is_never_printed(token in token(), word in "[a-z]{1,8}") {
        let t = &token;
        let text = format!(r#"{{"inputs": [{{"id": "x", "default": "{t}"}}], "mcpServers": {{
            "a": {{"command": "{word}", "args": ["{t}", "--{word}={t}", "--{word}", "{t}", "-H", "X-{word}: {t}", "https://h/{t}/x?{word}={t}",
                "{word}://u:{t}@h/", "${{X:-{t}}}", "{t}${{X}}"], "env": {{"{word}": "{t}", "B": "a {t} b", "C": "${{X}}:{t}"}}, "cwd": "/srv/{word}",
                "description": "uses {t}", "{t}": 1}},
            "b": {{"url": "https://{t}@h/{t}?{t}&a={t}#{t}", "headers": {{"X-{word}": "{t}", "Authorization": "Token {t}"}}, "type": "http"}},
            "c": {{"url": "https://h/", "headers": {{"Authorization": "Bearer {t}"}}, "timeout": "{t}"}},
            "d": {{"type": "{t}", "url": "{t}://x"}}
        }}}}"#);
        let imported = import("x", &text, false).expect("JSON");
        let said = imported.toml + &imported.remarks.join("\n");
        proptest::prop_assert!(!said.contains(t.as_str()), "{}", said);
    }
}

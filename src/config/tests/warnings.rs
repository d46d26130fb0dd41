//! What is legal but doubtful.

use super::super::packages::unpinned;
use super::{config, http, refuses};

/// The warnings of a configuration, as text.
fn warnings(text: &str) -> Vec<String> {
    config(text).warnings().iter().map(ToString::to_string).collect()
}

/// The only warning begins so and says so.
#[track_caller]
fn doubts(text: &str, key: &str, says: &str) {
    let all = warnings(text);
    let [one] = &all[..] else { panic!("{all:#?}") };
    assert!(one.starts_with(&format!("{key}: ")) && one.contains(says), "{one}");
}

#[test]
fn a_plain_configuration_has_none() {
    assert_eq!(warnings(&http("a", "")), [""; 0]);
}

/// Covers: design §7: one process for all is doubtful where callers are told apart.
#[test]
fn one_process_for_callers_that_are_told_apart() {
    let with = |scope: &str| {
        format!(
            "[auth]\n[[auth.key]]\nname = \"k\"\nsha256 = \"{}\"\n[[server]]\nname = \"a\"\ncommand = [\"x\"]\n{scope}",
            "0".repeat(64)
        )
    };
    let all = warnings(&with(""));
    let told =
        all.iter().filter(|one| one.starts_with("server \"a\".session_scope: all callers share one process"));
    assert_eq!(told.count(), 1, "{all:#?}");
    for scope in ["shared", "principal", "session"] {
        let all = warnings(&with(&format!("session_scope = {scope:?}")));
        assert!(!all.iter().any(|one| one.contains("session_scope")), "{all:#?}");
    }
    assert_eq!(warnings("[[server]]\nname = \"a\"\ncommand = [\"x\"]"), [""; 0]);
}

#[test]
fn unpinned_packages() {
    let words = |command: &str| command.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (command, runner) in [
        ("npx pkg", "npx"),
        ("npx -y pkg", "npx"),
        ("npx -y @scope/pkg /data", "npx"),
        ("npx -y pkg@latest", "npx"),
        ("npx -y pkg@^1.2.3", "npx"),
        ("npx -y pkg@1", "npx"),
        ("npx -y pkg@1.x.0", "npx"),
        ("npx --yes --package=pkg run", "npx"),
        ("npx -y -p a@1.2.3 -p b run", "npx"),
        ("/usr/local/bin/npx -y pkg", "npx"),
        ("npx", "npx"),
        ("npm exec pkg", "npm exec"),
        ("pnpm dlx pkg", "pnpm dlx"),
        ("bunx pkg", "bunx"),
        ("npx github:owner/repo", "npx"),
        ("npx git+https://host/repo.git#main", "npx"),
        ("uvx pkg", "uvx"),
        ("uvx pkg@latest", "uvx"),
        ("uvx pkg>=1.0", "uvx"),
        ("uvx pkg==1.*", "uvx"),
        ("uvx --from pkg tool", "uvx"),
        ("uvx --from pkg tool==1.0", "uvx"),
        ("uvx --with extra pkg==1.0", "uvx"),
        ("uvx --python 3.12 pkg", "uvx"),
        ("uv tool run pkg", "uv tool run"),
        ("pipx run pkg", "pipx run"),
    ] {
        assert_eq!(unpinned(&words(command)), Some(runner), "{command}");
    }
    for command in [
        "npx -y pkg@1.2.3",
        "npx -y @scope/pkg@2026.8.1 /data",
        "npx -y pkg@1.2.3-beta.1",
        "npx -p pkg@1.2.3 run",
        "npx --package pkg@1.2.3 -c run",
        "npx ./local",
        "npx git+https://host/repo.git#0123456789abcdef0123456789abcdef01234567",
        "uvx pkg==1.0",
        "uvx pkg[extra]==1.0.post1",
        "uvx pkg@1.0",
        "uvx --from pkg==1.0 tool",
        "uvx --python 3.12 pkg==1.0",
        "uv run tool",
        "node server.js",
        "npm start",
        "gatehouse demo --stdio",
    ] {
        assert_eq!(unpinned(&words(command)), None, "{command}");
    }
    let text = "[[server]]\nname = \"a\"\ncommand = [\"npx\", \"-y\", \"${TOKEN}\"]";
    doubts(text, "server \"a\".command", "`npx` runs a package whose version is not pinned");
    assert!(!warnings(text)[0].contains("s3cr3t"));
}

#[test]
fn unpinned_images() {
    let words = |command: &str| command.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (command, runner) in [
        ("docker run -i --rm -e TOKEN ghcr.io/owner/image", "docker"),
        ("docker run -i --rm -eTOKEN=x:1.0 --name box:1.0 owner/image:latest", "docker"),
        ("docker run localhost:5000/image", "docker"),
        ("podman container run -it image:main", "podman"),
        ("docker run --pull always", "docker"),
    ] {
        assert_eq!(unpinned(&words(command)), Some(runner), "{command}");
    }
    for command in [
        "docker run -i --rm -e TOKEN ghcr.io/owner/image:v1.2.3",
        "docker run -it --init -v /a:/b image:1.2-slim server --port 80",
        "docker run --rm image@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "docker compose up",
    ] {
        assert_eq!(unpinned(&words(command)), None, "{command}");
    }
}

#[test]
fn what_is_not_pinned_can_be_refused() {
    let text =
        "[gateway]\npinned_only = true\n[[server]]\nname = \"a\"\ncommand = [\"npx\", \"-y\", \"pkg\"]";
    refuses(text, 5, "server \"a\".command", "`npx` runs a package whose version is not pinned");
    config(&text.replace("pkg", "pkg@1.2.3"));
    config(&text.replace("command", "enabled = false\ncommand"));
}

#[test]
fn clashes_that_are_allowed_say_who_wins() {
    let text = format!(
        "[gateway]\nallow_clashes = true\n{}{}{}",
        http("x", "prefix = \"p\""),
        http("y", "prefix = \"p_q\""),
        http("z", "")
    );
    doubts(
        &text,
        "server \"y\".prefix",
        "server \"x\" on endpoint \"/mcp\": where names meet, \"x\" keeps them",
    );
    // Allowed and not needed.
    assert_eq!(warnings(&format!("[gateway]\nallow_clashes = true\n{}", http("x", ""))), [""; 0]);
}

#[test]
fn servers_that_nobody_sees() {
    let text = format!("{}{}[[endpoint]]\npath = \"/a\"\nservers = [\"a\"]", http("a", ""), http("b", ""));
    doubts(&text, "server \"b\".name", "no endpoint shows this server");
    doubts("", "server", "there is no enabled server");
}

#[test]
fn overrides_without_effect() {
    doubts(
        &http("a", "tools.override.\"get_*\".enabled = false"),
        "server \"a\".tools.override.\"get_*\"",
        "globs",
    );
    let hidden = http("a", "tools.deny = [\"x\"]\ntools.override.x.name = \"y\"");
    doubts(&hidden, "server \"a\".tools.override.\"x\"", "hide this tool");
    let long = http("a", "tools.override.x.timeout = \"1h\"");
    doubts(&long, "server \"a\".tools.override.\"x\"", "max_timeout");
    let same = http("a", "tools.override.x.name = \"n\"\ntools.override.y.name = \"n\"");
    doubts(&same, "server \"a\".tools.override", "the same `name`");
}

#[test]
fn secrets_in_the_clear() {
    let with = |url: &str| {
        format!(
            "[[server]]\nname = \"a\"\nurl = \"{url}\"\ncredentials = {{ kind = \"bearer\", token = \"${{TOKEN}}\" }}"
        )
    };
    doubts(&with("http://host/mcp"), "server \"a\".url", "unencrypted");
    for fine in ["https://host/mcp", "http://127.0.0.1:1/", "http://[::1]/", "http://localhost:3000/"] {
        assert_eq!(warnings(&with(fine)), [""; 0]);
    }
    assert_eq!(warnings("[[server]]\nname = \"a\"\nurl = \"http://host/\""), [""; 0]);
}

#[test]
fn open_doors_and_odd_bounds() {
    let gateway = |lines: &str| format!("[gateway]\n{lines}\n{}", http("a", ""));
    doubts(
        &gateway("listen = \"0.0.0.0:1\"\nallow_unauthenticated = true"),
        "gateway.allow_unauthenticated",
        "every tool",
    );
    doubts(&gateway("allowed_hosts = [\"*\"]"), "gateway.allowed_hosts", "DNS rebinding");
    doubts(&gateway("max_name_length = 200"), "gateway.max_name_length", "longer than 128");
    doubts(&http("a", "max_result = \"1GiB\""), "server \"a\".max_result", "no such result can pass");
}

/// Covers: A-27: an audience that other clients' tokens have too.
#[test]
fn audiences_of_everybody() {
    let text = |audience: &str| {
        http("a", "")
            + "[auth]\n[[auth.issuer]]\nissuer = \"https://id.example/\"\n"
            + &format!(
                "audiences = [\"{audience}\"]\n[[grant]]\nto = {{ a = 1 }}\nservers = [\"a\"]\ntools = [\"*\"]"
            )
    };
    for audience in ["account", "https://id.example", "https://id.example/", "https://id.example/userinfo"] {
        doubts(&text(audience), "auth.issuer \"https://id.example/\".audiences", "alone it would be enough");
    }
    assert_eq!(warnings(&text("api://gateway")), [""; 0]);
    assert_eq!(
        warnings(&text("a").replace("audiences = [\"a\"]", "other_audiences = [\"account\"]")),
        [""; 0]
    );
}

/// Covers: A-38: a secret whose receiver the server names.
#[test]
fn secrets_for_whom_a_server_names() {
    let text = |more: &str| {
        http("a", &format!("[server.credentials]\nkind = \"client_credentials\"\nclient_id = \"g\"\n{more}"))
    };
    doubts(&text("client_secret = \"s\""), "server \"a\".credentials", "who gets `client_secret`");
    assert_eq!(warnings(&text("client_secret = \"s\"\nissuer = \"https://id.example\"")), [""; 0]);
    assert_eq!(warnings(&text("client_secret = \"s\"\ntoken_url = \"https://id.example/t\"")), [""; 0]);
}

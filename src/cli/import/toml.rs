//! Servers as TOML, held against the rules for our own configuration.

use std::fmt::Write as _;
use std::path::Path;

use super::draft::{Credentials, Draft, Target};
use super::vault::Vault;
use crate::config::Config;
use crate::protocol::items::json_string;

/// Refuses what our own configuration would.
pub(super) fn check(draft: &mut Draft) {
    if draft.refused.is_some() {
        return;
    }
    let mut text = String::new();
    server(&mut text, draft);
    if !draft.enabled {
        // Its keys are checked; that nothing else is there is no fault of its own.
        text = text.replace("\nenabled = false\n", "\n");
    }
    if let Err(problems) = Config::parse(&text, Path::new(""), &|name| Some(stand_in(&text, name))) {
        let said: Vec<String> =
            problems.iter().map(|problem| format!("{}: {}", problem.key, problem.message)).collect();
        draft.refused = Some(format!("our configuration cannot take it: {}", said.join("; ")));
    }
}

/// Something a variable could hold: an address where an address begins with it.
fn stand_in(text: &str, name: &str) -> String {
    let address = text.contains(&format!("url = \"${{{name}}}"));
    if address { "https://example.com".to_owned() } else { "1".to_owned() }
}

/// The whole file.
pub(super) fn write(file: &str, drafts: &[Draft], vault: &Vault, pinned_only: bool) -> String {
    let mut out = format!("# Imported from {} by `gatehouse import`.\n", comment(file));
    let mut variables = vault.variables().peekable();
    if variables.peek().is_some() {
        out.push_str("#\n# Set these variables before use, or write ${file:/run/secrets/…} instead:\n");
    }
    for variable in variables {
        let about = variable.about.as_ref().map(|about| format!(" ({})", comment(about))).unwrap_or_default();
        let _ = writeln!(out, "#   {}: {}{about}", variable.name, comment(&variable.uses.join(", ")));
    }
    if pinned_only {
        out.push_str("\n[gateway]\npinned_only = true\n");
    }
    for draft in drafts {
        out.push('\n');
        for note in &draft.notes {
            let _ = writeln!(out, "# Note: {}", comment(note));
        }
        let mut text = String::new();
        server(&mut text, draft);
        match &draft.refused {
            None => out.push_str(&text),
            Some(why) => {
                let _ = writeln!(out, "# Not imported: {}", comment(why));
                text.lines().for_each(|line| {
                    let _ = writeln!(out, "#{line}");
                });
            }
        }
    }
    out
}

fn server(out: &mut String, draft: &Draft) {
    out.push_str("[[server]]\n");
    let was =
        draft.was.as_ref().map(|was| format!(" # was {}", comment(&format!("{was:?}")))).unwrap_or_default();
    let _ = writeln!(out, "name = {}{was}", quoted(&draft.name));
    if !draft.enabled {
        out.push_str("enabled = false\n");
    }
    if let Some(description) = &draft.description {
        let _ = writeln!(out, "description = {}", quoted(description));
    }
    match &draft.target {
        Target::Http { url, sse } => {
            let _ = writeln!(out, "url = {}", quoted(url));
            if *sse {
                out.push_str("protocol = \"sse\"\n");
            }
        }
        Target::Stdio { argv, cwd, .. } => {
            let _ = writeln!(out, "command = {}", list(argv));
            if let Some(cwd) = cwd {
                let _ = writeln!(out, "cwd = {}", quoted(cwd));
            }
        }
    }
    for (key, names) in ["allow", "deny"].iter().zip(&draft.tools) {
        if !names.is_empty() {
            let _ = writeln!(out, "tools.{key} = {}", list(names));
        }
    }
    if let Some(credentials) = &draft.credentials {
        let _ = writeln!(out, "credentials = {}", presented(credentials));
    }
    if let Target::Stdio { env, .. } = &draft.target
        && !env.is_empty()
    {
        out.push_str("  [server.env]\n");
        for (name, value) in env {
            let _ = writeln!(out, "  {} = {}", key(name), quoted(value));
        }
    }
}

fn presented(credentials: &Credentials) -> String {
    match credentials {
        Credentials::Bearer(token) => format!("{{ kind = \"bearer\", token = {} }}", quoted(token)),
        Credentials::Basic { user, password } => {
            format!("{{ kind = \"basic\", user = {}, password = {} }}", quoted(user), quoted(password))
        }
        Credentials::Headers(headers) => {
            let each: Vec<String> =
                headers.iter().map(|(name, value)| format!("{} = {}", key(name), quoted(value))).collect();
            format!("{{ kind = \"header\", headers = {{ {} }} }}", each.join(", "))
        }
    }
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A string on one line.
fn quoted(text: &str) -> String {
    // What JSON escapes, TOML's basic strings escape the same way; DEL is the one character more.
    json_string(text).replace('\u{7f}', "\\u007f")
}

fn key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if bare { name.to_owned() } else { quoted(name) }
}

/// Text that stays in its comment.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

//! One file: front matter in YAML (`---`) or TOML (`+++`), then Markdown.

use std::path::Path;

use serde::Deserialize;

use super::Book;

/// Longest name.
const LONGEST_NAME: usize = 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Front {
    name: Option<String>,
    description: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    links: Vec<String>,
    #[serde(default)]
    tools: Vec<String>,
}

/// Reads a playbook; the error is one sentence.
pub(super) fn parse(file: &Path, text: &str) -> Result<Book, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let (front, body) = if let Some((front, body)) = split(&text, "---") {
        (serde_saphyr::from_str::<Front>(front).map_err(|error| said(&error))?, body)
    } else if let Some((front, body)) = split(&text, "+++") {
        (toml::from_str::<Front>(front).map_err(|error| error.message().to_owned())?, body)
    } else {
        return Err("has no front matter: begin with a line `---`, and end it with another".to_owned());
    };
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name = front.name.unwrap_or(stem);
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(plain) {
        return Err(format!("`name` must be 1 to {LONGEST_NAME} of a-z, 0-9, `-` and `_`"));
    }
    if front.description.trim().is_empty() {
        return Err("`description` is empty: it is what the search finds".to_owned());
    }
    let mut links = front.links;
    links.extend(neighbours(body));
    let mut seen = std::collections::BTreeSet::new();
    links.retain(|link| seen.insert(link.clone()) && *link != name);
    Ok(Book {
        name,
        description: front.description.split_whitespace().collect::<Vec<_>>().join(" "),
        tags: front.tags,
        links,
        tools: front.tools,
        body: body.trim().to_owned(),
        file: file.to_path_buf(),
    })
}

/// One line of what the reader says.
fn said(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    format!("front matter: {}", text.lines().next().unwrap_or_default())
}

fn split<'t>(text: &'t str, fence: &str) -> Option<(&'t str, &'t str)> {
    let rest = text.strip_prefix(fence)?.strip_prefix('\n')?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == fence {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// Names of files beside it that the Markdown links to.
fn neighbours(body: &str) -> impl Iterator<Item = String> {
    body.split("](").skip(1).filter_map(|after| {
        let target = after.split([')', ' ', '#']).next()?;
        let stem = target.strip_prefix("./").unwrap_or(target).strip_suffix(".md")?;
        (!stem.contains(['/', ':'])).then(|| stem.to_lowercase())
    })
}

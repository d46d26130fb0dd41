//! The variables that stand for secrets and for a client's own placeholders. The values are known here and nowhere else,
//! to tell which are the same.

use super::secrecy::random;

/// A variable that must be set.
pub(super) struct Variable {
    /// Its name.
    pub(super) name: String,
    /// What uses it: `server "x": env X`.
    pub(super) uses: Vec<String>,
    /// What its client says it is.
    pub(super) about: Option<String>,
    /// `None`: it is one of the client's own.
    value: Option<String>,
}

/// All variables of one import.
pub(super) struct Vault {
    variables: Vec<Variable>,
    inputs: Vec<(String, String)>,
}

/// Where a value stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The server's name.
    pub(super) server: &'a str,
    /// As `env X`.
    pub(super) what: &'a str,
}

impl Vault {
    /// None yet. `inputs`: what a client says of values that it asks for.
    pub(super) const fn new(inputs: Vec<(String, String)>) -> Self {
        Self { variables: Vec::new(), inputs }
    }

    /// The variables, in order of first use.
    pub(super) fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.variables.iter()
    }

    /// A text that is no secret, for our configuration: the client's placeholders become ours.
    pub(super) fn text(&mut self, raw: &str, place: Place<'_>) -> String {
        let mut out = String::with_capacity(raw.len());
        let mut rest = raw;
        while let Some((before, inside, after)) = placeholder(rest) {
            out.push_str(&before.replace('$', "$$"));
            out.push_str(&self.reference(inside, place));
            rest = after;
        }
        out.push_str(&rest.replace('$', "$$"));
        out
    }

    /// A value that could be a secret. One that is a client's placeholder stays one.
    pub(super) fn secret(&mut self, raw: &str, wanted: &str, place: Place<'_>) -> String {
        if is_reference(raw) {
            return self.text(raw, place);
        }
        let name = self.named(&variable_name(wanted), place.server, raw);
        self.used(&name, place, Some(raw.to_owned()), None);
        format!("${{{name}}}")
    }

    /// A free name, or that of the same value.
    fn named(&self, wanted: &str, server: &str, value: &str) -> String {
        let free = |name: &str| {
            let known = self.variables.iter().find(|known| known.name == name);
            known.is_none_or(|known| known.value.as_deref() == Some(value))
        };
        let longer = variable_name(&format!("{server}_{wanted}"));
        let candidates = [wanted.to_owned(), longer.clone()];
        let numbered = (2_usize..).map(|number| format!("{longer}_{number}"));
        candidates.into_iter().chain(numbered).find(|name| free(name)).unwrap_or(longer)
    }

    fn reference(&mut self, inside: &str, place: Place<'_>) -> String {
        let (name, about) = match inside {
            "pathSeparator" | "/" => return "/".to_owned(),
            "userHome" => ("HOME".to_owned(), None),
            _ => {
                let (inside, default) = match inside.split_once(":-") {
                    Some((name, _)) => (name, true),
                    None => (inside, false),
                };
                let input = inside.strip_prefix("input:");
                let described = input.and_then(|id| self.inputs.iter().find(|(known, _)| known == id));
                let described = described.map(|(_, about)| about.clone()).filter(|about| !about.is_empty());
                let lost =
                    default.then(|| "the client's file has a default for it, which ours cannot".to_owned());
                let name = inside.strip_prefix("env:").or(input).unwrap_or(inside);
                let name = if is_name(name) && input.is_none() && name.to_uppercase() == name {
                    name.to_owned()
                } else {
                    variable_name(name)
                };
                (name, described.or(lost))
            }
        };
        self.used(&name, place, None, about);
        format!("${{{name}}}")
    }

    fn used(&mut self, name: &str, place: Place<'_>, value: Option<String>, about: Option<String>) {
        let used = format!("server {:?}: {}", place.server, place.what);
        match self.variables.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                if !known.uses.contains(&used) {
                    known.uses.push(used);
                }
                known.about = known.about.take().or(about);
            }
            None => {
                self.variables.push(Variable { name: name.to_owned(), uses: vec![used], about, value });
            }
        }
    }
}

/// Whether a text holds a placeholder and beside it nothing that could be a secret.
pub(super) fn is_reference(raw: &str) -> bool {
    let mut rest = raw;
    let mut found = false;
    while let Some((before, _, after)) = placeholder(rest) {
        if random(before) {
            return false;
        }
        (found, rest) = (true, after);
    }
    found && !random(rest)
}

/// The first placeholder: what stands before it, in it and behind it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find("${")?;
    let end = at + text[at..].find('}')?;
    Some((&text[..at], &text[at + 2..end], &text[end + 1..]))
}

fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// A text as the name of a variable.
pub(super) fn variable_name(text: &str) -> String {
    let mut name = String::new();
    let mut lower_before = false;
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && lower_before {
                name.push('_');
            }
            name.push(c.to_ascii_uppercase());
        } else if !name.ends_with('_') && !name.is_empty() {
            name.push('_');
        }
        lower_before = c.is_ascii_lowercase();
    }
    let name = name.trim_end_matches('_').to_owned();
    match name.bytes().next() {
        None => "VALUE".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name,
    }
}

//! What a server says when it refuses: `WWW-Authenticate`, whatever else stands there (A-33; RFC 9110 §11.6.1, RFC 6750 §3,
//! RFC 9728 §5.1).

use http::{HeaderMap, header};

use super::scopes;

/// The part of a refusal that is for bearers of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// `resource_metadata`, unchecked.
    pub(crate) metadata: Option<String>,
    /// The words of `scope`; none if one of them is no scope.
    pub(crate) scopes: Vec<String>,
    /// `error`
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// Whether more scopes would help (A-39).
    pub(crate) fn wants_scopes(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope") && !self.scopes.is_empty()
    }

    /// The first challenge for bearers that names metadata, else the first for bearers.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(header::WWW_AUTHENTICATE).iter();
        let lines = lines.filter_map(|line| std::str::from_utf8(line.as_bytes()).ok());
        let all: Vec<Self> = lines.flat_map(bearers).collect();
        let named = all.iter().find(|challenge| challenge.metadata.is_some());
        named.or_else(|| all.first()).cloned().unwrap_or_default()
    }

    fn note(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.metadata = Some(value),
            "scope" => self.scopes = scopes::words(&value),
            "error" => self.error = Some(value),
            _ => {}
        }
    }
}

/// The challenges for bearers in one line. What cannot be read ends it; what came before holds.
fn bearers(line: &str) -> Vec<Challenge> {
    let mut found = Vec::new();
    // The challenge that parameters belong to now; `None`: that of another scheme.
    let mut current: Option<Challenge> = None;
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let Some(word) = token(&mut rest) else { break };
        match parameter(&mut rest) {
            Parameter::Value(value) => {
                if let Some(challenge) = &mut current {
                    challenge.note(word, value);
                }
            }
            Parameter::Broken => break,
            Parameter::None => {
                found.extend(current.take());
                current = word.eq_ignore_ascii_case("bearer").then(Challenge::default);
                skip_token68(&mut rest);
            }
        }
    }
    found.extend(current);
    found
}

/// What follows a word.
enum Parameter {
    /// `= value`
    Value(String),
    /// `=` and nothing that could be a value.
    Broken,
    /// Something else: the word is a scheme.
    None,
}

fn parameter(rest: &mut &str) -> Parameter {
    let Some(after) = rest.trim_start_matches([' ', '\t']).strip_prefix('=') else { return Parameter::None };
    let mut after = after.trim_start_matches([' ', '\t']);
    let value = match after.strip_prefix('"') {
        Some(quoted) => {
            after = quoted;
            unquoted(&mut after)
        }
        None => token(&mut after).map(str::to_owned),
    };
    *rest = after;
    value.map_or(Parameter::Broken, Parameter::Value)
}

/// The letters up to the closing quote.
fn unquoted(rest: &mut &str) -> Option<String> {
    let mut value = String::new();
    let mut letters = rest.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => {
                *rest = &rest[at + 1..];
                return Some(value);
            }
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

/// A token of RFC 9110 §5.6.2.
fn token<'t>(rest: &mut &'t str) -> Option<&'t str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = rest.find(|c| !is_letter(c)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    (!word.is_empty()).then_some(word)
}

/// Passes over credentials that some schemes have in place of parameters (`Negotiate YIIB…==`).
fn skip_token68(rest: &mut &str) {
    let text = rest.trim_start_matches(' ');
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
    let end = text.find(|c| !is_letter(c)).unwrap_or(text.len());
    let after = text[end..].trim_start_matches('=');
    let ends = after.trim_start_matches([' ', '\t']);
    if end > 0 && (ends.is_empty() || ends.starts_with(',')) {
        *rest = after;
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    use super::Challenge;

    fn read(lines: &[&str]) -> Challenge {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("www-authenticate", HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        Challenge::read(&headers)
    }

    fn of(metadata: &str, scopes: &[&str], error: &str) -> Challenge {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        Challenge { metadata: some(metadata), scopes, error: some(error) }
    }

    /// Covers: A-33: schemes and lines beside ours, quoting, order, case.
    #[test]
    fn a_33_whatever_else_stands_there() {
        let whole = of("https://h/prm", &["a", "b"], "insufficient_scope");
        for line in [
            r#"Bearer error="insufficient_scope", scope="a b", resource_metadata="https://h/prm""#,
            r#"bearer  ERROR=insufficient_scope ,Scope = "a  b",resource_metadata="https://h/prm",x="y""#,
            r#"Basic realm="a, Bearer scope=\"x\"", Bearer resource_metadata="https://h/prm", error=insufficient_scope, scope="a b""#,
            r#"Negotiate YII/+b==, Bearer resource_metadata="https:\/\/h/prm", error="insufficient_scope", scope="a b", Basic scope="no""#,
            r#", ,Negotiate,NTLM , Bearer scope="a b", error="insufficient_scope", resource_metadata="https://h/prm" ,"#,
            r#"Negotiate abc, Bearer scope="a b", error="insufficient_scope", resource_metadata="https://h/prm", realm="never closed"#,
        ] {
            assert_eq!(read(&[line]), whole, "{line}");
        }
        let basic = r#"Basic realm="x", scope="none""#;
        let bearer = r#"Bearer resource_metadata="https://h/prm", scope="a b", error="insufficient_scope""#;
        assert_eq!(read(&[basic, bearer]), whole);
        assert_eq!(read(&["Bearer", bearer]), whole, "the one that says where");
        assert_eq!(read(&["Bearer scope=\"a\"", basic]), of("", &["a"], ""));
        assert_eq!(read(&["DPoP resource_metadata=\"https://h/prm\"", "Bearer"]), Challenge::default());
        for nothing in
            [&[][..], &["Bearer"], &["Basic realm=\"x\""], &[""], &["=,=\"\"; ("], &["Bearer a b c"]]
        {
            assert_eq!(read(nothing), Challenge::default(), "{nothing:?}");
        }
    }

    #[test]
    fn scopes_that_are_none_are_not_asked_for() {
        for odd in
            [r#"Bearer scope="a \"b""#, "Bearer scope=\"a\tb\"", r#"Bearer scope="é""#, r#"Bearer scope="""#]
        {
            assert_eq!(read(&[odd]).scopes, Vec::<String>::new(), "{odd}");
        }
        let many: Vec<String> = (0..65).map(|n| format!("s{n}")).collect();
        assert_eq!(read(&[&format!("Bearer scope=\"{}\"", many.join(" "))]).scopes, Vec::<String>::new());
        assert!(!of("", &["a"], "invalid_token").wants_scopes());
        assert!(!of("", &[], "insufficient_scope").wants_scopes());
        assert!(of("", &["a"], "insufficient_scope").wants_scopes());
    }

    proptest! {
        /// Whatever a server writes, reading it ends.
        #[test]
        fn anything_can_be_read(line in "[ -~]{0,80}") {
            read(&[&line]);
        }

        #[test]
        fn what_is_quoted_comes_back(value in "[ -~]{0,40}", before in "(Basic realm=\"[a-z, ]{0,9}\", ?)?") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let line = format!("{before}Bearer resource_metadata=\"{quoted}\"");
            prop_assert_eq!(read(&[&line]).metadata, Some(value));
        }
    }
}

//! Requests for input: what a server may ask of a client during a call, what that needs, what an answer looks like
//! (R-03, R-23, M-34).

use super::object::{Object, ObjectError, Span, string};

/// One kind of request for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// `elicitation/create`: something of the user.
    Elicitation,
    /// `sampling/createMessage`: something of the model.
    Sampling,
    /// `roots/list`: the folders the client works in.
    Roots,
}

/// Capabilities that a client did not declare and would need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacks {
    elicitation: bool,
    form: bool,
    url: bool,
    sampling: bool,
    tools: bool,
    roots: bool,
}

impl Input {
    /// The kind with this method.
    pub fn parse(method: &str) -> Option<Self> {
        [Self::Elicitation, Self::Sampling, Self::Roots].into_iter().find(|kind| kind.method() == method)
    }

    /// Its method.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Whether these params are some that a client can be shown: an object, its keys readable, its mode a known one.
    pub fn is_request(self, params: Option<&str>) -> bool {
        let Some(text) = params else { return self == Self::Roots };
        let Ok(object) = whole(text) else { return false };
        self != Self::Elicitation || mode(text, &object).is_some()
    }

    /// What of `declared` (a client's capabilities) is missing for a request with these params.
    pub fn lacks(self, declared: &str, params: Option<&str>) -> Lacks {
        let mut lacks = Lacks::default();
        let declared = (declared, whole(declared).unwrap_or_default());
        let member = |key: &str| inside(declared.0, &declared.1, key);
        match self {
            Self::Roots => lacks.roots = member("roots").is_none(),
            Self::Sampling => match member("sampling") {
                None => lacks.sampling = true,
                Some(sampling) => {
                    let needs = params.and_then(|text| Some((text, whole(text).ok()?)));
                    let needs = needs.is_some_and(|(text, o)| matches!(o.get(text, "tools"), Ok(Some(_))));
                    lacks.tools = needs && inside(declared.0, &sampling, "tools").is_none();
                }
            },
            Self::Elicitation => {
                let url = params.and_then(|text| mode(text, &whole(text).ok()?)) == Some(Mode::Url);
                let elicitation = member("elicitation");
                let has = |key: &str| elicitation.as_ref().is_some_and(|e| has_key(declared.0, e, key));
                match (url, &elicitation) {
                    (true, _) => lacks.url = !has("url"),
                    (false, None) => lacks.elicitation = true,
                    // `{}` means forms (M-34).
                    (false, Some(_)) => lacks.form = has("url") && !has("form"),
                }
            }
        }
        lacks
    }

    /// Whether this is an answer of this kind, as far as its server could not go on with anything else (R-23).
    pub fn is_answer(self, raw: &str) -> bool {
        let Ok(object) = whole(raw) else { return false };
        let starts = |key: &str, with: &[u8]| {
            let value = object.get(raw, key).ok().flatten().and_then(|span| span.of(raw).bytes().next());
            value.is_some_and(|first| with.contains(&first))
        };
        match self {
            Self::Elicitation => {
                let action = object.get(raw, "action").ok().flatten().and_then(|span| string(span.of(raw)));
                matches!(action.as_deref(), Some("accept" | "decline" | "cancel"))
            }
            Self::Sampling => starts("role", b"\"") && starts("content", b"{["),
            Self::Roots => starts("roots", b"["),
        }
    }
}

impl Lacks {
    /// Whether anything is missing.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// What is missing for one or the other.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            elicitation: self.elicitation || other.elicitation,
            form: self.form || other.form,
            url: self.url || other.url,
            sampling: self.sampling || other.sampling,
            tools: self.tools || other.tools,
            roots: self.roots || other.roots,
        }
    }

    /// The missing ones as a `ClientCapabilities` object (M-35).
    pub fn to_json(self) -> String {
        let inner = |flags: &[(bool, &str)]| {
            let set: Vec<String> =
                flags.iter().filter(|(set, _)| *set).map(|(_, key)| format!("\"{key}\":{{}}")).collect();
            set.join(",")
        };
        let mut members = Vec::new();
        if self.elicitation || self.form || self.url {
            members.push(format!("\"elicitation\":{{{}}}", inner(&[(self.form, "form"), (self.url, "url")])));
        }
        if self.sampling || self.tools {
            members.push(format!("\"sampling\":{{{}}}", inner(&[(self.tools, "tools")])));
        }
        if self.roots {
            members.push("\"roots\":{}".to_owned());
        }
        format!("{{{}}}", members.join(","))
    }

    /// The same in a few words, for people.
    pub fn words(self) -> String {
        let all = [
            (self.elicitation || self.form, "Elicitation"),
            (self.url, "Elicitation (URL)"),
            (self.sampling, "Sampling"),
            (self.tools, "Sampling with tools"),
            (self.roots, "Roots"),
        ];
        let set: Vec<&str> = all.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
        set.join(", ")
    }
}

/// How an elicitation is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Form,
    Url,
}

/// `mode`; older revisions have forms only and do not name them.
fn mode(text: &str, params: &Object) -> Option<Mode> {
    match params.get(text, "mode").ok()? {
        None => Some(Mode::Form),
        Some(span) => match string(span.of(text)).as_deref() {
            Some("form") => Some(Mode::Form),
            Some("url") => Some(Mode::Url),
            _ => None,
        },
    }
}

fn whole(text: &str) -> Result<Object, ObjectError> {
    Object::parse(text, Span::new(0, text.len()))
}

/// A member that is an object.
fn inside(text: &str, object: &Object, key: &str) -> Option<Object> {
    Object::parse(text, object.get(text, key).ok()??).ok()
}

fn has_key(text: &str, object: &Object, key: &str) -> bool {
    inside(text, object, key).is_some()
}

#[cfg(test)]
mod tests {
    use super::Input::{Elicitation, Roots, Sampling};

    #[test]
    fn m_34_what_a_request_needs_and_was_not_declared() {
        let url = Some(r#"{"mode":"url"}"#);
        let form = Some(r#"{"message":"?"}"#);
        let tools = Some(r#"{"messages":[],"tools":[]}"#);
        for (kind, declared, params, missing) in [
            (Elicitation, r#"{"elicitation":{}}"#, form, "{}"),
            (Elicitation, r#"{"elicitation":{}}"#, Some(r#"{"mode":"form"}"#), "{}"),
            (Elicitation, r#"{"elicitation":{"form":{}}}"#, form, "{}"),
            (Elicitation, r#"{"elicitation":{"url":{}}}"#, form, r#"{"elicitation":{"form":{}}}"#),
            (Elicitation, r#"{"elicitation":{"form":{},"url":{}}}"#, form, "{}"),
            (Elicitation, r#"{"elicitation":true}"#, form, r#"{"elicitation":{}}"#),
            (Elicitation, "{}", form, r#"{"elicitation":{}}"#),
            (Elicitation, r#"{"elicitation":{}}"#, url, r#"{"elicitation":{"url":{}}}"#),
            (Elicitation, r#"{"elicitation":{"url":{}}}"#, url, "{}"),
            (Elicitation, "{}", url, r#"{"elicitation":{"url":{}}}"#),
            (Sampling, r#"{"sampling":{}}"#, Some("{}"), "{}"),
            (Sampling, r#"{"roots":{}}"#, Some("{}"), r#"{"sampling":{}}"#),
            (Sampling, r#"{"sampling":{}}"#, tools, r#"{"sampling":{"tools":{}}}"#),
            (Sampling, r#"{"sampling":{"tools":{}}}"#, tools, "{}"),
            (Roots, r#"{"roots":{}}"#, None, "{}"),
            (Roots, r#"{"r\u006fots":{"listChanged":true}}"#, None, "{}"),
            (Roots, "{}", None, r#"{"roots":{}}"#),
        ] {
            let lacks = kind.lacks(declared, params);
            assert_eq!(lacks.to_json(), missing, "{kind:?} {declared} {params:?}");
            assert_eq!(lacks.any(), missing != "{}");
        }
        let both = Roots.lacks("{}", None).and(Sampling.lacks("{}", tools));
        assert_eq!(both.to_json(), r#"{"sampling":{},"roots":{}}"#);
        assert_eq!(both.words(), "Sampling, Roots");
    }

    #[test]
    fn r_23_answers_by_their_shape() {
        for (kind, raw, fits) in [
            (Elicitation, r#"{"action":"accept","content":{"a":1}}"#, true),
            (Elicitation, r#"{"action":"decline"}"#, true),
            (Elicitation, r#"{"action":"\u0063ancel"}"#, true),
            (Elicitation, r#"{"action":"yes"}"#, false),
            (Elicitation, r#"{"content":{}}"#, false),
            (Elicitation, r#"{"action":"accept","action":"decline"}"#, false),
            (Elicitation, "null", false),
            (Elicitation, r#""accept""#, false),
            (Sampling, r#"{"role":"assistant","content":{"type":"text","text":""},"model":"m"}"#, true),
            (Sampling, r#"{"role":"assistant","content":[],"model":"m"}"#, true),
            (Sampling, r#"{"content":{}}"#, false),
            (Sampling, r#"{"role":"assistant","content":"x"}"#, false),
            (Roots, r#"{"roots":[]}"#, true),
            (Roots, r#"{"roots":{}}"#, false),
            (Roots, "[]", false),
        ] {
            assert_eq!(kind.is_answer(raw), fits, "{kind:?} {raw}");
        }
    }

    #[test]
    fn r_03_requests_that_can_be_shown() {
        for (kind, params, fits) in [
            (Roots, None, true),
            (Roots, Some("{}"), true),
            (Roots, Some("[]"), false),
            (Sampling, None, false),
            (Sampling, Some(r#"{"messages":[]}"#), true),
            (Elicitation, Some(r#"{"message":"?"}"#), true),
            (Elicitation, Some(r#"{"mode":"url"}"#), true),
            (Elicitation, Some(r#"{"mode":"voice"}"#), false),
            (Elicitation, Some(r#"{"mode":7}"#), false),
        ] {
            assert_eq!(kind.is_request(params), fits, "{kind:?} {params:?}");
        }
    }
}

//! Whose state at a server a request uses, and what that client can be asked for (G-49, R-34).

use std::sync::Arc;

use serde_json::Value;

use super::credentials::OnBehalf;

/// For whom a request is made. Requests without one are the gateway's own: they use its service context.
#[derive(Debug, Clone)]
pub struct Context {
    /// The authorization context: the caller's id, and where servers see each caller as himself whatever else of
    /// the caller's token may change what they show.
    pub principal: Arc<str>,
    /// The client's own legacy session, where it has one.
    pub session: Option<Arc<str>>,
    /// What its client can be asked for.
    pub asks: Asks,
    /// Who is presented, where servers see each caller as himself.
    pub on_behalf: Option<Arc<OnBehalf>>,
}

impl Context {
    /// Whether it brings the caller's own token.
    pub fn has_token(&self) -> bool {
        self.on_behalf.as_ref().is_some_and(|caller| caller.token.is_some())
    }
}

/// A capability fingerprint: what a legacy server may ask of us in a session, fixed at `initialize` (R-34).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Asks {
    /// Elicitation by form.
    pub form: bool,
    /// Elicitation by address.
    pub url: bool,
    /// Sampling.
    pub sampling: bool,
    /// Sampling with tools.
    pub sampling_tools: bool,
    /// Roots.
    pub roots: bool,
}

impl Asks {
    /// Nothing: what the gateway itself can be asked for.
    pub const NONE: Self =
        Self { form: false, url: false, sampling: false, sampling_tools: false, roots: false };

    /// What a client's `capabilities`, a JSON object, say. What makes no sense is not declared.
    pub fn read(declared: &str) -> Self {
        // Most clients declare nothing of it, and nothing is read for them.
        if !["elicitation", "sampling", "roots"].iter().any(|word| declared.contains(word)) {
            return Self::NONE;
        }
        let declared: Value = serde_json::from_str(declared).unwrap_or_default();
        let has = |value: Option<&Value>, key: &str| value.is_some_and(|value| value[key].is_object());
        let of = |key: &str| declared.get(key).filter(|value| value.is_object());
        let (elicitation, sampling) = (of("elicitation"), of("sampling"));
        let url = has(elicitation, "url");
        Self {
            // Without a mode it is the one there was before there were modes.
            form: elicitation.is_some() && (has(elicitation, "form") || !url),
            url,
            sampling: sampling.is_some(),
            sampling_tools: has(sampling, "tools"),
            roots: of("roots").is_some(),
        }
    }

    /// The `capabilities` of an `initialize` that declares exactly this.
    pub fn declaration(self) -> String {
        let elicitation = match (self.form, self.url) {
            // Understood by servers from before there were modes as well.
            (true, false) => Some("\"elicitation\":{}"),
            (true, true) => Some("\"elicitation\":{\"form\":{},\"url\":{}}"),
            (false, true) => Some("\"elicitation\":{\"url\":{}}"),
            (false, false) => None,
        };
        let sampling = match (self.sampling, self.sampling_tools) {
            (true, true) => Some("\"sampling\":{\"tools\":{}}"),
            (true, false) => Some("\"sampling\":{}"),
            (false, _) => None,
        };
        let roots = self.roots.then_some("\"roots\":{}");
        let members: Vec<&str> = [elicitation, sampling, roots].into_iter().flatten().collect();
        format!("{{{}}}", members.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::Asks;

    #[test]
    fn r_34_a_fingerprint_is_what_was_declared_and_is_declared_again() {
        let all = Asks { form: true, url: true, sampling: true, sampling_tools: true, roots: true };
        let form = Asks { form: true, ..Asks::NONE };
        let url = Asks { url: true, ..Asks::NONE };
        let sampling = Asks { sampling: true, ..Asks::NONE };
        for (declared, asks, again) in [
            ("{}", Asks::NONE, "{}"),
            (r#"{"experimental":{},"extensions":{"x":{}}}"#, Asks::NONE, "{}"),
            (r#"{"elicitation":{}}"#, form, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"form":{}}}"#, form, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"url":{}}}"#, url, r#"{"elicitation":{"url":{}}}"#),
            (r#"{"sampling":{"context":{}}}"#, sampling, r#"{"sampling":{}}"#),
            (
                r#"{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"url":{},"form":{}}}"#,
                all,
                r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}"#,
            ),
        ] {
            assert_eq!(Asks::read(declared), asks, "{declared}");
            assert_eq!(asks.declaration(), again, "{declared}");
            assert_eq!(Asks::read(again), asks, "{again}");
        }
    }

    #[test]
    fn r_34_what_makes_no_sense_is_not_declared() {
        for odd in [r#"{"elicitation":true,"sampling":[],"roots":null}"#, r#"["elicitation"]"#, r#"{"roots""#]
        {
            assert_eq!(Asks::read(odd), Asks::NONE, "{odd}");
        }
    }
}

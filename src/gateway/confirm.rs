//! What stands between an admitted call and its server: no secrets in arguments, and the user's own word where the
//! operator wants it (`tools.deny_arguments`, `tools.confirm`).
//!
//! The question is a form elicitation of the gateway's own, carried by a state of its own, sealed and bound to caller,
//! server, tool and arguments. Any replica with the keys serves the answer; a server's own rounds come after it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::digest::request_digest;
use super::record::Record;
use super::state::{EXPIRED, LIFE, now};
use super::view::Route;
use super::{Call, Gateway, GatewayError, Steps, leaves, relay, secrets};
use crate::protocol::code;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::envelope::{Envelope, Limits};
use crate::protocol::items::json_string;
use crate::protocol::message::RpcError;
use crate::protocol::meta::SERVER_INFO;
use crate::protocol::method::Method;
use crate::protocol::object::{Object, Span, string};
use crate::seal::Purpose;
use crate::telemetry::Outcome;

/// The key of the question among `inputRequests`.
const QUESTION: &str = "dev.gatehouse/confirm";
/// Values that a question shows, and characters of each.
const SHOWN: usize = 20;
const LONGEST: usize = 200;
/// Parts of names whose values a question does not show.
const HIDDEN: [&str; 7] = ["password", "passwd", "secret", "token", "credential", "apikey", "api_key"];

/// What becomes of a call.
pub(super) enum Gate {
    /// It goes on.
    Open,
    /// It goes on as this one: without the answer, which was for the gateway.
    Confirmed(Box<Call>),
    /// It ends here.
    Closed(Parts),
}

/// What the gateway asked, as it travels with the client.
#[derive(Serialize, Deserialize)]
struct Consent {
    server: String,
    principal: String,
    digest: String,
    /// Seconds since 1970.
    expires: u64,
}

impl Gateway {
    /// What becomes of a call that its grants allow. `sent`: the arguments as its server would get them.
    pub(super) fn gate(
        &self,
        call: &Call,
        route: &Route,
        sent: Option<&str>,
        record: &mut Record,
    ) -> Result<Gate, GatewayError> {
        let config = &route.shelf.server.config;
        if call.method != Method::ToolsCall {
            return Ok(Gate::Open);
        }
        if config.deny_secrets
            && let Some(place) = sent.and_then(secrets::place)
        {
            record.outcome(Outcome::Denied);
            let said = format!(
                "The argument `{place}` holds a secret (a token, a key or a password), which must not go to the server \
                 \"{}\". Leave it out.",
                config.name
            );
            return Ok(Gate::Closed(relay::tool_error(&said, call.snapshot.server_info.as_bytes())));
        }
        if call.steps.confirmed || !config.confirm.is_match(route.native()) {
            return Ok(Gate::Open);
        }
        self.consent(call, route, sent, record)
    }

    fn consent(
        &self,
        call: &Call,
        route: &Route,
        sent: Option<&str>,
        record: &mut Record,
    ) -> Result<Gate, GatewayError> {
        const REFUSED: GatewayError =
            GatewayError::InvalidParams("requestState is not valid for this request");
        let text = call.envelope.text();
        let Some(state) = call.envelope.param("requestState")? else {
            return self.ask(call, route, sent, record);
        };
        let token = string(state.of(text)).ok_or(REFUSED)?;
        let Some(plain) = self.sealer.open(Purpose::State, &scene(call), &token) else {
            // A state of the server's: it was given after the user's word, to this caller for this call. Whether it is
            // one is seen where it is opened, before anything is sent.
            return Ok(Gate::Open);
        };
        let consent: Consent = serde_json::from_slice(&plain).map_err(|_| REFUSED)?;
        let fits = consent.server == *route.shelf.server.name
            && consent.principal == *call.principal.id
            && consent.digest == digest(call, route)?;
        if !fits || consent.expires <= now() {
            return Err(if fits { EXPIRED } else { REFUSED });
        }
        match answer(call)?.as_deref() {
            Some("accept") => Ok(Gate::Confirmed(Box::new(without_answer(call)?))),
            Some(_) => {
                record.outcome(Outcome::Denied);
                let said = format!(
                    "The user did not confirm it, so the tool \"{}\" was not called. Do not repeat the call; ask what to do \
                     instead.",
                    route.exposed
                );
                Ok(Gate::Closed(relay::tool_error(&said, call.snapshot.server_info.as_bytes())))
            }
            None => self.ask(call, route, sent, record),
        }
    }

    fn ask(
        &self,
        call: &Call,
        route: &Route,
        sent: Option<&str>,
        record: &mut Record,
    ) -> Result<Gate, GatewayError> {
        if !takes_forms(&call.client.capabilities) {
            return Err(GatewayError::Capability(RpcError {
                code: code::MISSING_CAPABILITY,
                message: "The user has to confirm this call, and the client takes no questions".to_owned(),
                data: Some("{\"requiredCapabilities\":{\"elicitation\":{\"form\":{}}}}".to_owned()),
            }));
        }
        let consent = Consent {
            server: route.shelf.server.name.to_string(),
            principal: call.principal.id.to_string(),
            digest: digest(call, route)?,
            expires: now() + LIFE.as_secs(),
        };
        let plain = serde_json::to_vec(&consent).map_err(|_| GatewayError::Internal("state"))?;
        let state = self.sealer.seal(Purpose::State, &scene(call), &plain);
        let message = question(route, sent);
        let mut parts = Parts::new();
        parts.push(format!(
            "{{\"resultType\":\"input_required\",\"inputRequests\":{{\"{QUESTION}\":{{\"method\":\"elicitation/create\",\
             \"params\":{{\"mode\":\"form\",\"message\":{},\"requestedSchema\":{{\"type\":\"object\",\"properties\":{{}}}}\
             }}}}}},\"requestState\":{},\"_meta\":{{\"{SERVER_INFO}\":",
            json_string(&message),
            json_string(&state)
        ));
        parts.push(call.snapshot.server_info.as_bytes().clone());
        parts.push(Bytes::from_static(b"}}"));
        record.outcome(Outcome::InputRequired);
        Ok(Gate::Closed(parts))
    }
}

/// What consents are sealed for: a server's state can never be taken for one, nor one for a server's state.
fn scene(call: &Call) -> String {
    format!("{} confirm", call.endpoint.config.path)
}

fn arguments(call: &Call) -> Result<Option<&str>, GatewayError> {
    Ok(call.envelope.param("arguments")?.map(|span| span.of(call.envelope.text())))
}

fn digest(call: &Call, route: &Route) -> Result<String, GatewayError> {
    Ok(STANDARD.encode(request_digest(call.method.as_str(), &route.exposed, arguments(call)?)))
}

/// `elicitation` with nothing in it means forms; else `form` has to be there (R-20).
fn takes_forms(capabilities: &str) -> bool {
    let whole = Span::new(0, capabilities.len());
    let elicitation =
        Object::parse(capabilities, whole).ok().and_then(|all| all.get(capabilities, "elicitation").ok()?);
    let Some(Ok(modes)) = elicitation.map(|span| Object::parse(capabilities, span)) else { return false };
    modes.members.is_empty() || matches!(modes.get(capabilities, "form"), Ok(Some(_)))
}

/// The user's answer, if it is there.
fn answer(call: &Call) -> Result<Option<String>, GatewayError> {
    let text = call.envelope.text();
    let Some(answers) = call.envelope.param("inputResponses")? else { return Ok(None) };
    let Some(ours) = Object::parse(text, answers)?.get(text, QUESTION)? else { return Ok(None) };
    let action = Object::parse(text, ours)?.get(text, "action")?;
    Ok(action.and_then(|span| string(span.of(text)).map(std::borrow::Cow::into_owned)))
}

/// The call without the answer and its state: its server knows nothing of them.
fn without_answer(call: &Call) -> Result<Call, GatewayError> {
    let text = call.envelope.text();
    let params = call.envelope.params.as_ref().ok_or(GatewayError::InvalidParams("params are missing"))?;
    let mut positions = Vec::new();
    for key in ["requestState", "inputResponses"] {
        positions.extend(params.position(text, key)?);
    }
    positions.sort_unstable();
    let mut edits = Edits::new();
    edits.remove(params, &positions);
    let body = call.envelope.body();
    let body = edits.apply(body, Span::new(0, body.len())).to_bytes();
    let gateway = &call.snapshot.config.gateway;
    let limits = Limits { max_depth: gateway.max_depth, max_elements: gateway.max_input_elements };
    // It is a part of what was read already.
    let envelope =
        Envelope::parse(body, limits).map_err(|_| GatewayError::Internal("the call cannot be read again"))?;
    let steps = Steps { confirmed: true, ..call.steps };
    Ok(Call { envelope, steps, ..call.clone() })
}

/// What the user is asked.
fn question(route: &Route, arguments: Option<&str>) -> String {
    let mut text =
        format!("Call the tool \"{}\" of the server \"{}\"?", route.native(), route.shelf.server.name);
    let mut count = 0;
    leaves::each(arguments.unwrap_or("{}"), &mut |path, value| {
        count += 1;
        if count <= SHOWN {
            let _ = write!(text, "\n{path}: {}", shown(path, value));
        }
        true
    });
    if let Some(more) = count.checked_sub(SHOWN).filter(|more| *more > 0) {
        let values = if more == 1 { "value" } else { "values" };
        let _ = write!(text, "\n… and {more} more {values} that are not shown");
    }
    text
}

fn shown(path: &str, value: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or_default().to_lowercase().replace('-', "_");
    if HIDDEN.iter().any(|part| name.contains(part)) || secrets::is_secret(value) {
        return "•••".to_owned();
    }
    let mut text: String = value.chars().take(LONGEST).map(leaves::harmless).collect();
    let more = value.chars().skip(LONGEST).count();
    if more > 0 {
        let characters = if more == 1 { "character" } else { "characters" };
        let _ = write!(text, "… ({more} more {characters})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{shown, takes_forms};

    #[test]
    fn r_20_forms_are_taken_where_they_are_declared() {
        for yes in [
            r#"{"elicitation":{}}"#,
            r#"{"elicitation":{"form":{}}}"#,
            r#"{"elicitation":{"url":{},"form":{}}}"#,
        ] {
            assert!(takes_forms(yes), "{yes}");
        }
        for no in
            ["{}", r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":true}"#, r#"{"sampling":{}}"#, "x"]
        {
            assert!(!takes_forms(no), "{no}");
        }
    }

    #[test]
    fn a_question_shows_values_and_no_secrets() {
        assert_eq!(shown("a.path", "/etc"), "/etc");
        assert_eq!(shown("a.api-key", "1"), "•••");
        assert_eq!(shown("newPassword", "1"), "•••");
        assert_eq!(shown("x", &format!("see ghp_{}", "aB3".repeat(12))), "•••");
        assert_eq!(shown("x", "a\nb\u{202e}"), "a·b·");
        assert_eq!(shown("x", &"é".repeat(200)), "é".repeat(200));
        assert_eq!(shown("x", &"é".repeat(201)), format!("{}… (1 more character)", "é".repeat(200)));
        assert_eq!(shown("x", &"é".repeat(5200)), format!("{}… (5000 more characters)", "é".repeat(200)));
    }
}

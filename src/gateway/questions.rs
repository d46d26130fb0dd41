//! Questions of a legacy server as a modern client is asked them: `input_required` (R-30, R-38, R-39).

use std::fmt::Write as _;

use bytestring::ByteString;

use super::GatewayError;
use super::parked::{Round, Ticket};
use super::relay::Relay;
use crate::protocol::code;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::input::{Input, Lacks};
use crate::protocol::message::RpcError;
use crate::protocol::meta::{PROGRESS_TOKEN, RELATED_TASK, SERVER_INFO};
use crate::protocol::object::{Object, Span, array};

impl Relay<'_> {
    /// The reply that asks the questions of a round.
    pub(super) fn asks(&self, round: &Round, ticket: Ticket) -> Result<Parts, GatewayError> {
        let mut requests = Parts::new();
        for question in &round.questions {
            let comma = if requests.is_empty() { "" } else { "," };
            let (key, method) = (&question.key, question.input.method());
            requests.push(format!("{comma}\"{key}\":{{\"method\":\"{method}\""));
            if let Some(params) = &question.params {
                requests.push(",\"params\":");
                requests.extend(shown(params));
            }
            requests.push("}");
        }
        let state = self.bound.seal_parked(self.sealer, ticket, round.until)?;
        Ok(self.input_required(requests, &state))
    }

    /// -32042 of 2025-11-25: the user must visit addresses first, then the call is made again. Nothing is kept (R-38).
    pub(super) fn url_required(&self, error: &RpcError) -> Result<Parts, GatewayError> {
        const MALFORMED: GatewayError = GatewayError::Internal("the server's answer is malformed");
        if !self.call.method.may_ask() {
            return Err(GatewayError::Internal("the server's answer does not fit this hop"));
        }
        let text = error.data.as_deref().ok_or(MALFORMED)?;
        let data = Object::parse(text, Span::new(0, text.len())).map_err(|_| MALFORMED)?;
        let list = data.get(text, "elicitations").ok().flatten().ok_or(MALFORMED)?;
        let mut requests = String::new();
        for (at, span) in array(text, list).map_err(|_| MALFORMED)?.into_iter().enumerate() {
            let one = Object::parse(text, span).map_err(|_| MALFORMED)?;
            let member = |key: &str| {
                let raw = one.get(text, key).ok().flatten().map(|span| span.of(text));
                raw.filter(|raw| raw.starts_with('"')).ok_or(MALFORMED)
            };
            let (message, url) = (member("message")?, member("url")?);
            let comma = if at == 0 { "" } else { "," };
            // A string takes whatever is written to it.
            let _ = write!(
                requests,
                "{comma}\"q{}\":{{\"method\":\"elicitation/create\",\"params\":{{\"mode\":\"url\",\"message\":{message},\"url\":{url}}}}}",
                at + 1
            );
        }
        if requests.is_empty() {
            return Err(MALFORMED);
        }
        let lacks = Input::Elicitation.lacks(&self.call.client.capabilities, Some("{\"mode\":\"url\"}"));
        if lacks.any() {
            return Err(lacking(lacks));
        }
        let state = self.bound.seal(self.sealer, None)?;
        Ok(self.input_required(requests.into(), &state))
    }

    fn input_required(&self, requests: Parts, state: &str) -> Parts {
        let mut parts = Parts::new();
        parts.push("{\"resultType\":\"input_required\",");
        if !requests.is_empty() {
            parts.push("\"inputRequests\":{");
            parts.extend(requests);
            parts.push("},");
        }
        parts.push(format!("\"requestState\":{state},\"_meta\":{{\"{SERVER_INFO}\":"));
        parts.push(self.call.snapshot.server_info.as_bytes().clone());
        parts.push("}}");
        parts
    }
}

/// -32021: what this client would have to declare (R-34, M-35).
pub(super) fn lacking(lacks: Lacks) -> GatewayError {
    GatewayError::Capability(RpcError {
        code: code::MISSING_CAPABILITY,
        message: format!("Required of the client and not declared: {}", lacks.words()),
        data: Some(format!("{{\"requiredCapabilities\":{}}}", lacks.to_json())),
    })
}

/// The params of a question, byte for byte, but for what is the other hop's own: the id under which a visit is told of,
/// a token for progress, tasks (R-39, R-64, G-80).
fn shown(params: &ByteString) -> Parts {
    let text = &**params;
    let whole = Span::new(0, text.len());
    let Ok(object) = Object::parse(text, whole) else { return params.as_bytes().clone().into() };
    let mut edits = Edits::new();
    let at = |object: &Object, keys: &[&str]| -> Vec<usize> {
        (0..object.members.len()).filter(|at| keys.contains(&object.members[*at].name(text))).collect()
    };
    edits.remove(&object, &at(&object, &["elicitationId", "task"]));
    if let Ok(Some(span)) = object.get(text, "_meta")
        && let Ok(meta) = Object::parse(text, span)
    {
        edits.remove(&meta, &at(&meta, &[PROGRESS_TOKEN, RELATED_TASK]));
    }
    edits.apply(params.as_bytes(), whole)
}

#[cfg(test)]
mod tests {
    use super::shown;

    fn seen(params: &str) -> String {
        String::from_utf8(shown(&params.into()).to_bytes().to_vec()).unwrap()
    }

    #[test]
    fn r_30_params_travel_byte_for_byte() {
        for params in [
            r#"{ "message":"\u00e4 ?" , "requestedSchema":{"type":"object","n":1.0} }"#,
            r#"{"_meta":{"com.example/k":[1, null]},"messages":[]}"#,
            "{}",
        ] {
            assert_eq!(seen(params), params);
        }
    }

    #[test]
    fn r_39_what_is_the_other_hops_own_is_left_out() {
        assert_eq!(
            seen(r#"{"mode":"url","elicitationId":"e-1","message":"?","url":"https://x.example/"}"#),
            r#"{"mode":"url","message":"?","url":"https://x.example/"}"#
        );
        assert_eq!(
            seen(
                r#"{"_meta":{"progressToken":7,"a":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}},"task":{"ttl":1}}"#
            ),
            r#"{"_meta":{"a":1}}"#
        );
        assert_eq!(seen(r#"{"_meta":{"progressToken":7},"m":1}"#), r#"{"_meta":{},"m":1}"#);
    }
}

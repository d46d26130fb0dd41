//! What comes back from a server, on its way to the client: hop members replaced by splices, the rest as it is.

use bytes::Bytes;
use bytestring::ByteString;

use super::added::Added;
use super::converse::outcome_of;
use super::state::Bound;
use super::tasks::{TaskSeal, declares, exposed_id};
use super::{Call, GatewayError};
use crate::catalogue::hints::{Hints, Scope};
use crate::config::Server as ServerConfig;
use crate::protocol::code;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::items::json_string;
use crate::protocol::message::{self, Received, RpcError};
use crate::protocol::meta::{RELATED_TASK, SERVER_INFO, TASKS, level_rank};
use crate::protocol::method::Method;
use crate::protocol::object::{Object, ObjectError, Span, array, string};
use crate::seal::Sealer;
use crate::telemetry::Outcome;

/// Between one call and its server.
pub(super) struct Relay<'a> {
    pub(super) call: &'a Call,
    pub(super) bound: &'a Bound<'a>,
    pub(super) sealer: &'a Sealer,
    pub(super) native: &'a str,
    /// For ids of tasks.
    pub(super) tasks: TaskSeal<'a>,
    /// Hints of a read that was kept, instead of those in it.
    pub(super) kept: Option<Hints>,
}

/// A result on its way to the client.
pub(super) struct Relayed {
    pub(super) parts: Parts,
    pub(super) outcome: Outcome,
    /// Complete reads: how long and for whom they hold.
    pub(super) hints: Option<Hints>,
}

impl Relay<'_> {
    /// Progress under the client's own token, strictly increasing (M-50, M-51).
    pub(super) fn progress(
        &self,
        message: &Received,
        params: &Object,
        last: &mut Option<f64>,
    ) -> Option<Parts> {
        let token = self.call.client.progress_token.clone()?;
        let text = message.text();
        let ours = params.get(text, "progressToken").ok()??;
        let progress: f64 = params.get(text, "progress").ok()??.of(text).parse().ok()?;
        if last.is_some_and(|last| progress <= last) {
            return None;
        }
        *last = Some(progress);
        let mut edits = Edits::new();
        edits.replace(ours, token);
        let params = edits.apply(message.body.as_bytes(), params.span);
        Some(message::request(None, "notifications/progress", params))
    }

    /// A log message at or above the level asked for, its logger prefixed (M-60, M-63).
    pub(super) fn log(&self, message: &Received, params: &Object) -> Option<Parts> {
        let wanted = self.call.client.hears?;
        let text = message.text();
        let level = params.get(text, "level").ok()?.and_then(|span| string(span.of(text)))?;
        if level_rank(&level)? < wanted {
            return None;
        }
        let mut edits = Edits::new();
        if self.call.endpoint.config.prefix {
            let server = &*self.bound.server.name;
            match params.get(text, "logger").ok()? {
                Some(span) => {
                    let logger = string(span.of(text)).unwrap_or_default();
                    edits.replace(span, json_string(&format!("{server}/{logger}")));
                }
                None => edits.append(params, format!("\"logger\":{}", json_string(server))),
            }
        }
        let params = edits.apply(message.body.as_bytes(), params.span);
        Some(message::request(None, "notifications/message", params))
    }

    /// The result for a modern client: `resultType` there, `serverInfo` ours, state sealed (M-10, M-22, R-26).
    /// `object`: the result's members, if they were read already.
    pub(super) fn result(
        &self,
        body: &ByteString,
        span: Span,
        object: Option<Object>,
    ) -> Result<Relayed, GatewayError> {
        const MALFORMED: GatewayError = GatewayError::Internal("the server's result is malformed");
        let text = &**body;
        let object = match object {
            Some(object) => object,
            None => Object::parse(text, span).map_err(|_| MALFORMED)?,
        };
        let get = |key: &str| object.get(text, key).map_err(|_| MALFORMED);
        let mut edits = Edits::new();
        let mut added = Added::default();
        let mut hints = None;
        let mut task = self.call.method.is_task();
        let result_type = get("resultType")?.map(|span| string(span.of(text)).ok_or(MALFORMED));
        let asks = match result_type.transpose()?.as_deref() {
            None => {
                added.member("resultType", "\"complete\"");
                false
            }
            Some("complete") => false,
            Some("input_required") if self.call.method.may_ask() => true,
            Some("task")
                if self.call.method == Method::ToolsCall
                    && declares(&self.call.client.capabilities, TASKS) =>
            {
                task = true;
                false
            }
            Some(other) => {
                // No extension that we declare could have sent it (M-12).
                tracing::warn!(server = %self.bound.server.name, result_type = other, "unknown resultType");
                return Err(MALFORMED);
            }
        };
        if asks {
            let state = get("requestState")?;
            if state.is_none() && get("inputRequests")?.is_none() {
                return Err(MALFORMED);
            }
            let sealed = self.bound.seal(self.sealer, state.map(|span| span.of(text)))?;
            match state {
                Some(span) => edits.replace(span, sealed),
                None => added.member("requestState", &sealed),
            }
        } else if self.call.method == Method::ResourcesRead {
            hints = Some(self.hint(text, &object, &mut edits, &mut added).map_err(|_| MALFORMED)?);
        } else if self.call.method == Method::Complete {
            cap_values(text, &object, &mut edits);
        }
        if task && let Some(span) = get("taskId")? {
            let native = string(span.of(text)).ok_or(MALFORMED)?;
            edits.replace(span, exposed_id(self.tasks, self.bound, self.native, &native));
        } else if task && !self.call.method.is_task() {
            return Err(MALFORMED);
        }
        self.identify(text, &object, &mut edits, &mut added).map_err(|_| MALFORMED)?;
        if !added.is_empty() {
            edits.append(&object, added.into_text());
        }
        let is_error = get("isError")?.is_some_and(|span| span.of(text) == "true");
        let parts = edits.apply(body.as_bytes(), object.span);
        Ok(Relayed { parts, outcome: outcome_of(asks, is_error), hints })
    }

    /// Our `serverInfo` in place of the server's; what ties it to a task of 2025-11-25 goes, foreign keys stay (M-22,
    /// M-23, G-80).
    fn identify(
        &self,
        text: &str,
        object: &Object,
        edits: &mut Edits,
        added: &mut Added,
    ) -> Result<(), ObjectError> {
        let info = &self.call.snapshot.server_info;
        let Some(span) = object.get(text, "_meta")? else {
            added.object("_meta", SERVER_INFO, info);
            return Ok(());
        };
        let member = || format!("\"{SERVER_INFO}\":{info}");
        match Object::parse(text, span) {
            Ok(meta) => {
                let task = meta.position(text, RELATED_TASK)?;
                match meta.get(text, SERVER_INFO)? {
                    // Nothing of it is left.
                    None if task.is_some() && meta.members.len() == 1 => {
                        edits.replace(span, format!("{{{}}}", member()));
                        return Ok(());
                    }
                    Some(theirs) => edits.replace(theirs, info.as_bytes().clone()),
                    None => edits.append(&meta, member()),
                }
                edits.remove(&meta, task.as_slice());
            }
            Err(ObjectError::NotObject) => edits.replace(span, format!("{{{}}}", member())),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// `ttlMs` and `cacheScope` of a read: the server's own where they make sense, the operator's word where
    /// it gave none; nothing for an answer to a retry (L-10, L-12, L-44).
    fn hint(
        &self,
        text: &str,
        object: &Object,
        edits: &mut Edits,
        added: &mut Added,
    ) -> Result<Hints, ObjectError> {
        let server = self.bound.server;
        let (ttl, scope) = (object.get(text, "ttlMs")?, object.get(text, "cacheScope")?);
        let hints = if let Some(kept) = self.kept {
            kept
        } else if is_retry(self.call) {
            Hints::NONE
        } else {
            let scope_text = scope.map(|span| string(span.of(text)).unwrap_or_default());
            let fallback = server.fallback_hints();
            let max_ttl = self.call.snapshot.config.gateway.max_ttl;
            let fallback = Hints { ttl: fallback.0, scope: fallback_scope(fallback.1) };
            Hints::read(ttl.map(|span| span.of(text)), scope_text.as_deref(), fallback, max_ttl)
        };
        // Where grants decide, what one caller reads is not for the next (L-41); we keep it for those who may. What was
        // read as one caller is that caller's, whatever the server says of others.
        let alike = self.call.rights.is_open() && !server.credentials.is_per_user();
        let told = if alike { hints.scope } else { Scope::Private };
        let values =
            [("ttlMs", ttl, hints.ttl_ms().to_string()), ("cacheScope", scope, json_string(told.as_str()))];
        for (key, span, value) in values {
            match span {
                Some(span) => edits.replace(span, value),
                None => added.member(key, &value),
            }
        }
        Ok(hints)
    }

    /// A server's JSON-RPC error for the client (M-36, M-37, M-42, M-44, M-45).
    pub(super) fn error(&self, mut error: RpcError, server: &ServerConfig) -> GatewayError {
        match error.code {
            code::MISSING_CAPABILITY => {
                if declared_already(&self.call.client.capabilities, error.data.as_deref()) {
                    tracing::warn!(server = %server.name, "a declared capability was not relayed");
                    return GatewayError::Internal("a capability could not be relayed to the server");
                }
                GatewayError::Capability(error)
            }
            code::LEGACY_RESOURCE_NOT_FOUND if self.call.method == Method::ResourcesRead => {
                GatewayError::UnknownResource(self.bound.name.to_owned())
            }
            code::METHOD_NOT_FOUND => GatewayError::Internal("the server does not know this method"),
            code::INTERNAL_ERROR | code::PARSE_ERROR | code::INVALID_REQUEST if !server.expose_errors => {
                tracing::info!(server = %server.name, code = error.code, "internal error of a server");
                GatewayError::Relayed(RpcError {
                    code: code::INTERNAL_ERROR,
                    message: format!("The server \"{}\" reported an internal error.", server.name),
                    data: None,
                })
            }
            // It could not read what we sent: towards the client this would be about what the client sent.
            code::PARSE_ERROR => {
                error.code = code::INTERNAL_ERROR;
                GatewayError::Relayed(error)
            }
            // Codes that would say something about our own hop.
            code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION | code::LEGACY_URL_ELICITATION => {
                GatewayError::Internal("the server's answer does not fit this hop")
            }
            _ => {
                error.message = renamed(&error.message, self.native, self.bound.name);
                GatewayError::Relayed(error)
            }
        }
    }
}

/// Values a completion may have (M-84).
const MOST_VALUES: usize = 100;

/// Leaves the first values of a completion, and says that there are more; what is malformed stays as it is.
fn cap_values(text: &str, result: &Object, edits: &mut Edits) {
    let Ok(Some(completion)) = result.get(text, "completion") else { return };
    let Ok(completion) = Object::parse(text, completion) else { return };
    let Ok(Some(values)) = completion.get(text, "values") else { return };
    let values = array(text, values).unwrap_or_default();
    let (Some(kept), Some(last)) =
        (values.get(MOST_VALUES - 1), values.get(MOST_VALUES..).and_then(<[_]>::last))
    else {
        return;
    };
    edits.replace(Span { start: kept.end, end: last.end }, Bytes::new());
    match completion.get(text, "hasMore") {
        Ok(Some(span)) => edits.replace(span, "true"),
        _ => edits.append(&completion, "\"hasMore\":true"),
    }
}

/// A server's text with its own name of the item replaced by the one the client knows (M-44): where it stands
/// alone, never as a part of another word.
fn renamed(text: &str, native: &str, exposed: &str) -> String {
    if native == exposed || native.is_empty() {
        return text.to_owned();
    }
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(native) {
        let end = at + native.len();
        let before = text[..at].chars().next_back().is_some_and(in_name);
        // A full stop ends a sentence more often than it goes on with a name.
        let after = text[end..].trim_start_matches('.').chars().next().is_some_and(in_name);
        if !before && !after {
            out.push_str(&text[done..at]);
            out.push_str(exposed);
            done = end;
        }
    }
    out.push_str(&text[done..]);
    out
}

const fn fallback_scope(public: bool) -> Scope {
    if public { Scope::Public } else { Scope::Private }
}

pub(super) fn is_retry(call: &Call) -> bool {
    let has = |key: &str| call.envelope.param(key).is_ok_and(|found| found.is_some());
    has("inputResponses") || has("requestState")
}

/// Whether everything `requiredCapabilities` names was declared by the client already (M-37).
fn declared_already(declared: &str, data: Option<&str>) -> bool {
    use serde_json::Value;
    fn covers(declared: &Value, required: &Value) -> bool {
        match required.as_object() {
            Some(wanted) => {
                wanted.iter().all(|(key, value)| declared.get(key).is_some_and(|d| covers(d, value)))
            }
            None => true,
        }
    }
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let required = data.and_then(read).and_then(|d| d.get("requiredCapabilities").cloned());
    match (read(declared), required) {
        (Some(declared), Some(Value::Object(required))) if !required.is_empty() => {
            covers(&declared, &Value::Object(required))
        }
        _ => false,
    }
}

/// A tool result that says what went wrong on the way (design §6).
pub(super) fn tool_error(sentence: &str, server_info: &Bytes) -> Parts {
    let mut parts = Parts::new();
    parts.push(format!(
        "{{\"resultType\":\"complete\",\"isError\":true,\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"_meta\":{{\"{SERVER_INFO}\":",
        json_string(sentence)
    ));
    parts.push(server_info.clone());
    parts.push(Bytes::from_static(b"}}"));
    parts
}

/// The answer for a server that completes nothing.
pub(super) fn no_completion(server_info: &Bytes) -> Parts {
    let mut parts = Parts::new();
    parts.push(format!(
        "{{\"resultType\":\"complete\",\"completion\":{{\"values\":[]}},\"_meta\":{{\"{SERVER_INFO}\":"
    ));
    parts.push(server_info.clone());
    parts.push(Bytes::from_static(b"}}"));
    parts
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn m_44_a_native_name_is_replaced_where_it_stands_alone() {
        let known = |text| renamed(text, "t", "s_t");
        assert_eq!(known("t failed: \"t\" (t), t."), "s_t failed: \"s_t\" (s_t), s_t.");
        for other in ["what went wrong", "t_1", "a-t", "x.t", "t.x", "/t", "ät"] {
            assert_eq!(known(other), other);
        }
        assert_eq!(renamed("no tool a b", "a b", "s_a_b"), "no tool s_a_b");
        assert_eq!(renamed("x", "", "s_"), "x");
    }
}

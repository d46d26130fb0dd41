//! The tasks extension: `tasks/get`, `tasks/update`, `tasks/cancel` under ids that say which server's task it
//! is and whose, so that any replica can route them (R-60..R-63, M-91).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::invoke::{Errand, text_param};
use super::record::Record;
use super::state::Bound;
use super::{Call, Gateway, GatewayError, Outlet};
use crate::catalogue::Shelf;
use crate::outbound::Request;
use crate::policy::Decision;
use crate::protocol::code;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::items::json_string;
use crate::protocol::message::RpcError;
use crate::protocol::meta::TASKS;
use crate::protocol::method::Kind;
use crate::seal::{Purpose, Sealer};

/// Whose task an id is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskId {
    pub(super) server: String,
    principal: String,
    pub(super) native: String,
    /// The native name of the tool that made it: who may not use that any more, may not see its task.
    pub(super) tool: String,
}

/// Where task ids are sealed and opened: for one principal at one endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskSeal<'a> {
    pub(super) sealer: &'a Sealer,
    pub(super) path: &'a str,
    pub(super) principal: &'a str,
}

impl TaskSeal<'_> {
    /// The id that clients see.
    pub(super) fn seal(&self, server: &str, tool: &str, native: &str) -> String {
        let id = TaskId {
            server: server.to_owned(),
            principal: self.principal.to_owned(),
            native: native.to_owned(),
            tool: tool.to_owned(),
        };
        // Plain data of our own: it can always be written.
        let plain = serde_json::to_vec(&id).unwrap_or_default();
        self.sealer.seal(Purpose::Task, self.path, &plain)
    }

    /// What an id means, if it is this principal's.
    pub(super) fn open(&self, token: &str) -> Option<TaskId> {
        let plain = self.sealer.open(Purpose::Task, self.path, token)?;
        let id: TaskId = serde_json::from_slice(&plain).ok()?;
        (id.principal == self.principal).then_some(id)
    }
}

impl Gateway {
    pub(super) async fn task(
        &self,
        call: &Call,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        if !offers_tasks(call) {
            return Err(GatewayError::UnknownMethod);
        }
        if !declares(&call.client.capabilities, TASKS) {
            return Err(undeclared());
        }
        let (span, token) = text_param(call, "taskId")?;
        let (shelf, id) = self.task_of(call, &token).ok_or(GatewayError::UnknownItem("task"))?;
        let server = &shelf.server;
        record.routed(&server.name, None);
        let decision = call.rights.decide(&call.snapshot.policy.givers(&server.name, Kind::Tools, &id.tool));
        if decision == Decision::Hidden {
            // The tool is this caller's no more.
            record.concealed(&server.name, None);
            return Err(GatewayError::UnknownItem("task"));
        }
        self.admit(call, decision, outlet, record)?;
        let mut edits = Edits::new();
        edits.replace(span, json_string(&id.native));
        let bound = Bound { call, server: &server.config, name: &token, arguments: None };
        let mut request = self.request(call, edits, &bound)?;
        // The answers belong to the task, not to a retry: they travel as they are (R-62).
        request.retry.answers_at = None;
        request.name = Request::name_value(&id.native);
        let errand = Errand::new(server, &id.native, request);
        self.count(call, &errand, None, record).await?;
        self.converse(errand, &bound, outlet, record).await
    }

    /// The server of a task id of this caller, if it is part of this endpoint.
    pub(super) fn task_of(&self, call: &Call, token: &str) -> Option<(Arc<Shelf>, TaskId)> {
        let id = self.task_seal(call).open(token)?;
        let shelf = call.members().iter().find(|shelf| *shelf.server.name == *id.server)?;
        Some((Arc::clone(shelf), id))
    }

    pub(super) fn task_seal<'a>(&'a self, call: &'a Call) -> TaskSeal<'a> {
        TaskSeal { sealer: &self.sealer, path: &call.endpoint.config.path, principal: &call.principal.id }
    }
}

/// Whether some server of which this caller has tools offers tasks.
pub(super) fn offers_tasks(call: &Call) -> bool {
    let seen = call.seen(&[Kind::Tools]).filter(|(_, sees)| *sees);
    let known: Vec<_> = seen.filter_map(|(shelf, _)| shelf.known_peer()).collect();
    known.into_iter().any(|peer| peer.offer.extension(TASKS).is_some())
}

/// Whether a client declared an extension with this request.
pub(super) fn declares(capabilities: &str, extension: &str) -> bool {
    if !capabilities.contains("extensions") {
        return false;
    }
    let value: serde_json::Value = serde_json::from_str(capabilities).unwrap_or_default();
    value.get("extensions").and_then(|e| e.get(extension)).is_some_and(serde_json::Value::is_object)
}

/// -32021: the tasks extension was not declared (R-60, S-12).
pub(super) fn undeclared() -> GatewayError {
    GatewayError::Capability(RpcError {
        code: code::MISSING_CAPABILITY,
        message: "The tasks extension is required".to_owned(),
        data: Some(format!("{{\"requiredCapabilities\":{{\"extensions\":{{\"{TASKS}\":{{}}}}}}}}")),
    })
}

/// The id of a result that is, or tells of, a task: as the client shall see it.
pub(super) fn exposed_id(seal: TaskSeal<'_>, bound: &Bound<'_>, tool: &str, native: &str) -> String {
    let server = &bound.server.name;
    json_string(&match seal.open(bound.name) {
        // An answer about a task the client named: under the name it used.
        Some(id) if id.native == native => bound.name.to_owned(),
        Some(id) => seal.seal(server, &id.tool, native),
        None => seal.seal(server, tool, native),
    })
}

#[cfg(test)]
mod tests {
    use super::{TaskSeal, declares};
    use crate::protocol::meta::TASKS;
    use crate::seal::Sealer;

    #[test]
    fn r_61_ids_are_bound_to_principal_and_endpoint() {
        let sealer = Sealer::random();
        let seal = |path, principal| TaskSeal { sealer: &sealer, path, principal };
        let token = seal("/mcp", "alice").seal("crm", "export", "t-1");
        let id = seal("/mcp", "alice").open(&token).unwrap();
        assert_eq!((&*id.server, &*id.tool, &*id.native), ("crm", "export", "t-1"));
        assert_eq!(seal("/mcp", "bob").open(&token), None);
        assert_eq!(seal("/other", "alice").open(&token), None);
        assert_eq!(seal("/mcp", "alice").open("t-1"), None);
        assert!(token.bytes().all(|b| b.is_ascii_graphic()), "it travels in Mcp-Name as it is");
    }

    #[test]
    fn r_60_declared_means_an_object_under_extensions() {
        assert!(declares(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#, TASKS));
        for not in [
            "{}",
            r#"{"io.modelcontextprotocol/tasks":{}}"#,
            r#"{"extensions":{}}"#,
            r#"{"extensions":{"io.modelcontextprotocol/tasks":true}}"#,
        ] {
            assert!(!declares(not, TASKS), "{not}");
        }
    }
}

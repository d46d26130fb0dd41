//! What a client asks to be told of: the filter of `subscriptions/listen` (S-01).

use crate::gateway::{Call, GatewayError};
use crate::protocol::code;
use crate::protocol::message::RpcError;
use crate::protocol::method::Kind;
use crate::protocol::object::{Object, Span, array, string};

/// Resources one stream may watch (S-42).
const MOST_URIS: usize = 256;
/// The tasks extension: watching tasks needs it declared (S-12).
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The parsed filter (S-01).
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) lists: Vec<Kind>,
    pub(super) uris: Vec<String>,
    tasks: bool,
}

impl Wanted {
    /// Reads the filter of a request.
    pub(super) fn read(call: &Call) -> Result<Self, GatewayError> {
        let wanted = wanted(call)?;
        if wanted.tasks && !declares_tasks(&call.client.capabilities) {
            return Err(GatewayError::Capability(RpcError {
                code: code::MISSING_CAPABILITY,
                message: "Watching tasks needs the tasks extension".to_owned(),
                data: Some(format!("{{\"requiredCapabilities\":{{\"extensions\":{{\"{TASKS}\":{{}}}}}}}}")),
            }));
        }
        Ok(wanted)
    }
}

fn wanted(call: &Call) -> Result<Wanted, GatewayError> {
    const MISSING: GatewayError = GatewayError::InvalidParams("params.notifications must be an object");
    const WRONG: GatewayError =
        GatewayError::InvalidParams("a member of params.notifications has the wrong type");
    let text = call.envelope.text();
    let span = call.envelope.param("notifications")?.ok_or(MISSING)?;
    let filter = Object::parse(text, span).map_err(|_| MISSING)?;
    let mut wanted = Wanted::default();
    for kind in [Kind::Tools, Kind::Prompts, Kind::Resources] {
        let flag = filter.get(text, &format!("{}ListChanged", kind.as_str()))?;
        match flag.map(|span| span.of(text)) {
            Some("true") => wanted.lists.push(kind),
            None | Some("false") => {}
            Some(_) => return Err(WRONG),
        }
    }
    if let Some(uris) = filter.get(text, "resourceSubscriptions")? {
        for span in strings(text, uris).ok_or(WRONG)? {
            if !wanted.uris.contains(&span) {
                wanted.uris.push(span);
            }
        }
    }
    wanted.tasks = filter.get(text, "taskIds")?.is_some();
    if wanted.uris.len() > MOST_URIS {
        return Err(GatewayError::Internal("too many resources for one stream"));
    }
    Ok(wanted)
}

fn strings(text: &str, span: Span) -> Option<Vec<String>> {
    let items = array(text, span).ok()?;
    items.into_iter().map(|item| string(item.of(text)).map(Into::into)).collect()
}

fn declares_tasks(capabilities: &str) -> bool {
    let value: serde_json::Value = serde_json::from_str(capabilities).unwrap_or_default();
    value.get("extensions").is_some_and(|extensions| extensions.get(TASKS).is_some())
}

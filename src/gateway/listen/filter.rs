//! What a client asks to be told of: the filter of `subscriptions/listen` (S-01).

use crate::gateway::tasks::{declares, undeclared};
use crate::gateway::{Call, GatewayError};
use crate::protocol::meta::TASKS;
use crate::protocol::method::Kind;
use crate::protocol::object::{Object, Span, array, string};

/// Resources one stream may watch (S-42).
const MOST_TOPICS: usize = 256;

/// The parsed filter (S-01).
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) lists: Vec<Kind>,
    pub(super) uris: Vec<String>,
    pub(super) tasks: Option<Vec<String>>,
}

impl Wanted {
    /// Reads the filter of a request. Watching tasks needs their extension declared (S-12).
    pub(super) fn read(call: &Call) -> Result<Self, GatewayError> {
        let wanted = wanted(call)?;
        if wanted.tasks.is_some() && !declares(&call.client.capabilities, TASKS) {
            return Err(undeclared());
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
    if let Some(ids) = filter.get(text, "taskIds")? {
        wanted.tasks = Some(strings(text, ids).ok_or(WRONG)?);
    }
    if wanted.uris.len() + wanted.tasks.as_ref().map_or(0, Vec::len) > MOST_TOPICS {
        return Err(GatewayError::Internal("too many resources or tasks for one stream"));
    }
    Ok(wanted)
}

fn strings(text: &str, span: Span) -> Option<Vec<String>> {
    let items = array(text, span).ok()?;
    items.into_iter().map(|item| string(item.of(text)).map(Into::into)).collect()
}

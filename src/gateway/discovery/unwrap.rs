//! `call_tool`: the call inside it, spliced out and served under its own name, as if it had come alone.

use std::borrow::Cow;

use super::answers::Answer;
use crate::gateway::record::Record;
use crate::gateway::{Call, Gateway, GatewayError, Outlet, Steps};
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::envelope::{Envelope, Limits};
use crate::protocol::object::{Object, Span, string};
use crate::telemetry::Outcome;

impl Gateway {
    /// Serves the call inside a `call_tool`. Grants, bounds, headers, metrics and the audit log all see the tool it
    /// names; a state that its server gives is bound to that name and those arguments.
    pub(super) async fn call_found(
        &self,
        call: &Call,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        let answer = match unwrapped(call)? {
            Ok(inner) => {
                record.arguments(&inner.call);
                match self.invoke(&inner.call, outlet, record).await {
                    Err(GatewayError::UnknownItem(_)) => Answer::unknown(&inner.name),
                    other => return other,
                }
            }
            Err(wrong) => Answer::wrong(wrong),
        };
        outlet.admitted();
        record.outcome(Outcome::ToolError);
        Ok(answer.parts(call.snapshot.server_info.as_bytes()))
    }
}

/// The call inside.
struct Inner {
    call: Call,
    name: String,
}

/// The call inside; the inner error is for the model.
fn unwrapped(call: &Call) -> Result<Result<Inner, &'static str>, GatewayError> {
    const NAMELESS: &str = "`name` must be the name of a tool, as search_tools gives it.";
    const NO_OBJECT: &str = "`arguments` must be an object, as the tool's schema says; see describe_tool.";
    let text = call.envelope.text();
    let (Some(name_at), Some(outer)) = (call.envelope.param("name")?, call.envelope.param("arguments")?)
    else {
        return Ok(Err(NAMELESS));
    };
    let Ok(arguments) = Object::parse(text, outer) else { return Ok(Err(NAMELESS)) };
    let inner_name = arguments.get(text, "name")?;
    let Some(name) = inner_name.and_then(|span| string(span.of(text)).map(Cow::into_owned)) else {
        return Ok(Err(NAMELESS));
    };
    let inner = arguments.get(text, "arguments")?;
    if inner.is_some_and(|span| !matches!(span.of(text).as_bytes().first(), Some(b'{' | b'n'))) {
        return Ok(Err(NO_OBJECT));
    }
    let body = call.envelope.body();
    let mut edits = Edits::new();
    let slice = |span: Option<Span>| span.map(|span| body.slice(span.range()));
    edits.replace(name_at, slice(inner_name).unwrap_or_default());
    edits.replace(outer, slice(inner).unwrap_or_else(|| bytes::Bytes::from_static(b"{}")));
    let body = edits.apply(body, Span::new(0, body.len())).to_bytes();
    let gateway = &call.snapshot.config.gateway;
    let limits = Limits { max_depth: gateway.max_depth, max_elements: gateway.max_input_elements };
    // It is a part of what was read already.
    let envelope =
        Envelope::parse(body, limits).map_err(|_| GatewayError::Internal("the call cannot be unwrapped"))?;
    Ok(Ok(Inner {
        call: Call { envelope, steps: Steps { unwrapped: true, ..call.steps }, ..call.clone() },
        name,
    }))
}

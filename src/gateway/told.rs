//! Calls of tools whose definition is more than what their server says: arguments mapped for callers of former times
//! (`tools.override`), held against the schema (`validate`), and results as well.

use bytes::Bytes;

use super::view::Route;
use super::{Call, GatewayError};
use crate::config::Validating;
use crate::contract::aids::{Mapped, Refused};
use crate::contract::checker::Checks;
use crate::protocol::edit::Edits;
use crate::protocol::object::{Object, Span, string};
use crate::telemetry::{Metrics, Outcome};

/// The arguments of one call as its server gets them.
pub(super) struct Translated(Option<Mapped>);

/// Maps the arguments that came. What the model can mend is told to the model.
pub(super) fn mapped(route: &Route, arguments: Option<&str>) -> Result<Translated, GatewayError> {
    let Some(aids) = &route.item().aids else { return Ok(Translated(None)) };
    match aids.apply(arguments) {
        Ok(mapped) => Ok(Translated(Some(mapped))),
        Err(Refused::Arguments(error)) => Err(error.into()),
        Err(conflict) => {
            let said = format!("The tool \"{}\" was not called: {conflict}", route.exposed);
            Err(GatewayError::Held(said, Outcome::BadRequest))
        }
    }
}

impl Translated {
    fn bytes(&self) -> Option<&Bytes> {
        self.0.as_ref()?.arguments.as_ref()
    }

    /// The arguments, where they are others than those that came.
    pub(super) fn text(&self) -> Option<&str> {
        // They are made of a message that was UTF-8.
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Puts them into the request in place of those `given`.
    pub(super) fn splice(
        &self,
        call: &Call,
        given: Option<Span>,
        edits: &mut Edits,
    ) -> Result<(), GatewayError> {
        let Some(bytes) = self.bytes() else { return Ok(()) };
        match (given, &call.envelope.params) {
            (Some(span), _) => edits.replace(span, bytes.clone()),
            (None, Some(params)) => {
                let member = [&b"\"arguments\":"[..], bytes].concat();
                edits.append(params, member);
            }
            (None, None) => return Err(GatewayError::InvalidParams("params are missing")),
        }
        Ok(())
    }

    /// Counts what of the call is on its way out: paths, never values.
    pub(super) fn count(&self, metrics: &Metrics, call: &Call, route: &Route) {
        let used = self.0.as_ref().map_or(&[][..], |mapped| &mapped.used);
        let paths = used.iter().copied().map(Some).chain(route.retired.as_ref().map(|_| None));
        for path in paths {
            route.count_use(metrics, path, call.principal.client_label());
        }
    }
}

/// Whether arguments are what the schema allows, where the operator wants it.
pub(super) fn fits(route: &Route, arguments: Option<&str>) -> Result<(), GatewayError> {
    let item = route.item();
    // Those of a tool that is held back were held against the approved schema already.
    let Some(checks) = item.checks.as_ref().filter(|_| item.held.is_none()) else { return Ok(()) };
    match checks.input().fault(arguments) {
        None => Ok(()),
        Some(fault) => {
            let said = format!("The tool \"{}\" was not called: {fault}", route.exposed);
            Err(GatewayError::Held(said, Outcome::BadRequest))
        }
    }
}

/// What results are held against, where the operator wants it.
pub(super) fn of_results(route: &Route) -> Option<&Checks> {
    let both = route.shelf.server.config.validate == Validating::Both;
    route.item().checks.as_deref().filter(|_| both)
}

/// Why a result is none that the tool's output schema allows. Absent is what is not there: `null`, `0`, `false` and `""` are
/// values.
pub(super) fn misfit(checks: &Checks, body: &str, result: Span) -> Option<String> {
    let checker = checks.output()?;
    // What cannot be read is refused where it is read for the client.
    let object = Object::parse(body, result).ok()?;
    let member = |key: &str| Some(object.get(body, key).ok()??.of(body));
    let kind = member("resultType").map(string);
    let complete = kind.is_none_or(|kind| kind.as_deref() == Some("complete"));
    if !complete || member("isError") == Some("true") {
        return None;
    }
    let Some(content) = member("structuredContent") else {
        return Some(
            "answered without the structured result that the tool's output schema promises. Tell its operator."
                .to_owned(),
        );
    };
    let misfit = checker.misfit(content)?;
    let at = if misfit.path.is_empty() { "structuredContent" } else { &misfit.path };
    let what = misfit.message.split(". ").next().unwrap_or_default();
    Some(format!("answered with what its output schema does not allow, at {at}: {what}. Tell its operator."))
}

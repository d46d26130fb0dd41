//! A fixture's call, made to the core as a caller's would be after the door.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::{Fixture, Played};
use super::standin::StandIns;
use crate::app::Core;
use crate::auth::Principal;
use crate::gateway::view::Route;
use crate::gateway::{Call, Client, Endpoint, GatewayError, Members, Outlet, Snapshot, Steps};
use crate::policy::Rights;
use crate::protocol::envelope::{Envelope, Limits};
use crate::protocol::method::{Kind, Method};
use crate::protocol::version::{Era, Revision};

/// Where fixtures are played.
pub(super) struct Stage<'a> {
    core: &'a Core,
    standins: Option<&'a StandIns>,
    snapshot: Arc<Snapshot>,
}

/// Deprecated paths by server and tool, and how often each was counted.
type Counts = BTreeMap<(String, String, String), u64>;

impl<'a> Stage<'a> {
    pub(super) fn new(core: &'a Core, standins: Option<&'a StandIns>) -> Self {
        Self { core, standins, snapshot: core.gateway.snapshot() }
    }

    /// Makes the call. The error says why it cannot be made at all.
    pub(super) async fn play(&self, fixture: &Fixture) -> Result<Played, String> {
        let (endpoint, route) = self.find(fixture).await?;
        let call = self.call(&endpoint, &route.exposed, fixture)?;
        if let Some(standins) = self.standins {
            standins.prepare(fixture.answer.as_ref());
        }
        let before = self.counts();
        // Nobody wants notices.
        let (outlet, _) = Outlet::new(1);
        let answer = match self.core.gateway.handle(call, outlet).await {
            Ok(parts) => {
                serde_json::from_slice(&parts.to_bytes()).map_err(|_| "the result is no JSON".to_owned())?
            }
            Err(error) => return Ok(self.refused(&error, &before)),
        };
        let arguments = match self.standins {
            Some(standins) => standins.got(),
            None => Some(translated(&route, fixture)?),
        };
        let unscripted = self.standins.is_some() && fixture.answer.is_none() && arguments.is_some();
        Ok(Played { arguments, answer: Ok(answer), deprecated: self.counted(&before), unscripted })
    }

    fn refused(&self, error: &GatewayError, before: &Counts) -> Played {
        let arguments = self.standins.and_then(StandIns::got);
        let answer = Err((i64::from(error.code()), error.to_string()));
        Played { arguments, answer, deprecated: self.counted(before), unscripted: false }
    }

    /// The tool that is meant, and where.
    async fn find(&self, fixture: &Fixture) -> Result<(Arc<Endpoint>, Arc<Route>), String> {
        let paths: Vec<&str> = match &fixture.endpoint {
            Some(path) => vec![path],
            None => self.snapshot.config.endpoints.iter().map(|one| &*one.path).collect(),
        };
        for path in paths {
            let Some(endpoint) = self.snapshot.endpoint(path) else {
                return Err(format!("there is no endpoint {path:?}"));
            };
            let (view, _) = self.core.gateway.everything(&self.snapshot, endpoint, Kind::Tools).await;
            let own = |route: &&Arc<Route>| {
                let native = fixture.tool.split_once('/');
                native == Some((&*route.shelf.server.name, route.native()))
            };
            if let Some(route) = view.named(&fixture.tool).next().or_else(|| view.items.iter().find(own)) {
                return Ok((Arc::clone(endpoint), Arc::clone(route)));
            }
        }
        Err(format!("there is no tool {:?}", fixture.tool))
    }

    fn call(&self, endpoint: &Arc<Endpoint>, name: &str, fixture: &Fixture) -> Result<Call, String> {
        let params = json!({ "name": name, "arguments": fixture.arguments });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let gateway = &self.snapshot.config.gateway;
        let limits = Limits { max_depth: gateway.max_depth, max_elements: gateway.max_input_elements };
        let envelope = Envelope::parse(Bytes::from(message.to_string()), limits)
            .map_err(|error| format!("the call is refused at the door: {}", error.message))?;
        Ok(Call {
            envelope,
            method: Method::ToolsCall,
            endpoint: Arc::clone(endpoint),
            snapshot: Arc::clone(&self.snapshot),
            headers: HeaderMap::new(),
            principal: Principal::anonymous(),
            token: None,
            rights: Rights::Open,
            members: Members::default(),
            request: 0,
            address: None,
            client: client(),
            arrived: Instant::now(),
            // The tool itself is meant, whatever an endpoint lists; headers are the door's business.
            steps: Steps { unwrapped: true, confirmed: true },
        })
    }

    fn counts(&self) -> Counts {
        let report = self.core.gateway.metrics.usage().report();
        let mut counts = Counts::new();
        for one in report.uses {
            *counts.entry((one.server, one.tool, one.path)).or_default() += one.count;
        }
        counts
    }

    /// What was counted since.
    fn counted(&self, before: &Counts) -> Vec<String> {
        let grown = |place: &(String, String, String), count: u64| before.get(place).copied() < Some(count);
        let now = self.counts();
        now.into_iter().filter(|(place, count)| grown(place, *count)).map(|(place, _)| place.2).collect()
    }
}

/// Somebody who cannot be asked anything.
fn client() -> Client {
    Client {
        era: Era::Modern,
        revision: Revision::V20260728,
        session: None,
        capabilities: "{}".to_owned(),
        log_level: None,
        hears: None,
        progress_token: None,
    }
}

/// What a real server gets: it does not tell us, so it is found out as the core does.
fn translated(route: &Route, fixture: &Fixture) -> Result<Value, String> {
    let text = Value::Object(fixture.arguments.clone()).to_string();
    let Some(aids) = &route.item().aids else { return Ok(Value::Object(fixture.arguments.clone())) };
    let mapped = aids.apply(Some(&text)).map_err(|refused| refused.to_string())?;
    let bytes = mapped.arguments.unwrap_or_else(|| Bytes::from(text));
    serde_json::from_slice(&bytes).map_err(|_| "the arguments are no JSON".to_owned())
}

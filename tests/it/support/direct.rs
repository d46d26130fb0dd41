//! The core without a door, in this process: requests as any door hands them in, with the sessions of its clients.

use std::path::Path;
use std::sync::Arc;

use gatehouse::app::Core;
use gatehouse::auth::Principal;
use gatehouse::config::Config;
use gatehouse::gateway::{Call, Client, GatewayError, Members, Outlet};
use gatehouse::protocol::envelope::{Envelope, Limits};
use gatehouse::protocol::method::Method;
use gatehouse::protocol::version::{Era, Revision};
use http::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;

use super::gateway::Setup;
use super::json;
use super::request::Mcp;

/// A running core.
#[derive(Debug)]
pub(crate) struct Direct(Core);

/// Who asks: a principal's name, and the id of the client's own session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who {
    pub(crate) principal: &'static str,
    pub(crate) session: Option<&'static str>,
}

/// Somebody with a session of this id.
pub(crate) const fn session(principal: &'static str, id: &'static str) -> Who {
    Who { principal, session: Some(id) }
}

/// Somebody whose client has none.
pub(crate) const fn modern(principal: &'static str) -> Who {
    Who { principal, session: None }
}

impl Direct {
    pub(crate) fn start(setup: &Setup) -> Self {
        let config = Config::parse(&setup.text(), Path::new("."), &|_| None).unwrap();
        Self(Core::start(config).unwrap())
    }

    /// The result of a request.
    pub(crate) async fn ask(&self, who: Who, request: &Mcp, capabilities: &str) -> Value {
        let answer = self.try_ask(who, request, capabilities).await;
        answer.unwrap_or_else(|error| panic!("{who:?}: {error}"))
    }

    /// The same, where it may fail.
    pub(crate) async fn try_ask(
        &self,
        who: Who,
        request: &Mcp,
        capabilities: &str,
    ) -> Result<Value, GatewayError> {
        let text = request.clone().capabilities(capabilities).text();
        let limits = Limits { max_depth: 64, max_elements: 10_000 };
        let envelope = Envelope::parse(text.into(), limits).unwrap();
        let snapshot = self.0.gateway.snapshot();
        let endpoint = Arc::clone(snapshot.endpoint("/mcp").unwrap());
        let principal = principal(who.principal);
        let call = Call {
            steps: gatehouse::gateway::Steps::default(),
            method: Method::parse(&envelope.method()).unwrap(),
            address: None,
            members: Members::default(),
            rights: snapshot.rights(&endpoint, &principal),
            client: Client {
                era: Era::Modern,
                revision: Revision::V20260728,
                session: who.session.map(Arc::from),
                capabilities: capabilities.to_owned(),
                log_level: None,
                hears: None,
                progress_token: None,
            },
            envelope,
            endpoint,
            snapshot,
            headers: HeaderMap::new(),
            principal,
            token: None,
            request: 1,
            arrived: Instant::now(),
        };
        let (outlet, _notices) = Outlet::new(16);
        let parts = self.0.gateway.handle(call, outlet).await?;
        Ok(json::value(std::str::from_utf8(&parts.to_bytes()).unwrap()))
    }

    /// A client's session ended.
    pub(crate) fn end_session(&self, id: &str) {
        self.0.gateway.servers.end_session(id);
    }

    pub(crate) async fn stop(self) {
        self.0.stop().await;
    }
}

fn principal(name: &str) -> Arc<Principal> {
    Arc::new(Principal {
        id: Arc::from(name),
        issuer: Arc::from(""),
        subject: Arc::from(name),
        client: None,
        scopes: Default::default(),
        claims: Default::default(),
        expires: None,
    })
}

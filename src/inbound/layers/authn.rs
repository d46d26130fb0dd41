//! Who calls an endpoint, by whatever method: a principal, or an answer that teaches nothing else.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};

use crate::auth::{Authenticator, Principal, Rejection, caller_token, insufficient_scope, shows_token};
use crate::gateway::Endpoint;
use crate::inbound::respond::empty;
use crate::inbound::{Door, Request, Response, well_known};
use crate::net::PeerCertificate;

/// Seconds until an issuer that did not answer may answer again.
const LATER: HeaderValue = HeaderValue::from_static("5");

pub(in crate::inbound) async fn check<F: Future<Output = Response>>(
    door: &Door,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let snapshot = Arc::clone(&request.snapshot);
    let Some(endpoint) = snapshot.endpoint(request.uri().path()) else {
        return next(request).await;
    };
    let certified = snapshot.config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let principal = match snapshot.auth.clone() {
        auth if let Some(shown) = certificate(&request, auth.is_some()) => {
            match door.certificates.principal(&shown) {
                Some(principal) => principal,
                // Its time is over, though the connection is not.
                None => return empty(StatusCode::UNAUTHORIZED),
            }
        }
        // The connection began while tokens were asked for as well.
        None if certified => return empty(StatusCode::UNAUTHORIZED),
        None => Principal::anonymous(),
        Some(auth) => {
            let resource = door.resource(endpoint);
            // Boxed: a gateway without tokens would carry all of it along with every request.
            match Box::pin(auth.authenticate(request.headers(), request.uri().query(), &resource)).await {
                Ok(principal) => principal,
                Err(rejection) => {
                    if let Some(principal) = &rejection.principal {
                        let scopes = &auth.config().required_scopes;
                        let who = (request.id, request.address);
                        door.gateway.turned_away(who, endpoint, principal, scopes);
                    }
                    return refuse(door, &auth, endpoint, &rejection);
                }
            }
        }
    };
    // Kept only where it is to be exchanged, in a form that cannot be printed.
    if endpoint.is_per_user()
        && let Some(token) = caller_token(request.headers())
    {
        request.token = Some(token.0);
    }
    request.principal = Some(principal);
    // Whatever reads headers from here on, a credential is not among them.
    request.headers_mut().remove(header::AUTHORIZATION);
    next(request).await
}

/// The certificate by which a caller is known: where it comes without a token, or tokens are not asked for.
fn certificate(request: &Request, tokens: bool) -> Option<Arc<PeerCertificate>> {
    let shown = request.extensions().get::<Arc<PeerCertificate>>()?;
    let by_token = tokens && shows_token(request.headers(), request.uri().query());
    (!by_token).then(|| Arc::clone(shown))
}

/// The challenge for a caller who needs more scopes for what it asked.
pub(in crate::inbound) fn step_up(
    door: &Door,
    endpoint: &Endpoint,
    scopes: &[String],
) -> Option<HeaderValue> {
    let auth = door.gateway.snapshot().auth.clone()?;
    insufficient_scope(scopes, well_known::address(door, &auth, endpoint).as_deref())
}

fn refuse(door: &Door, auth: &Authenticator, endpoint: &Endpoint, rejection: &Rejection) -> Response {
    let mut response = empty(rejection.status());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let metadata = well_known::address(door, auth, endpoint);
    match rejection.challenge(&auth.config().required_scopes, metadata.as_deref()) {
        Some(challenge) => headers.insert(header::WWW_AUTHENTICATE, challenge),
        None => headers.insert(header::RETRY_AFTER, LATER),
    };
    response
}

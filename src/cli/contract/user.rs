//! Servers that know each caller: their lists are one caller's, and it must be said whose.

use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, header};

use super::Stop;
use crate::auth::Principal;
use crate::cli::explain::who::{self, Known};
use crate::config::{Config, Credentials, Secret, Target};
use crate::outbound::{Credential, OnBehalf, Towards};
use crate::tasks::Tasks;

/// Gives those servers the credentials of the caller whose token is in the file.
pub(super) async fn become_caller(config: &mut Config, token_file: Option<&Path>) -> Result<(), Stop> {
    let users: Vec<usize> =
        (0..config.servers.len()).filter(|at| config.servers[*at].credentials.is_per_user()).collect();
    if users.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = users.iter().map(|at| config.servers[*at].name.as_str()).collect();
    let Some(path) = token_file else {
        return Err(Stop::Usage(format!(
            "each caller has a list of his own at {}: say whose is meant with --token-file",
            names.join(", ")
        )));
    };
    let token = who::read(path)
        .map_err(|error| Stop::Usage(format!("{} cannot be read: {error}", path.display())))?;
    let token = token.trim();
    for at in users {
        let caller = caller(config, at, token).await?;
        let bearer = exchanged(config, at, &caller, token).await?;
        config.servers[at].credentials = Credentials::Bearer(bearer);
    }
    Ok(())
}

/// The caller, as an endpoint that shows the server would know him.
async fn caller(config: &Config, at: usize, token: &str) -> Result<Arc<Principal>, Stop> {
    let name = &config.servers[at].name;
    let shows = config.endpoints.iter().find(|endpoint| endpoint.servers.is_match(name));
    let (Some(endpoint), Some(auth)) = (shows, &config.auth) else {
        return Err(Stop::Usage(format!("server {name:?} is on no endpoint that knows its callers")));
    };
    match who::verified(token, config, auth, endpoint).await {
        Ok(Known::Caller(principal)) => Ok(principal),
        Ok(Known::Refused(why)) => Err(Stop::Usage(format!("--token-file: {why}"))),
        Ok(Known::Anybody) => Err(Stop::Usage("--token-file: nobody is asked who they are".to_owned())),
        Err(error) => Err(Stop::Usage(format!("--token-file: {error:#}"))),
    }
}

/// His token for that server.
async fn exchanged(config: &Config, at: usize, caller: &Principal, token: &str) -> Result<Secret, Stop> {
    let server = &config.servers[at];
    let none = || Stop::Usage(format!("server {:?}: no token is to be had for this caller", server.name));
    let Target::Http { url, ca_file, .. } = &server.target else { return Err(none()) };
    let name: Arc<str> = server.name.as_str().into();
    let towards = Towards { server: &name, url, ca_file: ca_file.as_deref() };
    let credential = Credential::new(&towards, &server.credentials, &Tasks::new());
    let caller = OnBehalf {
        principal: Arc::clone(&caller.id),
        issuer: Arc::clone(&caller.issuer),
        expires: caller.expires,
        token: Some(Secret::new(token)),
    };
    let mut headers = HeaderMap::new();
    credential.present(Some(&caller), &mut headers).await.map_err(|_| none())?;
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    bearer.and_then(|value| value.strip_prefix("Bearer ")).map(Secret::new).ok_or_else(none)
}

//! Who is meant: a token that is verified, or claims that are taken as they are.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use super::ExplainArgs;
use crate::app;
use crate::auth::{Authenticator, Principal};
use crate::config::{Auth, Config, Endpoint};
use crate::tasks::Tasks;
use crate::telemetry::Metrics;

/// Neither tokens nor claims are longer.
const MOST: u64 = 1 << 20;

/// What is known of a caller.
#[derive(Debug)]
pub(in crate::cli) enum Known {
    /// It would not get in.
    Refused(String),
    /// Nobody is asked.
    Anybody,
    /// It is this one.
    Caller(Arc<Principal>),
}

/// Finds out whom the arguments mean. The error says nothing of what was read.
pub(super) async fn find_out(
    args: &ExplainArgs,
    config: &Config,
    endpoint: &Endpoint,
) -> anyhow::Result<Known> {
    let (path, is_token) = match (&args.token_file, &args.claims) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => bail!("--token-file or --claims is needed"),
    };
    let text = read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let Some(auth) = &config.auth else { return Ok(Known::Anybody) };
    if is_token { verified(text.trim(), config, auth, endpoint).await } else { supposed(&text, auth) }
}

pub(in crate::cli) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin().lock().take(MOST).read_to_string(&mut text)?;
    } else {
        File::open(path)?.take(MOST).read_to_string(&mut text)?;
    }
    Ok(text)
}

fn supposed(text: &str, auth: &Auth) -> anyhow::Result<Known> {
    // The error of the parser can quote what it found.
    let Ok(Value::Object(claims)) = serde_json::from_str(text) else {
        bail!("--claims must be a JSON object");
    };
    let principal = Principal::supposed(claims, auth);
    let lacked: Vec<&str> =
        auth.required_scopes.iter().filter(|scope| !principal.holds([*scope])).map(String::as_str).collect();
    if lacked.is_empty() {
        return Ok(Known::Caller(Arc::new(principal)));
    }
    Ok(Known::Refused(format!("every caller needs `auth.required_scopes`; missing: {}", lacked.join(" "))))
}

/// The token as the door would look at it; its issuer is asked for keys.
pub(in crate::cli) async fn verified(
    token: &str,
    config: &Config,
    auth: &Auth,
    endpoint: &Endpoint,
) -> anyhow::Result<Known> {
    let public = app::public_url(config, config.gateway.listen)?;
    let resource = format!("{}{}", public.origin().ascii_serialization(), endpoint.path);
    let Ok(mut value) = HeaderValue::try_from(format!("Bearer {token}")) else {
        return Ok(Known::Refused("the token holds characters that cannot stand in a header".to_owned()));
    };
    value.set_sensitive(true);
    let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
    let tasks = Tasks::new();
    let metrics = Arc::new(Metrics::new().context("metrics")?);
    let authenticator = Authenticator::new(auth, &tasks, metrics).context("[auth]")?;
    match authenticator.authenticate(&headers, None, &resource).await {
        Ok(principal) => Ok(Known::Caller(principal)),
        Err(rejection) => {
            let reason = rejection.reason.as_str();
            Ok(Known::Refused(format!("the token is not taken there, reason `{reason}` (for {resource})")))
        }
    }
}

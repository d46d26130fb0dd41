//! What is legal but doubtful: told by `check`, stops nothing.

use std::fmt;
use std::time::SystemTime;

use serde::Serialize;

mod grants;
mod limits;

use super::auth::scope_words;
use super::packages::unpinned;
use super::{ClientSecret, Config, Credentials, Endpoint, Server, SessionScope, Target};

/// Something legal but doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Full path of the key, as `server "github".tools.override`.
    pub key: String,
    /// What is doubtful.
    pub message: String,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// Names that clients are told to accept are not longer.
const LONGEST_NAME: usize = 128;

impl Config {
    /// What is legal but doubtful, in file order. Never shows a value that could be a secret.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut found = Vec::new();
        self.gateway_doubts(&mut found);
        self.auth_doubts(&mut found);
        if self.gateway.allow_clashes {
            self.endpoints.iter().for_each(|endpoint| self.clashes(endpoint, &mut found));
        }
        for server in &self.servers {
            self.server_doubts(server, &mut found);
        }
        self.grant_doubts(SystemTime::now(), &mut found);
        self.limit_doubts(&mut found);
        found
    }

    fn gateway_doubts(&self, found: &mut Vec<Warning>) {
        if self.servers.is_empty() {
            found.push(warning("server", "there is no enabled server: nothing to show", ""));
        }
        if self.gateway.max_name_length > LONGEST_NAME {
            let message = format!("many clients refuse names longer than {LONGEST_NAME}");
            found.push(warning("gateway.max_name_length", message, ""));
        }
        let certified = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !self.gateway.listen.ip().is_loopback() && self.auth.is_none() && !certified {
            let message = "everybody who reaches the listener may call every tool";
            found.push(warning(
                "gateway.allow_unauthenticated",
                message,
                "keep it behind a proxy that checks callers",
            ));
        }
        if self.gateway.allowed_hosts.as_ref().is_some_and(|hosts| hosts.iter().any(|host| host == "*")) {
            let message = "any `Host` is accepted: no guard against DNS rebinding";
            found.push(warning("gateway.allowed_hosts", message, "name the hosts"));
        }
    }

    fn auth_doubts(&self, found: &mut Vec<Warning>) {
        let Some(auth) = &self.auth else { return };
        if self.gateway.public_url.as_ref().is_some_and(|url| url.scheme() == "http" && !is_loopback(url)) {
            let message = "tokens and keys go to this address unencrypted";
            found.push(warning("gateway.public_url", message, "use https"));
        }
        for issuer in &auth.issuers {
            for audience in issuer.audiences.iter().filter(|audience| is_everybodys(audience, &issuer.issuer))
            {
                let message = format!(
                    "{audience:?} is an audience of other tokens of this issuer too: alone it would be enough here"
                );
                let help = "name it in `other_audiences`, and here or as `resource` one that means this gateway only";
                found.push(warning(format!("auth.issuer {:?}.audiences", issuer.issuer), message, help));
            }
        }
        for key in &auth.keys {
            let scopes = ["scope", "scp"].iter().filter_map(|name| key.claims.get(*name));
            let held: Vec<&str> = scopes.flat_map(scope_words).collect();
            let held = auth.closure(held);
            if !auth.required_scopes.iter().all(|scope| held.contains(scope)) {
                let message = "lacks `auth.required_scopes`: this key can call nothing";
                found.push(warning(
                    format!("auth.key {:?}.claims", key.name),
                    message,
                    "write them as `scope = \"…\"`",
                ));
            }
        }
    }

    /// Who wins where prefixes clash: the first in file order (design §4).
    fn clashes(&self, endpoint: &Endpoint, found: &mut Vec<Warning>) {
        if !endpoint.prefix {
            return;
        }
        let on: Vec<&Server> =
            self.servers.iter().filter(|server| endpoint.servers.is_match(&server.name)).collect();
        for (index, second) in on.iter().enumerate() {
            for first in on[..index].iter().filter(|first| self.clash(first, second)) {
                let message = format!(
                    "clashes with the prefix of server {:?} on endpoint {:?}: where names meet, {:?} keeps them",
                    first.name, endpoint.path, first.name
                );
                found.push(warning(format!("server {:?}.prefix", second.name), message, ""));
            }
        }
    }

    fn clash(&self, first: &Server, second: &Server) -> bool {
        let lead = |server: &Server| format!("{}{}", server.prefix, self.gateway.separator);
        match (first.prefix.is_empty(), second.prefix.is_empty()) {
            (true, true) => true,
            (true, false) | (false, true) => false,
            (false, false) => {
                let (a, b) = (lead(first), lead(second));
                a.starts_with(&b) || b.starts_with(&a)
            }
        }
    }

    fn server_doubts(&self, server: &Server, found: &mut Vec<Warning>) {
        let key = |key: &str| format!("server {:?}.{key}", server.name);
        if !self.endpoints.iter().any(|endpoint| endpoint.servers.is_match(&server.name)) {
            found.push(warning(
                key("name"),
                "no endpoint shows this server",
                "add it to an endpoint's `servers`",
            ));
        }
        match &server.target {
            Target::Stdio(command) => {
                if self.auth.is_some() && server.session_scope == SessionScope::Auto {
                    let message = "all callers share one process, and what it remembers of any of them";
                    let help = "\"principal\" gives each caller his own, \"shared\" says that it is meant";
                    found.push(warning(key("session_scope"), message, help));
                }
                if let Some(runner) = unpinned(&command.argv) {
                    let message = format!("`{runner}` runs a package whose version is not pinned");
                    let help = "a release may change or replace it any day: write the exact version";
                    found.push(warning(key("command"), message, help));
                }
            }
            Target::Http { url, others, .. } => {
                if let Some(client) = server.credentials.client()
                    && client.issuer.is_none()
                    && client.token_url.is_none()
                    && matches!(client.secret, ClientSecret::Secret(_))
                {
                    let message = "this server says itself who gets `client_secret`";
                    let help = "say where tokens are issued with `issuer`, or use `private_key`";
                    found.push(warning(key("credentials"), message, help));
                }
                let secret = server.credentials != Credentials::None;
                let open = |url: &url::Url| url.scheme() == "http" && !is_loopback(url);
                if secret && (open(url) || others.iter().any(open)) {
                    let message = "credentials go to this server unencrypted";
                    found.push(warning(key("url"), message, "use https"));
                }
            }
        }
        if server.max_result > self.gateway.max_buffered {
            let message = "is more than `gateway.max_buffered`: no such result can pass";
            found.push(warning(key("max_result"), message, ""));
        }
        override_doubts(server, found);
    }
}

fn override_doubts(server: &Server, found: &mut Vec<Warning>) {
    for (native, one) in &server.overrides {
        let key = format!("server {:?}.tools.override.{native:?}", server.name);
        if native.contains(['*', '?', '[', '{']) {
            let message = "an override is for one tool of exactly this name, globs do not count here";
            found.push(warning(key, message, ""));
        } else if !server.tools.admits(native) {
            let message = "has no effect: `tools.allow` and `tools.deny` hide this tool";
            found.push(warning(key, message, ""));
        } else if one.timeout.is_some_and(|timeout| timeout > server.max_timeout) {
            let message =
                "its `timeout` is longer than the server's `max_timeout`, which ends the call first";
            found.push(warning(key, message, ""));
        }
    }
    let mut names: Vec<&str> = server.overrides.values().filter_map(|one| one.name.as_deref()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        let message = "two overrides give the same `name`: one of the tools gets a hash tail";
        found.push(warning(format!("server {:?}.tools.override", server.name), message, ""));
    }
}

/// Audiences that issuers give to tokens for others, or for nobody: their own name, and that of their own services.
fn is_everybodys(audience: &str, issuer: &str) -> bool {
    let bare = |text: &str| text.trim_end_matches('/').to_owned();
    bare(audience) == bare(issuer)
        || matches!(audience, "account" | "realm-management" | "broker")
        || audience.ends_with("/userinfo")
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn warning(key: impl Into<String>, message: impl Into<String>, help: &str) -> Warning {
    Warning { key: key.into(), message: message.into(), help: (!help.is_empty()).then(|| help.to_owned()) }
}

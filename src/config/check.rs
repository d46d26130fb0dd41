//! The rules across tables: names taken twice, globs that match nothing, prefixes that clash (design §4).

use std::collections::{BTreeMap, BTreeSet};

use super::packages::unpinned;
use super::problem::Place;
use super::read::{Reading, Text};
use super::tables::{EndpointEntry, Sections, ServerEntry, default_endpoint, is_insecure, name_fault};
use super::{Auth, Cluster, Endpoint, Gateway, Target};

/// Letters of a name that must be left beside the prefix: one, and the hash tail of nine.
const ROOM: usize = 10;

/// Reports what is wrong between tables.
pub(super) fn across(reading: &Reading<'_>, all: &Sections, gateway: &Gateway) {
    let names = all.servers.iter().filter_map(|server| Some((server.name.as_deref()?, &server.name_at)));
    taken_twice(reading, "name", names);
    let paths =
        all.endpoints.iter().filter_map(|entry| Some((&*entry.endpoint.as_ref()?.path, &entry.path_at)));
    taken_twice(reading, "path", paths.filter(|(path, _)| !path.is_empty()));
    for server in &all.servers {
        characters(reading, gateway, server);
    }
    for entry in &all.endpoints {
        matches(reading, all, entry);
    }
    if !gateway.allow_clashes {
        clashes(reading, all, gateway);
    }
    if gateway.pinned_only {
        all.servers.iter().filter(|server| server.enabled).for_each(|server| pinned(reading, server));
    }
    for server in &all.servers {
        issuers(reading, all.auth.as_ref().map(|(auth, _)| auth), server);
    }
}

/// What a server runs tomorrow is what it runs today.
fn pinned(reading: &Reading<'_>, entry: &ServerEntry) {
    let Some(Target::Stdio(command)) = entry.server.as_ref().map(|server| &server.target) else { return };
    if let Some(runner) = unpinned(&command.argv) {
        let message = format!(
            "`{runner}` runs a package whose version is not pinned, and `gateway.pinned_only` is set"
        );
        reading.report(&entry.command_at, message, "write the exact version");
    }
}

/// A caller's token goes to its own issuer only, and secrets not over the open network.
fn issuers(reading: &Reading<'_>, auth: Option<&Auth>, entry: &ServerEntry) {
    let Some(server) = &entry.server else { return };
    let Some(client) = server.credentials.client() else { return };
    let ours = |issuer: &str| auth.is_some_and(|auth| auth.issuers.iter().any(|one| one.issuer == issuer));
    // A file that could not be read might have held it.
    if server.credentials.is_per_user()
        && !reading.is_incomplete()
        && client.issuer.as_deref().is_some_and(|issuer| !ours(issuer))
    {
        let message =
            "is no [[auth.issuer]]: callers' tokens are exchanged only at the issuer they come from";
        reading.report(&entry.issuer_at, message, "spell it as there, letter by letter");
    }
    if auth.is_some_and(|auth| auth.allow_insecure_http) {
        return;
    }
    let issuer = client.issuer.as_deref().filter(|_| client.token_url.is_none());
    let issuer = issuer.and_then(|issuer| url::Url::parse(issuer).ok());
    let urls = [(issuer.as_ref(), &entry.issuer_at), (client.token_url.as_ref(), &entry.token_url_at)];
    for (_, place) in urls.iter().filter(|(url, _)| url.is_some_and(is_insecure)) {
        let help = "https, or http to 127.0.0.1 or [::1]; else `auth.allow_insecure_http = true`";
        reading.report(place, "whoever is on the way could read secrets and tokens", help);
    }
}

/// Grants are for those whose claims are known.
pub(super) fn grants(reading: &Reading<'_>, all: &Sections) {
    if let (Some(first), None, false) = (all.grants.first(), &all.auth, reading.is_incomplete()) {
        let help = "add [auth], or remove the grants";
        reading.report(&first.at, "grants need [auth]: without it nobody is asked who they are", help);
    }
}

/// Somebody can say who he is.
pub(super) fn callers(reading: &Reading<'_>, all: &Sections) {
    if let Some(at) = all.nobody.as_ref().filter(|_| !asks_for_certificates(all) && !reading.is_incomplete())
    {
        reading.report(
            at,
            "has neither an [[auth.issuer]] nor an [[auth.key]]: nobody could call",
            "name the authorization server, or leave [auth] out",
        );
    }
}

/// Whether clients are known by their certificates; one that could not be read counts, its problem is told already.
fn asks_for_certificates(all: &Sections) -> bool {
    let asks = |tls: &Option<super::Tls>| tls.as_ref().is_none_or(|tls| tls.client_ca.is_some());
    all.tls.as_ref().is_some_and(|(tls, _)| asks(tls))
}

/// Replicas that share nothing secret can neither trust each other nor open each other's handles.
pub(super) fn cluster(reading: &Reading<'_>, cluster: Option<&(Option<Cluster>, Place)>, gateway: &Gateway) {
    if let (Some((_, at)), true) = (cluster, gateway.keys.is_empty()) {
        let help = "the same on every replica, as `keys = [\"${GATEHOUSE_KEY}\"]` in [gateway]";
        reading.report(at, "needs `gateway.keys`: replicas know each other by them", help);
    }
}

/// Who may come in from other machines, and by which address clients are told to come.
pub(super) fn doors(reading: &Reading<'_>, all: &Sections, gateway: &Gateway, listen_at: &Place) {
    if gateway.listen.ip().is_loopback() {
        return;
    }
    match &all.auth {
        None if !gateway.allow_unauthenticated && !asks_for_certificates(all) => reading.report(
            listen_at,
            "is reachable from other machines, and nothing checks who calls",
            "add [auth], listen on 127.0.0.1 or [::1], or set `allow_unauthenticated = true` if a proxy in front checks callers",
        ),
        Some((_, at)) if gateway.public_url.is_none() => reading.report(
            at,
            "needs `gateway.public_url`: tokens are issued for the address by which clients know the gateway",
            "as `public_url = \"https://mcp.example.com\"` in [gateway]",
        ),
        None | Some(_) => {}
    }
}

fn taken_twice<'a>(reading: &Reading<'_>, what: &str, values: impl Iterator<Item = (&'a str, &'a Place)>) {
    let mut first: BTreeMap<&str, &Place> = BTreeMap::new();
    for (value, place) in values {
        if let Some(earlier) = first.get(value) {
            reading.report(place, format!("the same {what} is already taken at {earlier}"), "");
        } else {
            first.insert(value, place);
        }
    }
}

/// Prefixes and new names that would not come out as they are written.
fn characters(reading: &Reading<'_>, gateway: &Gateway, server: &ServerEntry) {
    let prefix = server.prefix.iter();
    for (text, place) in prefix.chain(&server.renamed) {
        if let Some(help) = name_fault(&text.value, gateway.strict_names) {
            reading.report(place, format!("{} holds a character that names cannot have", text.shown()), help);
        }
    }
    for (_, place) in server.renamed.iter().filter(|(text, _)| text.value.len() > gateway.max_name_length) {
        let most = gateway.max_name_length;
        reading.report(place, format!("is longer than `gateway.max_name_length`, which is {most}"), "");
    }
    let lead = lead(gateway, server).map_or(0, |lead| lead.len());
    if lead + ROOM > gateway.max_name_length {
        let most = gateway.max_name_length.saturating_sub(ROOM);
        let message = format!("with the separator, the prefix is {lead} characters long and may be {most}");
        reading.report(&server.prefix_at, message, "set a shorter `prefix`");
    }
}

/// What names of a server begin with.
fn lead(gateway: &Gateway, entry: &ServerEntry) -> Option<String> {
    let prefix = entry.prefix_value.as_ref()?;
    Some(if prefix.is_empty() { String::new() } else { format!("{prefix}{}", gateway.separator) })
}

/// Every glob matches some server, and an endpoint without prefixes exactly one.
fn matches(reading: &Reading<'_>, all: &Sections, entry: &EndpointEntry) {
    // A server that could not be read might have been the one.
    if reading.is_incomplete() || all.servers.iter().any(|server| server.name.is_none()) {
        return;
    }
    for (text, place) in &entry.patterns {
        let known =
            |name: &str| super::Globs::new(vec![text.value.clone()]).is_ok_and(|glob| glob.is_match(name));
        if text.value != "*" && !all.servers.iter().filter_map(|server| server.name.as_deref()).any(known) {
            reading.report(place, format!("{} matches no server", text.shown()), &near(all, text));
        }
    }
    let Some(endpoint) = entry.endpoint.as_ref().filter(|endpoint| !endpoint.prefix) else { return };
    let count = all.servers.iter().filter(|server| server.enabled && shows(endpoint, server)).count();
    if count != 1 {
        let message =
            format!("`prefix = false` needs exactly one enabled server, and `servers` matches {count}");
        reading.report(&entry.prefix_at, message, "");
    }
}

fn near(all: &Sections, text: &Text) -> String {
    let names = || all.servers.iter().filter_map(|server| server.name.as_deref());
    let best = names().max_by(|a, b| {
        let score = |name: &str| strsim::normalized_damerau_levenshtein(&text.value, name);
        score(a).total_cmp(&score(b))
    });
    match best {
        // Only servers whose name stands in the file, which their label shows.
        Some(best) if text.literal && all.servers.iter().any(|server| server.label.contains(best)) => {
            format!("the nearest name is {best:?}")
        }
        _ => String::new(),
    }
}

fn shows(endpoint: &Endpoint, server: &ServerEntry) -> bool {
    server.name.as_deref().is_some_and(|name| endpoint.servers.is_match(name))
}

/// On one endpoint, no prefix with its separator may be another's beginning, and one server may have none.
fn clashes(reading: &Reading<'_>, all: &Sections, gateway: &Gateway) {
    let default = [("endpoint \"/mcp\"", default_endpoint())];
    let written: Vec<(&str, &Endpoint)> = all
        .endpoints
        .iter()
        .filter_map(|entry| Some((entry.label.as_str(), entry.endpoint.as_ref()?)))
        .collect();
    let faces = if all.endpoints.is_empty() {
        default.iter().map(|(label, endpoint)| (*label, endpoint)).collect()
    } else {
        written
    };
    let mut told = BTreeSet::new();
    for (label, endpoint) in faces.iter().filter(|(_, endpoint)| endpoint.prefix) {
        for (earlier, later) in pairs(all, endpoint) {
            let (first, second) = (&all.servers[earlier], &all.servers[later]);
            let Some(how) = clash(gateway, first, second).filter(|_| told.insert((earlier, later))) else {
                continue;
            };
            let message = format!("{how} that of {} ({}), on {label}", first.label, first.prefix_at);
            let help = "set another `prefix`, or `gateway.allow_clashes = true`";
            reading.report(&second.prefix_at, message, help);
        }
    }
}

/// Pairs of enabled servers on an endpoint, in file order.
fn pairs(all: &Sections, endpoint: &Endpoint) -> Vec<(usize, usize)> {
    let on: Vec<usize> = (0..all.servers.len())
        .filter(|index| all.servers[*index].enabled && shows(endpoint, &all.servers[*index]))
        .collect();
    let later = |at: usize| on[at + 1..].iter().map(move |second| (at, *second));
    (0..on.len()).flat_map(later).map(|(at, second)| (on[at], second)).collect()
}

/// How the second's prefix stands to the first's, if they cannot both be.
fn clash(gateway: &Gateway, first: &ServerEntry, second: &ServerEntry) -> Option<&'static str> {
    // The same name twice is said already.
    if first.name == second.name {
        return None;
    }
    let (a, b) = (lead(gateway, first)?, lead(gateway, second)?);
    match (a.is_empty(), b.is_empty()) {
        (true, true) => Some("the prefix is empty like"),
        (true, false) | (false, true) => None,
        (false, false) if a == b => Some("the prefix equals"),
        (false, false) if b.starts_with(&a) => Some("the prefix with its separator begins with"),
        (false, false) if a.starts_with(&b) => Some("the prefix with its separator is the beginning of"),
        (false, false) => None,
    }
}

//! What `search_tools` and `describe_tool` answer: short text for a model.

use std::fmt::Write as _;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::Value;

use super::listed::{MOST_RESULTS, RESULTS};
use crate::catalogue::Lookup;
use crate::gateway::books::{self, PREFIX};
use crate::gateway::record::Record;
use crate::gateway::{Call, Gateway, GatewayError, relay, results, view};
use crate::protocol::edit::Parts;
use crate::protocol::method::Kind;
use crate::protocol::object::{Object, Span, array, string};

/// Characters of a description in a list of results.
const LONGEST: usize = 160;
/// Parameters that are named there.
const PARAMETERS: usize = 8;
/// Characters of a name that was not found, when it is said again.
const LONGEST_NAME: usize = 128;
/// What of a definition a model needs.
const DEFINITION: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/// A result of a tool of ours.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl Answer {
    pub(super) fn wrong(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }

    /// There is no such tool for this caller: the same for one that is not its own as for one that is not.
    pub(super) fn unknown(name: &str) -> Self {
        let name: String = name.chars().take(LONGEST_NAME).collect();
        Self::wrong(format!("There is no tool {name:?}. Names are found with search_tools."))
    }

    /// As the result of a call.
    pub(super) fn parts(&self, server_info: &Bytes) -> Parts {
        if self.is_error {
            return relay::tool_error(&self.text, server_info);
        }
        results::tool_text(&self.text, server_info)
    }
}

impl Gateway {
    /// The tools of this caller that fit best.
    pub(super) async fn search_tools(&self, call: &Call) -> Result<Answer, GatewayError> {
        let wanted = match Wanted::read(call)? {
            Ok(wanted) => wanted,
            Err(wrong) => return Ok(Answer::wrong(wrong)),
        };
        let rights = &call.rights;
        let own = call.seen(&[Kind::Tools]).filter(|(_, sees)| *sees).map(|(shelf, _)| shelf);
        // As lists do: servers that were not walked yet are waited for, those that do not answer are named.
        let asked = join_all(own.map(|shelf| async move {
            let missing = matches!(shelf.look_up(Kind::Tools).await, Lookup::Missing);
            missing.then(|| &*shelf.server.name)
        }));
        let missing: Vec<&str> = asked.await.into_iter().flatten().collect();
        let view = self.known_view(call, Kind::Tools);
        let Some(discovery) = &view.discovery else { return Err(GatewayError::UnknownItem("tool")) };
        let lens = discovery.lens(&view, rights);
        let found = lens.index.search(&wanted.query, &wanted.tags, wanted.limit);
        let mut text = String::new();
        for number in &found {
            let at = lens.items[*number];
            match (view.items.get(at), &view.books) {
                (Some(route), _) => line(&mut text, &route.exposed, discovery.whole.item(at)),
                (None, Some(books)) => {
                    let book = &books.library.books[at - view.items.len()];
                    line(&mut text, &format!("{PREFIX}{}", book.name), &books::item(Kind::Tools, book));
                }
                (None, None) => {}
            }
        }
        if found.is_empty() {
            text.push_str("No tool fits. Try other words, fewer words, or no tags.\n");
        }
        if !missing.is_empty() {
            let _ = writeln!(text, "Not searched, for they do not answer now: {}", missing.join(", "));
        }
        Ok(Answer { text, is_error: false })
    }

    /// The definition of one tool of this caller.
    pub(super) async fn describe_tool(
        &self,
        call: &Call,
        record: &mut Record,
    ) -> Result<Answer, GatewayError> {
        let Some(name) =
            argument(call, "name")?.and_then(|raw| string(raw).map(std::borrow::Cow::into_owned))
        else {
            return Ok(Answer::wrong("`name` must be the name of a tool, as search_tools gives it."));
        };
        record.asked(&name);
        if let Some(books) = call.endpoint.shelved()
            && let Some((_, book)) = books.find(&name, &call.rights)
        {
            return Ok(Answer { text: definition(&books::item(Kind::Tools, book)), is_error: false });
        }
        match self.resolve(call, Kind::Tools, &name, record).await {
            Ok(route) => Ok(Answer { text: definition(&view::shown(Kind::Tools, &route)), is_error: false }),
            Err(GatewayError::UnknownItem(_)) => Ok(Answer::unknown(&name)),
            Err(error) => Err(error),
        }
    }
}

/// The arguments of a search.
struct Wanted {
    query: String,
    tags: Vec<String>,
    limit: usize,
}

impl Wanted {
    /// The inner error is for the model.
    fn read(call: &Call) -> Result<Result<Self, &'static str>, GatewayError> {
        let query = argument(call, "query")?.map(string);
        let Some(query) = query.unwrap_or_default() else {
            return Ok(Err("`query` must be a text: what you need, in a few words."));
        };
        let limit = argument(call, "limit")?
            .filter(|raw| *raw != "null")
            .map_or(Some(RESULTS), |raw| raw.parse().ok());
        let Some(limit) = limit else { return Ok(Err("`limit` must be a whole number.")) };
        let tags = argument(call, "tags")?.filter(|raw| *raw != "null");
        let Some(tags) = tags.map_or(Some(Vec::new()), texts) else {
            return Ok(Err("`tags` must be a list of texts."));
        };
        Ok(Ok(Self { query: query.into_owned(), tags, limit: limit.clamp(1, MOST_RESULTS) }))
    }
}

fn texts(raw: &str) -> Option<Vec<String>> {
    let items = array(raw, Span::new(0, raw.len())).ok()?;
    items.into_iter().map(|span| Some(string(span.of(raw))?.into_owned())).collect()
}

/// One argument of a call, as JSON text.
pub(super) fn argument<'c>(call: &'c Call, key: &str) -> Result<Option<&'c str>, GatewayError> {
    let text = call.envelope.text();
    let Some(span) = call.envelope.param("arguments")? else { return Ok(None) };
    let Ok(arguments) = Object::parse(text, span) else { return Ok(None) };
    Ok(arguments.get(text, key)?.map(|span| span.of(text)))
}

/// `name(a, b?): what it does`
fn line(text: &mut String, name: &str, json: &[u8]) {
    // A definition, not arguments: it may be read as a value.
    let tool: Value = serde_json::from_slice(json).unwrap_or_default();
    let required = tool["inputSchema"]["required"].as_array();
    let needed = |key: &str| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(key)));
    let keys: Vec<&String> =
        tool["inputSchema"]["properties"].as_object().into_iter().flat_map(|all| all.keys()).collect();
    let (must, may): (Vec<&String>, Vec<&String>) = keys.into_iter().partition(|key| needed(key));
    let shown = must.iter().map(ToString::to_string).chain(may.iter().map(|key| format!("{key}?")));
    let mut shown: Vec<String> = shown.collect();
    if shown.len() > PARAMETERS {
        shown.truncate(PARAMETERS);
        shown.push("…".to_owned());
    }
    let about = tool["description"].as_str().or_else(|| tool["title"].as_str()).unwrap_or_default();
    let _ = writeln!(text, "{name}({}): {}", shown.join(", "), short(about));
}

/// The first sentence, on one line.
fn short(text: &str) -> String {
    let first = text.trim().split("\n\n").next().unwrap_or_default();
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = first.find(". ").map_or(first.len(), |at| at + 1);
    let sentence = &first[..end];
    if sentence.chars().count() <= LONGEST {
        return sentence.to_owned();
    }
    sentence.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// What of a definition a model needs, as its server wrote it.
fn definition(json: &Bytes) -> String {
    let text = String::from_utf8_lossy(json);
    let Ok(tool) = Object::parse(&text, Span::new(0, text.len())) else { return text.into_owned() };
    let kept = tool.members.iter().filter(|member| DEFINITION.contains(&member.name(&text)));
    let kept: Vec<String> =
        kept.map(|member| format!("{}:{}", member.key.of(&text), member.value.of(&text))).collect();
    format!("{{{}}}", kept.join(","))
}

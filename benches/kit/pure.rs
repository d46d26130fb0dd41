//! What happens to a message's bytes, without sockets: read, edited, written.

use bytes::Bytes;
use gatehouse::gateway::names::{List, Member, NameKind, NameRules, Namer};
use gatehouse::outbound::{Hop, Request, Retry, modern};
use gatehouse::protocol::edit::Edits;
use gatehouse::protocol::envelope::{Envelope, Limits};
use gatehouse::protocol::items::json_string;
use gatehouse::protocol::message::Received;
use gatehouse::protocol::method::Method;
use gatehouse::protocol::object::string;
use gatehouse::protocol::version::MODERN;

use super::{Case, message};

const LIMITS: Limits = Limits { max_depth: 128, max_elements: 100_000 };

/// Reading and writing single messages.
pub(crate) fn messages() -> Vec<Case> {
    let body = message::call("s0_tool_0000", 1024);
    let request = request(&body);
    let answer =
        |size| Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}}}"#, message::result(size)));
    let (small, large) = (answer(1024), answer(100 * 1024));
    vec![
        Case::new("read a 1 KB tools/call", (3, 800), move || Envelope::parse(body.clone(), LIMITS)),
        Case::new("write the 1 KB request for the next hop", (9, 2300), move || {
            (modern::headers(&request, MODERN), modern::body(&request, 7, MODERN, CLIENT))
        }),
        Case::new("read a 1 KB answer", (2, 520), move || Received::parse(small.clone())),
        Case::new("read a 100 KB answer", (2, 520), move || Received::parse(large.clone())),
    ]
}

const CLIENT: &str = r#"{"name":"gatehouse","version":"0.1.0"}"#;

/// The request as the core prepares it: another name, `_meta` of the hop.
fn request(body: &Bytes) -> Request {
    let envelope = Envelope::parse(body.clone(), LIMITS).expect("a good message");
    let name = envelope.param("name").expect("once").expect("there");
    assert_eq!(string(name.of(envelope.text())).as_deref(), Some("s0_tool_0000"));
    let mut edits = Edits::new();
    edits.replace(name, json_string("tool_0000"));
    Request {
        method: Method::ToolsCall,
        body: body.clone(),
        meta: envelope.param("_meta").expect("once"),
        params: envelope.params.expect("there"),
        edits,
        retry: Retry::default(),
        hop: Hop { capabilities: r#"{"elicitation":{}}"#.to_owned(), ..Hop::default() },
        name: Request::name_value("tool_0000"),
        param_headers: Vec::new(),
        forwarded: Vec::new(),
        context: None,
    }
}

/// Naming what many servers offer.
pub(crate) fn names() -> Vec<Case> {
    let servers: Vec<String> = (0..10).map(|n| format!("server-{n}")).collect();
    let natives: Vec<String> = (0..50).map(super::fixture::tool_name).collect();
    let rules = NameRules {
        separator: "_".to_owned(),
        max_length: 64,
        strict: true,
        reserved: &[],
        playbooks: false,
    };
    let name = move || {
        let member = |s| Member { server: s, prefix: s, renames: Vec::new(), kept: Vec::new() };
        let members: Vec<Member<'_>> = servers.iter().map(|s| member(s.as_str())).collect();
        let list = |member| List { member, natives: natives.iter().map(String::as_str).collect() };
        let lists: Vec<List<'_>> = (0..members.len()).map(list).collect();
        Namer::new(NameKind::Tool, &rules, &members).name_all(&lists)
    };
    vec![Case::new("name 500 tools of 10 servers", (2110, 110_000), name)]
}

//! What is asked, and whether an answer is the right one.

use std::io::Write as _;
use std::sync::Arc;

use memchr::memmem;

use crate::Options;
use crate::http::{Connection, Head, Outcome};

const LEGACY: &str = "2025-11-25";
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"generator","version":"0.1.0"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A request that is sent again and again under new ids.
pub struct Asked {
    head: String,
    rest: String,
    tokens: Arc<[String]>,
}

impl Asked {
    /// The request that `options.op` names.
    pub fn new(options: &Options, session: Option<&str>) -> Self {
        let tool = &options.tool;
        let delay = if options.delay > 0 { format!(r#","delay_ms":{}"#, options.delay) } else { String::new() };
        let call = |arguments: &str| format!(r#""name":"{tool}","arguments":{{{arguments}{delay}}}"#);
        let (method, params) = match options.op.as_str() {
            "echo" => {
                let text: String =
                    "abcdefghijklmnopqrstuvwxyz 0123456789 ".chars().cycle().take(options.size).collect();
                ("tools/call", call(&format!(r#""message":"{text}""#)))
            }
            "size" => ("tools/call", call(&format!(r#""size":{}"#, options.size))),
            "listen" => ("subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#.to_owned()),
            _ => ("tools/list", String::new()),
        };
        Self::of(options, method, &params, session)
    }

    fn of(options: &Options, method: &str, params: &str, session: Option<&str>) -> Self {
        let (path, host) = (&options.path, &options.host);
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        );
        if options.modern {
            head += &format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
            if method == "tools/call" {
                head += &format!("Mcp-Name: {}\r\n", options.tool);
            }
        } else if method != "initialize" {
            head += &format!("MCP-Protocol-Version: {LEGACY}\r\n");
        }
        head += &session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let params = match (options.modern, params) {
            (true, "") => META.to_owned(),
            (true, params) => format!("{params},{META}"),
            (false, params) => params.to_owned(),
        };
        let rest = format!(r#","method":"{method}","params":{{{params}}}}}"#);
        Self { head, rest, tokens: Arc::clone(&options.tokens) }
    }

    /// The token that request `id` bears, as a line of its head.
    fn authorization(&self, id: u64) -> String {
        let turn = id as usize % self.tokens.len().max(1);
        self.tokens.get(turn).map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default()
    }

    /// The request under this id.
    pub fn write(&self, id: u64, out: &mut Vec<u8>) {
        const FRONT: &str = "{\"jsonrpc\":\"2.0\",\"id\":";
        let (token, id) = (self.authorization(id), id.to_string());
        let length = FRONT.len() + id.len() + self.rest.len();
        out.clear();
        // A vector takes everything.
        let (head, rest) = (&self.head, &self.rest);
        let _ = write!(out, "{head}{token}Content-Length: {length}\r\n\r\n{FRONT}{id}{rest}");
    }
}

/// A connection, in the legacy era with its session.
pub async fn connect(options: &Options) -> Outcome<(Connection, Option<String>)> {
    let mut connection = Connection::open(&options.host).await?;
    if options.modern {
        return Ok((connection, None));
    }
    let params = format!(
        r#""protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{{"name":"generator","version":"0.1.0"}}"#
    );
    let mut request = Vec::new();
    Asked::of(options, "initialize", &params, None).write(1, &mut request);
    let head = connection.round(&request).await?;
    check(1, 0, &head, &connection.body)?;
    let asked = Asked::of(options, "notifications/initialized", "", head.session.as_deref());
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let token = asked.authorization(1);
    let request = format!("{}{token}Content-Length: {}\r\n\r\n{body}", asked.head, body.len());
    let accepted = connection.round(request.as_bytes()).await?.status < 300;
    accepted.then_some((connection, head.session)).ok_or("initialized was refused".to_owned())
}

/// Whether a request was refused for there being too much to do.
pub fn is_refusal(head: &Head, body: &[u8]) -> bool {
    let says = |text: &[u8]| memmem::find(body, text).is_some();
    let limited = || says(b"dev.gatehouse/retryAfterMs") || says(b"Try again shortly");
    head.status == 429 || head.status == 503 || limited()
}

/// Whether this is the result of request `id`, of `least` bytes or more.
pub fn check(id: u64, least: usize, head: &Head, body: &[u8]) -> Outcome<()> {
    let show = || String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    if head.status != 200 || body.len() < least {
        return Err(format!("status {}, {} bytes: {}", head.status, body.len(), show()));
    }
    let (front, back) = (&body[..body.len().min(512)], &body[body.len().saturating_sub(512)..]);
    let has = |text: &[u8]| memmem::find(front, text).is_some() || memmem::find(back, text).is_some();
    let own = has(format!("\"id\":{id},").as_bytes()) || has(format!("\"id\":{id}}}").as_bytes());
    if own && has(b"\"result\"") && !has(b"\"isError\":true") {
        Ok(())
    } else {
        Err(format!("not the result: {}", show()))
    }
}

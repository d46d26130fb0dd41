//! What a client sends: HTTP requests with every byte under the test's control, and modern MCP ones made right.

use base64::Engine as _;

use super::json;

/// The protocol revision of modern requests.
pub(crate) const VERSION: &str = "2026-07-28";

/// An HTTP request. `Host` and `Content-Length` are added where they are not given.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Any method, no field, no body.
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), fields: Vec::new(), body: Vec::new() }
    }

    /// A POST to `/mcp` that says it is JSON and takes JSON and events.
    pub(crate) fn post(body: impl Into<Vec<u8>>) -> Self {
        let request = Self { body: body.into(), ..Self::new("POST", "/mcp") };
        request.with("Content-Type", "application/json").with("Accept", "application/json, text/event-stream")
    }

    /// One field line more.
    pub(crate) fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// No field of this name.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(given, _)| !given.eq_ignore_ascii_case(name));
        self
    }

    /// Exactly one field of this name.
    pub(crate) fn set(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).with(name, value)
    }

    /// Another path.
    pub(crate) fn at(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name))
    }

    /// The bytes for the wire.
    pub(crate) fn bytes(&self, host: &str) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        if !self.has("host") {
            bytes.extend(format!("Host: {host}\r\n").bytes());
        }
        for (name, value) in &self.fields {
            bytes.extend(name.bytes());
            bytes.extend(b": ");
            bytes.extend(value);
            bytes.extend(b"\r\n");
        }
        if !self.has("content-length") && !self.has("transfer-encoding") {
            bytes.extend(format!("Content-Length: {}\r\n", self.body.len()).bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(&self.body);
        bytes
    }
}

/// A modern request before it is written; everything in it is JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Mcp {
    id: String,
    method: String,
    params: String,
    capabilities: String,
    /// Members of `_meta` beyond the required ones.
    meta: Vec<String>,
}

/// A modern request of id 1 without client capabilities; `params` is the text of an object without `_meta`.
pub(crate) fn mcp(method: &str, params: impl ToString) -> Mcp {
    Mcp {
        id: "1".to_owned(),
        method: method.to_owned(),
        params: params.to_string(),
        capabilities: "{}".to_owned(),
        meta: Vec::new(),
    }
}

/// A modern `tools/call`; `arguments` is JSON text.
pub(crate) fn call(name: &str, arguments: impl ToString) -> Mcp {
    let name = json::quoted(name);
    mcp("tools/call", format!("{{\"name\":{name},\"arguments\":{}}}", arguments.to_string()))
}

impl Mcp {
    /// Another id, as JSON text.
    pub(crate) fn id(mut self, id: impl ToString) -> Self {
        self.id = id.to_string();
        self
    }

    /// The capabilities declared, as JSON text.
    pub(crate) fn capabilities(mut self, capabilities: impl ToString) -> Self {
        self.capabilities = capabilities.to_string();
        self
    }

    /// One member of `_meta` more; `value` is JSON text.
    pub(crate) fn meta(mut self, key: &str, value: impl ToString) -> Self {
        self.meta.push(format!("{}:{}", json::quoted(key), value.to_string()));
        self
    }

    /// The message's text.
    pub(crate) fn text(&self) -> String {
        let mut meta = vec![
            format!("\"io.modelcontextprotocol/protocolVersion\":\"{VERSION}\""),
            format!("\"io.modelcontextprotocol/clientCapabilities\":{}", self.capabilities),
        ];
        meta.extend(self.meta.iter().cloned());
        let inside = self.params.trim().strip_prefix('{').unwrap().trim_start();
        let comma = if inside.starts_with('}') { "" } else { "," };
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":{},\"params\":{{\"_meta\":{{{}}}{comma}{inside}}}",
            self.id,
            json::quoted(&self.method),
            meta.join(",")
        )
    }

    /// The HTTP request with the headers that belong to it.
    pub(crate) fn request(&self) -> Request {
        let mut request =
            Request::post(self.text()).with("MCP-Protocol-Version", VERSION).with("Mcp-Method", &self.method);
        let field = match self.method.as_str() {
            "tools/call" | "prompts/get" => Some("name"),
            "resources/read" => Some("uri"),
            "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
            _ => None,
        };
        let name = field.and_then(|field| json::raw(&self.params, &[field]));
        if let Some(Ok(name)) = name.map(|name| serde_json::from_str::<String>(&name)) {
            request = request.with("Mcp-Name", encoded(&name));
        }
        request
    }
}

impl From<Mcp> for Request {
    fn from(mcp: Mcp) -> Self {
        mcp.request()
    }
}

/// A header value for a string: as it is where it can be, else in Base64 (H-41).
pub(crate) fn encoded(text: &str) -> String {
    let plain = text.bytes().all(|b| (0x20..0x7f).contains(&b))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if plain {
        return text.to_owned();
    }
    format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
}

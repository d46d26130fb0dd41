//! The messages the benches send: what an SDK client says, with arguments or results of a given size.

use bytes::Bytes;

/// `_meta` as the official clients write it.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;

/// So many bytes of prose, as the inside of a JSON string; a few of them are escapes.
fn prose(size: usize) -> String {
    const LINE: &str =
        r#"The quick brown fox jumps over the \"lazy\" dog and writes a line of text, 0123456789.\n"#;
    LINE.chars().cycle().take(size).collect::<String>().trim_end_matches('\\').to_owned()
}

/// A `tools/call` of about `size` bytes.
pub(crate) fn call(tool: &str, size: usize) -> Bytes {
    let head = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":""#
    );
    let tail = format!(r#""}},{META}}}}}"#);
    let room = size.saturating_sub(head.len() + tail.len());
    format!("{head}{}{tail}", prose(room)).into()
}

/// A `tools/list`.
pub(crate) fn list() -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{{META}}}}}"#).into()
}

/// The result of a `tools/call`, of about `size` bytes.
pub(crate) fn result(size: usize) -> String {
    const HEAD: &str = r#"{"resultType":"complete","content":[{"type":"text","text":""#;
    const TAIL: &str = r#""}],"isError":false,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fixture","version":"1"}}}"#;
    format!("{HEAD}{}{TAIL}", prose(size.saturating_sub(HEAD.len() + TAIL.len())))
}

/// A tool of about a kilobyte.
pub(crate) fn tool(name: &str) -> String {
    let field = |n: usize| {
        format!(
            r#""field_{n}":{{"type":"string","description":"Parameter number {n} of a tool that does nothing."}}"#
        )
    };
    let fields: Vec<String> = (0..9).map(field).collect();
    format!(
        r#"{{"name":"{name}","description":"A tool of a bench; does nothing useful.","inputSchema":{{"type":"object","properties":{{{}}},"required":["field_0"]}}}}"#,
        fields.join(",")
    )
}

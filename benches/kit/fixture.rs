//! An MCP server and a client that allocate nothing per call, so that what is counted is the gateway's.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem::find;

use super::message;

/// What a fixture answers, as results.
struct Answers {
    discover: String,
    list: String,
    call: String,
}

/// Starts a server of `tools` tools whose calls are answered with `size` bytes. It ends with the process.
pub(crate) fn server(tools: usize, size: usize) -> SocketAddr {
    let tools: Vec<String> = (0..tools).map(|n| message::tool(&tool_name(n))).collect();
    let answers = Arc::new(Answers {
        discover: r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"}"#.to_owned(),
        list: format!(
            r#"{{"resultType":"complete","tools":[{}],"ttlMs":3600000,"cacheScope":"public"}}"#,
            tools.join(",")
        ),
        call: message::result(size),
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    background(move || {
        for stream in listener.incoming().flatten() {
            let answers = Arc::clone(&answers);
            background(move || serve(stream, &answers));
        }
    });
    address
}

/// The native name of a fixture's tool.
pub(crate) fn tool_name(n: usize) -> String {
    format!("tool_{n:04}")
}

fn background(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().spawn(work).expect("a thread");
}

const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
const MIDDLE: &[u8] = b",\"result\":";

/// Answers until the peer closes.
fn serve(mut stream: TcpStream, answers: &Answers) {
    stream.set_nodelay(true).expect("a TCP socket");
    let (mut input, mut output) = (Buffer::new(), Vec::with_capacity(4 << 20));
    while let Some(message) = input.message(&mut stream) {
        let body = &message[body_start(message)..];
        let id = after(body, b"\"id\":");
        let has = |method: &[u8]| find(&body[..body.len().min(200)], method).is_some();
        let result = match () {
            () if has(b"\"tools/call\"") => &answers.call,
            () if has(b"\"tools/list\"") => &answers.list,
            () if has(b"\"server/discover\"") => &answers.discover,
            () => "{\"resultType\":\"complete\"}",
        };
        let length = HEAD.len() + id.len() + MIDDLE.len() + result.len() + 1;
        output.clear();
        write!(
            output,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
        .expect("a vector takes it");
        for piece in [HEAD, id, MIDDLE, result.as_bytes(), b"}"] {
            output.extend_from_slice(piece);
        }
        if stream.write_all(&output).is_err() {
            return;
        }
    }
}

/// The digits behind `key`.
fn after<'b>(body: &'b [u8], key: &[u8]) -> &'b [u8] {
    let Some(at) = find(body, key) else { return b"0" };
    let rest = &body[at + key.len()..];
    &rest[..rest.iter().take_while(|b| b.is_ascii_digit()).count()]
}

fn body_start(message: &[u8]) -> usize {
    find(message, b"\r\n\r\n").expect("a whole message") + 4
}

/// One side of a keep-alive connection, read message by message.
struct Buffer {
    bytes: Vec<u8>,
    used: usize,
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: vec![0; 8 << 20], used: 0 }
    }

    /// The next message with its head; `None` at the end. Both sides wait for each other, so nothing follows it.
    fn message(&mut self, stream: &mut TcpStream) -> Option<&[u8]> {
        self.used = 0;
        loop {
            let read = stream.read(&mut self.bytes[self.used..]).ok().filter(|read| *read > 0)?;
            self.used += read;
            let seen = &self.bytes[..self.used];
            let Some(head) = find(seen, b"\r\n\r\n") else { continue };
            if self.used >= head + 4 + declared(&seen[..head]) {
                return Some(&self.bytes[..self.used]);
            }
        }
    }
}

/// `content-length` of a head.
fn declared(head: &[u8]) -> usize {
    let digits = after(head, b"content-length: ");
    digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
}

/// A client that sends one request again and again.
pub(crate) struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Buffer,
}

impl Client {
    /// Connected to `address`, for this message; `name` is what `Mcp-Name` says.
    pub(crate) fn new(address: SocketAddr, method: &str, name: Option<&str>, body: &Bytes) -> Self {
        let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nuser-agent: bench/1\r\n\
             mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream, request, answer: Buffer::new() }
    }

    /// Sends the request and checks its answer; returns the answer's size.
    pub(crate) fn round(&mut self) -> usize {
        self.stream.write_all(&self.request).expect("the connection is open");
        let answer = self.answer.message(&mut self.stream).expect("the connection stays open");
        let text = || String::from_utf8_lossy(answer).into_owned();
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", text());
        assert!(find(answer, b"\"isError\":true").is_none(), "{}", text());
        let body = &answer[body_start(answer)..];
        assert!(find(body, b"\"result\":{\"resultType\":\"complete\"").is_some(), "{}", text());
        body.len()
    }
}

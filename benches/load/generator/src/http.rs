//! One keep-alive HTTP/1.1 connection: a request out, an answer back, as fast as it can be.

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub type Outcome<T> = Result<T, String>;

/// A connection, and the answer it read last.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The body of the last answer.
    pub body: Vec<u8>,
}

/// The head of an answer.
pub struct Head {
    pub status: u16,
    /// `Mcp-Session-Id`
    pub session: Option<String>,
    /// The connection ends with this answer.
    pub closes: bool,
    length: usize,
    chunked: bool,
    size: usize,
}

impl Connection {
    pub async fn open(host: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(host).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        Ok(Self { stream, buffer: Vec::new(), body: Vec::new() })
    }

    /// Sends a request and reads its answer to the end.
    pub async fn round(&mut self, request: &[u8]) -> Outcome<Head> {
        let head = self.begin(request).await?;
        if head.chunked {
            self.chunks(head.size).await?;
        } else {
            let end = head.size + head.length;
            self.fill_to(end).await?;
            self.body.extend_from_slice(&self.buffer[head.size..end]);
        }
        Ok(head)
    }

    /// Sends a request and reads the head of its answer.
    pub async fn begin(&mut self, request: &[u8]) -> Outcome<Head> {
        self.stream.write_all(request).await.map_err(|e| e.to_string())?;
        self.buffer.clear();
        self.body.clear();
        loop {
            self.fill().await?;
            if let Some(head) = parse(&self.buffer)? {
                return Ok(head);
            }
        }
    }

    /// Reads until `text` has come.
    pub async fn read_until(&mut self, text: &[u8]) -> Outcome<()> {
        while memmem::find(&self.buffer, text).is_none() {
            self.fill().await?;
        }
        Ok(())
    }

    async fn fill(&mut self) -> Outcome<()> {
        if self.buffer.capacity() - self.buffer.len() < 4 << 10 {
            self.buffer.reserve(self.buffer.len().max(16 << 10));
        }
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err("the connection ended".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn fill_to(&mut self, end: usize) -> Outcome<()> {
        while self.buffer.len() < end {
            self.fill().await?;
        }
        Ok(())
    }

    async fn chunks(&mut self, mut at: usize) -> Outcome<()> {
        loop {
            let line_end = loop {
                if let Some(found) = memmem::find(&self.buffer[at..], b"\r\n") {
                    break at + found;
                }
                self.fill().await?;
            };
            let digits = String::from_utf8_lossy(&self.buffer[at..line_end]).into_owned();
            let size = usize::from_str_radix(digits.split(';').next().unwrap_or_default().trim(), 16);
            let size = size.map_err(|_| format!("a chunk of size {digits:?}"))?;
            let start = line_end + 2;
            self.fill_to(start + size + 2).await?;
            self.body.extend_from_slice(&self.buffer[start..start + size]);
            at = start + size + 2;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

/// The head at the start of `bytes`; `None` while it is not all there.
fn parse(bytes: &[u8]) -> Outcome<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let size = match response.parse(bytes).map_err(|e| format!("not HTTP: {e}"))? {
        httparse::Status::Complete(size) => size,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or_default();
    let field = |name: &str| {
        let found = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    Ok(Some(Head {
        status,
        session: field("mcp-session-id").map(str::to_owned),
        closes: field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
        length: field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0),
        chunked: field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")),
        size,
    }))
}

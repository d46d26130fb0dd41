//! HTTP/1.1 as bytes, for both ends: heads in their order and spelling, bodies piece by piece.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request or status line with the header fields as they stood on the wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    /// The first line.
    pub(crate) first: String,
    /// Name and value of each field line, in order; a value without the white space around it.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
}

impl Head {
    fn parse(text: &[u8]) -> Self {
        let mut lines = text.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let field = |line: &[u8]| {
            let colon = line.iter().position(|b| *b == b':')?;
            let name = String::from_utf8_lossy(&line[..colon]).into_owned();
            Some((name, line[colon + 1..].trim_ascii().to_vec()))
        };
        Self { first, fields: lines.filter_map(field).collect() }
    }

    /// Every value of a field, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let hits = self.fields.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        hits.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// The value of a field that may be there once only.
    pub(crate) fn one(&self, name: &str) -> Option<String> {
        let mut all = self.all(name);
        assert!(all.len() < 2, "{name} is there more than once: {all:?}");
        all.pop()
    }

    /// How the body is told from what follows; `answer` is false for requests.
    pub(crate) fn framing(&self, answer: bool) -> Framing {
        if self.one("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            return Framing::Chunked;
        }
        match self.one("content-length") {
            Some(length) => Framing::Length(length.parse().unwrap()),
            None if answer && !self.first.contains(" 204 ") => Framing::Close,
            None => Framing::Length(0),
        }
    }
}

/// What of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes.
    Length(usize),
    /// Chunks up to an empty one.
    Chunked,
    /// Everything up to the end of the connection.
    Close,
}

/// One connection with what was read of it ahead.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads more; `false` at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    /// The next head; `None` when the other end is done.
    pub(crate) async fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let text: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return Ok(Some(Head::parse(&text[..end])));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    async fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(line[..end].to_vec());
            }
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn exact(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// The next piece of a body; `None` at its end, an error when it is cut short.
    pub(crate) async fn piece(&mut self, framing: &mut Framing) -> io::Result<Option<Vec<u8>>> {
        match framing {
            Framing::Length(0) => Ok(None),
            Framing::Length(left) => {
                let whole = self.exact(*left).await?;
                *left = 0;
                Ok(Some(whole))
            }
            Framing::Chunked => {
                let line = self.line().await?;
                let digits = String::from_utf8_lossy(&line).split(';').next().unwrap().trim().to_owned();
                let length = usize::from_str_radix(&digits, 16).map_err(io::Error::other)?;
                let piece = self.exact(length).await?;
                self.line().await?;
                if length == 0 {
                    *framing = Framing::Length(0);
                    return Ok(None);
                }
                Ok(Some(piece))
            }
            Framing::Close => {
                if self.buffer.is_empty() && !self.fill().await? {
                    return Ok(None);
                }
                Ok(Some(std::mem::take(&mut self.buffer)))
            }
        }
    }

    /// The rest of a body.
    pub(crate) async fn body(&mut self, mut framing: Framing) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece(&mut framing).await? {
            whole.extend(piece);
        }
        Ok(whole)
    }

    /// Closes the sending half.
    pub(crate) async fn end(&mut self) {
        // It may be closed already.
        let _ = self.stream.shutdown().await;
    }

    /// Everything up to the end, orderly or not.
    pub(crate) async fn drain(&mut self) -> Vec<u8> {
        self.closed().await;
        std::mem::take(&mut self.buffer)
    }

    /// Returns once the other end has closed or reset; whatever it still sends is kept.
    pub(crate) async fn closed(&mut self) {
        while matches!(self.fill().await, Ok(true)) {}
    }

    /// Ends the connection with a reset, as a dying machine's kernel would.
    pub(crate) fn reset(self) {
        #[allow(deprecated, reason = "a linger of zero does not block")]
        let _ = self.stream.set_linger(Some(std::time::Duration::ZERO));
    }
}

//! The PROXY protocol, both versions: what a proxy says of its client before the client's first byte.
//!
//! Looked for only on connections of trusted proxies, and known by its own first bytes, with which neither HTTP nor TLS
//! begins; a proxy that does not speak it is served as it is. Read to its last byte and no further.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ppp::{HeaderResult, v1, v2};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// The longest header of version 1, with its line end.
const MOST_V1: usize = 107;
/// The longest of version 2 that is read: addresses, and room for what a proxy adds.
const MOST_V2: usize = 4096;
/// Bytes of version 2 in front of its addresses: signature, version, family, length.
const HEAD: usize = 16;
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const WORD: &[u8] = b"PROXY ";

/// What the first bytes are.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// A header of so many bytes.
    Header(usize),
    /// Something else.
    Other,
    /// Not to be told yet.
    Unclear,
}

/// The address of the client that a proxy at `peer` speaks for: its own, if it says nothing, or that nobody is behind it.
/// The caller bounds the time.
pub(super) async fn client(stream: &mut TcpStream, peer: SocketAddr) -> io::Result<SocketAddr> {
    const AGAIN: Duration = Duration::from_millis(10);
    let mut first = [0; MOST_V1];
    let length = loop {
        let seen = stream.peek(&mut first).await?;
        if seen == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match start(&first[..seen])? {
            Start::Header(length) => break length,
            Start::Other => return Ok(peer),
            // Looking again is a matter of time, not of readiness: what is there is there already.
            Start::Unclear => sleep(AGAIN).await,
        }
    };
    let mut header = vec![0; length];
    stream.read_exact(&mut header).await?;
    said(&header).map(|client| client.unwrap_or(peer))
}

fn start(bytes: &[u8]) -> io::Result<Start> {
    let common = |whole: &[u8]| bytes.iter().zip(whole).all(|(a, b)| a == b);
    if !common(SIGNATURE) && !common(WORD) {
        return Ok(Start::Other);
    }
    if bytes.starts_with(SIGNATURE) {
        let Some(length) = bytes.get(HEAD - 2..HEAD) else { return Ok(Start::Unclear) };
        let length = HEAD + usize::from(length[0]) * 256 + usize::from(length[1]);
        return if length <= MOST_V2 { Ok(Start::Header(length)) } else { Err(bad("it is too long")) };
    }
    if bytes.starts_with(WORD) {
        return match memchr::memchr(b'\n', bytes) {
            Some(end) => Ok(Start::Header(end + 1)),
            None if bytes.len() >= MOST_V1 => Err(bad("its line does not end")),
            None => Ok(Start::Unclear),
        };
    }
    Ok(Start::Unclear)
}

/// The client of a whole header; `None`: the proxy speaks for itself, or does not say.
fn said(header: &[u8]) -> io::Result<Option<SocketAddr>> {
    match HeaderResult::parse(header) {
        HeaderResult::V1(Ok(header)) => Ok(match header.addresses {
            v1::Addresses::Tcp4(ip) => Some((ip.source_address, ip.source_port).into()),
            v1::Addresses::Tcp6(ip) => Some((ip.source_address, ip.source_port).into()),
            v1::Addresses::Unknown => None,
        }),
        HeaderResult::V2(Ok(header)) => Ok(match (header.command, header.addresses) {
            (v2::Command::Proxy, v2::Addresses::IPv4(ip)) => Some((ip.source_address, ip.source_port).into()),
            (v2::Command::Proxy, v2::Addresses::IPv6(ip)) => Some((ip.source_address, ip.source_port).into()),
            _ => None,
        }),
        HeaderResult::V1(Err(error)) => Err(bad(&error.to_string())),
        HeaderResult::V2(Err(error)) => Err(bad(&error.to_string())),
    }
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a header of the PROXY protocol: {why}"))
}

#[cfg(test)]
mod tests {
    use super::{MOST_V1, Start, said, start};

    const V1: &[u8] = b"PROXY TCP4 198.51.100.7 203.0.113.1 4000 443\r\n";

    fn v2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        header.extend([0x20 | command, family, length[0], length[1]]);
        header.extend(addresses);
        header
    }

    #[test]
    fn a_header_is_known_by_its_first_bytes_and_ends_where_it_ends() {
        let behind = [V1, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(start(&behind).unwrap(), Start::Header(V1.len()));
        let binary = v2(1, 0x11, &[198, 51, 100, 7, 203, 0, 113, 1, 15, 160, 1, 187]);
        assert_eq!(start(&[&binary[..], b"PRI * HTTP/2.0"].concat()).unwrap(), Start::Header(binary.len()));
        for other in
            [&b"GET / HTTP/1.1"[..], b"PRI * HTTP/2.0\r\n", b"POST /mcp", b"\x16\x03\x01", b"\r\nGET"]
        {
            assert_eq!(start(other).unwrap(), Start::Other, "{other:?}");
        }
        for length in 1..V1.len() {
            assert_eq!(start(&V1[..length]).unwrap(), Start::Unclear, "{length}");
        }
        for length in 1..16 {
            assert_eq!(start(&binary[..length]).unwrap(), Start::Unclear, "{length}");
        }
        assert!(start(&[b"PROXY ".to_vec(), vec![b'x'; MOST_V1]].concat()).is_err());
        assert!(start(&v2(1, 0x11, &[0; 5000])).is_err());
    }

    #[test]
    fn both_versions_say_who_the_client_is() {
        let client = |header: &[u8]| said(header).unwrap().map(|client| client.to_string());
        assert_eq!(client(V1).as_deref(), Some("198.51.100.7:4000"));
        assert_eq!(client(b"PROXY TCP6 2001:db8::7 ::1 4000 443\r\n").as_deref(), Some("[2001:db8::7]:4000"));
        assert_eq!(client(b"PROXY UNKNOWN\r\n"), None);
        let addresses = [198, 51, 100, 7, 203, 0, 113, 1, 15, 160, 1, 187];
        assert_eq!(client(&v2(1, 0x11, &addresses)).as_deref(), Some("198.51.100.7:4000"));
        assert_eq!(client(&v2(0, 0x11, &addresses)), None, "a health check of the proxy itself");
        assert_eq!(client(&v2(1, 0, &[])), None);
        // What a proxy adds behind the addresses is passed over.
        assert!(client(&v2(1, 0x11, &[&addresses[..], &[4, 0, 1, 0]].concat())).is_some());
        for wrong in
            [&b"PROXY TCP4 x y 1 2\r\n"[..], b"PROXY TCP4 1.2.3.4 1.2.3.4 70000 1\r\n", &v2(1, 0x11, &[1])]
        {
            assert!(said(wrong).is_err(), "{wrong:?}");
        }
    }
}

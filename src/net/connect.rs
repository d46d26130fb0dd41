//! From a URL to a connected byte stream: resolve, connect, tunnel, TLS, each within one deadline.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::error::{ClientError, Stage};
use super::proxy::Proxy;
use super::reach::Reach;
use super::stream::Stream;
use super::tls::Tls;

/// How long one address may stay silent before the next is tried beside it (RFC 8305 calls it
/// the connection attempt delay and recommends 250 ms).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Where to connect and how.
pub(super) struct Dialer {
    /// Name or address, without brackets.
    pub(super) host: String,
    /// TCP port.
    pub(super) port: u16,
    /// `host:port` with brackets where needed.
    pub(super) target: String,
    /// A proxy to tunnel through.
    pub(super) proxy: Option<Proxy>,
    /// `None` for plain http.
    pub(super) tls: Option<Tls>,
    /// Which addresses may be connected to; checked on what is connected to, so no name can change in between.
    pub(super) reach: Reach,
    /// For all steps together.
    pub(super) timeout: Duration,
}

/// A connected byte stream, and what is spoken on it.
pub(super) enum Wire {
    H1(Stream),
    /// Agreed on under TLS.
    H2(Stream),
}

impl Dialer {
    /// Connects before `deadline`. Names are resolved anew each time (F-094 d).
    pub(super) async fn dial(&self, deadline: Instant) -> Result<Wire, ClientError> {
        let tcp = match &self.proxy {
            None => self.tcp(&self.host, self.port, deadline).await?,
            Some(proxy) => {
                let tcp = self.tcp(&proxy.host, proxy.port, deadline).await.map_err(|error| {
                    ClientError::unsent(Stage::Proxy, format!("the proxy is not reachable: {error}"))
                })?;
                self.within(deadline, Stage::Proxy, proxy.tunnel(tcp, &self.target)).await?
            }
        };
        let Some(tls) = &self.tls else {
            return Ok(Wire::H1(Stream::Plain(tcp)));
        };
        let (stream, h2) = self.within(deadline, Stage::Tls, tls.connect(tcp)).await?;
        let stream = Stream::Tls(Box::new(stream.into()));
        Ok(if h2 { Wire::H2(stream) } else { Wire::H1(stream) })
    }

    /// Runs one step, naming it when the deadline passes.
    pub(super) async fn within<T>(
        &self,
        deadline: Instant,
        stage: Stage,
        step: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        match timeout_at(deadline, step).await {
            Ok(done) => done,
            Err(_) => {
                let message = format!("{}: no connection within {:?}", self.target, self.timeout);
                Err(ClientError::unsent(stage, message))
            }
        }
    }

    async fn tcp(&self, host: &str, port: u16, deadline: Instant) -> Result<TcpStream, ClientError> {
        let mut addresses = self.within(deadline, Stage::Resolve, resolve(host, port)).await?;
        addresses.retain(|address| self.reach.allows(address.ip()));
        if addresses.is_empty() {
            let message = format!("{host} is {}, and its address was not configured", self.reach.refusal());
            return Err(ClientError::unsent(Stage::Connect, message));
        }
        self.within(deadline, Stage::Connect, async {
            let tcp = first_connected(addresses).await.map_err(|error| {
                ClientError::unsent(Stage::Connect, format!("{}:{port}: {error}", bracketed(host)))
            })?;
            // A call is one small write: waiting for more to send would only delay it. Without it: slower, not wrong.
            if let Err(error) = tcp.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY refused");
            }
            Ok(tcp)
        })
        .await
    }
}

/// An IPv6 address in brackets, anything else as it is.
pub(super) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ClientError> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let failed = |why: &str| ClientError::unsent(Stage::Resolve, format!("{host}: {why}"));
    let found = tokio::net::lookup_host((host, port)).await.map_err(|e| failed(&e.to_string()))?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() {
        return Err(failed("the name has no address"));
    }
    Ok(interleaved(addresses))
}

/// Alternates the address families, keeping the resolver's order and first family.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let mut mixed = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let (a, b) = (first.next(), second.next());
        if a.is_none() && b.is_none() {
            return mixed;
        }
        mixed.extend(a);
        mixed.extend(b);
    }
}

/// Tries all addresses, each a little after the one before or as soon as that failed; the first to answer wins.
async fn first_connected(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut trying = FuturesUnordered::new();
    let mut failure = None;
    loop {
        match waiting.next() {
            Some(address) => trying.push(TcpStream::connect(address)),
            None if trying.is_empty() => {
                return Err(failure.unwrap_or_else(|| io::Error::other("no address")));
            }
            None => {}
        }
        let more = waiting.len() > 0;
        tokio::select! {
            Some(tried) = trying.next() => match tried {
                Ok(tcp) => return Ok(tcp),
                Err(error) => failure = failure.or(Some(error)),
            },
            () = sleep(NEXT_ADDRESS), if more => {}
        }
    }
}

//! Whose request it is by its address: the connection's, or what trusted proxies say of it (`trusted_proxies`).

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

/// The client's address. Hops are looked at from the nearest on: the first that is no trusted proxy is the client, and
/// what it says of others is nothing to go by. Where both headers are there and disagree, one of them came from the
/// client, so neither is believed.
pub(in crate::inbound) fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let listed = behind(peer, listed(headers), trusted);
    let forwarded = behind(peer, forwarded(headers), trusted);
    match (listed, forwarded) {
        (Some(one), Some(other)) if one != other => peer,
        (Some(one), _) | (None, Some(one)) => one,
        (None, None) => peer,
    }
}

fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&address))
}

/// The client behind `peer` by its hops, the nearest first; `None`: there are none. What is no address ends them: the hop
/// that said so is the last one that is known.
fn behind(peer: IpAddr, hops: Vec<Option<IpAddr>>, trusted: &[IpNet]) -> Option<IpAddr> {
    let mut last = hops.first().map(|_| peer)?;
    for hop in hops {
        let Some(address) = hop else { return Some(last) };
        last = address;
        if !is_trusted(address, trusted) {
            break;
        }
    }
    Some(last)
}

/// The hops of `X-Forwarded-For`.
fn listed(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    elements(headers, "x-forwarded-for").map(address).collect()
}

/// The hops of `Forwarded` (RFC 7239).
fn forwarded(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let hop = |element: &str| {
        let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
        let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
        address(node.trim().trim_matches('"'))
    };
    elements(headers, "forwarded").map(hop).collect()
}

/// The elements of a list that may stand in several headers, the last first.
fn elements<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    let mut lines: Vec<&str> =
        headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default()).collect();
    lines.reverse();
    lines.into_iter().flat_map(|line| line.rsplit(','))
}

/// An address with or without a port and brackets.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let plain = text.parse::<IpAddr>().ok().or_else(bare);
    let found = plain.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    found.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use ipnet::IpNet;

    use super::client;

    const NEAR: &str = "10.0.0.1";

    fn found(peer: &str, headers: &[(&'static str, &'static str)]) -> String {
        let trusted: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap()).into();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        client(peer.parse().unwrap(), &map, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let says = ("x-forwarded-for", "203.0.113.9");
        assert_eq!(found("198.51.100.1", &[says]), "198.51.100.1");
        assert_eq!(found("::ffff:198.51.100.1", &[says]), "198.51.100.1");
        for near in [NEAR, "::ffff:10.0.0.1", "fd00::1"] {
            assert_eq!(found(near, &[says]), "203.0.113.9", "{near}");
        }
        assert_eq!(found(NEAR, &[]), NEAR);
    }

    #[test]
    fn the_rightmost_hop_that_is_not_trusted_is_the_client() {
        for (value, client) in [
            ("1.1.1.1, 2.2.2.2, 10.0.0.7", "2.2.2.2"),
            ("1.1.1.1,2.2.2.2", "2.2.2.2"),
            ("10.0.0.9, 10.0.0.8", "10.0.0.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:443, 10.0.0.8", "2001:db8::1"),
            ("1.1.1.1:4000", "1.1.1.1"),
            // What cannot be read ends what is known.
            ("1.1.1.1, unknown, 10.0.0.7", "10.0.0.7"),
            ("1.1.1.1, unknown", NEAR),
            ("", NEAR),
        ] {
            assert_eq!(found(NEAR, &[("x-forwarded-for", value)]), client, "{value}");
        }
        let lines = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2, 10.0.0.3")];
        assert_eq!(found(NEAR, &lines), "2.2.2.2");
    }

    #[test]
    fn forwarded_says_the_same_in_its_words() {
        for (value, client) in [
            ("for=1.1.1.1;proto=https, For=\"[2001:db8::5]:4711\"", "2001:db8::5"),
            ("for=2.2.2.2, for=10.1.1.1;by=10.0.0.1", "2.2.2.2"),
            ("proto=https", NEAR),
            ("for=_hidden", NEAR),
        ] {
            assert_eq!(found(NEAR, &[("forwarded", value)]), client, "{value}");
        }
        let (listed, other) = (("x-forwarded-for", "1.1.1.1"), ("forwarded", "for=2.2.2.2"));
        assert_eq!(found(NEAR, &[listed, other]), NEAR, "one of them is the client's own");
        assert_eq!(found(NEAR, &[listed, ("forwarded", "for=1.1.1.1")]), "1.1.1.1");
    }
}

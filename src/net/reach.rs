//! Which addresses are the public internet: the guard for addresses that others' documents name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a client may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Anywhere: the operator wrote the address.
    #[default]
    Any,
    /// Public addresses only, whatever a name resolves to: the address was found in a document.
    Public,
    /// This machine only, whatever a name resolves to: found in a document of a server on this machine.
    Loopback,
}

impl Reach {
    /// Whether this address may be connected to.
    pub fn allows(self, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Public => is_public(ip),
            Self::Loopback => ip.to_canonical().is_loopback(),
        }
    }
}

impl Reach {
    /// What is wrong with an address that is not allowed.
    pub(super) const fn refusal(self) -> &'static str {
        match self {
            Self::Any | Self::Public => "not on the public internet",
            Self::Loopback => "not on this machine",
        }
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Anything the IANA registry of special-purpose addresses does not list.
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = matches!(
        (a, b, c),
        // This network, shared addresses of carriers, protocol assignments, 6to4 relays, benchmarks, reserved.
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) | (240.., ..)
    );
    !special
        && !ip.is_private()
        && !ip.is_loopback()
        && !ip.is_link_local()
        && !ip.is_multicast()
        && !ip.is_documentation()
}

/// Global unicast (2000::/3) without what is special in it; addresses that carry an IPv4 address count as that.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(inner) = embedded_v4(ip) {
        return is_public_v4(inner);
    }
    let [first, second, ..] = ip.segments();
    let special = matches!(
        (first, second),
        // Protocol assignments with Teredo and ORCHID, documentation (two blocks).
        (0x2001, 0..=0x1ff) | (0x2001, 0xdb8) | (0x3fff, 0..=0xfff)
    );
    first & 0xe000 == 0x2000 && !special
}

/// Mapped (`::ffff:a.b.c.d`), NAT64 (`64:ff9b::a.b.c.d`), 6to4 (`2002:aabb:ccdd::`).
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Reach;

    ///
    #[test]
    fn a_50_only_public_addresses_are_reached() {
        for public in
            ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "64:ff9b::808:808"]
        {
            assert!(Reach::Public.allows(public.parse().unwrap()), "{public}");
        }
        for inside in [
            "127.0.0.1",
            "127.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "203.0.113.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "fec0::1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2002:7f00:1::1",
            "2001:db8::1",
            "2001::1",
            "64:ff9b:1::1",
            "100::1",
        ] {
            let ip = inside.parse().unwrap();
            assert!(!Reach::Public.allows(ip), "{inside}");
            assert!(Reach::Any.allows(ip), "{inside}");
        }
    }

    /// Covers: A-50: beside a server on this machine, this machine.
    #[test]
    fn a_50_loopback_is_no_other_machine() {
        for here in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(Reach::Loopback.allows(here.parse().unwrap()), "{here}");
        }
        for there in ["0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "8.8.8.8", "fe80::1", "::ffff:10.0.0.1"]
        {
            assert!(!Reach::Loopback.allows(there.parse().unwrap()), "{there}");
        }
    }
}

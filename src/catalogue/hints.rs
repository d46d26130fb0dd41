//! `ttlMs` and `cacheScope`: read from servers, aged, merged, capped (L-20, L-40..L-45). Pure arithmetic.

use std::time::{Duration, Instant};

use crate::protocol::number::Decimal;

/// Who may share a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Anybody (L-23).
    Public,
    /// One authorization context (L-22).
    Private,
}

impl Scope {
    /// The value on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }

    /// Reads `cacheScope`: what is not exactly `public` is private (L-20).
    pub fn parse(text: &str) -> Self {
        if text == "public" { Self::Public } else { Self::Private }
    }

    /// Private when either is (L-41).
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        self.max(other)
    }
}

/// How long a result is fresh from its receipt, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// `ttlMs`
    pub ttl: Duration,
    /// `cacheScope`
    pub scope: Scope,
}

impl Hints {
    /// What a merge starts from, and what our own items contribute: the longest life, public (L-43).
    pub const fn longest(max_ttl: Duration) -> Self {
        Self { ttl: max_ttl, scope: Scope::Public }
    }

    /// Not to be cached, not to be shared (L-12).
    pub const NONE: Self = Self { ttl: Duration::ZERO, scope: Scope::Private };

    /// Reads a server's hints: `ttl_ms` as JSON text, `scope` as string. What is absent comes from
    /// `fallback` (the operator's word, L-42); what makes no sense counts as 0 and private.
    pub fn read(ttl_ms: Option<&str>, scope: Option<&str>, fallback: Self, max_ttl: Duration) -> Self {
        Self {
            ttl: ttl_ms.map_or(fallback.ttl, ttl).min(max_ttl),
            scope: scope.map_or(fallback.scope, Scope::parse),
        }
    }

    /// The hints that hold for two results together: the shorter life, the narrower scope (L-40, L-41).
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self { ttl: self.ttl.min(other.ttl), scope: self.scope.merge(other.scope) }
    }

    /// The same result some time after its receipt: the life that remains (L-40).
    #[must_use]
    pub fn aged(self, received: Instant, now: Instant) -> Self {
        Self { ttl: remaining(received, now, self.ttl), scope: self.scope }
    }

    /// With at most this life (missing servers, L-33).
    #[must_use]
    pub fn at_most(self, ttl: Duration) -> Self {
        Self { ttl: self.ttl.min(ttl), scope: self.scope }
    }

    /// `ttlMs` to write: whole milliseconds, rounded down.
    pub fn ttl_ms(self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }
}

/// `ttlMs` as it stands in a result: negative or no integer (a string, `1500.5`, `null`) is 0; a huge
/// one saturates (L-20).
pub fn ttl(raw: &str) -> Duration {
    let millis = Decimal::parse(raw).and_then(|number| number.clamped());
    Duration::from_millis(millis.unwrap_or(0))
}

/// What is left of a life that began at `received`; zero once it is over (fresh *while now < received +
/// ttl*, L-20).
pub fn remaining(received: Instant, now: Instant, ttl: Duration) -> Duration {
    ttl.saturating_sub(now.saturating_duration_since(received))
}

#[cfg(test)]
mod tests {
    use super::{Hints, Scope, remaining, ttl};
    use std::time::{Duration, Instant};

    const DAY: Duration = Duration::from_hours(24);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn l20_ttl_table() {
        for (raw, millis) in [
            ("0", 0),
            ("-0", 0),
            ("60000", 60_000),
            ("60000.0", 60_000),
            ("6e4", 60_000),
            ("-5", 0),
            ("-1e30", 0),
            ("1500.5", 0),
            ("-1500.5", 0),
            ("1e-3", 0),
            ("\"60000\"", 0),
            ("null", 0),
            ("true", 0),
            ("{}", 0),
            ("", 0),
            ("18446744073709551615", u64::MAX),
            ("18446744073709551616", u64::MAX),
            ("1e300", u64::MAX),
            ("1e999999", u64::MAX),
        ] {
            assert_eq!(ttl(raw), ms(millis), "{raw}");
        }
        assert_eq!(Hints::read(Some("1e300"), None, Hints::NONE, DAY).ttl, DAY, "capped");
    }

    #[test]
    fn l42_the_operators_word_counts_only_where_the_server_says_nothing() {
        let fallback = Hints { ttl: ms(30_000), scope: Scope::Public };
        let read = |ttl, scope| Hints::read(ttl, scope, fallback, DAY);
        assert_eq!(read(None, None), fallback);
        assert_eq!(read(Some("-1"), Some("PUBLIC")), Hints::NONE);
        assert_eq!(read(Some("7"), Some("public")), Hints { ttl: ms(7), scope: Scope::Public });
        assert_eq!(read(None, Some("private")).scope, Scope::Private);
        assert_eq!(Hints::read(None, None, fallback, ms(5)).ttl, ms(5), "the cap is for it as well");
    }

    #[test]
    fn l20_fresh_while_now_is_before_the_end() {
        let start = Instant::now();
        assert_eq!(remaining(start, start, ms(5)), ms(5));
        assert_eq!(remaining(start, start + ms(4), ms(5)), ms(1));
        assert_eq!(remaining(start, start + ms(5), ms(5)), Duration::ZERO);
        assert_eq!(remaining(start, start + DAY, ms(5)), Duration::ZERO);
        assert_eq!(remaining(start + ms(9), start, ms(5)), ms(5), "receipt seen from before it");
    }

    #[test]
    fn l40_the_example_of_the_rules() {
        let now = Instant::now() + DAY;
        let a = Hints { ttl: ms(300_000), scope: Scope::Public }.aged(now - Duration::from_secs(120), now);
        let b = Hints { ttl: ms(60_000), scope: Scope::Private }.aged(now - Duration::from_secs(10), now);
        let c = Hints { ttl: ms(30_000), scope: Scope::Public }.aged(now, now);
        let all = Hints::longest(DAY).merge(a).merge(b).merge(c);
        assert_eq!((all.ttl_ms(), all.scope.as_str()), (30_000, "private"));
        let without_b = Hints::longest(DAY).merge(a).merge(c);
        assert_eq!((without_b.ttl_ms(), without_b.scope.as_str()), (30_000, "public"));
        assert_eq!(Hints::longest(DAY).merge(a).ttl_ms(), 180_000);
        assert_eq!(all.at_most(ms(5000)).ttl_ms(), 5000);
    }
}

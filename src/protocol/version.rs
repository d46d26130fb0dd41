//! Protocol revisions and the two eras they belong to.

/// The newest revision served and spoken.
pub const MODERN: &str = "2026-07-28";
/// The newest revision with a handshake.
pub const LATEST_LEGACY: &str = "2025-11-25";
/// All legacy revisions a downstream server may negotiate, newest first.
pub const LEGACY: [&str; 4] = [LATEST_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"];

/// How a peer speaks: per-request `_meta` (modern) or handshake and sessions (legacy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2026-07-28 and later.
    Modern,
    /// 2024-11-05 to 2025-11-25.
    Legacy,
}

impl Era {
    /// The label value for metrics and status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// The era of a version string, if we know the version at all.
pub fn era_of(version: &str) -> Option<Era> {
    if version == MODERN {
        Some(Era::Modern)
    } else if LEGACY.contains(&version) {
        Some(Era::Legacy)
    } else {
        None
    }
}

/// A revision that clients may speak, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Revision {
    /// 2025-03-26: batches; no elicitation, no structured results.
    V20250326,
    /// 2025-06-18: elicitation by form, structured results, titles.
    V20250618,
    /// 2025-11-25: elicitation by URL, tools in sampling, icons.
    V20251125,
    /// 2026-07-28: no sessions.
    V20260728,
}

impl Revision {
    /// What legacy clients may speak here, newest first. 2024-11-05 has another transport, which we do not host (G-39).
    pub const LEGACY: [Self; 3] = [Self::V20251125, Self::V20250618, Self::V20250326];

    /// The revision's date.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V20250326 => "2025-03-26",
            Self::V20250618 => "2025-06-18",
            Self::V20251125 => LATEST_LEGACY,
            Self::V20260728 => MODERN,
        }
    }

    /// Whether its results say how long and for whom they hold.
    pub const fn has_hints(self) -> bool {
        matches!(self, Self::V20260728)
    }

    /// Whether its requests mirror arguments in headers.
    pub const fn mirrors_arguments(self) -> bool {
        matches!(self, Self::V20260728)
    }

    /// The legacy revision of this date, if it is served.
    pub fn legacy(date: &str) -> Option<Self> {
        Self::LEGACY.into_iter().find(|revision| revision.as_str() == date)
    }
}

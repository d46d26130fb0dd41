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

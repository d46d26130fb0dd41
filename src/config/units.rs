//! Durations and sizes as the operator writes them.

use std::time::Duration;

/// Nothing in a gateway is meant to last longer; keeps every sum of instants in range.
const MAX_DURATION: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Why a text is not what was wanted: the rest of a sentence that begins with the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    /// As "is not a duration".
    pub(super) what: String,
    /// What to write instead; may be empty.
    pub(super) help: &'static str,
}

impl Wrong {
    /// A sentence's end and a hint.
    pub(super) fn new(what: impl Into<String>, help: &'static str) -> Self {
        Self { what: what.into(), help }
    }
}

/// How a duration is written.
pub(super) const DURATION_HELP: &str = "a whole number and a unit of ms, s, m, h or d, as \"15s\"";

/// How a size is written.
pub(super) const SIZE_HELP: &str =
    "bytes as a number, or a whole number and a unit of B, KiB, MiB or GiB, as \"4MiB\"";

/// `"250ms"`, `"15s"`, `"5m"`, `"24h"`, `"7d"`.
pub(super) fn duration(text: &str) -> Result<Duration, Wrong> {
    let wrong = || Wrong::new("is not a duration", DURATION_HELP);
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(millis)
        .map(Duration::from_millis)
        .filter(|duration| *duration <= MAX_DURATION)
        .ok_or_else(|| Wrong::new("is longer than ten years", DURATION_HELP))
}

/// `"4MiB"`, `"64KiB"`, `"1GiB"`, `"512B"` or plain digits, in bytes.
pub(super) fn size(text: &str) -> Result<u64, Wrong> {
    let wrong = || Wrong::new("is not a size", SIZE_HELP);
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| Wrong::new("is too large", SIZE_HELP))
}

/// How a rate is written.
pub(super) const RATE_HELP: &str = "a whole number, a slash and s, min, h or d, as \"60/min\"";

/// So many in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// How many in one unit of time.
    pub(super) count: u32,
    /// The time for each of them.
    pub(super) every: Duration,
}

/// `"5/s"`, `"60/min"`, `"1000/h"`, `"10000/d"`; at most a million.
pub(super) fn rate(text: &str) -> Result<Rate, Wrong> {
    let wrong = || Wrong::new("is not a rate", RATE_HELP);
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let plain = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let count: u32 = if plain { count.parse().unwrap_or(u32::MAX) } else { return Err(wrong()) };
    match count {
        0 => Err(Wrong::new("lets nothing through", "use `deny`, or no grant")),
        1..=1_000_000 => Ok(Rate { count, every: Duration::from_secs(seconds) / count }),
        _ => Err(Wrong::new("is more than a million", "leave the limit out")),
    }
}

/// Digits and the unit behind them.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, &text[end..]))
}

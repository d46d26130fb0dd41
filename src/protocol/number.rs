//! JSON numbers compared and read by value from their text: no digit is lost, no float involved (H-53, L-20).

/// More digits than this are not written out by [`Decimal::integer`]; far above every integer in use.
const MAX_DIGITS: i64 = 400;

/// The value of a JSON number: `digits × 10^exponent`, one spelling for each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads JSON's number grammar; `None` for other text, and for exponents nobody can mean.
    pub fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, exponent(power)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) if is_digits(fraction) => (whole, fraction),
            Some(_) => return None,
            None => (mantissa, ""),
        };
        if !is_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let exponent =
            power - i64::try_from(fraction.len()).ok()? + i64::try_from(all.len() - digits.len()).ok()?;
        let digits = digits.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        Some(Self { negative: text.starts_with('-'), digits, exponent })
    }

    /// The plain decimal spelling (no exponent, no `.0`; H-40) of an integer; `None` for fractions, and
    /// for integers too long to write out.
    pub fn integer(&self) -> Option<String> {
        if self.digits.is_empty() {
            return Some("0".to_owned());
        }
        let zeros = usize::try_from(self.exponent).ok().filter(|_| self.length() <= MAX_DIGITS)?;
        let sign = if self.negative { "-" } else { "" };
        Some(format!("{sign}{}{}", self.digits, "0".repeat(zeros)))
    }

    /// The value of an integer that is not negative, at most `u64::MAX`; 0 for negative ones; `None` for
    /// fractions.
    pub fn clamped(&self) -> Option<u64> {
        match self.integer() {
            _ if self.exponent < 0 => None,
            _ if self.negative => Some(0),
            Some(plain) => Some(plain.parse().unwrap_or(u64::MAX)),
            None => Some(u64::MAX),
        }
    }

    fn length(&self) -> i64 {
        i64::try_from(self.digits.len()).unwrap_or(i64::MAX).saturating_add(self.exponent)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    // Up to 15 digits leave room for all sums with lengths of texts.
    (is_digits(digits) && digits.len() <= 15).then(|| text.parse().ok())?
}

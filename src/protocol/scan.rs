//! JSON skipped, not read: whether a value is valid and where it ends, in one pass without recursion.
//!
//! A call's arguments and results are looked at only this way, so this is where a large result's time goes: strings
//! are passed in blocks, which a parser that builds values cannot do. `tests/scan.rs` holds it against serde_json.

/// The first byte at or behind `at` that is no white space.
pub(super) fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at`, without white space before it; `None` when it is not valid JSON.
pub(super) fn value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open = Open::default();
    loop {
        // A value begins here.
        at = match bytes.get(at)? {
            b'{' => match space(bytes, at + 1) {
                end if bytes.get(end) == Some(&b'}') => end + 1,
                first => {
                    open.push(true);
                    at = key(bytes, first)?;
                    continue;
                }
            },
            b'[' => match space(bytes, at + 1) {
                end if bytes.get(end) == Some(&b']') => end + 1,
                first => {
                    open.push(false);
                    at = first;
                    continue;
                }
            },
            _ => scalar(bytes, at)?,
        };
        // A value has ended: so may what it stands in.
        loop {
            let Some(in_object) = open.last() else { return Some(at) };
            at = space(bytes, at);
            match (bytes.get(at)?, in_object) {
                (b',', true) => {
                    at = key(bytes, space(bytes, at + 1))?;
                    break;
                }
                (b',', false) => {
                    at = space(bytes, at + 1);
                    break;
                }
                (b'}', true) | (b']', false) => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

/// The end of the string whose opening quote is at `at`.
pub(super) fn string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += plain(&bytes[at..]);
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape(bytes, at)?,
            // A control character.
            _ => return None,
        }
    }
}

/// Where the value of the member begins whose key is at `at`.
pub(super) fn key(bytes: &[u8], at: usize) -> Option<usize> {
    let colon = space(bytes, string(bytes, at)?);
    (bytes.get(colon)? == &b':').then(|| space(bytes, colon + 1))
}

fn scalar(bytes: &[u8], at: usize) -> Option<usize> {
    let word = |text: &[u8]| bytes[at..].starts_with(text).then_some(at + text.len());
    match bytes.get(at)? {
        b'"' => string(bytes, at),
        b't' => word(b"true"),
        b'f' => word(b"false"),
        b'n' => word(b"null"),
        _ => number(bytes, at),
    }
}

fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += usize::from(bytes.get(at) == Some(&b'-'));
    at = match bytes.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => digits(bytes, at)?,
        _ => return None,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        at = digits(bytes, at)?;
    }
    Some(at)
}

/// The end of one or more digits.
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.iter().take_while(|b| b.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

/// The end of the escape whose backslash is at `at`.
fn escape(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => {
            let hex = bytes.get(at + 2..at + 6)?;
            hex.iter().all(u8::is_ascii_hexdigit).then_some(at + 6)
        }
        _ => None,
    }
}

/// How many bytes stand before the first quote, backslash or control character.
fn plain(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<64>();
    let clean = 64 * blocks.iter().take_while(|block| !has_special(block)).count();
    clean + plain_by_words(&bytes[clean..])
}

/// Whether there is one among 64 bytes. Without an early end, so that the compiler makes vectors of it: long strings
/// are passed a third faster than by words.
fn has_special(block: &[u8; 64]) -> bool {
    block.iter().fold(false, |found, byte| found | special(*byte))
}

const fn special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn plain_by_words(bytes: &[u8]) -> usize {
    let (pairs, rest) = bytes.as_chunks::<16>();
    for (at, pair) in pairs.iter().enumerate() {
        let [low, high] = [word(pair.first_chunk()), word(pair.last_chunk())];
        if (low | high) != 0 {
            let first = if low == 0 { 8 + first_hit(high) } else { first_hit(low) };
            return at * 16 + first;
        }
    }
    let before = bytes.len() - rest.len();
    before + rest.iter().position(|byte| special(*byte)).unwrap_or(rest.len())
}

/// The highest bit of each of eight bytes that is a quote, a backslash or a control character, by arithmetic on
/// all at once. A borrow can only come from such a byte, so it never makes up an earlier one.
fn word(bytes: Option<&[u8; 8]>) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let Some(bytes) = bytes else { return 0 };
    let word = u64::from_le_bytes(*bytes);
    // With this bit turned, quotes lie right above the control characters, and blanks elsewhere.
    let turned = word ^ (ONES * 2);
    let below = turned.wrapping_sub(ONES * 0x21) & !turned;
    let slash = word ^ (ONES * b'\\' as u64);
    let slash = slash.wrapping_sub(ONES) & !slash;
    (below | slash) & (ONES << 7)
}

const fn first_hit(hits: u64) -> usize {
    hits.trailing_zeros() as usize / 8
}

/// What is open around a value, innermost last: `true` for an object. One bit a level, so that nothing is
/// allocated before the 64th.
#[derive(Default)]
struct Open {
    deep: Vec<u64>,
    bits: u64,
    depth: u32,
}

impl Open {
    fn push(&mut self, object: bool) {
        if self.depth == u64::BITS {
            self.deep.push(self.bits);
            (self.bits, self.depth) = (0, 0);
        }
        self.bits = self.bits << 1 | u64::from(object);
        self.depth += 1;
    }

    fn last(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }

    fn pop(&mut self) {
        self.bits >>= 1;
        self.depth -= 1;
        if self.depth == 0
            && let Some(bits) = self.deep.pop()
        {
            (self.bits, self.depth) = (bits, u64::BITS);
        }
    }
}

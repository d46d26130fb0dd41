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
    const BLOCK: usize = 32;
    const WORD: usize = 8;
    let mut at = 0;
    // Most strings are short: whole blocks only behind the first words.
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<WORD>) {
        if let Some(found) = first_special(*word) {
            return at + found;
        }
        at += WORD;
        if at.is_multiple_of(BLOCK) {
            let rest = bytes.get(at..).unwrap_or_default();
            at += rest.chunks_exact(BLOCK).take_while(|block| !any_special(block)).count() * BLOCK;
        }
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|b| special(*b)).unwrap_or(rest.len())
}

const fn special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Without a way out in the middle, so that the compiler makes vector instructions of it.
fn any_special(block: &[u8]) -> bool {
    block.iter().fold(false, |any, byte| any | special(*byte))
}

/// The position of the first special byte, by arithmetic on eight at once. A borrow can only come from a byte
/// that is special itself, so it never makes an earlier one up.
const fn first_special(word: [u8; 8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let hits = (quote.wrapping_sub(ONES) & !quote)
        | (slash.wrapping_sub(ONES) & !slash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    match hits & HIGH {
        0 => None,
        hits => Some(hits.trailing_zeros() as usize / 8),
    }
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

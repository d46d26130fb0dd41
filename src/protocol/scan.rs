//! JSON skipped, not read: whether a value is valid and where it ends, in one pass without recursion.
//!
//! A call's arguments and results are looked at only this way, so this is where a large result's time goes: strings
//! are passed in blocks, which a parser that builds values cannot do. `tests/scan.rs` holds it against serde_json.

use wide::u8x16;

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
    Some(text(bytes, at)?.0)
}

/// The same, and whether there are escapes in it.
pub(super) fn text(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    // Most keys are short.
    if let Some(short) = bytes[at + 1..].first_chunk() {
        let hit = at + 1 + specials_of(short).trailing_zeros() as usize;
        if hit < at + 1 + VECTOR && bytes[hit] == b'"' {
            return Some((hit + 1, false));
        }
    }
    let (mut block, mut next) = (at + 1, at + 1);
    while block < bytes.len() {
        let mut found = specials(&bytes[block..]);
        while found != 0 {
            let hit = block + found.trailing_zeros() as usize;
            found &= found - 1;
            if hit < next {
                // A part of the escape before it.
                continue;
            }
            match bytes.get(hit)? {
                b'"' => return Some((hit + 1, next > at + 1)),
                b'\\' => next = escape(bytes, hit)?,
                // A control character.
                _ => return None,
            }
        }
        block += BLOCK;
    }
    None
}

/// Where the value of the member begins whose key is at `at`.
fn key(bytes: &[u8], at: usize) -> Option<usize> {
    colon(bytes, string(bytes, at)?)
}

/// Where the value of the member begins whose key ends at `at`.
pub(super) fn colon(bytes: &[u8], at: usize) -> Option<usize> {
    let colon = space(bytes, at);
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

/// Bytes that are looked at together: one bit each.
const BLOCK: usize = 64;
/// Bytes of one vector.
const VECTOR: usize = 16;

/// Which of the next bytes end a plain run of a string: quotes, backslashes, control characters. One bit each, the first
/// lowest. A text full of escapes costs no more looks than one without.
fn specials(bytes: &[u8]) -> u64 {
    let Some(block) = bytes.first_chunk::<BLOCK>() else {
        // Blanks are nothing special.
        let mut block = [b' '; BLOCK];
        block[..bytes.len()].copy_from_slice(bytes);
        return specials_of_all(&block);
    };
    specials_of_all(block)
}

fn specials_of_all(block: &[u8; BLOCK]) -> u64 {
    let (vectors, _) = block.as_chunks();
    let of = |(at, vector)| u64::from(specials_of(vector)) << (VECTOR * at);
    vectors.iter().enumerate().map(of).fold(0, std::ops::BitOr::bitor)
}

fn specials_of(vector: &[u8; VECTOR]) -> u32 {
    let vector = u8x16::from(*vector);
    let quote = vector.simd_eq(u8x16::splat(b'"'));
    let slash = vector.simd_eq(u8x16::splat(b'\\'));
    let control = vector.min(u8x16::splat(0x1f)).simd_eq(vector);
    (quote | slash | control).to_bitmask()
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

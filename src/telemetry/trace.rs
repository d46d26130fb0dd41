//! W3C trace context: read from `_meta` or a header, continued towards the server (M-28).

use std::cell::RefCell;

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;

/// The longest `tracestate` that is passed on, in bytes (W3C asks for 512 at least).
const LONGEST_STATE: usize = 512;
/// The longest `baggage` that is passed on, in bytes (W3C asks for 8192 at least).
const LONGEST_BAGGAGE: usize = 8192;
/// The flags that mean something: sampled, and that the id is random.
const FLAGS: u8 = 0b11;
const SAMPLED: u8 = 0b01;

thread_local! {
    /// Random bytes, and how many of them are left: fetched one by one, ids would cost more than the rest of a span.
    static POOL: RefCell<([u8; 1024], usize)> = const { RefCell::new(([0; 1024], 0)) };
}

/// The identity of one span in one trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace's id: never all zero.
    pub trace_id: [u8; 16],
    /// The span's id: never all zero.
    pub span_id: [u8; 8],
    flags: u8,
    /// `tracestate`, passed on unchanged.
    pub state: Option<String>,
}

impl TraceContext {
    /// What a well-formed `traceparent` says, with the `tracestate` beside it.
    pub fn read(parent: &str, state: Option<&str>) -> Option<Self> {
        let (trace_id, span_id, flags) = parse(parent)?;
        let state = state.filter(|state| is_visible(state, LONGEST_STATE)).map(str::to_owned);
        Some(Self { trace_id, span_id, flags, state })
    }

    /// The first span of a new trace.
    pub fn fresh(sampled: bool) -> Self {
        Self { trace_id: random(), span_id: random(), flags: u8::from(sampled), state: None }
    }

    /// A span under this one.
    pub fn child(&self) -> Self {
        Self { span_id: random(), ..self.clone() }
    }

    /// A child of `parent` where that is well-formed, else the start of a new trace; never an error.
    pub fn continue_from(parent: Option<&str>, state: Option<&str>) -> Self {
        match parent.and_then(|parent| Self::read(parent, state)) {
            Some(parent) => Self { span_id: random(), ..parent },
            None => Self::fresh(false),
        }
    }

    /// Whether its caller records it: then so do all who come after.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The `traceparent` value for the next hop.
    pub fn traceparent(&self) -> String {
        let mut text = String::with_capacity(55);
        text.push_str("00-");
        HEXLOWER.encode_append(&self.trace_id, &mut text);
        text.push('-');
        HEXLOWER.encode_append(&self.span_id, &mut text);
        text.push('-');
        HEXLOWER.encode_append(&[self.flags], &mut text);
        text
    }
}

/// `baggage` as it may go on: what cannot stand in a header, or is longer than anybody has to take, does not.
pub fn baggage(value: &str) -> Option<&str> {
    (!value.is_empty() && is_visible(value, LONGEST_BAGGAGE)).then_some(value)
}

/// `version-traceid-spanid-flags` with the right lengths, lower-case hexadecimal, ids not all zero.
fn parse(value: &str) -> Option<([u8; 16], [u8; 8], u8)> {
    let mut fields = value.split('-');
    let [version] = bytes::<1>(fields.next()?)?;
    let (trace_id, span_id) = (bytes::<16>(fields.next()?)?, bytes::<8>(fields.next()?)?);
    let [flags] = bytes::<1>(fields.next()?)?;
    // Versions to come may have more behind it.
    let whole = version != 0 || fields.next().is_none();
    let known = version != 0xff && whole && trace_id != [0; 16] && span_id != [0; 8];
    known.then_some((trace_id, span_id, flags & FLAGS))
}

/// Exactly so many bytes, in lower-case hexadecimal.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let whole = text.len() == 2 * N && HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).is_ok();
    whole.then_some(bytes)
}

fn is_visible(text: &str, longest: usize) -> bool {
    text.len() <= longest && text.bytes().all(|b| matches!(b, 0x20..=0x7e))
}

fn random<const N: usize>() -> [u8; N] {
    let id = POOL.with_borrow_mut(|(pool, left)| {
        if *left < N {
            if rand::fill(pool).is_err() {
                pool.fill(0);
            }
            *left = pool.len();
        }
        *left -= N;
        let mut id = [0; N];
        id.copy_from_slice(&pool[*left..*left + N]);
        id
    });
    // No entropy: an id that is valid and obviously not random.
    if id == [0; N] { [1; N] } else { id }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::{TraceContext, baggage};

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// Covers: M-28.
    #[test]
    fn m_28_a_valid_parent_is_continued_with_a_new_span() {
        let child = TraceContext::continue_from(Some(PARENT), Some("a=b"));
        let text = child.traceparent();
        assert!(text.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert!(text.ends_with("-01"));
        assert_ne!(text, PARENT);
        assert_eq!(child.state.as_deref(), Some("a=b"));
        assert!(child.is_sampled());
    }

    #[test]
    fn m_28_what_is_read_is_written_the_same() {
        let read = TraceContext::read(PARENT, None).unwrap();
        assert_eq!(read.traceparent(), PARENT);
        assert_eq!(HEXLOWER.encode(&read.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(read.child().trace_id, read.trace_id);
        assert_ne!(read.child().span_id, read.span_id);
        // A later version may say more, and its flags are not ours to know.
        let later =
            TraceContext::read(&PARENT.replace("00-4", "01-4").replace("-01", "-fd-x"), None).unwrap();
        assert_eq!(later.traceparent(), PARENT);
    }

    /// Covers: M-28 (malformed → a new trace, not a refusal).
    #[test]
    fn m_28_malformed_parents_start_a_new_trace() {
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-4bf92f3577b34da6a3ce929d0e0e47é-00f067aa0ba902b7-01",
        ] {
            let fresh = TraceContext::continue_from(Some(bad), Some("a=b"));
            assert!(!fresh.traceparent().contains("4bf92f35"), "{bad}");
            assert_eq!(fresh.state, None);
            assert!(!fresh.is_sampled(), "nobody asked for it");
        }
    }

    #[test]
    fn m_28_what_cannot_stand_in_a_header_does_not_go_on() {
        for bad in ["a\nb", "é", &"a".repeat(513)] {
            assert_eq!(TraceContext::continue_from(Some(PARENT), Some(bad)).state, None, "{bad}");
        }
        assert_eq!(baggage("user=alice,n=1;p"), Some("user=alice,n=1;p"));
        assert_eq!((baggage(""), baggage("a\r\nb: c"), baggage(&"a".repeat(8193))), (None, None, None));
    }
}

//! W3C trace context: read from `_meta` or a header, continued towards the server (M-28).

use aws_lc_rs::rand;

/// The identity of one span in one trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: String,
    span_id: String,
    flags: String,
    /// `tracestate`, passed on unchanged.
    pub state: Option<String>,
}

impl TraceContext {
    /// A child of `parent` where that is well-formed, else the start of a new trace; never an error.
    pub fn continue_from(parent: Option<&str>, state: Option<&str>) -> Self {
        let span_id = random_hex(8);
        match parent.and_then(parse) {
            Some((trace_id, flags)) => {
                let state = state.filter(|s| is_visible(s)).map(str::to_owned);
                Self { trace_id: trace_id.to_owned(), span_id, flags: flags.to_owned(), state }
            }
            None => Self { trace_id: random_hex(16), span_id, flags: "00".to_owned(), state: None },
        }
    }

    /// The `traceparent` value for the next hop.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{}", self.trace_id, self.span_id, self.flags)
    }

    /// The trace id, 32 lower-case hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }
}

/// The trace id of a well-formed `traceparent`.
pub fn trace_id(parent: &str) -> Option<&str> {
    parse(parent).map(|(trace_id, _)| trace_id)
}

/// `version-traceid-spanid-flags` with the right lengths, lower-case hexadecimal, ids not all zero.
fn parse(value: &str) -> Option<(&str, &str)> {
    let mut fields = value.split('-');
    let (version, trace_id) = (fields.next()?, fields.next()?);
    let (span_id, flags) = (fields.next()?, fields.next()?);
    let sized = version.len() == 2 && trace_id.len() == 32 && span_id.len() == 16 && flags.len() == 2;
    let hex = |s: &str| s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let zero = |s: &str| s.bytes().all(|b| b == b'0');
    let extra = fields.next().is_some();
    let valid = sized && version != "ff" && [version, trace_id, span_id, flags].into_iter().all(hex);
    let whole = !extra || version != "00";
    (valid && whole && !zero(trace_id) && !zero(span_id)).then_some((trace_id, flags))
}

fn is_visible(text: &str) -> bool {
    text.len() <= 512 && text.bytes().all(|b| matches!(b, 0x20..=0x7e))
}

fn random_hex(bytes: usize) -> String {
    let mut buffer = [0u8; 16];
    let part = &mut buffer[..bytes];
    if rand::fill(part).is_err() {
        // No entropy: an id that is valid and obviously not random.
        part.fill(1);
    }
    part.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::TraceContext;

    /// Covers: M-28.
    #[test]
    fn m_28_a_valid_parent_is_continued_with_a_new_span() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let child = TraceContext::continue_from(Some(parent), Some("a=b"));
        let text = child.traceparent();
        assert!(text.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert!(text.ends_with("-01"));
        assert_ne!(text, parent);
        assert_eq!(child.state.as_deref(), Some("a=b"));
    }

    /// Covers: M-28 (malformed → a new trace, not a refusal).
    #[test]
    fn m_28_malformed_parents_start_a_new_trace() {
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            let fresh = TraceContext::continue_from(Some(bad), Some("a=b"));
            assert!(!fresh.traceparent().contains("4bf92f35"), "{bad}");
            assert_eq!(fresh.trace_id().len(), 32);
            assert_eq!(fresh.state, None);
        }
    }
}

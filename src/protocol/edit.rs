//! A list of edits over a body, spliced once: what is not edited is never copied.

use bytes::Bytes;

use super::object::{Object, Span};

/// A message as byte pieces of exact total length; written vectored.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    pieces: Vec<Bytes>,
    len: usize,
}

impl Parts {
    /// No bytes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// No bytes yet, with room for so many pieces.
    pub fn with_capacity(pieces: usize) -> Self {
        Self { pieces: Vec::with_capacity(pieces), len: 0 }
    }

    /// Appends a piece; empty ones are dropped.
    pub fn push(&mut self, piece: impl Into<Bytes>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Appends all pieces of another list.
    pub fn extend(&mut self, other: Self) {
        self.len += other.len;
        self.pieces.extend(other.pieces);
    }

    /// Total bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The pieces in order, owned.
    pub fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }

    /// One contiguous copy (tests, stdio lines, small messages).
    pub fn to_bytes(&self) -> Bytes {
        match self.pieces.as_slice() {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Parts {
    fn from(piece: T) -> Self {
        let mut parts = Self::new();
        parts.push(piece);
        parts
    }
}

/// Replacements by position, applied together.
#[derive(Debug, Clone, Default)]
pub struct Edits {
    list: Vec<(Span, Bytes)>,
}

impl Edits {
    /// No edits.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy that takes `more` edits without growing.
    pub fn copy_for(&self, more: usize) -> Self {
        let mut list = Vec::with_capacity(self.list.len() + more);
        list.extend_from_slice(&self.list);
        Self { list }
    }

    /// Replaces the bytes of `span`.
    pub fn replace(&mut self, span: Span, with: impl Into<Bytes>) {
        self.list.push((span, with.into()));
    }

    /// Inserts before byte `at`.
    pub fn insert(&mut self, at: u32, what: impl Into<Bytes>) {
        self.list.push((Span { start: at, end: at }, what.into()));
    }

    /// Appends `"key":value` as the last member of `object`; `member` is that text without a comma.
    /// Call at most once an object, and do not remove all of its members in the same list.
    pub fn append(&mut self, object: &Object, member: impl Into<Bytes>) {
        let at = object.span.end - 1;
        if !object.members.is_empty() {
            self.insert(at, Bytes::from_static(b","));
        }
        self.insert(at, member);
    }

    /// Removes the members at these positions (ascending) with the commas that belong to them.
    pub fn remove(&mut self, object: &Object, positions: &[usize]) {
        let members = &object.members;
        let mut run_start = 0;
        while run_start < positions.len() {
            let mut run_end = run_start;
            while run_end + 1 < positions.len() && positions[run_end + 1] == positions[run_end] + 1 {
                run_end += 1;
            }
            let (first, last) = (positions[run_start], positions[run_end]);
            let span = match (first.checked_sub(1), members.get(last + 1)) {
                // All before the run go as well only if the run starts at 0: then take the comma behind it.
                (None, Some(next)) => Span { start: members[first].key.start, end: next.key.start },
                (Some(before), _) => Span { start: members[before].value.end, end: members[last].value.end },
                (None, None) => Span { start: members[first].key.start, end: members[last].value.end },
            };
            self.replace(span, Bytes::new());
            run_start = run_end + 1;
        }
    }

    /// The bytes of `whole` with all edits inside it applied. Edits must not overlap.
    pub fn apply(self, body: &Bytes, whole: Span) -> Parts {
        let mut parts = Parts::with_capacity(self.pieces());
        self.apply_to(&mut parts, body, whole);
        parts
    }

    /// The most pieces that applying gives.
    pub const fn pieces(&self) -> usize {
        self.list.len() * 2 + 1
    }

    /// [`Edits::apply`] at the end of `parts`.
    pub fn apply_to(mut self, parts: &mut Parts, body: &Bytes, whole: Span) {
        // Stable: edits of one place keep their order.
        self.list.sort_by_key(|(span, _)| (span.start, span.end));
        let mut at = whole.start;
        for (span, with) in self.list {
            debug_assert!(span.start >= at && span.end <= whole.end, "overlapping edits");
            parts.push(body.slice(at as usize..span.start as usize));
            parts.push(with);
            at = span.end;
        }
        parts.push(body.slice(at as usize..whole.end as usize));
    }
}

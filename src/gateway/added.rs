//! Members written behind those that a server's result has already.

/// Members that a result gets: `"key":value`, with commas between them.
#[derive(Default)]
pub(super) struct Added(String);

impl Added {
    pub(super) fn member(&mut self, key: &str, value: &str) {
        self.begin(key, value.len());
        self.0.push_str(value);
    }

    /// A member that is an object with this one member.
    pub(super) fn object(&mut self, key: &str, inner: &str, value: &str) {
        self.begin(key, inner.len() + value.len() + 5);
        self.0.extend(["{\"", inner, "\":", value, "}"]);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// What stands before a value of so many bytes.
    fn begin(&mut self, key: &str, length: usize) {
        self.0.reserve(key.len() + length + 4);
        let comma = if self.0.is_empty() { "" } else { "," };
        self.0.extend([comma, "\"", key, "\":"]);
    }
}

//! `${VAR}` and `${file:/path}` in string values, once (F-079).

use std::io;
use std::path::{Path, PathBuf};

/// Files named by `${file:}` are secrets and settings, not data.
const MAX_FILE: usize = 1 << 20;

/// Reads a file named by `${file:}`; at most the given number of bytes are wanted.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path, usize) -> io::Result<Vec<u8>>;

/// The world outside the files: what placeholders stand for.
#[derive(Clone, Copy)]
pub(super) struct Outside<'a> {
    /// An environment variable; `None` when it is not set or not UTF-8.
    pub(super) var: &'a dyn Fn(&str) -> Option<String>,
    /// The contents of a file.
    pub(super) file: ReadFile<'a>,
}

/// Why a placeholder has no value. Shows names, never values.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum ExpandError {
    /// The variable is missing.
    #[error("environment variable `{0}` is not set")]
    Unset(String),
    /// The file cannot be read.
    #[error("file `{}` {why}", .path.display())]
    File {
        /// As written.
        path: PathBuf,
        /// "cannot be read: …"
        why: String,
    },
    /// `${` without its end.
    #[error("`${{` without a closing `}}`")]
    Unclosed,
    /// `${…}` with something else inside.
    #[error("`${{…}}` holds neither a variable's name nor `file:` and a path")]
    NotAName,
}

impl ExpandError {
    /// What to do about it.
    pub(super) fn help(&self) -> &'static str {
        match self {
            Self::Unset(_) => "set it, or write `$${` for a literal `${`",
            Self::File { .. } => "",
            Self::Unclosed | Self::NotAName => {
                "write `${NAME}` or `${file:/path}`, or `$${` for a literal `${`"
            }
        }
    }
}

/// The value of `raw`, and whether anything from outside is in it. Relative paths are under `dir`.
pub(super) fn expand(
    raw: &str,
    dir: &Path,
    outside: Outside<'_>,
) -> Result<(String, bool), Vec<ExpandError>> {
    let mut value = String::with_capacity(raw.len());
    let mut expanded = false;
    let mut errors = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.find('$') {
        value.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            value.push('$');
            rest = after;
        } else if let Some(inside) = rest.strip_prefix('{') {
            expanded = true;
            let Some(end) = inside.find('}') else {
                errors.push(ExpandError::Unclosed);
                break;
            };
            match placeholder(&inside[..end], dir, outside) {
                Ok(text) => value.push_str(&text),
                Err(error) => errors.push(error),
            }
            rest = &inside[end + 1..];
        } else {
            value.push('$');
        }
    }
    value.push_str(rest);
    if errors.is_empty() { Ok((value, expanded)) } else { Err(errors) }
}

fn placeholder(inside: &str, dir: &Path, outside: Outside<'_>) -> Result<String, ExpandError> {
    if let Some(path) = inside.strip_prefix("file:") {
        return if path.is_empty() { Err(ExpandError::NotAName) } else { file(path, dir, outside) };
    }
    let mut bytes = inside.bytes();
    let head = bytes.next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic());
    if !head || !bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
        return Err(ExpandError::NotAName);
    }
    (outside.var)(inside).ok_or_else(|| ExpandError::Unset(inside.to_owned()))
}

fn file(path: &str, dir: &Path, outside: Outside<'_>) -> Result<String, ExpandError> {
    let fail = |why: String| ExpandError::File { path: PathBuf::from(path), why };
    // One byte more than allowed is asked for, so that a longer file is noticed.
    let bytes = (outside.file)(&dir.join(path), MAX_FILE + 1)
        .map_err(|error| fail(format!("cannot be read: {}", error.kind())))?;
    if bytes.len() > MAX_FILE {
        return Err(fail("is larger than 1 MiB".to_owned()));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| fail("is not UTF-8".to_owned()))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

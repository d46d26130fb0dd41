//! What is wrong with what a server listed, and what was done about it: told by the log and by `check`.

use std::fmt;

use super::bindings::Invalid;
use crate::protocol::method::Kind;

/// Something wrong with a list. Names and pointers in it are the server's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A tool is left out, because one of its `x-mcp-header` is invalid (H-49).
    LeftOut {
        /// Its native name.
        item: Box<str>,
        /// Which annotation, and why.
        invalid: Invalid,
    },
    /// A tool stays without an `x-mcp-header` that is invalid and had no meaning on this link (H-50).
    Stripped {
        /// Its native name.
        item: Box<str>,
        /// Which annotation, and why.
        invalid: Invalid,
    },
    /// A tool is left out, because a key that decides occurs twice in it (design §2).
    Unreadable {
        /// Its native name.
        item: Box<str>,
    },
    /// A tool is left out, because it runs as a task of 2025-11-25 only.
    TasksOnly {
        /// Its native name.
        item: Box<str>,
    },
    /// A part of the operator's override does not fit the definition, and is not applied.
    Override {
        /// The native name.
        item: Box<str>,
        /// Which part, and why.
        problem: String,
    },
    /// So many items have no usable name, and are left out.
    Nameless(usize),
    /// The walk stopped before the end of the list.
    Cut {
        /// Which bound or guard stopped it.
        reason: &'static str,
        /// Items found until then.
        items: usize,
    },
}

impl Fault {
    /// The native name of an item that is not shown because of it.
    pub(super) fn left_out(&self) -> Option<&str> {
        match self {
            Self::LeftOut { item, .. } | Self::Unreadable { item } | Self::TasksOnly { item } => Some(item),
            Self::Stripped { .. } | Self::Override { .. } | Self::Nameless(_) | Self::Cut { .. } => None,
        }
    }

    /// Writes it to the log.
    pub(super) fn log(&self, server: &str, kind: Kind) {
        let kind = kind.as_str();
        if matches!(self, Self::Stripped { .. }) {
            tracing::info!(server, kind, fault = %self, "a fault of a list, mended");
        } else if matches!(self, Self::Override { .. }) {
            tracing::warn!(server, kind, fault = %self, "an override does not fit");
        } else {
            tracing::warn!(server, kind, fault = %self, "a fault of a list: some of it is not shown");
        }
    }

    /// The label of `gatehouse_server_violations_total`, for faults of the list as such.
    pub(super) const fn violation(&self) -> Option<&'static str> {
        match self {
            Self::Nameless(_) => Some("item"),
            Self::Cut { .. } => Some("list_cut"),
            Self::LeftOut { .. }
            | Self::Stripped { .. }
            | Self::Override { .. }
            | Self::Unreadable { .. }
            | Self::TasksOnly { .. } => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOut { item, invalid } => write!(f, "{item:?} is left out: {invalid}"),
            Self::Stripped { item, invalid } => write!(f, "{item:?} is shown without its {invalid}"),
            Self::Unreadable { item } => write!(f, "{item:?} is left out: a key occurs twice in it"),
            Self::TasksOnly { item } => {
                write!(f, "{item:?} is left out: it runs as a task of 2025-11-25 only, which is not bridged")
            }
            Self::Override { item, problem } => write!(f, "tools.override.{item:?}.{problem}"),
            Self::Nameless(count) => write!(f, "items without a usable name: {count}"),
            Self::Cut { reason, items } => write!(f, "the list is cut short after {items} items: {reason}"),
        }
    }
}

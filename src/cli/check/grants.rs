//! Grants held against what the servers offer.

use super::live::Contact;
use crate::config::{Config, Warning};
use crate::policy::Policy;
use crate::policy::doubts::{Stock, audit_rules};
use crate::protocol::method::Kind;

/// Patterns of grants that match nothing, and tools that nobody may use.
pub(super) fn doubts(config: &Config, contacts: &[Contact]) -> Vec<Warning> {
    let servers = config.servers.iter().map(|server| server.name.as_str());
    let stocks: Vec<Stock<'_>> =
        servers.zip(contacts).map(|(server, contact)| stock(server, contact)).collect();
    audit_rules(&Policy::new(&config.grants), &config.endpoints, &stocks)
}

fn stock<'a>(server: &'a str, contact: &'a Contact) -> Stock<'a> {
    let mut items = Some(Vec::new());
    for (kind, list) in Kind::ALL.into_iter().zip(&contact.lists) {
        // A list that is not known could hold anything.
        items = items.zip(list.known()).map(|(mut items, known)| {
            items.extend(known.items.iter().map(|item| (kind, &*item.native)));
            items
        });
    }
    Stock { server, items }
}

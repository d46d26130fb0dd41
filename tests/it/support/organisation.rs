//! A generated organisation: 25 services with twelve tools each, and what people there need.

use super::json::quoted;

const SERVICES: &str = include_str!("../../fixtures/organisation.txt");
const NEEDS: &str = include_str!("../../fixtures/needs.txt");

/// One service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Definitions.
    pub(crate) tools: Vec<String>,
}

/// One need and the tools that are right for it.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) said: &'static str,
    pub(crate) right: Vec<&'static str>,
}

/// All services.
pub(crate) fn services() -> Vec<Service> {
    let blocks = SERVICES.split("## ").filter(|block| !block.trim().is_empty());
    blocks.enumerate().map(|(number, block)| service(number, block)).collect()
}

/// All needs.
pub(crate) fn needs() -> Vec<Need> {
    let need = |line: &'static str| {
        let (said, right) = line.split_once(" | ").expect("a need and a tool");
        Need { said, right: right.split(", ").collect() }
    };
    NEEDS.lines().map(need).collect()
}

fn service(number: usize, block: &str) -> Service {
    let (head, lines) = block.split_once('\n').unwrap();
    let (name, about) = head.split_once(" | ").unwrap();
    let mut tools = Vec::new();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let (kind, line) = line.split_at(2);
        let parts: Vec<&str> = line.split(" | ").collect();
        match (kind, &parts[..]) {
            ("@ ", [noun, plural, fields, details, needed]) => {
                tools.extend(family(number, &Entity { noun, plural, fields, details, needed }));
            }
            ("- ", [name, about, parameters]) => tools.push(tool(name, about, parameters, 1)),
            _ => panic!("{line}"),
        }
    }
    Service { name: name.to_owned(), about: about.to_owned(), tools }
}

struct Entity<'a> {
    noun: &'a str,
    plural: &'a str,
    fields: &'a str,
    details: &'a str,
    needed: &'a str,
}

/// The five tools that every kind of thing has, in one of three manners of writing.
fn family(number: usize, entity: &Entity<'_>) -> Vec<String> {
    let Entity { noun, plural, fields, details, needed } = entity;
    let said = noun.replace('_', " ");
    let [list, get, create, update, delete] = match number % 3 {
        0 => [
            format!("List {plural}, newest first. Results are paged; narrow them with a filter."),
            format!("Get one {said} by its id, with {details}."),
            format!("Create a new {said}. Returns its id and link."),
            format!("Update a {said}: {fields}. What is not given stays as it is."),
            format!("Delete a {said}. This cannot be undone."),
        ],
        1 => [
            format!("Returns all {plural} that you may see. Use `filter` and `cursor` for long lists."),
            format!("Retrieves the details of a {said}: {details}."),
            format!("Adds a {said} with {fields}."),
            format!("Changes {fields} of an existing {said}."),
            format!("Removes a {said} for good."),
        ],
        _ => [
            format!("Lists {plural} with their state."),
            format!("Show a single {said} including {details}.\n\nFails if the id is unknown."),
            format!("Make a new {said}; set {fields}."),
            format!("Edit a {said} ({fields})."),
            format!("Deletes the {said} with this id. Needs confirmation by its owner."),
        ],
    };
    let plural = plural.replace(' ', "_");
    vec![
        tool(&format!("list_{plural}"), &list, "filter, cursor, page_size", 0),
        tool(&format!("get_{noun}"), &get, "id", 1),
        tool(&format!("create_{noun}"), &create, needed, 2),
        tool(&format!("update_{noun}"), &update, &format!("id, {needed}"), 1),
        tool(&format!("delete_{noun}"), &delete, "id", 1),
    ]
}

/// A definition; the first `required` parameters are.
fn tool(name: &str, about: &str, parameters: &str, required: usize) -> String {
    let keys: Vec<&str> = parameters.split(", ").collect();
    let property = |key: &&str| {
        let kind = match *key {
            "page_size" | "limit" | "per_page" | "tail" | "replicas" | "amount" | "levels" => "integer",
            "include_children" | "failed_only" | "unread_only" | "analyze" | "is_private" => "boolean",
            _ => "string",
        };
        let about = format!("The {}", key.replace('_', " "));
        format!("{}:{{\"type\":\"{kind}\",\"description\":{}}}", quoted(key), quoted(&about))
    };
    let properties: Vec<String> = keys.iter().map(property).collect();
    let required: Vec<String> = keys.iter().take(required).map(|key| quoted(key)).collect();
    format!(
        "{{\"name\":{},\"description\":{},\"inputSchema\":{{\"type\":\"object\",\"properties\":{{{}}},\"required\":[{}]}}}}",
        quoted(name),
        quoted(about),
        properties.join(","),
        required.join(",")
    )
}

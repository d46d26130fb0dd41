//! The three tools as they are listed. Short: they stand in every context.

use std::collections::BTreeSet;

use crate::protocol::items::json_string;

/// Results of a search if the caller does not say how many, and at most.
pub(super) const RESULTS: usize = 8;
pub(super) const MOST_RESULTS: usize = 20;
/// Tags that are told; a search takes any.
const TOLD_TAGS: usize = 40;

/// Their definitions, in the order of [`super::SEARCHING`].
pub(super) fn tools(tags: &BTreeSet<&str>) -> [String; 3] {
    let told: Vec<String> = tags.iter().take(TOLD_TAGS).map(|tag| json_string(tag)).collect();
    let tags = if told.is_empty() {
        String::new()
    } else {
        let known = format!("Only tools with all of these tags. Known: {}", told.join(", ").replace('"', ""));
        format!(
            ",\"tags\":{{\"type\":\"array\",\"items\":{{\"type\":\"string\"}},\"description\":{}}}",
            json_string(&known)
        )
    };
    let read_only = "\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}";
    [
        format!(
            "{{\"name\":\"search_tools\",\"description\":\"Find tools by what they do: most tools here are not listed, \
             only found. Say in a few words what you need; the best matches come first.\",\"inputSchema\":{{\
             \"type\":\"object\",\"properties\":{{\"query\":{{\"type\":\"string\",\"description\":\"What you need, as \
             \\\"create a calendar event\\\"\"}}{tags},\"limit\":{{\"type\":\"integer\",\"minimum\":1,\"maximum\":\
             {MOST_RESULTS},\"default\":{RESULTS}}}}},\"required\":[\"query\"]}},{read_only}}}"
        ),
        format!(
            "{{\"name\":\"describe_tool\",\"description\":\"Show the whole definition of a tool that was found: its \
             description and the schema of its arguments.\",\"inputSchema\":{{\"type\":\"object\",\"properties\":\
             {{\"name\":{{\"type\":\"string\",\"description\":\"A name from search_tools\"}}}},\"required\":\
             [\"name\"]}},{read_only}}}"
        ),
        "{\"name\":\"call_tool\",\"description\":\"Call a tool that was found. The result is that tool's own.\",\
         \"inputSchema\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"description\":\
         \"A name from search_tools\"},\"arguments\":{\"type\":\"object\",\"description\":\"What that tool's schema \
         asks for; see describe_tool\"}},\"required\":[\"name\"]}}"
            .to_owned(),
    ]
}

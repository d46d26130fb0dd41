//! Addresses to send things to, encoded text, and markup that pretends to be a prompt.

/// Hosts that take whatever is sent to them, or hide where they lead.
const TAKERS: [&str; 15] = [
    "webhook.site",
    "requestbin",
    "pipedream.net",
    ".ngrok",
    "burpcollaborator",
    ".oast.",
    "interact.sh",
    "bit.ly/",
    "tinyurl.com",
    "//t.co/",
    "goo.gl/",
    "pastebin.com",
    "transfer.sh",
    "trycloudflare.com",
    "discord.com/api/webhooks",
];
/// Words that send something.
const SENDING: [&str; 14] = [
    "send",
    "post",
    "upload",
    "forward",
    "exfiltrate",
    "transmit",
    "submit",
    "report",
    "curl",
    "wget",
    "beacon",
    "log",
    "deliver",
    "copy",
];
/// Names of tags that models take for a part of their prompt.
const TAGS: [&str; 21] = [
    "important",
    "system",
    "instruction",
    "instructions",
    "secret",
    "hidden",
    "admin",
    "assistant",
    "override",
    "critical",
    "attention",
    "rules",
    "tool_call",
    "function_calls",
    "invoke",
    "thinking",
    "script",
    "iframe",
    "system_prompt",
    "system-reminder",
    "urgent",
];
/// Marks of prompts that are no tags.
const MARKS: [&str; 12] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|endoftext|>",
    "[inst]",
    "<<sys>>",
    "[system]",
    "### system",
    "### instruction",
    "<!--",
    "\nassistant:",
    "[important]",
];
/// Characters in a row that are no words.
const BASE64: usize = 40;
const HEX: usize = 65;
const ESCAPES: usize = 8;

/// What is wrong with the links of a text.
pub(super) fn link(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let image = lower.match_indices("![").any(|(at, _)| {
        lower[at..].split_once("](").is_some_and(|(label, target)| {
            !label.contains('\n') && (target.starts_with("http") || target.starts_with("data:"))
        })
    });
    if image {
        return Some("holds an image that is fetched when it is shown".to_owned());
    }
    const ACTS: [&str; 2] = ["javascript:", "data:text/html"];
    if let Some(act) = ACTS.into_iter().find(|act| lower.contains(act)) {
        return Some(format!("holds a link that acts: {act:?}"));
    }
    if let Some(taker) = TAKERS.into_iter().find(|taker| lower.contains(taker)) {
        return Some(format!("names an address that takes anything: {taker:?}"));
    }
    let web = lower.match_indices("http").filter(|(at, _)| is_link(&lower[*at..]));
    web.map(|(at, _)| at).find_map(|at| doubtful(&lower, at)).or_else(|| mail(&lower))
}

/// What is wrong with the link that begins there.
fn doubtful(lower: &str, at: usize) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '`');
    let url = lower[at..].split(ends).next().unwrap_or_default();
    let host = host(url);
    let filled = url.contains(['{', '<']) && url.contains('?') && !is_example(host);
    if filled || is_number(host) || host.contains('@') || host.starts_with("xn--") {
        return Some(format!("holds a doubtful link to {host:?}"));
    }
    (sends(sentence(lower, at)) && !is_example(host)).then(|| format!("asks to send something to {host:?}"))
}

/// A mail address to send something to.
fn mail(lower: &str) -> Option<String> {
    let is_target = |at: usize| {
        let before = lower[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ')' | '"' | '\'');
        let domain = lower[at + 1..].split(ends).next().unwrap_or_default().trim_end_matches('.');
        before && domain.contains('.') && !is_example(domain) && sends(sentence(lower, at))
    };
    let found = lower.match_indices('@').any(|(at, _)| is_target(at));
    found.then(|| "asks to send something to an address".to_owned())
}

/// The hosts a text links to.
pub(super) fn hosts(text: &str, found: &mut Vec<String>) {
    let lower = text.to_lowercase();
    let links = lower.match_indices("http").filter(|(at, _)| is_link(&lower[*at..]));
    found.extend(links.map(|(at, _)| host(&lower[at..]).to_owned()));
}

fn is_link(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let ends = |c: char| c.is_whitespace() || "/?#\"\\)>`',".contains(c);
    rest.split(ends).next().unwrap_or_default()
}

/// Names that belong to nobody, and this machine.
fn is_example(host: &str) -> bool {
    const NAMES: [&str; 7] =
        ["example.com", "example.org", "example.net", "localhost", "127.0.0.1", "example", "test"];
    let host = host.split(':').next().unwrap_or_default().trim_end_matches('.');
    NAMES
        .iter()
        .any(|name| host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// An address by number, of another machine.
fn is_number(host: &str) -> bool {
    let bare = host.split(':').next().unwrap_or_default();
    let numbers: Vec<&str> = bare.split('.').collect();
    numbers.len() == 4
        && numbers.iter().all(|one| one.parse::<u8>().is_ok())
        && !bare.starts_with("127.")
        && bare != "0.0.0.0"
}

/// The sentence around a place; a dot within an address does not end it.
fn sentence(text: &str, at: usize) -> &str {
    let start = text[..at].rfind(". ").max(text[..at].rfind(['\n', ';'])).map_or(0, |end| end + 1);
    let rest = &text[at..];
    let end = [rest.find(". "), rest.find(['\n', ';'])].into_iter().flatten().min().unwrap_or(rest.len());
    &text[start..at + end]
}

fn sends(sentence: &str) -> bool {
    let mut words = sentence.split(|c: char| !c.is_alphanumeric());
    words.any(|word| SENDING.contains(&word))
}

/// A long run that is no words.
pub(super) fn encoded(text: &str) -> Option<String> {
    if text.matches("\\x").count().max(text.matches("\\u").count()).max(percents(text)) >= ESCAPES {
        return Some("escapes".to_owned());
    }
    let run = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_');
    text.split(|c| !run(c)).find(|word| is_code(word)).map(str::to_owned)
}

fn is_code(word: &str) -> bool {
    /// Shorter ones are codes only when padded.
    const PADDED: usize = 16;
    let count = |wanted: fn(char) -> bool| word.chars().filter(|c| wanted(*c)).count();
    let (upper, lower) = (count(|c| c.is_ascii_uppercase()), count(|c| c.is_ascii_lowercase()));
    let apart = count(|c| matches!(c, '/' | '-' | '_'));
    let mixed = upper > 3 && lower > 3;
    let hex = word.len() >= HEX && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let long = word.len() >= BASE64 && mixed && count(|c| c.is_ascii_digit()) > 1 && apart * 12 < word.len();
    let padded = word.len() >= PADDED && word.ends_with('=') && mixed && apart == 0;
    hex || long || padded
}

fn percents(text: &str) -> usize {
    let hex = |rest: &[u8]| rest.len() > 2 && rest[1].is_ascii_hexdigit() && rest[2].is_ascii_hexdigit();
    text.match_indices('%').filter(|(at, _)| hex(&text.as_bytes()[*at..])).count()
}

/// A tag or mark of a prompt.
pub(super) fn markup(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    if let Some(mark) = MARKS.into_iter().find(|mark| lower.contains(mark)) {
        return Some(mark);
    }
    let stands = |tag: &&str| {
        lower.match_indices(*tag).any(|(at, _)| {
            let opens = lower[..at].trim_end_matches('/').ends_with('<');
            opens && lower[at + tag.len()..].starts_with(['>', ' ', '/', '\n'])
        })
    };
    TAGS.into_iter().find(stands)
}

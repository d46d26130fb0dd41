//! A report as text for people.

use std::fmt::Write as _;

use super::report::{
    EndpointPart, Finding, ListPart, ListState, NamePart, Report, ServerPart, ServerState, Severity,
};

/// Longer texts of servers are cut.
const MOST: usize = 200;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Whether the reader is a terminal.
    pub(super) colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn severity(self, severity: Severity) -> String {
        let code = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "1;33",
            Severity::Hint => "1;36",
        };
        self.paint(code, severity.as_str())
    }

    fn heading(self, text: &str) -> String {
        self.paint("1", text)
    }
}

/// The whole report, with a newline at its end.
pub(super) fn render(report: &Report, style: Style) -> String {
    let mut out = String::new();
    for server in &report.servers {
        server_block(&mut out, server, style);
    }
    for endpoint in &report.endpoints {
        endpoint_block(&mut out, endpoint, style, report.summary.offline || report.failure.is_some());
    }
    if !out.is_empty() {
        out.push('\n');
    }
    findings(&mut out, report, style);
    out.push_str(&total(report));
    out.push('\n');
    out
}

// Writing to a string cannot fail.
fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}", text.trim_end());
}

fn server_block(out: &mut String, server: &ServerPart, style: Style) {
    let state = match server.state {
        ServerState::Up => style.paint("32", "up"),
        ServerState::Dead => style.paint("31", "dead"),
        ServerState::Unasked => "not asked".to_owned(),
    };
    let name = style.heading(&format!("server {}", clean(&server.name)));
    let mut parts = vec![format!("{name}: {state}")];
    if let (Some(era), Some(version)) = (server.era, &server.version) {
        parts.push(format!("{era} {}", clean(version)));
    }
    parts.extend(server.info.as_ref().and_then(|info| {
        let name = info.name.as_deref().or(info.title.as_deref())?;
        let version = info.version.as_deref().unwrap_or_default();
        Some(clean(format!("{name} {version}").trim_end()))
    }));
    parts.push(clean(&server.target));
    parts.extend(server.took_ms.map(|took| format!("{took} ms")));
    line(out, &parts.join(", "));
    if let Some(capabilities) = server.capabilities.as_ref().and_then(|c| c.as_object()) {
        let offers: Vec<String> = capabilities.iter().map(|(name, value)| capability(name, value)).collect();
        line(
            out,
            &format!(
                "  offers     {}",
                if offers.is_empty() { "nothing".to_owned() } else { offers.join(", ") }
            ),
        );
    }
    let lists = [&server.tools, &server.prompts, &server.resources, &server.templates];
    for (kind, list) in ["tools", "prompts", "resources", "templates"].into_iter().zip(lists) {
        if let Some(said) = list_line(list) {
            line(out, &format!("  {kind:<9}  {said}"));
        }
    }
}

/// A capability with what is switched on in it.
fn capability(name: &str, value: &serde_json::Value) -> String {
    let on: Vec<String> = value
        .as_object()
        .map(|settings| settings.iter().filter(|(_, v)| **v != false).map(|(key, _)| clean(key)).collect())
        .unwrap_or_default();
    if on.is_empty() { clean(name) } else { format!("{} ({})", clean(name), on.join(", ")) }
}

fn list_line(list: &ListPart) -> Option<String> {
    match list.state {
        ListState::Listed => {
            let faulty = list.listed.saturating_sub(list.allowed + list.denied);
            let mut said = format!("{}", list.listed);
            if list.denied > 0 {
                let _ = write!(said, ", {} allowed, {} denied", list.allowed, list.denied);
            }
            if faulty > 0 {
                let _ = write!(said, ", {faulty} left out");
            }
            Some(said)
        }
        ListState::Failed => Some(format!("failed: {}", clean(list.reason.as_deref().unwrap_or_default()))),
        ListState::None | ListState::Unasked => None,
    }
}

fn endpoint_block(out: &mut String, endpoint: &EndpointPart, style: Style, unasked: bool) {
    let heading = style.heading(&format!("endpoint {}", clean(&endpoint.path)));
    if unasked {
        line(out, &format!("{heading}: {}", endpoint.servers.join(", ")));
        return;
    }
    let counts = [
        (endpoint.tools.len(), "tool"),
        (endpoint.prompts.len(), "prompt"),
        (endpoint.resources, "resource"),
        (endpoint.templates, "template"),
    ];
    let counts: Vec<String> = counts.into_iter().map(|(count, word)| counted(count, word)).collect();
    let mut text = format!("{heading}: {}", counts.join(", "));
    if !endpoint.missing.is_empty() {
        let _ = write!(text, "; missing: {}", endpoint.missing.join(", "));
    }
    line(out, &text);
    let kinds = [("tool", &endpoint.tools), ("prompt", &endpoint.prompts)];
    let rows = kinds.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| row(kind, name)));
    table(out, &rows.collect::<Vec<_>>());
}

/// Kind, exposed name, its length, server, native name, why it was changed.
fn row(kind: &str, name: &NamePart) -> [String; 6] {
    let why = match name.changed {
        Some("characters") => "hash: characters that names cannot have",
        Some("length") => "hash: longer than `max_name_length`",
        Some("foreign") => "hash: begins with another server's prefix",
        Some(_) => "hash: an override has this name",
        None => "",
    };
    let length = name.length.to_string();
    [kind.to_owned(), clean(&name.name), length, clean(&name.server), clean(&name.native), why.to_owned()]
}

fn table(out: &mut String, rows: &[[String; 6]]) {
    const LENGTH: usize = 2;
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let gap = " ".repeat(width - cell.chars().count());
            if column == LENGTH { format!("{gap}{cell}") } else { format!("{cell}{gap}") }
        });
        line(out, &format!("  {}", cells.collect::<Vec<_>>().join("  ")));
    }
}

fn findings(out: &mut String, report: &Report, style: Style) {
    let strict = report.summary.strict;
    for problem in &report.config.problems {
        line(out, &format!("{}: {}", style.severity(Severity::Error), clean_all(&problem.to_string())));
    }
    let doubt = if strict { Severity::Error } else { Severity::Warning };
    for warning in &report.config.warnings {
        line(out, &format!("{}: {}", style.severity(doubt), clean_all(&warning.to_string())));
    }
    let servers = report.servers.iter().map(|s| (format!("server {:?}", s.name), &s.findings));
    let endpoints = report.endpoints.iter().map(|e| (format!("endpoint {:?}", e.path), &e.findings));
    for (subject, findings) in servers.chain(endpoints) {
        for finding in findings {
            line(out, &format!("{}: {}", style.severity(finding.severity), sentence(&subject, finding)));
        }
    }
    if let Some(failure) = &report.failure {
        line(out, &format!("{}: could not start: {}", style.severity(Severity::Error), clean_all(failure)));
    }
}

fn sentence(subject: &str, finding: &Finding) -> String {
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    clean_all(&format!("{subject}: {}{help}", finding.message))
}

fn total(report: &Report) -> String {
    let summary = &report.summary;
    let mut parts = vec![counted(summary.errors, "error"), counted(summary.warnings, "warning")];
    if summary.hints > 0 {
        parts.push(counted(summary.hints, "hint"));
    }
    format!("{}: {}", clean_all(&report.config.file.display().to_string()), parts.join(", "))
}

fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// A text of a server, cut, without what a terminal would obey.
pub(in crate::cli) fn clean(text: &str) -> String {
    let cut = text.char_indices().nth(MOST).map_or(text.len(), |(at, _)| at);
    let more = if cut < text.len() { "…" } else { "" };
    format!("{}{more}", clean_all(&text[..cut]))
}

/// Without what a terminal would obey.
fn clean_all(text: &str) -> String {
    text.replace(acts, "\u{fffd}")
}

/// JSON text of the same meaning without what a terminal would obey: it stands in strings only.
pub(in crate::cli) fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if acts(c) && c != '\n' {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters, and those that hide text or turn it around.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

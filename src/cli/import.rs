//! `gatehouse import`: servers out of the files of MCP clients, as TOML for Gatehouse. Prints no value that could be a
//! secret.

use std::io::{Read as _, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{code, complain};

mod draft;
mod packages;
mod secrecy;
mod source;
#[cfg(test)]
mod tests;
mod toml;
mod url;
mod vault;

/// Options of `gatehouse import`.
#[derive(Debug, Clone, clap::Args)]
pub struct ImportArgs {
    /// A client's file: .mcp.json, claude_desktop_config.json, mcp.json of VS Code or Cursor, …; - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Refuse servers that run a package without a pinned version, and set `gateway.pinned_only`
    #[arg(long)]
    pub pinned_only: bool,
}

/// What a file comes to.
#[derive(Debug, PartialEq, Eq)]
struct Imported {
    /// The configuration.
    toml: String,
    /// How many servers are in it.
    servers: usize,
    /// What is to be looked at, a line each.
    remarks: Vec<String>,
    /// Servers that are not in it.
    refused: usize,
}

/// Prints TOML to standard output and what is to be looked at to standard error. Exit codes: 0 all servers are there,
/// 1 some are not, 2 the file cannot be used.
pub fn run(args: &ImportArgs) -> ExitCode {
    let text = match read(&args.file) {
        Ok(text) => text,
        Err(error) => {
            return complain(
                &format!("{}: cannot be read: {}", args.file.display(), error.kind()),
                code::CONFIG,
            );
        }
    };
    let name = args.file.file_name().map_or_else(|| "a file".into(), |name| name.to_string_lossy());
    let imported = match import(&name, &text, args.pinned_only) {
        Ok(imported) => imported,
        Err(problem) => return complain(&format!("{}: {problem}", args.file.display()), code::CONFIG),
    };
    // When nobody reads, the exit code still tells.
    let _ = stdout().write_all(imported.toml.as_bytes()).and_then(|()| stdout().flush());
    for remark in &imported.remarks {
        let _ = writeln!(std::io::stderr(), "{remark}");
    }
    ExitCode::from(if imported.refused > 0 { code::FINDINGS } else { 0 })
}

fn read(file: &Path) -> std::io::Result<String> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        return stdin().read_to_string(&mut text).map(|_| text);
    }
    std::fs::read_to_string(file)
}

/// The configuration for what `text` holds; the error never quotes it.
fn import(file: &str, text: &str, pinned_only: bool) -> Result<Imported, String> {
    let mut source = source::read(text)?;
    let mut vault = vault::Vault::new(std::mem::take(&mut source.inputs));
    let mut names = draft::Names::default();
    let mut drafts: Vec<draft::Draft> =
        source.servers.iter().map(|entry| draft::draft(entry, &mut names, &mut vault)).collect();
    for draft in &mut drafts {
        packages::judge(draft, pinned_only);
        toml::check(draft);
    }
    let toml = toml::write(file, &drafts, &vault, pinned_only);
    let mut remarks = Vec::new();
    for draft in &drafts {
        let said =
            draft.refused.iter().map(|why| format!("not imported: {why}")).chain(draft.notes.iter().cloned());
        remarks.extend(said.map(|said| format!("server {:?}: {said}", draft.name)));
    }
    remarks.extend(source.remarks);
    let variables: Vec<&str> = vault.variables().map(|variable| variable.name.as_str()).collect();
    if !variables.is_empty() {
        remarks.push(format!("set before use: {}", variables.join(", ")));
    }
    let refused = drafts.iter().filter(|draft| draft.refused.is_some()).count();
    Ok(Imported { toml, servers: drafts.len() - refused, remarks, refused })
}

//! Scripted stdio servers: the demo server, and small Python or shell programs for what no good server does.

use std::path::PathBuf;

use tempfile::TempDir;

use super::{eventually, json};

/// The command line of `gatehouse demo --stdio`.
pub(crate) fn demo(more: &[&str]) -> Vec<String> {
    ["gatehouse", "demo", "--stdio"].iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// A program in a folder of its own; what it reads is kept in `received` beside it.
#[derive(Debug)]
pub(crate) struct Child {
    folder: TempDir,
    program: &'static str,
}

/// Helpers that stand before every Python script.
///
/// `send(text)` writes a line; `result(message, text)` answers; `serve(answers)` answers by method for ever: with a
/// text, or by calling `answer(message, line)`. `HERE` is the folder.
const PRELUDE: &str = r#"
import json, os, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = sys.stdout.buffer

def note(name, data):
    with open(os.path.join(HERE, name), "ab") as file:
        file.write(data if isinstance(data, bytes) else data.encode())

def send(text):
    OUT.write((text if isinstance(text, bytes) else text.encode()) + b"\n")
    OUT.flush()

def result(message, text):
    send('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(message["id"]), text))

def error(message, code, text):
    send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}))

def receive():
    for line in sys.stdin.buffer:
        note("received", line)
        yield json.loads(line, strict=False), line

DISCOVER = '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}'
INITIALIZE = '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}'

def tools(*names):
    items = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return json.dumps({"tools": items, "ttlMs": 3600000, "cacheScope": "public"})

def serve(answers):
    for message, line in receive():
        if "id" not in message or "method" not in message:
            if "note" in answers:
                answers["note"](message, line)
            continue
        answer = answers.get(message["method"])
        if answer is None:
            error(message, -32601, "not here")
        elif callable(answer):
            answer(message, line)
        else:
            result(message, answer)
"#;

impl Child {
    /// A Python program after the prelude.
    pub(crate) fn python(script: &str) -> Self {
        Self::write("child.py", "python3", &format!("{PRELUDE}\n{script}"))
    }

    /// A shell program.
    pub(crate) fn shell(script: &str) -> Self {
        Self::write("child.sh", "/bin/sh", script)
    }

    fn write(file: &'static str, program: &'static str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        Self { folder, program }
    }

    /// Its command line.
    pub(crate) fn argv(&self) -> Vec<String> {
        let file = if self.program == "python3" { "child.py" } else { "child.sh" };
        vec![self.program.to_owned(), self.path(file).display().to_string()]
    }

    /// A file in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into its folder.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// A file's content; empty while it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// The lines it received, as they were.
    pub(crate) fn received(&self) -> Vec<String> {
        self.read("received").lines().map(str::to_owned).collect()
    }

    /// The lines with a method that it received.
    pub(crate) fn requests(&self, method: &str) -> Vec<String> {
        let wanted = json::quoted(method);
        let fits = |line: &String| json::raw(line, &["method"]).as_ref() == Some(&wanted);
        self.received().into_iter().filter(fits).collect()
    }

    /// Waits until a file in its folder is there with something in it.
    pub(crate) async fn wrote(&self, name: &str) {
        eventually(&format!("the child writes {name}"), async || !self.read(name).is_empty()).await;
    }
}

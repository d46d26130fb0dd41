//! The other commands as processes, over a configuration in a folder of their own.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a `gatehouse.toml`.
#[derive(Debug)]
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new(config: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("gatehouse.toml", config);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, in folders that are made for it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Exit code and what it says; the servers are in this process, so it must not be kept waiting.
    pub(crate) async fn run(&self, args: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatehouse"));
        command.args(args).arg("--config").arg(self.path("gatehouse.toml"));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let Output { status, stdout, stderr } = output;
        let said = String::from_utf8(stdout).unwrap() + &String::from_utf8_lossy(&stderr);
        (status.code().unwrap_or_else(|| panic!("ended by a signal: {said}")), said)
    }

    /// The same with a document.
    pub(crate) async fn json(&self, args: &[&str]) -> (i32, Value) {
        let (code, said) = self.run(&[args, &["--json"]].concat()).await;
        (code, serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}")))
    }
}

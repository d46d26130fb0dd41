use std::path::PathBuf;
use crate::{config, tasks::Tasks, protocol::{edit::Parts, message::Received}};
#[derive(Debug, Clone)]
pub struct StdioLink;
#[derive(Debug, Clone)]
pub struct Connection;
#[derive(Debug)]
pub struct Inbox;
#[derive(Debug, Clone)]
pub struct StdioOptions { pub server: String, pub max_line: usize, pub state_dir: Option<PathBuf> }
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError { #[error("x")] Exited }
impl StdioLink { pub fn new(_s: config::Command, _o: StdioOptions, _t: Tasks) -> Self { Self }
 pub async fn connect(&self) -> Result<Connection, LinkError> { unimplemented!() }
 pub fn restarts(&self) -> u64 { 0 } pub fn is_up(&self) -> bool { false } pub async fn stop(&self) {} }
impl Connection { pub async fn send(&self, _m: &Parts) -> Result<(), LinkError> { unimplemented!() }
 pub fn open(&self, _id: u64) -> Inbox { Inbox } pub fn unclaimed(&self) -> Option<tokio::sync::mpsc::Receiver<Received>> { None }
 pub fn generation(&self) -> u64 { 0 } pub fn is_closed(&self) -> bool { false } pub fn abandon(&self) {} }
impl Inbox { pub async fn recv(&mut self) -> Option<Received> { None } }

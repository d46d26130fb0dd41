use std::{path::PathBuf, time::Duration};
use url::Url;
use super::body::Body;
use crate::{protocol::edit::Parts, tasks::Tasks};
#[derive(Debug, Clone)]
pub struct ClientOptions { pub url: Url, pub connect_timeout: Duration, pub proxy: Option<Url>, pub ca_file: Option<PathBuf>, pub idle_timeout: Duration, pub max_connections: usize, pub h2_ping: Duration }
#[derive(Debug, Clone)]
pub struct Client;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage { Resolve, Connect, Tls, Proxy, Send, Response, Body, Busy }
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ClientError { pub stage: Stage, pub sent: bool, pub message: String }
impl Client {
    pub fn new(_o: ClientOptions, _t: Tasks) -> Result<Self, ClientError> { unimplemented!() }
    pub async fn send(&self, _r: http::Request<Parts>) -> Result<http::Response<Body>, ClientError> { unimplemented!() }
    pub fn connections(&self) -> usize { 0 }
}

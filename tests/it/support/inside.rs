//! A gateway inside this process: its clock can be moved. Tests that use it run on one thread.

use std::path::Path;
use std::time::Duration;

use gatehouse::app::App;
use gatehouse::config::Config;

use super::client::{Connection, Reply, send};
use super::eventually;
use super::gateway::Setup;
use super::request::Request;

/// A running gateway.
#[derive(Debug)]
pub(crate) struct Inside(App);

impl Inside {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(setup: Setup) -> Self {
        let config = Config::parse(&setup.text(), Path::new("."), &|_| None).unwrap();
        let app = App::start(config, 0).await.unwrap();
        let ready = async || send(app.admin, Request::new("GET", "/readyz")).await.status() == 200;
        eventually("/readyz says yes", ready).await;
        Self(app)
    }

    /// A connection to keep.
    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.0.listen).await
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn send(&self, request: impl Into<Request>) -> Reply {
        send(self.0.listen, request).await
    }

    /// The value of a metric's series, as it is written; 0 where there is none.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let page = send(self.0.admin, Request::new("GET", "/metrics")).await;
        let mut lines = page.text().lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|(name, _)| *name == series).map_or(0.0, |(_, value)| value.parse().unwrap())
    }

    /// Waits until so many streams of changes are open.
    pub(crate) async fn streams_become(&self, count: u32) {
        let line = format!("gatehouse_listen_streams {count}");
        let told = async || {
            let page = send(self.0.admin, Request::new("GET", "/metrics")).await;
            page.text().lines().any(|told| told == line)
        };
        eventually(&line, told).await;
    }

    /// Takes up another configuration; why it could not, if so.
    pub(crate) async fn reload(&self, setup: &Setup) -> Option<String> {
        let config = Config::parse(&setup.text(), Path::new("."), &|_| None).unwrap();
        self.0.reload(config).await.err().map(|error| format!("{error:#}"))
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.0.stop().await;
    }
}

/// Moves the clock of everything in this process, while nothing is on its way.
pub(crate) async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

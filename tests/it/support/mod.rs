//! What the tests stand on: the gateway process, raw HTTP clients, scripted servers over HTTP and stdio.

#![allow(dead_code, reason = "a shared kit: not every helper is wanted at every time")]

pub(crate) mod asking;
pub(crate) mod cast;
pub(crate) mod child;
pub(crate) mod client;
pub(crate) mod collector;
pub(crate) mod command;
pub(crate) mod counter;
pub(crate) mod direct;
pub(crate) mod exchange;
pub(crate) mod feed;
pub(crate) mod gateway;
pub(crate) mod http2;
pub(crate) mod id_server;
pub(crate) mod inside;
pub(crate) mod json;
pub(crate) mod legacy;
pub(crate) mod measure;
pub(crate) mod organisation;
pub(crate) mod people;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod sse_server;
pub(crate) mod table;
pub(crate) mod tcp;
pub(crate) mod tls;
pub(crate) mod token_server;
pub(crate) mod wire;

use std::future::Future;
use std::time::Duration;

/// The deadline of whatever must happen some time; generous, since machines are busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The outcome of `work`, which may not take longer than [`DEADLINE`].
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(done) => done,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

/// Waits until `holds`; asks again and again.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// How much bigger than in CI a storm is to be (`GH_SCALE`).
pub(crate) fn scale() -> usize {
    std::env::var("GH_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

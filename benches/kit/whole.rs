//! A whole gateway in this process, asked over a real socket: what one request costs from byte to byte.

use std::net::SocketAddr;
use std::path::Path;

use bytes::Bytes;
use gatehouse::app::App;
use gatehouse::config::Config;

use super::fixture::{self, Client};
use super::{Case, message};

/// Starts a gateway in front of so many servers, each with `tools` tools and answers of `size` bytes.
fn gateway(servers: usize, tools: usize, size: usize) -> SocketAddr {
    let mut text = "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n".to_owned();
    for n in 0..servers {
        let url = format!("http://{}/mcp", fixture::server(tools, size));
        text += &format!("[[server]]\nname = \"s{n}\"\nurl = \"{url}\"\n");
    }
    let config = Config::parse(&text, Path::new("."), &|_| None).expect("a good configuration");
    let (sender, receiver) = std::sync::mpsc::channel();
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let app = App::start(config, 0).await.expect("it starts");
            sender.send(app.listen).expect("the bench waits");
            std::future::pending::<()>().await;
        });
    };
    std::thread::Builder::new().spawn(serve).expect("a thread");
    let address = receiver.recv().expect("it started");
    await_lists(address, servers * tools);
    address
}

/// Until every server has said what it offers.
fn await_lists(address: SocketAddr, tools: usize) {
    let mut client = Client::new(address, "tools/list", None, &message::list());
    while client.round() < tools * 800 {
        std::thread::yield_now();
    }
}

fn calls(name: &'static str, budget: (u32, u32), address: SocketAddr, tool: &str, body: &Bytes) -> Case {
    let mut client = Client::new(address, "tools/call", Some(tool), body);
    Case::new(name, budget, move || client.round())
}

/// Calls, one at a time over real sockets.
pub(crate) fn requests() -> Vec<Case> {
    let body = message::call("s3_tool_0007", 1024);
    let (native, bare) = (message::call("tool_0007", 1024), fixture::server(10, 1024));
    let small = gateway(10, 50, 1024);
    let large = gateway(1, 1, 100 * 1024);
    vec![
        calls("the fixture's own share of a call", (0, 0), bare, "tool_0007", &native),
        calls("tools/call, 1 KB there and back", (60, 44_200), small, "s3_tool_0007", &body),
        calls(
            "tools/call, 100 KB back",
            (59, 166_000),
            large,
            "s0_tool_0000",
            &message::call("s0_tool_0000", 1024),
        ),
    ]
}

/// Lists out of the cache, one at a time over real sockets.
pub(crate) fn lists() -> Vec<Case> {
    let mut list = Client::new(gateway(10, 50, 1024), "tools/list", None, &message::list());
    vec![Case::new("tools/list of 500 tools, cached", (36, 33_500), move || list.round())]
}

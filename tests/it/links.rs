//! Who owns a URI that nobody lists: the server that gave a link to it, then those enlisted to be asked: design §4.

use serde_json::json;

use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT};

async fn server(name: &str) -> Server {
    let offer = Offer {
        capabilities: vec!["\"tools\":{},\"prompts\":{},\"resources\":{}".to_owned()],
        ..Offer::tools(&["t"])
    };
    let server = Server::modern(name, offer.fresh()).await;
    server.on("resources/read", |seen| {
        let uri = seen.raw(&["params", "uri"]).unwrap();
        Answer::result(seen, &format!(r#"{{"contents":[{{"uri":{uri},"text":"here"}}]}}"#))
    });
    server
}

async fn read(gateway: &Gateway, uri: &str) -> Reply {
    gateway.send(mcp("resources/read", json!({ "uri": uri }))).await
}

/// Covers: design §4 (a link seen in that server's own results), F-058, A-57.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_result_leads_to_the_server_that_gave_it() {
    let (one, two) = (server("one").await, server("two").await);
    let link = r#"{"content":[{"type":"text","text":"x"},{"type":"resource_link","uri":"z://hidden/1","name":"n"}]}"#;
    one.on("tools/call", |seen| {
        Answer::result(seen, r#"{"content":[{"type":"text","text":"z://hidden/1 is no resource_link"}]}"#)
    });
    two.on("tools/call", move |seen| Answer::result(seen, link));
    let gateway = Setup::new().http("one", &one.url(), "").http("two", &two.url(), "").start().await;
    assert_eq!(read(&gateway, "z://hidden/1").await.verdict(), (200, Some(PARAMS)), "nobody gave it yet");
    for name in ["one_t", "two_t"] {
        assert_eq!(gateway.send(call(name, "{}")).await.verdict(), (200, Some(RESULT)));
    }
    assert_eq!(read(&gateway, "z://hidden/1").await.verdict(), (200, Some(RESULT)));
    // A later server that gives the same link takes nothing over.
    one.on("tools/call", move |seen| Answer::result(seen, link));
    assert_eq!(gateway.send(call("one_t", "{}")).await.verdict(), (200, Some(RESULT)));
    assert_eq!(read(&gateway, "z://hidden/1").await.verdict(), (200, Some(RESULT)));
    assert_eq!((one.requests("resources/read").len(), two.requests("resources/read").len()), (0, 2));
    assert_eq!(read(&gateway, "z://hidden/2").await.verdict(), (200, Some(PARAMS)), "only what was given");
    gateway.stop().await;
}

/// Covers: design §4 (`resources.probe`): one at a time, only "not found" means the next one, and off unless enlisted.
#[tokio::test(flavor = "multi_thread")]
async fn enlisted_servers_are_asked_one_after_the_other() {
    let (off, first, second, third) =
        (server("off").await, server("first").await, server("second").await, server("third").await);
    first.on("resources/read", |seen| Answer::error(seen, 200, -32602, "not found"));
    let gateway = Setup::new()
        .http("off", &off.url(), "")
        .http("first", &first.url(), "resources.probe = true")
        .http("second", &second.url(), "resources.probe = true\nresources.deny = [\"q://no*\"]")
        .http("third", &third.url(), "resources.probe = true")
        .start()
        .await;
    assert_eq!(read(&gateway, "q://some").await.verdict(), (200, Some(RESULT)));
    let asked = |server: &Server| server.requests("resources/read").len();
    assert_eq!([&off, &first, &second, &third].map(asked), [0, 1, 1, 0]);
    assert_eq!(read(&gateway, "q://no").await.verdict(), (200, Some(RESULT)), "denied at the second");
    assert_eq!([&off, &first, &second, &third].map(asked), [0, 2, 1, 1]);
    // A failure is an answer: the next one is not asked.
    first.on("resources/read", |seen| Answer::error(seen, 200, -32603, "broken"));
    let broken = read(&gateway, "q://other").await;
    assert_eq!(broken.verdict(), (200, Some(-32603)), "{broken:?}");
    assert_eq!([&off, &first, &second, &third].map(asked), [0, 3, 1, 1]);
    gateway.stop().await;
}

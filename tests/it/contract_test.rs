//! `gatehouse contract test`: fixtures against stand-ins and against real servers (issue 7).

use serde_json::{Value, json};

use crate::support::command::Folder;
use crate::support::exchange::Answer;
use crate::support::server::{Offer, Server};

const TOOL: &str = r#"{"name":"count","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":5},"m":{"type":"integer"}},
    "required":["n"]},"outputSchema":{"type":"object","required":["v"]}}"#;

async fn bench() -> (Server, Folder) {
    let server = Server::modern("s", Offer::defined(&[TOOL])).await;
    let config = format!(
        "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/found\"\ndiscovery = \"search\"\n[[server]]\nname = \"s\"\n\
         url = \"{}\"\nvalidate = \"both\"\ntools.confirm = [\"*\"]\ntools.override.count.aliases = {{ number = \"n\" }}\n",
        server.url()
    );
    let folder = Folder::new(&config);
    (server, folder)
}

impl Folder {
    fn fixture(&self, name: &str, fixture: &Value) {
        self.write(&format!("contracts/{name}.json"), &fixture.to_string());
    }

    async fn test(&self, more: &[&str]) -> (i32, Value) {
        let folder = self.path("contracts").display().to_string();
        self.json(&[&["contract", "test", &folder], more].concat()).await
    }
}

/// What is said of each fixture, by file.
fn told(document: &Value) -> Vec<(String, String)> {
    let all = document["fixtures"].as_array().unwrap().iter();
    all.map(|one| {
        let problems: Vec<&str> =
            one["problems"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
        assert_eq!(one["ok"] == true, problems.is_empty());
        (one["file"].as_str().unwrap().to_owned(), problems.join("; "))
    })
    .collect()
}

/// Everything that can be expected, and each expectation can fail.
#[tokio::test(flavor = "multi_thread")]
async fn fixtures_are_held_against_stand_ins_and_no_server_is_called() {
    let (server, folder) = bench().await;
    folder.fixture("s_count/a", &json!({"arguments": {"n": 1}, "expect": {"arguments": {"n": 1}}}));
    let path = folder.path("contracts").display().to_string();
    let (code, said) = folder.run(&["contract", "test", &path]).await;
    assert!(
        code == 2 && said.contains("gatehouse lock"),
        "without a lock file there is nothing to offer: {said}"
    );
    assert_eq!(folder.run(&["lock"]).await.0, 0);
    let calls = server.seen().len();

    let answer = json!({"content": [], "structuredContent": {"v": 1, "w": 2}});
    let good = [
        json!({"arguments": {"number": 1, "m": 2}, "expect": {"arguments": {"n": 1, "m": 2}, "deprecated": ["/arguments/number"]}}),
        json!({"arguments": {"n": 6}, "expect": {"error": {"text": "the argument /n"}, "deprecated": []}}),
        json!({"about": "x", "arguments": {"n": 1}, "answer": answer, "expect": {"result": {"structuredContent": {"v": 1}}}}),
        json!({"arguments": {"n": 1}, "answer": {"content": []}, "expect": {"error": {"text": "output schema promises"}}}),
        json!({"tool": "s/count", "endpoint": "/found", "arguments": {"n": 1}, "expect": {"arguments": {"n": 1}}}),
    ];
    for (number, fixture) in good.iter().enumerate() {
        folder.fixture(&format!("s_count/good_{number}"), fixture);
    }
    let (code, document) = folder.test(&[]).await;
    assert_eq!((code, &document["passed"]), (0, &json!(6)), "{document}");

    let bad = [
        (
            json!({"arguments": {"number": 1}, "expect": {"arguments": {"number": 1}}}),
            "the server got {\"n\":1}",
        ),
        (json!({"arguments": {"n": 6}, "expect": {"arguments": {"n": 6}}}), "nothing reached the server"),
        (json!({"arguments": {"n": 1}, "expect": {"error": {}}}), "it was not refused"),
        (json!({"arguments": {"n": 6}, "expect": {"error": {"text": "odd"}}}), "the error says"),
        (json!({"arguments": {"n": 6}, "expect": {"error": {"code": -32602}}}), "no JSON-RPC error"),
        (json!({"arguments": {"number": 1}, "expect": {"deprecated": []}}), "counted as deprecated"),
        (
            json!({"arguments": {"n": 1}, "answer": answer, "expect": {"result": {"structuredContent": {"v": 2}}}}),
            "has not all of",
        ),
        (json!({"arguments": {"n": 1}, "answer": {"content": []}, "expect": {}}), "not called"),
        (json!({"tool": "s_none", "expect": {}}), "there is no tool"),
        (json!({"endpoint": "/none", "expect": {}}), "there is no endpoint"),
    ];
    for (number, (fixture, _)) in bad.iter().enumerate() {
        folder.fixture(&format!("t/bad_{number}"), fixture);
        let mut named = fixture.clone();
        if fixture.get("tool").is_none() {
            named["tool"] = json!("s_count");
        }
        folder.fixture(&format!("t/bad_{number}"), &named);
    }
    let (code, document) = folder.test(&[]).await;
    assert_eq!((code, &document["passed"], &document["failed"]), (1, &json!(6), &json!(10)), "{document}");
    let said = told(&document);
    for (number, (fixture, problem)) in bad.iter().enumerate() {
        let (_, told) = said.iter().find(|(file, _)| *file == format!("t/bad_{number}.json")).unwrap();
        assert!(told.contains(problem), "{fixture}: {told}");
    }
    assert_eq!(server.seen().len(), calls, "nobody asked the real server");

    folder.write("contracts/t/odd.json", "{\"expect\":{},\"expekt\":1}");
    let (code, said) = folder.run(&["contract", "test", &path]).await;
    assert!(code == 2 && said.contains("odd.json") && said.contains("expekt"), "{said}");
    let empty = folder.path("state").display().to_string();
    std::fs::create_dir_all(&empty).unwrap();
    assert_eq!(folder.run(&["contract", "test", &empty]).await.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_fixtures_hold_for_the_real_server() {
    let (server, folder) = bench().await;
    server.on("tools/call", |seen| Answer::result(seen, r#"{"content":[],"structuredContent":{"v":7}}"#));
    let result = json!({"structuredContent": {"v": 7}});
    let expect = json!({"arguments": {"n": 1}, "result": result, "deprecated": ["/arguments/number"]});
    folder.fixture("s_count/a", &json!({"arguments": {"number": 1}, "expect": expect}));
    let (code, document) = folder.test(&["--real"]).await;
    assert_eq!(code, 0, "{document}");
    assert_eq!(server.last_call().raw(&["params", "arguments"]).as_deref(), Some(r#"{"n":1}"#));
    server.on("tools/call", |seen| Answer::error(seen, 200, -32602, "no such luck"));
    folder.fixture(
        "s_count/b",
        &json!({"arguments": {"n": 1}, "expect": {"error": {"code": -32602, "text": "luck"}}}),
    );
    let (code, document) = folder.test(&["--real"]).await;
    let said = told(&document);
    assert!(code == 1 && said[0].1.contains("refused with -32602") && said[1].1.is_empty(), "{document}");
}

//! Whose process a call uses: `session_scope` at child processes, and what is declared to legacy ones: G-57, R-34,
//! design §7.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::child::Child;
use crate::support::direct::{Direct, Who, modern, session};
use crate::support::eventually;
use crate::support::gateway::Setup;
use crate::support::request::call;

/// Each process tells its number, its home and what was declared to it.
const TELLS: &str = r#"
declared = [None]
def hello(m, line):
    declared[0] = m["params"]["capabilities"]
    result(m, INITIALIZE)
def called(m, line):
    told = {"pid": os.getpid(), "home": os.environ["HOME"], "declared": declared[0]}
    result(m, json.dumps({"content": [], "structuredContent": told}))
serve({"tools/list": tools("t"), "tools/call": called, DIALECT})"#;

fn child(legacy: bool) -> Child {
    let dialect = if legacy { "\"initialize\": hello" } else { "\"server/discover\": DISCOVER" };
    // Scripts live as long as the process.
    Child::python(Box::leak(TELLS.replace("DIALECT", dialect).into_boxed_str()))
}

async fn told(core: &Direct, who: Who, capabilities: &str) -> Value {
    let result = core.ask(who, &call("c_t", "{}"), capabilities).await;
    assert!(result["structuredContent"]["pid"].is_u64(), "{result}");
    result["structuredContent"].clone()
}

const PEOPLE: [Who; 5] =
    [session("alice", "a1"), session("alice", "a2"), session("bob", "a1"), modern("alice"), modern("carol")];

/// Covers: G-57, design §7: one process for all unless the operator says otherwise; each has a home of its own.
#[tokio::test(flavor = "multi_thread")]
async fn g_57_processes_by_session_scope() {
    for (scope, processes) in [("auto", 1), ("shared", 1), ("principal", 3), ("session", 5)] {
        for legacy in [false, true] {
            let pids = pids(scope, legacy).await;
            assert_eq!(pids.len(), processes, "{scope}, legacy {legacy}: {pids:?}");
            for pid in pids {
                assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{scope}: {pid} lives on");
            }
        }
    }
}

/// The processes that were used, each by the same people all the time.
async fn pids(scope: &str, legacy: bool) -> BTreeSet<u64> {
    let child = child(legacy);
    let lines = format!("session_scope = \"{scope}\"");
    let core = Direct::start(&Setup::new().stdio("c", &child.argv(), &lines));
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    for who in PEOPLE.iter().cycle().take(2 * PEOPLE.len()) {
        let told = told(&core, *who, "{}").await;
        let pid = told["pid"].as_u64().unwrap();
        let known = places.insert(format!("{who:?}"), pid);
        assert!(known.is_none_or(|known| known == pid), "{scope}: {who:?} moved");
    }
    core.stop().await;
    places.into_values().collect()
}

/// Covers: G-57, R-34: a legacy process is told what its client declared: another fingerprint, another process.
#[tokio::test(flavor = "multi_thread")]
async fn g_57_a_legacy_process_has_one_fingerprint() {
    let child = child(true);
    let core = Direct::start(&Setup::new().stdio("c", &child.argv(), ""));
    let all = [
        ("{}", "{}"),
        (r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
        (r#"{"sampling":{},"roots":{"listChanged":true}}"#, r#"{"roots":{},"sampling":{}}"#),
    ];
    let mut pids = BTreeSet::new();
    let mut homes = BTreeSet::new();
    for (capabilities, declared) in all {
        for who in [modern("alice"), modern("bob")] {
            let told = told(&core, who, capabilities).await;
            assert_eq!(told["declared"].to_string(), declared);
            pids.insert(told["pid"].as_u64().unwrap());
            homes.insert(told["home"].to_string());
        }
    }
    assert_eq!((pids.len(), homes.len()), (3, 3));
    core.stop().await;
}

/// Covers: G-57: processes are bounded: the one idle for longest makes room, and its end is no restart.
#[tokio::test(flavor = "multi_thread")]
async fn g_57_processes_are_bounded() {
    let child = child(false);
    let lines = "session_scope = \"principal\"\nmax_concurrency = 2";
    let core = Direct::start(&Setup::new().stdio("c", &child.argv(), lines));
    let mut pids = Vec::new();
    for who in ["a", "b", "c", "b"] {
        pids.push(told(&core, modern(who), "{}").await["pid"].as_u64().unwrap());
    }
    assert_eq!(pids[1], pids[3], "the one used last stays");
    eventually("the one idle for longest is gone", async || {
        !std::path::Path::new(&format!("/proc/{}", pids[0])).exists()
    })
    .await;
    let again = told(&core, modern("a"), "{}").await["pid"].as_u64().unwrap();
    assert_ne!(again, pids[0]);
    core.stop().await;
}

//! Small documents: bounds, redirects, and the guard for addresses found in documents.

use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use url::Url;

use super::{accept, answer, bind, read_request, soon};
use crate::net::fetch::basic;
use crate::net::{FetchError, Fetched, Reach, Remote};
use crate::tasks::Tasks;

/// What comes of asking a server that answers with these bytes, and how often it was asked.
async fn fetched(bytes: Vec<u8>) -> (Result<Fetched, FetchError>, usize) {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let asked = accept(listener, &tasks, move |mut stream, _| {
        let bytes = bytes.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    });
    let remote = Remote::new(&Url::parse(&format!("{url}/keys?a=1")).unwrap(), Reach::Any, &tasks).unwrap();
    let fetched = soon(remote.get()).await;
    (fetched, asked.load(Ordering::SeqCst))
}

#[tokio::test]
async fn documents_and_what_is_none() {
    let (good, _) = fetched(answer("{\"a\":1}")).await;
    assert_eq!(good.unwrap().json::<Value>().unwrap()["a"], 1);
    let (secret, _) = fetched(answer("{\"token\": s3cr3t}")).await;
    let error = secret.unwrap().json::<Value>().unwrap_err();
    assert!(matches!(error, FetchError::Json(1, _)) && !error.to_string().contains("s3cr3t"), "{error}");
    let (large, _) = fetched(answer(&" ".repeat(512 * 1024 + 1))).await;
    assert!(matches!(large, Err(FetchError::Large)), "{large:?}");
    let missing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}".to_vec();
    assert!(matches!(fetched(missing).await.0.unwrap().json::<Value>(), Err(FetchError::Status(404))));
    let (redirect, asked) =
        fetched(b"HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    assert!(matches!(redirect.unwrap().json::<Value>(), Err(FetchError::Status(302))));
    assert_eq!(asked, 1);
    for (field, age) in [
        ("cache-control: public, Max-Age=300\r\n", Some(300)),
        ("cache-control: no-store\r\ncache-control: max-age=\"7\"\r\n", Some(7)),
        ("cache-control: max-age=soon\r\n", None),
        ("", None),
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{field}content-length: 2\r\n\r\n{{}}");
        let found = fetched(text.into_bytes()).await.0.unwrap().max_age();
        assert_eq!(found.map(|age| age.as_secs()), age, "{field}");
    }
}

/// Covers: A-50: checked on the address that is connected to, whatever the name.
#[tokio::test]
async fn a_50_addresses_found_in_documents_stay_outside() {
    let tasks = Tasks::new();
    let (listener, url) = bind().await;
    let asked = accept(listener, &tasks, |_, _| async {});
    let port = Url::parse(&url).unwrap().port().unwrap();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1"] {
        let url = Url::parse(&format!("http://{host}:{port}/keys")).unwrap();
        let remote = Remote::new(&url, Reach::Public, &tasks).unwrap();
        let error = soon(remote.get()).await.unwrap_err().to_string();
        assert!(error.contains("not on the public internet"), "{host}: {error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn both_halves_of_basic_credentials_are_coded() {
    // base64("a+b%3A:%C3%A9%25")
    let value = basic("a b:", "é%").unwrap();
    assert_eq!(value, "Basic YStiJTNBOiVDMyVBOSUyNQ==");
    assert!(value.is_sensitive() && !format!("{value:?}").contains("YSti"));
}

//! Messages we build, and messages of servers.

use super::{Tree, json_text};
use crate::protocol::envelope::{Envelope, Id, Limits};
use crate::protocol::message::{self, Received, ReceivedKind, RpcError};
use crate::protocol::object::ObjectError;
use bytes::Bytes;
use proptest::prelude::{any, prop_assert_eq, proptest};

fn kind(text: &str) -> Result<ReceivedKind, ObjectError> {
    Received::parse(Bytes::copy_from_slice(text.as_bytes())).map(|received| received.kind)
}

#[test]
fn the_four_kinds() {
    let ReceivedKind::Result { id, result, .. } =
        kind(r#"{"result": {"a":1} ,"id":"x","jsonrpc":"2.0"}"#).unwrap()
    else {
        panic!("a result")
    };
    assert_eq!((&id[..], result.end - result.start), (&b"\"x\""[..], 7));

    let text = r#"{"jsonrpc":"2.0","id":-3,"error":{"code":-32602,"message":"n\u00e4","data":{"uri": 1}}}"#;
    let ReceivedKind::Error { id, error } = kind(text).unwrap() else { panic!("an error") };
    let data = Some("{\"uri\": 1}".to_owned());
    assert_eq!(error, RpcError { code: -32602, message: "n\u{e4}".to_owned(), data });
    assert_eq!(id.as_deref(), Some(&b"-3"[..]));

    let text = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#;
    let ReceivedKind::Request { id, method, params } = kind(text).unwrap() else { panic!("a request") };
    assert_eq!((&id[..], &*method, params.map(|p| p.of(text))), (&b"1"[..], "ping", Some("[1]")));

    let text = r#"{"jsonrpc":"2.0","method":"n\u006f","params":{"a":1}}"#;
    let ReceivedKind::Notification { method, params } = kind(text).unwrap() else { panic!("a notification") };
    assert_eq!((&*method, params.unwrap().members.len()), ("no", 1));
}

#[test]
fn m05_an_error_may_have_a_null_id_or_none() {
    for id in ["", "\"id\":null,"] {
        let text = format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":-32700,\"message\":\"m\"}}}}");
        assert!(matches!(kind(&text), Ok(ReceivedKind::Error { id: None, .. })), "{text}");
        let text = format!("{{\"jsonrpc\":\"2.0\",{id}\"method\":\"m\"}}");
        assert!(matches!(kind(&text), Ok(ReceivedKind::Notification { .. })), "{text}");
        let text = format!("{{\"jsonrpc\":\"2.0\",{id}\"result\":{{}}}}");
        assert_eq!(kind(&text).err(), Some(ObjectError::Syntax), "{text}");
    }
}

#[test]
fn a_byte_order_mark_of_a_server_is_overlooked() {
    let received =
        Received::parse(Bytes::from("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}")).unwrap();
    let ReceivedKind::Result { result, .. } = received.kind else { panic!("a result") };
    assert_eq!(result.of(&received.body), "{}", "positions are the body's");
}

#[test]
fn malformed_answers() {
    for (text, error) in [
        ("", ObjectError::Syntax),
        ("[]", ObjectError::NotObject),
        (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, ObjectError::NotObject),
        ("{}", ObjectError::Syntax),
        (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, ObjectError::Syntax),
        (r#"{"id":1,"result":{}}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1,"method":5,"result":{}}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#, ObjectError::Duplicate),
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"result":{}}"#, ObjectError::Duplicate),
        (r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#, ObjectError::NotObject),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}"#, ObjectError::Syntax),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"m"}}"#, ObjectError::Duplicate),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"\ud800":1}"#, ObjectError::BadKey),
        (r#"{"jsonrpc":"2.0","method":"a","params":{"\ud800":1}}"#, ObjectError::BadKey),
    ] {
        assert_eq!(kind(text).err(), Some(error), "{text}");
    }
    let text = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}");
    assert_eq!(Received::parse(text).err(), Some(ObjectError::Syntax));
}

proptest! {
    #[test]
    fn what_we_build_reads_back(method in any::<String>(), value in json_text(), n in any::<u64>(), code in any::<i32>()) {
        let (id, object) = (Id::number(n), format!("{{\"v\":{value}}}"));
        let tree = Tree::read(&object).unwrap();

        let result = message::result(&id, Bytes::from(object.clone()));
        let received = Received::parse(result.to_bytes()).unwrap();
        let text = received.text().to_owned();
        let ReceivedKind::Result { id: found, result, .. } = received.kind else { panic!("{text}") };
        prop_assert_eq!((&found, result.of(&text)), (id.raw(), object.as_str()));

        for params in ["", &object] {
            let request = message::request(Some(&id), &method, Bytes::from(params.to_owned()));
            let limits = Limits { max_depth: 128, max_elements: 10_000 };
            let envelope = Envelope::parse(request.to_bytes(), limits).unwrap();
            prop_assert_eq!((envelope.id(), &*envelope.method()), (Some(&id), method.as_str()));
            prop_assert_eq!(envelope.params.is_some(), !params.is_empty());
        }
        let notification = message::request(None, &method, Bytes::from(object.clone())).to_bytes();
        let ReceivedKind::Notification { .. } = Received::parse(notification).unwrap().kind else { panic!("other") };

        for (id, data) in [(None, None), (Some(&id), Some(object.as_str()))] {
            let error = message::error(id, code, &method, data).to_bytes();
            let ReceivedKind::Error { id: found, error } = Received::parse(error).unwrap().kind else { panic!("error") };
            prop_assert_eq!(found.as_ref(), id.map(Id::raw));
            prop_assert_eq!((error.code, &error.message), (code, &method));
            prop_assert_eq!(error.data.and_then(|data| Tree::read(&data)), data.map(|_| tree.clone()));
        }
    }

    #[test]
    fn any_json_is_read_or_refused(text in json_text()) {
        let _ = kind(&text);
        let _ = kind(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{text},\"method\":\"a\",\"params\":{text}}}"));
        let _ = kind(&format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{text}}}"));
    }
}

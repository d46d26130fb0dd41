//! Tokens in time: who fetches, who waits, what is used meanwhile (A-41, F-068). The clock is stopped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{advance, resume};

use super::client::{ClientToken, DENIED};
use super::token::{Issued, TokenError};
use crate::tasks::Tasks;

/// A source that answers by the number of the question.
struct Bench {
    token: Arc<ClientToken>,
    asked: Arc<AtomicUsize>,
    tasks: Tasks,
}

fn bench(answer: impl Fn(usize) -> Result<Value, TokenError> + Send + Sync + 'static) -> Bench {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, tasks) = (Arc::clone(&asked), Tasks::new());
    let source = move |_: Vec<String>| {
        let said = answer(count.fetch_add(1, Ordering::SeqCst) + 1);
        let issued = said.and_then(|said| Issued::read(said.as_object().unwrap()));
        Box::pin(async move { issued }) as _
    };
    Bench { token: Arc::new(ClientToken::new(Box::new(source), tasks.clone())), asked, tasks }
}

/// A token with its number in it.
fn numbered(number: usize, life: &Value) -> Result<Value, TokenError> {
    Ok(json!({ "access_token": format!("t{number}"), "token_type": "Bearer", "expires_in": life }))
}

fn down() -> TokenError {
    TokenError::Unavailable("status 500".to_owned())
}

impl Bench {
    async fn shown(&self) -> Result<String, TokenError> {
        let token = self.token.get().await?;
        assert!(token.header.is_sensitive());
        Ok(token.header.to_str().unwrap().to_owned())
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Lets whatever runs in the background come to its end.
    async fn settle(&self) {
        while self.tasks.running() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_41_a_token_is_renewed_at_four_fifths_of_its_life_behind_the_callers_back() {
    let bench = bench(|number| numbered(number, &json!(100)));
    assert_eq!(bench.shown().await.unwrap(), "Bearer t1");
    advance(Duration::from_secs(79)).await;
    assert_eq!(bench.shown().await.unwrap(), "Bearer t1");
    bench.settle().await;
    assert_eq!(bench.asked(), 1);
    advance(Duration::from_secs(2)).await;
    assert_eq!(bench.shown().await.unwrap(), "Bearer t1", "nobody waits for a renewal");
    bench.settle().await;
    assert_eq!((bench.shown().await.unwrap().as_str(), bench.asked()), ("Bearer t2", 2));
}

#[tokio::test(start_paused = true)]
async fn f_068_a_valid_token_is_used_while_renewal_fails_and_tries_are_bounded() {
    let bench = bench(|number| if number == 1 { numbered(1, &json!(1000)) } else { Err(down()) });
    assert_eq!(bench.shown().await.unwrap(), "Bearer t1");
    advance(Duration::from_secs(801)).await;
    for _ in 0..180 {
        assert_eq!(bench.shown().await.unwrap(), "Bearer t1");
        bench.settle().await;
        advance(Duration::from_secs(1)).await;
    }
    // 0.5, 1, 2, 4, 8 and then 10 seconds apart.
    assert!((10..=30).contains(&bench.asked()), "{}", bench.asked());
    advance(Duration::from_secs(30)).await;
    assert_eq!(bench.shown().await, Err(down()), "an expired token is not used");
    let before = bench.asked();
    for _ in 0..50 {
        assert_eq!(bench.shown().await, Err(down()));
    }
    assert_eq!(bench.asked(), before, "a failure is not asked for again at once");
}

#[tokio::test(start_paused = true)]
async fn f_068_fifty_callers_cause_one_question() {
    let (gate, asked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (open, count) = (Arc::clone(&gate), Arc::clone(&asked));
    let source = move |_: Vec<String>| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        let open = Arc::clone(&open);
        Box::pin(async move {
            open.notified().await;
            Issued::read(numbered(number, &json!(3600)).unwrap().as_object().unwrap())
        }) as _
    };
    let token = Arc::new(ClientToken::new(Box::new(source), Tasks::new()));
    gate.notify_one();
    let all = join_all((0..50).map(|_| token.get())).await;
    let first = all[0].as_ref().unwrap();
    assert!(all.iter().all(|one| Arc::ptr_eq(one.as_ref().unwrap(), first)));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // Fifty refusals of one token are one renewal.
    assert!(all.iter().all(|one| token.refused(one.as_ref().unwrap())));
    gate.notify_one();
    let renewed = join_all((0..50).map(|_| token.get())).await;
    assert!(renewed.iter().all(|one| one.as_ref().unwrap().header == "Bearer t2"));
    assert!(token.refused(first), "a late refusal of the old one");
    assert_eq!(token.get().await.unwrap().header, "Bearer t2", "and it does not cost the new one");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_32_a_server_that_refuses_new_tokens_too_does_not_get_one_each_time() {
    let bench = bench(|number| numbered(number, &json!(3600)));
    let first = bench.token.get().await.unwrap();
    assert!(bench.token.refused(&first));
    let second = bench.token.get().await.unwrap();
    assert!(!bench.token.refused(&second), "refused at first sight");
    assert!(Arc::ptr_eq(&bench.token.get().await.unwrap(), &second));
    second.accept();
    assert!(!bench.token.refused(&second), "refused at once");
    advance(Duration::from_secs(1)).await;
    assert!(bench.token.refused(&second), "it was good once");
    let third = bench.token.get().await.unwrap();
    assert!(!bench.token.refused(&third));
    advance(Duration::from_secs(11)).await;
    assert!(bench.token.refused(&third), "after a while");
    assert_eq!(bench.asked(), 3);
}

/// Lives in seconds, found by where the token is used and where another one is fetched.
#[tokio::test(start_paused = true)]
async fn f_068_odd_lives_are_borne() {
    let day = 24 * 3600;
    let cases = [
        (json!(3600), 3600),
        (json!("3600"), 3600),
        (json!(" 60 "), 60),
        (json!(59.5), 59),
        (json!(1e300), day),
        (json!(0), 300),
        (json!(-5), 300),
        (json!("0"), 300),
        (json!("soon"), 300),
        (json!(null), 300),
        (json!({}), 300),
    ];
    for (said, life) in cases {
        let copy = said.clone();
        let bench = bench(move |number| numbered(number, &copy));
        bench.shown().await.unwrap();
        advance(Duration::from_secs(life * 4 / 5 - 1)).await;
        bench.shown().await.unwrap();
        bench.settle().await;
        assert_eq!(bench.asked(), 1, "{said}");
        advance(Duration::from_secs(life - life * 4 / 5 + 2)).await;
        assert_eq!(bench.shown().await.unwrap(), "Bearer t2", "{said}");
    }
    resume();
}

#[test]
fn answers_that_are_no_bearer_token() {
    let wrong = [
        json!({}),
        json!({ "access_token": "" }),
        json!({ "access_token": 5 }),
        json!({ "access_token": "a\r\nX: y" }),
        json!({ "access_token": "two words" }),
        json!({ "access_token": "t", "token_type": "DPoP" }),
        json!({ "access_token": "t", "token_type": 1 }),
    ];
    for answer in wrong {
        let read = Issued::read(answer.as_object().unwrap());
        assert!(matches!(read, Err(TokenError::Unusable(_))), "{answer}");
    }
    for right in [json!({ "access_token": "t" }), json!({ "access_token": "t", "token_type": "bEARER" })] {
        assert!(Issued::read(right.as_object().unwrap()).is_ok(), "{right}");
    }
}

/// Covers: A-39, F-068: callers who need a scope at once cost one question; one that is not to be had costs one a minute, and
/// nobody a token that is good.
#[tokio::test(start_paused = true)]
async fn a_39_fifty_callers_step_up_once() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&asked);
    let source = move |wider: Vec<String>| {
        note.lock().unwrap().push(wider.join(" "));
        Box::pin(async move {
            if wider.iter().any(|scope| scope == "none") {
                return Err(TokenError::Refused(400, "invalid_scope"));
            }
            let issued = Issued::read(numbered(1, &json!(100_000)).unwrap().as_object().unwrap());
            Ok(Issued { scopes: wider, ..issued? })
        }) as _
    };
    let token = Arc::new(ClientToken::new(Box::new(source), Tasks::new()));
    let first = token.get().await.unwrap();
    let (write, none) = (["w".to_owned()], ["none".to_owned()]);
    let all = join_all((0..50).map(|_| token.widen(&first, &write))).await;
    assert!(all.iter().all(|done| *done));
    assert_eq!(*asked.lock().unwrap(), ["", "w"]);
    let second = token.get().await.unwrap();
    assert!(!token.widen(&second, &write).await, "it has that, and it was not enough");
    second.accept();
    for minute in 1..3 {
        let all = join_all((0..50).map(|_| token.widen(&second, &none))).await;
        assert!(!all.iter().any(|done| *done));
        assert!(!token.widen(&second, &none).await);
        assert_eq!(asked.lock().unwrap().len(), 2 + minute);
        assert!(Arc::ptr_eq(&token.get().await.unwrap(), &second), "what there is stays");
        advance(DENIED).await;
    }
    // Where nobody takes the token with more, there is none with still more at once.
    let other = ["x".to_owned()];
    assert!(token.widen(&second, &other).await);
    let third = token.get().await.unwrap();
    assert!(!token.widen(&third, &["y".to_owned()]).await, "not taken by anybody yet");
    third.accept();
    assert!(token.widen(&third, &["y".to_owned()]).await);
    assert_eq!(asked.lock().unwrap().last().unwrap(), "w x y");
}

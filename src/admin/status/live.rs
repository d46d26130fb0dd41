//! The stream that keeps the page live: whole once, then what is another than a second ago.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::super::{Desk, text};
use super::history::History;
use super::report::Report;

/// What is told at one time.
#[derive(Debug)]
pub(super) struct Frame {
    number: u64,
    /// To whom nothing was told yet, or not the frame before.
    whole: Bytes,
    /// To whom the frame before was told.
    news: Bytes,
}

/// What was told last, and what the bars are made of.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) history: History,
    number: u64,
    last: Report,
}

impl Frames {
    pub(super) fn next(&mut self, report: Report) -> Frame {
        self.number += 1;
        let frame = Frame {
            number: self.number,
            whole: event(&whole(&report)),
            news: event(&news(&self.last, &report)),
        };
        self.last = report;
        frame
    }
}

/// JSON of everything.
pub(super) fn whole(report: &Report) -> String {
    let rows: Vec<&str> = report.tools.values().map(String::as_str).collect();
    object(report.sections.iter(), &format!("\"whole\":true,\"tools\":[{}]", rows.join(",")))
}

/// JSON of what differs: parts are replaced, tools put in the place of the same one.
fn news(old: &Report, new: &Report) -> String {
    let sections = new.sections.iter().filter(|section| !old.sections.contains(section));
    let rows = new.tools.iter().filter(|(key, row)| old.tools.get(*key) != Some(*row));
    let rows: Vec<&str> = rows.map(|(_, row)| row.as_str()).collect();
    let gone: Vec<_> = old.tools.keys().filter(|key| !new.tools.contains_key(*key)).collect();
    let gone = serde_json::to_string(&gone).unwrap_or_else(|_| "[]".to_owned());
    object(sections, &format!("\"whole\":false,\"tools\":[{}],\"gone\":{gone}", rows.join(",")))
}

fn object<'a>(sections: impl Iterator<Item = &'a (&'static str, String)>, rest: &str) -> String {
    let mut text = String::from("{");
    for (key, part) in sections {
        text.push_str(&format!("\"{key}\":{part},"));
    }
    text + rest + "}"
}

/// One event. JSON holds no line break.
fn event(data: &str) -> Bytes {
    format!("data: {data}\n\n").into()
}

/// `GET /status/stream`
pub(super) async fn stream(State(desk): State<Arc<Desk>>) -> Response {
    let Ok(place) = Arc::clone(&desk.status.streams).try_acquire_owned() else {
        let mut full = text(StatusCode::SERVICE_UNAVAILABLE, "too many look on\n".to_owned());
        full.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        return full;
    };
    let mut frames = desk.status.newest.subscribe();
    // What is there may be old: nobody looked on.
    frames.mark_unchanged();
    desk.status.wanted.notify_one();
    let told =
        futures_util::stream::unfold((frames, None, place), |(mut frames, before, place)| async move {
            frames.changed().await.ok()?;
            let frame = frames.borrow_and_update().clone()?;
            let next = before.is_some_and(|before: u64| before + 1 == frame.number);
            let bytes = if next { frame.news.clone() } else { frame.whole.clone() };
            Some((Ok::<_, std::convert::Infallible>(bytes), (frames, Some(frame.number), place)))
        });
    let mut response = text(StatusCode::OK, String::new());
    *response.body_mut() = Body::from_stream(told);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // A proxy in front passes events on as they come.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::super::report::Report;
    use super::{Frames, news};

    fn report(sections: &[(&'static str, &str)], tools: &[(&str, &str)]) -> Report {
        Report {
            sections: sections.iter().map(|(key, text)| (*key, (*text).to_owned())).collect(),
            tools: tools.iter().map(|(id, row)| ((*id).to_owned(), (*row).to_owned())).collect(),
        }
    }

    /// What the page does with frames.
    fn take(state: &mut BTreeMap<String, Value>, tools: &mut BTreeMap<String, Value>, frame: &[u8]) {
        let text = std::str::from_utf8(frame).unwrap();
        let data = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
        let frame: Value = serde_json::from_str(data).unwrap();
        if frame["whole"] == true {
            tools.clear();
        }
        for row in frame["tools"].as_array().unwrap() {
            tools.insert(row["id"].as_str().unwrap().to_owned(), row.clone());
        }
        for key in frame["gone"].as_array().into_iter().flatten() {
            tools.remove(key.as_str().unwrap());
        }
        for (key, part) in frame.as_object().unwrap() {
            if !["whole", "tools", "gone"].contains(&key.as_str()) {
                state.insert(key.clone(), part.clone());
            }
        }
    }

    #[test]
    fn whoever_takes_the_news_knows_what_who_takes_the_whole_does() {
        let steps = [
            report(&[("a", "1"), ("b", "[2]")], &[("x", "{\"id\":\"x\",\"n\":1}")]),
            report(&[("a", "1"), ("b", "[3]")], &[("x", "{\"id\":\"x\",\"n\":1}"), ("y", "{\"id\":\"y\"}")]),
            report(&[("a", "2"), ("b", "[3]")], &[("x", "{\"id\":\"x\",\"n\":2}")]),
            report(&[("a", "2"), ("b", "[3]")], &[("x", "{\"id\":\"x\",\"n\":2}")]),
        ];
        let mut frames = Frames::default();
        let (mut state, mut tools) = (BTreeMap::new(), BTreeMap::new());
        for (at, step) in steps.into_iter().enumerate() {
            let frame = frames.next(step);
            let (mut all, mut rows) = (BTreeMap::new(), BTreeMap::new());
            take(&mut all, &mut rows, &frame.whole);
            take(&mut state, &mut tools, if at == 0 { &frame.whole } else { &frame.news });
            assert_eq!((&state, &tools), (&all, &rows), "step {at}");
        }
    }

    #[test]
    fn news_are_only_what_is_new() {
        let old = report(&[("a", "1"), ("b", "2")], &[("x", "1"), ("y", "1")]);
        let new = report(&[("a", "1"), ("b", "3")], &[("x", "1"), ("z", "2")]);
        let expected = "{\"b\":3,\"whole\":false,\"tools\":[2],\"gone\":[\"y\"]}";
        assert_eq!(news(&old, &new), expected);
    }
}

//! A panic in a request: counted, logged, answered with 500 and an empty body.

use std::any::Any;

use axum::body::Body;
use http::{Response, StatusCode};
use tower_http::catch_panic::ResponseForPanic;

use crate::inbound::respond::empty;
use crate::tasks::Tasks;

#[derive(Debug, Clone)]
pub(in crate::inbound) struct Answer(pub(in crate::inbound) Tasks);

impl ResponseForPanic for Answer {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, _: Box<dyn Any + Send + 'static>) -> Response<Body> {
        self.0.count_panic();
        tracing::error!("a request panicked");
        empty(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

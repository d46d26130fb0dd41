//! One call of a legacy server that asked its client for something: a task keeps the call open, hands the questions
//! out, the answers in, and what comes of them to whoever waits (R-30..R-36).

use std::collections::VecDeque;
use std::future::pending;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use bytestring::ByteString;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::words::{Event, Listener, Question, Refused, Resume, Round, unanswered};
use super::{Last, Place};
use crate::outbound::{Asked, Exchange, Message, OutboundError};
use crate::protocol::code;
use crate::protocol::input::{Input, Lacks};

/// How long further questions are waited for before the first are asked.
const WINDOW: Duration = Duration::from_millis(20);
/// How long the final answer can be had again.
const GRACE: Duration = Duration::from_secs(60);
/// Questions of one call that may wait.
const MOST_QUESTIONS: usize = 32;
/// Log messages kept while nobody listens.
const MOST_LOGS: usize = 32;

/// A question that the server waits for.
#[derive(Debug)]
struct Pending {
    id: Bytes,
    question: Question,
    /// The client was asked.
    told: bool,
    answer: Option<ByteString>,
}

/// The task's state.
#[derive(Debug)]
pub(in crate::gateway) struct Keeper {
    place: Place,
    /// `None`: the server has answered already.
    exchange: Option<Exchange>,
    last: Option<Last>,
    pending: Vec<Pending>,
    resumes: mpsc::Receiver<Resume>,
    listener: Option<Listener>,
    /// While somebody listens: when the questions there are go out.
    window: Option<Instant>,
    /// While nobody listens: when that ends.
    deadline: Instant,
    round: u32,
    keys: u32,
    timeout: Duration,
    progress: Option<Message>,
    logs: VecDeque<Message>,
}

enum Happened {
    Heard(Box<Result<Message, OutboundError>>),
    Resumed(Box<Resume>),
    WindowOver,
    GivenUp(&'static str),
}

impl Keeper {
    /// Keeps a call whose server has just asked this.
    pub(in crate::gateway) fn new(
        (place, resumes): (Place, mpsc::Receiver<Resume>),
        mut exchange: Exchange,
        asked: Asked,
        listener: Listener,
        timeout: Duration,
    ) -> Self {
        exchange.pause();
        let now = Instant::now();
        let mut keeper = Self {
            place,
            exchange: Some(exchange),
            last: None,
            pending: Vec::new(),
            resumes,
            listener: Some(listener),
            window: Some(now + WINDOW),
            deadline: now + timeout,
            round: 0,
            keys: 0,
            timeout,
            progress: None,
            logs: VecDeque::new(),
        };
        keeper.note(asked);
        keeper
    }

    /// Runs until the call has ended and its client knows, or was given up.
    pub(in crate::gateway) async fn run(mut self) {
        loop {
            let goes_on = match self.happens().await {
                Happened::Heard(heard) => match *heard {
                    Ok(message) => self.heard(message).await,
                    Err(error) => self.end(Last::Failed(error)).await,
                },
                Happened::Resumed(resume) => self.resumed(*resume).await,
                Happened::WindowOver => self.ask().await,
                Happened::GivenUp(why) => {
                    tracing::debug!(why, round = self.round, "a parked call is given up");
                    return self.give_up().await;
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    async fn happens(&mut self) -> Happened {
        let Self { place, exchange, resumes, listener, window, deadline, timeout, .. } = self;
        let (closing, alone_since) = (place.closing(), *deadline - *timeout);
        let said = async {
            match exchange {
                Some(exchange) => exchange.next().await,
                None => pending().await,
            }
        };
        let listener = listener.as_ref();
        let left = async {
            match listener {
                Some(listener) => listener.events.closed().await,
                None => pending().await,
            }
        };
        let over = match (listener, &*window) {
            (None, _) => Some((*deadline, Happened::GivenUp("no answer in time"))),
            (Some(_), Some(window)) => Some((*window, Happened::WindowOver)),
            (Some(_), None) => None,
        };
        let timer = async {
            match over {
                Some((when, what)) => {
                    sleep_until(when).await;
                    what
                }
                None => pending().await,
            }
        };
        let hurried = async {
            match listener {
                None => place.hurried(alone_since).await,
                Some(_) => pending().await,
            }
        };
        tokio::select! {
            biased;
            said = said => Happened::Heard(Box::new(said)),
            Some(resume) = resumes.recv() => Happened::Resumed(Box::new(resume)),
            () = left => Happened::GivenUp("the client left"),
            () = closing.cancelled() => Happened::GivenUp("the gateway stops"),
            () = hurried => Happened::GivenUp("the gateway stops, and nobody is there"),
            what = timer => what,
        }
    }

    /// The server said something. False: that was all.
    async fn heard(&mut self, message: Message) -> bool {
        match message {
            Message::Asked(asked) => self.asked(*asked).await,
            Message::Withdrawn(id) => {
                self.pending.retain(|pending| pending.id != id);
                self.go_on();
            }
            Message::Result { .. } | Message::Error(_) => return self.end(Last::Said(message)).await,
            notice => match &self.listener {
                // Nobody there: `happens` sees it next.
                Some(listener) => drop(listener.events.send(Event::Said(notice)).await),
                None => self.keep(notice),
            },
        }
        true
    }

    /// One more question. Told with those that wait already; a client that has the last ones gets it with the next.
    async fn asked(&mut self, asked: Asked) {
        let Some(exchange) = &mut self.exchange else { return };
        if self.pending.len() >= MOST_QUESTIONS {
            let refusal = Err((code::INTERNAL_ERROR, "Too many requests at once"));
            // If it does not get there, the call will say so itself.
            let _ = exchange.answer(&asked.id, refusal).await;
            return;
        }
        exchange.pause();
        if self.listener.is_some() {
            self.window.get_or_insert_with(|| Instant::now() + WINDOW);
        }
        self.note(asked);
    }

    fn note(&mut self, asked: Asked) {
        self.keys += 1;
        let question = Question { key: format!("q{}", self.keys), input: asked.input, params: asked.params };
        self.pending.push(Pending { id: asked.id, question, told: false, answer: None });
    }

    /// What is said while nobody listens: the last progress, the first logs (M-52).
    fn keep(&mut self, notice: Message) {
        match notice {
            Message::Progress(..) => self.progress = Some(notice),
            Message::Log(..) if self.logs.len() < MOST_LOGS => self.logs.push_back(notice),
            _ => {}
        }
    }

    /// Hands the questions to whoever listens; from then on nobody does, until he comes back.
    async fn ask(&mut self) -> bool {
        self.window = None;
        let Some(listener) = self.listener.take() else { return true };
        let lacks = |pending: &Pending| {
            pending.question.input.lacks(&listener.capabilities, pending.question.params.as_deref())
        };
        let lacks = self.pending.iter().map(lacks).fold(Lacks::default(), Lacks::and);
        if lacks.any() {
            drop(listener.events.send(Event::Lacks(lacks)).await);
            self.refuse(&listener.capabilities).await;
            return false;
        }
        self.pending.iter_mut().for_each(|pending| pending.told = true);
        self.round += 1;
        self.deadline = Instant::now() + self.timeout;
        // A client that has just left may still come back for them.
        drop(listener.events.send(Event::Asks(self.open_round())).await);
        true
    }

    /// The questions of this round that are not answered yet.
    fn open_round(&self) -> Round {
        let open = self.pending.iter().filter(|pending| pending.told && pending.answer.is_none());
        Round {
            park: self.place.id,
            number: self.round,
            questions: open.map(|pending| pending.question.clone()).collect(),
            until: SystemTime::now() + self.deadline.saturating_duration_since(Instant::now()),
        }
    }

    /// A client came back. Nothing of what is wrong with its answers ends the call. False: it has its final answer.
    async fn resumed(&mut self, resume: Resume) -> bool {
        let Resume { round, answers, listener } = resume;
        let tell = async |event| {
            // A client that has left again needs no answer.
            let _ = listener.events.send(event).await;
            true
        };
        if self.listener.is_some() {
            return tell(Event::Refused(Refused::Running)).await;
        }
        if round + 1 == self.round {
            // It has not seen what its answers led to.
            return tell(Event::Asks(self.open_round())).await;
        }
        if round != self.round {
            return tell(Event::Refused(Refused::Expired)).await;
        }
        if let Some(last) = self.last.take() {
            self.listener = Some(listener);
            return self.end(last).await;
        }
        if !self.take(answers) {
            return tell(Event::Refused(Refused::Malformed)).await;
        }
        if self.pending.iter().any(|pending| pending.told && pending.answer.is_none()) {
            // Missing ones are asked for again; the server does not hear of it.
            return tell(Event::Asks(self.open_round())).await;
        }
        self.listener = Some(listener);
        self.hand_in().await
    }

    /// Notes the answers to what was asked; others are ignored. False: one has not the shape of an answer, none is taken.
    fn take(&mut self, answers: Vec<(String, ByteString)>) -> bool {
        let told = |pending: &&mut Pending| pending.told;
        let mut taken = Vec::new();
        for pending in self.pending.iter_mut().filter(told) {
            let given = answers.iter().find(|(key, _)| *key == pending.question.key);
            let Some((_, raw)) = given else { continue };
            if !pending.question.input.is_answer(raw) {
                return false;
            }
            taken.push((pending, raw.clone()));
        }
        for (pending, raw) in taken {
            pending.answer = Some(raw);
        }
        true
    }

    /// Gives the server its answers, and whoever listens what was said meanwhile.
    async fn hand_in(&mut self) -> bool {
        let (answered, open) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending: &Pending| pending.told);
        self.pending = open;
        for pending in answered {
            let (Some(exchange), Some(answer)) = (&self.exchange, pending.answer) else { continue };
            if let Err(error) = exchange.answer(&pending.id, Ok(answer.into_bytes())).await {
                return self.end(Last::Failed(error)).await;
            }
        }
        self.window = (!self.pending.is_empty()).then(|| Instant::now() + WINDOW);
        self.go_on();
        let kept = std::mem::take(&mut self.logs).into_iter().chain(self.progress.take());
        if let Some(listener) = &self.listener {
            for notice in kept {
                // `happens` sees that nobody is there.
                let _ = listener.events.send(Event::Said(notice)).await;
            }
        }
        true
    }

    /// Time counts again where the server waits for nobody.
    fn go_on(&mut self) {
        if self.pending.is_empty() {
            self.window = None;
            if let Some(exchange) = self.exchange.as_mut().filter(|_| self.listener.is_some()) {
                exchange.resume();
            }
        }
    }

    /// The call has ended. Its server's permit is free; the answer waits for its client.
    async fn end(&mut self, last: Last) -> bool {
        self.exchange = None;
        self.pending.clear();
        let Some(listener) = self.listener.take() else {
            self.last = Some(last);
            return true;
        };
        self.place.ended(self.round, &last, GRACE);
        // If it is not there any more it can come back.
        let _ = listener.events.send(Event::Ended(last)).await;
        false
    }

    /// Tells the server that its questions will not be answered, then that the call is given up.
    async fn give_up(self) {
        let Some(exchange) = self.exchange else { return };
        for pending in &self.pending {
            // A server that is not there needs not be told.
            let _ = exchange.answer(&pending.id, unanswered(pending.question.input)).await;
        }
        exchange.cancel().await;
    }

    /// The same where the client cannot answer: what it did not declare is refused as such.
    async fn refuse(&mut self, declared: &str) {
        let Some(exchange) = self.exchange.take() else { return };
        for Pending { id, question, .. } in &self.pending {
            let answer = match question.input {
                input if !input.lacks(declared, question.params.as_deref()).any() => unanswered(input),
                Input::Elicitation => Err((code::INVALID_PARAMS, "The client does not support this")),
                _ => Err((code::METHOD_NOT_FOUND, "Method not found")),
            };
            let _ = exchange.answer(id, answer).await;
        }
        exchange.cancel().await;
    }
}

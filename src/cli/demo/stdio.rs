//! Standard input and output: one message a line, both eras on one process (G-50, G-54).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::call::{Call, Fault, Out, QUEUE, answer_text};
use super::session::{Running, Session};
use super::{Demo, LIMITS, MAX_BODY, checks};
use crate::protocol::code;
use crate::protocol::envelope::{Envelope, Id, MessageKind};

/// How long answers may take once standard input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The one peer of this process.
struct Peer {
    demo: Arc<Demo>,
    out: mpsc::Sender<Out>,
    running: Arc<Running>,
    session: Option<Arc<Session>>,
}

/// Serves until standard input ends or the server is told to stop.
pub(super) async fn serve(demo: Arc<Demo>) -> anyhow::Result<()> {
    let (out, lines) = mpsc::channel(QUEUE);
    let writer = demo.tasks.spawn("demo stdout", write(lines));
    let stop = demo.stop.clone();
    let mut peer = Peer { demo, out, running: Arc::default(), session: None };
    let read = tokio::select! {
        read = peer.read() => read,
        () = stop.cancelled() => Ok(()),
    };
    stop.cancel();
    drop(peer);
    // Ends when the last request has dropped its end of the queue. A late one is lost with the process.
    let _ = tokio::time::timeout(LAST_ANSWERS, writer).await;
    read
}

async fn write(mut lines: mpsc::Receiver<Out>) {
    let mut stdout = tokio::io::stdout();
    while let Some(message) = lines.recv().await {
        let mut line = message.into_text();
        line.push('\n');
        let written = async { stdout.write_all(line.as_bytes()).await.and(stdout.flush().await) };
        if written.await.is_err() {
            return;
        }
    }
}

impl Peer {
    async fn read(&mut self) -> anyhow::Result<()> {
        let mut input = BufReader::new(tokio::io::stdin());
        loop {
            let mut line = Vec::new();
            let limit = MAX_BODY as u64 + 1;
            (&mut input)
                .take(limit)
                .read_until(b'\n', &mut line)
                .await
                .context("cannot read standard input")?;
            anyhow::ensure!(line.len() <= MAX_BODY, "a line is longer than {MAX_BODY} bytes");
            if line.is_empty() {
                return Ok(());
            }
            let line = Bytes::from(line);
            let line = line.slice_ref(line.trim_ascii());
            if !line.is_empty() {
                self.message(line).await;
            }
        }
    }

    async fn message(&mut self, line: Bytes) {
        let (id, fault) = match Envelope::parse(line, LIMITS) {
            Err(error) => (error.id, Fault::new(error.code, error.message)),
            Ok(message) => match self.take(&message).await {
                Ok(()) => return,
                Err(fault) => (message.id().cloned(), fault),
            },
        };
        self.answer(fault.text(id.as_ref())).await;
    }

    async fn answer(&self, text: String) {
        // The writer ends only when standard output is closed; then nobody reads answers.
        let _ = self.out.send(Out::Answer { status: 200, text }).await;
    }

    async fn take(&mut self, message: &Envelope) -> Result<(), Fault> {
        match &message.kind {
            MessageKind::Request(id) => return self.request(message, id).await,
            MessageKind::Response => {
                if let Some(session) = &self.session {
                    session.answered(message);
                }
            }
            MessageKind::Notification => match (message.method().as_ref(), &self.session) {
                ("notifications/cancelled", _) => self.running.cancel(message),
                ("notifications/initialized", Some(session)) => {
                    let told = Arc::clone(session).tell_changes(Arc::clone(&self.demo), self.out.clone());
                    self.demo.tasks.spawn("demo changes", told);
                }
                _ => {}
            },
        }
        Ok(())
    }

    async fn request(&mut self, message: &Envelope, id: &Id) -> Result<(), Fault> {
        let serves = self.demo.args.era;
        let names_version = message.meta.as_ref().is_some_and(|meta| meta.protocol_version.is_some());
        let initialize = message.method() == "initialize" && !names_version;
        if serves.modern() && (names_version || !(serves.legacy() || initialize)) {
            checks::modern(message, None, serves)?;
            return self.begin(message, id, None);
        }
        match &self.session {
            _ if initialize && !serves.legacy() => Err(checks::no_handshake(message, serves)),
            Some(session) => self.begin(message, id, Some(Arc::clone(session))),
            None if message.method() == "initialize" => {
                let (session, reply) = Session::open(&self.demo, message, None)?;
                self.session = Some(session);
                self.answer(answer_text(id, reply)).await;
                Ok(())
            }
            None => Err(Fault::new(code::INVALID_REQUEST, "initialize first")),
        }
    }

    fn begin(&self, message: &Envelope, id: &Id, session: Option<Arc<Session>>) -> Result<(), Fault> {
        let call = Call::new(&self.demo, message, session, None, self.out.clone())?;
        // Not a child of `stop`: what is in flight may still be answered.
        let cancel = self.running.begin(id, &tokio_util::sync::CancellationToken::new());
        let (running, id) = (Arc::clone(&self.running), id.clone());
        self.demo.tasks.spawn("demo call", async move {
            call.run(cancel).await;
            running.end(&id);
        });
        Ok(())
    }
}

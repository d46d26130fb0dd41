//! Standard input of a child: whole lines in order, many small ones in one write.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::connection::{Shared, Why};

/// Lines taken from the queue at once.
const BATCH: usize = 32;
/// Pieces from this size on are written as they are instead of being gathered.
const LARGE: usize = 16 << 10;
/// How long what is queued may still be written when the child is stopped.
const FLUSH: Duration = Duration::from_millis(250);

/// Writes until the child is stopped or does not listen any more; the pipe is closed on return.
pub(super) async fn write(
    mut stdin: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<Bytes>>,
    shared: &Shared,
) {
    let too_late = async {
        shared.stopping.cancelled().await;
        tokio::time::sleep(FLUSH).await;
    };
    let failed = tokio::select! {
        done = pump(&mut stdin, &mut queue, shared) => done.is_err(),
        () = too_late => false,
    };
    if failed {
        // It closed its input: no request can reach it. Answers that still come are delivered.
        shared.begin_stop(Why::Failure);
    }
}

async fn pump(
    stdin: &mut (impl AsyncWrite + Unpin),
    queue: &mut mpsc::Receiver<Vec<Bytes>>,
    shared: &Shared,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut gathered = Vec::new();
    let mut closing = false;
    loop {
        tokio::select! {
            biased;
            taken = queue.recv_many(&mut batch, BATCH) => if taken == 0 {
                return Ok(());
            },
            () = shared.stopping.cancelled(), if !closing => {
                queue.close();
                closing = true;
                continue;
            }
        }
        for piece in batch.drain(..).flatten() {
            if piece.len() < LARGE {
                gathered.extend_from_slice(&piece);
            }
            if piece.len() >= LARGE || gathered.len() >= LARGE {
                stdin.write_all(&gathered).await?;
                gathered.clear();
            }
            if piece.len() >= LARGE {
                stdin.write_all(&piece).await?;
            }
        }
        stdin.write_all(&gathered).await?;
        gathered.clear();
        stdin.flush().await?;
    }
}

//! Sessions that other replicas ended or took over: what is here of them ends too.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use super::session::Session;
use super::table::Sessions;
use crate::cluster::{News, Place};

impl Sessions {
    /// Hears what became of sessions at other replicas, for ever.
    pub(super) async fn hear(self: Arc<Self>) {
        let Some(cluster) = self.gateway.cluster() else { return };
        let mut news = cluster.news();
        loop {
            match news.recv().await {
                Ok(News::Ended(name)) => self.ended_elsewhere(&name),
                Ok(News::Moved(name, _)) => self.let_go(&name),
                Ok(News::Changed(_)) => {}
                // What was said meanwhile stands in the table.
                Ok(News::Back) | Err(RecvError::Lagged(_)) => self.compare().await,
                Err(RecvError::Closed) => return,
            }
        }
    }

    async fn compare(&self) {
        let Some(cluster) = self.gateway.cluster() else { return };
        for (name, place) in cluster.strayed(&self.names()).await {
            match place {
                Place::Ended => self.ended_elsewhere(&name),
                Place::There(_) => self.let_go(&name),
                Place::Here => {}
            }
        }
    }

    fn ended_elsewhere(&self, name: &Arc<str>) {
        self.note_ended(name);
        self.let_go(name);
    }

    /// Ends what is here of a session that goes on elsewhere, or has ended there.
    fn let_go(&self, name: &str) {
        let gone: Vec<Arc<Session>> = self.taken_out(name);
        gone.iter().for_each(|session| self.finish(session));
    }
}

//! Single records that another replica wrote, by their ids.

use std::{collections::HashMap, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::session::{PostgresFault, Server, Session};
use crate::store::{
    entry::{Entry, Id},
    packed::Packed,
    record::ContentHash,
};

/// Questions that wait; further ones are answered as if PostgreSQL were away.
const WAITING: usize = 256;
/// Longest time for one question.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(1_000);

/// A record with the catalog and the policy that it names, as bytes.
pub type FoundEntry = (Entry, HashMap<ContentHash, Vec<u8>>);

/// A question for a record.
pub struct Question {
    /// Its id.
    pub id: Id,
    /// The answer; dropped if there is none.
    pub answer: oneshot::Sender<Option<FoundEntry>>,
}

/// Answers questions.
pub struct Lookups {
    server: Server,
    questions: mpsc::Receiver<Question>,
}

/// Where questions go, and where they are answered.
pub fn questions(server: Server) -> (mpsc::Sender<Question>, Lookups) {
    let (sender, questions) = mpsc::channel(WAITING);
    (sender, Lookups { server, questions })
}

impl Lookups {
    /// Answers questions until nobody can ask any more. Connects when it is asked.
    pub async fn run(mut self) {
        let mut session: Option<Session> = None;
        while let Some(question) = self.questions.recv().await {
            if question.answer.is_closed() {
                continue;
            }
            match timeout(QUESTION_TIMEOUT, self.find(&mut session, &question.id)).await {
                // Nobody waits any more when the client has left.
                Ok(Ok(found)) => drop(question.answer.send(found)),
                Ok(Err(fault)) => {
                    session = None;
                    log::debug!("a record was not looked up in PostgreSQL: {fault}");
                }
                Err(_) => session = None,
            }
        }
    }

    async fn find(&self, session: &mut Option<Session>, id: &Id) -> Result<Option<FoundEntry>, PostgresFault> {
        if session.as_ref().is_some_and(|session| session.client.is_closed()) {
            *session = None;
        }
        let open = match session {
            Some(open) => open,
            None => session.insert(self.server.open().await?),
        };
        let find = "
            select entry, catalog, policy, catalogs.bytes, policies.bytes
            from pointsman_records
            left join pointsman_versions catalogs on catalogs.hash = catalog
            left join pointsman_versions policies on policies.hash = policy
            where id = $1";
        let Some(row) = open.client.query_opt(find, &[&id.0.as_slice()]).await? else { return Ok(None) };
        let Some(entry) = Packed::read(row.get(0)) else { return Ok(None) };
        let mut versions = HashMap::new();
        for (hash, bytes) in [(1, 3), (2, 4)] {
            let (hash, bytes): (&[u8], Option<Vec<u8>>) = (row.get(hash), row.get(bytes));
            if let (Ok(hash), Some(bytes)) = (hash.try_into(), bytes) {
                versions.insert(ContentHash(hash), bytes);
            }
        }
        Ok(Some((entry.entry(), versions)))
    }
}

//! Answers to questions of clients: records that another replica wrote by their ids, pages of records, sums.

use std::{collections::HashSet, sync::mpsc::SyncSender, time::Duration};

use pointsman_ledger::{
    activity::{Sums, grouping::Grouping},
    database::Identity,
    entry::{Entry, Id},
    other_replicas::ForeignPage,
    packed::Packed,
    page::Query,
    record::ContentHash,
    version_cache::VersionBytes,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_postgres::{Client, types::Type};

use super::{
    pages,
    session::{PostgresFault, Server, Session},
    sums,
};

/// Questions that wait; further ones are answered as if PostgreSQL were away.
const WAITING: usize = 256;
/// Longest time for one question.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(1_000);

/// A record with the catalog and the policy that it names, as bytes.
pub type FoundEntry = (Entry, VersionBytes);

/// A question. Its sender is dropped if there is no answer.
pub enum Question {
    /// For a record.
    Record(Id, oneshot::Sender<Option<FoundEntry>>),
    /// For a page of the records of all replicas, without the versions of catalogs and policies that are known.
    Page(Query, HashSet<ContentHash>, SyncSender<ForeignPage>),
    /// For the sums of other ledgers than this one of this replica.
    Sums(Grouping, Identity, SyncSender<Sums>),
}

/// Answers questions.
pub struct Lookups {
    server: Server,
    node: String,
    questions: mpsc::Receiver<Question>,
}

/// Where questions go, and where they are answered.
pub fn questions(server: Server, node: String) -> (mpsc::Sender<Question>, Lookups) {
    let (sender, questions) = mpsc::channel(WAITING);
    (sender, Lookups { server, node, questions })
}

impl Lookups {
    /// Answers questions until nobody can ask any more. Connects when it is asked.
    pub async fn run(mut self) {
        let mut session: Option<Session> = None;
        while let Some(question) = self.questions.recv().await {
            if matches!(&question, Question::Record(_, answer) if answer.is_closed()) {
                continue;
            }
            match timeout(QUESTION_TIMEOUT, self.answer(&mut session, question)).await {
                Ok(Ok(())) => {}
                Ok(Err(fault)) => {
                    session = None;
                    log::debug!("a question was not answered by PostgreSQL: {fault}");
                }
                Err(_) => session = None,
            }
        }
    }

    async fn answer(&self, session: &mut Option<Session>, question: Question) -> Result<(), PostgresFault> {
        if session.as_ref().is_some_and(|session| session.client.is_closed()) {
            *session = None;
        }
        let client = match session {
            Some(open) => &open.client,
            None => &session.insert(self.server.open().await?).client,
        };
        // Nobody waits any more when the client has left.
        match question {
            Question::Record(id, answer) => drop(answer.send(find(client, &id).await?)),
            Question::Page(query, known, answer) => drop(answer.try_send(pages::read(client, &query, &known).await?)),
            Question::Sums(grouping, own, answer) => {
                let sums = sums::read(client, &grouping, (&self.node, own)).await?;
                drop(sums.map(|sums| answer.try_send(sums)));
            }
        }
        Ok(())
    }
}

async fn find(client: &Client, id: &Id) -> Result<Option<FoundEntry>, PostgresFault> {
    let find = "
        select entry, catalog, policy, catalogs.bytes, policies.bytes
        from pointsman_records
        left join pointsman_versions catalogs on catalogs.hash = catalog
        left join pointsman_versions policies on policies.hash = policy
        where id = $1";
    let found = client.query_typed_opt(find, &[(&id.0.as_slice(), Type::BYTEA)]).await?;
    let Some(row) = found else { return Ok(None) };
    let Some(entry) = Packed::read(row.get(0)) else { return Ok(None) };
    let mut versions = VersionBytes::new();
    for (hash, bytes) in [(1, 3), (2, 4)] {
        let (hash, bytes): (&[u8], Option<Vec<u8>>) = (row.get(hash), row.get(bytes));
        if let (Ok(hash), Some(bytes)) = (hash.try_into(), bytes) {
            versions.insert(ContentHash(hash), bytes);
        }
    }
    Ok(Some((entry.entry(), versions)))
}

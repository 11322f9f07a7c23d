//! `GET /key` and `GET /credits`: permissions and spending of the calling key.

use actix_web::HttpResponse;
use pointsman_actors::actors::ledger::{ReadSpending, Spent};
use serde::Serialize;

use super::{
    answer::{Data, uncached},
    key_view::KeyBody,
    number::Dollars,
};
use crate::{
    api::auth::Authorized,
    base::{clock, error::ApiError},
    state::{ask::ask, gateway::Worker},
};

/// Shows the calling key. Needs no scope.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(crate) async fn show(Authorized(caller): Authorized, worker: Worker) -> Result<HttpResponse, ApiError> {
    let spent = spent(&worker, Some(caller.owner)).await?;
    let body = Data { data: KeyBody::new(&caller.key, caller.is_admin(), spent) };
    Ok(uncached(&body))
}

/// Shows the spending of the calling key; for an administrator, of all keys. `total_credits` is always 0: the gateway has
/// no prepaid credits.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(crate) async fn credits(Authorized(caller): Authorized, worker: Worker) -> Result<HttpResponse, ApiError> {
    let spent = spent(&worker, (!caller.is_admin()).then_some(caller.owner)).await?;
    let body = Data { data: CreditsBody { total_credits: 0, total_usage: Dollars(spent.total) } };
    Ok(uncached(&body))
}

#[derive(Serialize)]
struct CreditsBody {
    total_credits: u32,
    total_usage: Dollars,
}

/// Spending since the process started, including answers that have just ended.
async fn spent(worker: &Worker, owner: Option<u64>) -> Result<Spent, ApiError> {
    worker.shared.event_batchers.flush();
    let question = ReadSpending { owner, now_ms: clock::unix_millis() };
    ask(&worker.shared.control.ledger(), question).await
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use actix::Actor as _;
    use pointsman_actors::{
        actors::{
            ledger::{Ledger, MemoryStore, Records},
            mailbox::{MailboxDepth, Undelivered},
        },
        domain::{Generation, GenerationStatus},
    };

    use super::*;
    use crate::api::{
        route_samples::generation,
        samples::{catalog, usd},
    };

    fn batch(records: Vec<Generation>) -> Records {
        let records = records.into_iter().map(Arc::new).collect();
        Records::new(records, MailboxDepth::default().enter(1), &Undelivered::default())
    }

    #[actix_web::test]
    async fn an_ended_generation_is_charged_once_to_its_owner() {
        let ledger = Ledger::new(MemoryStore::new(10, Duration::from_secs(60))).start();
        let ended = generation(&catalog());
        let running = Generation { status: GenerationStatus::Running, ..ended.clone() };
        let spent = async |owner| ledger.send(ReadSpending { owner, now_ms: ended.created_ms }).await.unwrap().total;
        ledger.send(batch(vec![running])).await.unwrap();
        assert_eq!(spent(Some(ended.owner)).await, usd("0"));
        ledger.send(batch(vec![ended.clone(), ended.clone()])).await.unwrap();
        assert_eq!(spent(Some(ended.owner)).await, usd("0.00000453"));
        assert_eq!(spent(None).await, usd("0.00000453"));
        assert_eq!(spent(Some(ended.owner + 1)).await, usd("0"));
    }
}

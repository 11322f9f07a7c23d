//! What operators read from the ledger: series, and calls in progress.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use actix::{Context, Handler, Message, MessageResult};

use super::{
    Ledger, LedgerStore,
    series::{GroupBy, SeriesRange},
};
use crate::domain::{Generation, GenerationId, GenerationStatus};

/// Most calls in progress that are remembered. The oldest are forgotten first: they may be those whose end was dropped.
const MOST_RUNNING: usize = 4096;

/// Asks for the series of one group. Answers `None` if its series do not reach back so far.
#[derive(Message)]
#[rtype(result = "Option<SeriesRange>")]
pub struct ReadSeries {
    /// The group.
    pub by: GroupBy,
    /// How far back, milliseconds.
    pub span_ms: i64,
    /// The present, Unix milliseconds.
    pub now_ms: i64,
}

/// Calls were refused because a limit of the gateway was reached. Sent every half second in which some were; no reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct CountShed {
    /// Their number.
    pub calls: u32,
    /// The present, Unix milliseconds.
    pub now_ms: i64,
}

/// Asks for the calls in progress, oldest first.
#[derive(Message)]
#[rtype(result = "RunningCalls")]
pub struct ReadRunning {
    /// Most calls in the answer.
    pub most: usize,
}

/// Asks for the generations that ended after the one of number `after`, as far as they are among the newest.
#[derive(Message)]
#[rtype(result = "EndedCalls")]
pub struct ReadEnded {
    /// Number of the newest one known to the sender; [`u64::MAX`] to learn the number only.
    pub after: u64,
}

/// Generations that have ended, in the order in which the ledger heard of them.
#[derive(Debug, Clone, Default)]
pub struct EndedCalls {
    /// Oldest first.
    pub generations: Vec<Arc<Generation>>,
    /// Number of the newest one; they are numbered from 1.
    pub newest: u64,
}

/// The newest ended generations.
#[derive(Default)]
pub(super) struct Ended {
    newest: u64,
    generations: VecDeque<Arc<Generation>>,
}

impl Ended {
    /// Most generations that are kept.
    const KEPT: usize = 200;

    /// Enters an ended record.
    pub(super) fn put(&mut self, record: &Arc<Generation>) {
        if record.status == GenerationStatus::Running {
            return;
        }
        self.newest += 1;
        self.generations.push_back(Arc::clone(record));
        if self.generations.len() > Ended::KEPT {
            self.generations.pop_front();
        }
    }

    fn read(&self, after: u64) -> EndedCalls {
        let wanted = usize::try_from(self.newest.saturating_sub(after)).unwrap_or(usize::MAX);
        let first = self.generations.len().saturating_sub(wanted);
        EndedCalls { generations: self.generations.iter().skip(first).cloned().collect(), newest: self.newest }
    }
}

/// Calls in progress.
#[derive(Debug, Clone, Default)]
pub struct RunningCalls {
    /// Their records so far, oldest first.
    pub calls: Vec<Arc<Generation>>,
    /// Their number, those included that are not in the list.
    pub total: usize,
}

/// Records of generations that have not ended, by admission.
#[derive(Default)]
pub(super) struct Running(BTreeMap<(i64, GenerationId), Arc<Generation>>);

impl Running {
    /// Enters or replaces a running record, and forgets an ended one.
    pub(super) fn put(&mut self, record: &Arc<Generation>) {
        let place = (record.created_ms, record.id);
        if record.status == GenerationStatus::Running {
            self.0.insert(place, Arc::clone(record));
        } else {
            self.0.remove(&place);
        }
        if self.0.len() > MOST_RUNNING {
            self.0.pop_first();
        }
    }

    fn read(&self, most: usize) -> RunningCalls {
        RunningCalls { calls: self.0.values().take(most).cloned().collect(), total: self.0.len() }
    }
}

impl<S: LedgerStore> Handler<ReadSeries> for Ledger<S> {
    type Result = MessageResult<ReadSeries>;

    fn handle(&mut self, ReadSeries { by, span_ms, now_ms }: ReadSeries, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.state.lock().series.range(by, span_ms, now_ms))
    }
}

impl<S: LedgerStore> Handler<CountShed> for Ledger<S> {
    type Result = ();

    fn handle(&mut self, CountShed { calls, now_ms }: CountShed, _: &mut Context<Self>) {
        self.state.lock().series.count_shed(calls, now_ms);
    }
}

impl<S: LedgerStore> Handler<ReadRunning> for Ledger<S> {
    type Result = MessageResult<ReadRunning>;

    fn handle(&mut self, ReadRunning { most }: ReadRunning, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.state.lock().running.read(most))
    }
}

impl<S: LedgerStore> Handler<ReadEnded> for Ledger<S> {
    type Result = MessageResult<ReadEnded>;

    fn handle(&mut self, ReadEnded { after }: ReadEnded, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.state.lock().ended.read(after))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::admitted, *};

    fn record(hours: i64, status: GenerationStatus) -> Arc<Generation> {
        Arc::new(Generation { status, ..admitted(hours) })
    }

    #[test]
    fn running_calls_are_read_oldest_first_and_an_ended_one_is_gone() {
        let mut running = Running::default();
        for hours in [3, 1, 2] {
            running.put(&record(hours, GenerationStatus::Running));
        }
        running.put(&record(1, GenerationStatus::Completed));
        let RunningCalls { calls, total } = running.read(1);
        assert_eq!((calls[0].created_ms, calls.len(), total), (admitted(2).created_ms, 1, 2));
    }

    #[test]
    fn ended_calls_are_read_once_by_number_and_the_oldest_are_forgotten() {
        let mut ended = Ended::default();
        ended.put(&record(0, GenerationStatus::Running));
        (1..=250).for_each(|hours| ended.put(&record(hours, GenerationStatus::Completed)));
        let since = |after| ended.read(after).generations.iter().map(|call| call.created_ms).collect::<Vec<_>>();
        assert_eq!(since(248), [249, 250].map(|hours| admitted(hours).created_ms));
        assert_eq!((ended.read(250).newest, since(250).len(), since(u64::MAX).len(), since(0).len()), (250, 0, 0, 200));
    }

    #[test]
    fn calls_whose_end_was_lost_do_not_fill_memory() {
        let mut running = Running::default();
        (0..5_000).for_each(|hours| running.put(&record(hours, GenerationStatus::Running)));
        assert_eq!(running.read(1).total, MOST_RUNNING);
        assert_eq!(running.read(1).calls[0].created_ms, admitted(5_000 - MOST_RUNNING as i64).created_ms);
    }
}

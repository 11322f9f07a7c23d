//! What operators read from the ledger: series, and calls that have ended.

use std::{collections::VecDeque, sync::Arc};

use actix::{Context, Handler, Message, MessageResult};
use pointsman_domain::{Generation, GenerationStatus};

use super::{
    Ledger, LedgerStore,
    series::{GroupBy, SeriesRange},
};

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

/// Counts generations of an earlier process in the series, as far as these reach back. No reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct RestoreSeries {
    /// The generations, each sent once.
    pub generations: Vec<Arc<Generation>>,
    /// The present, Unix milliseconds.
    pub now_ms: i64,
}

/// Asks for the generations that ended after the one of number `after`, as far as they are among the newest.
#[derive(Message)]
#[rtype(result = "EndedGenerations")]
pub struct ReadEnded {
    /// Number of the newest one known to the sender; [`u64::MAX`] to learn the number only.
    pub after: u64,
}

/// Generations that have ended, in the order in which the ledger heard of them.
#[derive(Debug, Clone, Default)]
pub struct EndedGenerations {
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

    fn read(&self, after: u64) -> EndedGenerations {
        let wanted = usize::try_from(self.newest.saturating_sub(after)).unwrap_or(usize::MAX);
        let first = self.generations.len().saturating_sub(wanted);
        EndedGenerations { generations: self.generations.iter().skip(first).cloned().collect(), newest: self.newest }
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

impl<S: LedgerStore> Handler<RestoreSeries> for Ledger<S> {
    type Result = ();

    fn handle(&mut self, RestoreSeries { generations, now_ms }: RestoreSeries, _: &mut Context<Self>) {
        let mut held = self.state.lock();
        for generation in &generations {
            held.series.restore(generation, now_ms);
        }
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
    fn ended_calls_are_read_once_by_number_and_the_oldest_are_forgotten() {
        let mut ended = Ended::default();
        ended.put(&record(0, GenerationStatus::Running));
        (1..=250).for_each(|hours| ended.put(&record(hours, GenerationStatus::Completed)));
        let since = |after| ended.read(after).generations.iter().map(|call| call.created_ms).collect::<Vec<_>>();
        assert_eq!(since(248), [249, 250].map(|hours| admitted(hours).created_ms));
        assert_eq!((ended.read(250).newest, since(250).len(), since(u64::MAX).len(), since(0).len()), (250, 0, 0, 200));
    }
}

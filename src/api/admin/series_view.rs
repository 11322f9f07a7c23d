//! JSON of series: one array per figure, all of the same length, oldest first.

use std::collections::BTreeMap;

use pointsman_actors::ledger::series::{SeriesRange, Slot, Subject};
use pointsman_domain::Usd;
use serde::Serialize;

use crate::api::{models::measurements::rfc_3339, number::Dollars};

view! {
    /// A range of slots.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct SeriesBody {
        /// The body of a range. `key_name` names the key of an owner.
        pub(crate) fn new(range: &SeriesRange, key_name: impl Fn(u64, u64) -> Option<String>) {
            let one = |(subject, slots): &(Subject, Vec<Slot>)| OneSeriesBody::new(labels(subject, &key_name), slots);
        }

        /// When the first slot begins. RFC 3339, UTC, with milliseconds.
        pub(crate) start: String = rfc_3339(range.start_ms),
        /// Width of a slot in seconds: 60, or 10 by `endpoint`.
        pub(crate) step_s: i64 = range.step_ms / 1_000,
        /// One array per figure, all of the same length, oldest slot first. Each call counts once, in the slot in which it
        /// ended; the last slot is unfinished.
        pub(crate) series: Vec<OneSeriesBody> = range.series.iter().map(one).collect(),
    }
}

view! {
    /// The series of one subject.
    pub(crate) struct OneSeriesBody {
        fn new(labels: BTreeMap<&'static str, Option<String>>, slots: &[Slot]) {
            fn column<T>(slots: &[Slot], figure: impl Fn(&Slot) -> T) -> Vec<T> {
                slots.iter().map(figure).collect()
            }
        }

        /// What the series is about: `model` and `provider`, `provider` alone, or `key`, the name of a key (`null` for one
        /// that no longer exists); `other` with the value `true` for all that have no series of their own, because only 256
        /// endpoints, 32 providers and 64 keys have one; empty for all calls.
        pub(crate) labels: BTreeMap<&'static str, Option<String>> = labels,
        /// Calls that ended with a whole answer of their first attempt. By `endpoint` and `provider`: attempts that served
        /// without a failed attempt before or beside them.
        pub(crate) ok: Vec<u32> = column(slots, |slot| slot.ok),
        /// Calls that ended with a whole answer after an attempt had failed. By `endpoint` and `provider`: attempts that
        /// served such calls.
        pub(crate) rescued: Vec<u32> = column(slots, |slot| slot.rescued),
        /// Calls that ended with an error or a broken stream. By `endpoint` and `provider`: their own failed attempts, also
        /// where another one then served. A client that left is no failure.
        pub(crate) failed: Vec<u32> = column(slots, |slot| slot.failed),
        /// Calls that were refused because a limit of the gateway was reached; they are in none of the other figures.
        /// Counted in the series of all calls only, 0 in others.
        pub(crate) shed: Vec<u32> = column(slots, |slot| slot.shed),
        /// Cost in US dollars as far as prices are known, of all attempts, failed ones included; each summand is rounded to
        /// a billionth.
        pub(crate) cost: Vec<Dollars> = column(slots, |slot| Dollars(slot.cost())),
        /// Calls, by `endpoint` and `provider` attempts, of which `cost` leaves something out, because a price is unknown.
        pub(crate) unknown_costs: Vec<u32> = column(slots, |slot| slot.unknown_costs),
        /// Tokens of prompts and answers together. By `endpoint` and `provider` of attempts that served only.
        pub(crate) tokens: Vec<u32> = column(slots, |slot| slot.tokens),
        /// Median time to the first output in whole milliseconds, interpolated from 16 classes, so it is coarse; beyond 120
        /// s it is 120000. Of calls it counts from the acceptance of the request, by `endpoint` and `provider` from the
        /// start of the attempt that served. The first output of an answer that is not streamed is the head of the
        /// provider's answer. `null` where nothing had output.
        pub(crate) ttft_p50_ms: Vec<Option<u64>> = column(slots, |slot| slot.first_output_ms(50)),
        /// The same for the 95th percentile.
        pub(crate) ttft_p95_ms: Vec<Option<u64>> = column(slots, |slot| slot.first_output_ms(95)),
    }
}

fn labels(subject: &Subject, key_name: &impl Fn(u64, u64) -> Option<String>) -> BTreeMap<&'static str, Option<String>> {
    let text = |text: &str| Some(text.to_owned());
    match subject {
        Subject::All => BTreeMap::new(),
        Subject::Endpoint { model, provider } => [("model", text(model)), ("provider", text(provider))].into(),
        Subject::Provider(provider) => [("provider", text(provider))].into(),
        Subject::Key { owner, key } => [("key", key_name(*owner, *key))].into(),
        Subject::Other => [("other", text("true"))].into(),
    }
}

/// Sums of all slots of a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) ok: u64,
    pub(crate) rescued: u64,
    pub(crate) failed: u64,
    pub(crate) shed: u64,
    pub(crate) tokens: u64,
    #[serde(skip)]
    pub(crate) spent: Usd,
    /// Calls of which `spent` leaves something out, because a price is unknown.
    pub(crate) unknown_costs: u64,
}

impl Totals {
    /// The sums of the slots.
    pub(crate) fn sum<'a>(slots: impl IntoIterator<Item = &'a Slot>) -> Totals {
        slots.into_iter().fold(Totals::default(), |sum, slot| Totals {
            ok: sum.ok + u64::from(slot.ok),
            rescued: sum.rescued + u64::from(slot.rescued),
            failed: sum.failed + u64::from(slot.failed),
            shed: sum.shed + u64::from(slot.shed),
            tokens: sum.tokens.saturating_add(u64::from(slot.tokens)),
            spent: sum.spent + slot.cost(),
            unknown_costs: sum.unknown_costs + u64::from(slot.unknown_costs),
        })
    }

    /// Calls that ended with an answer or an error.
    pub(crate) const fn calls(&self) -> u64 {
        self.ok + self.rescued + self.failed
    }
}

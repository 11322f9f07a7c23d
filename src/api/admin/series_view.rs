//! JSON of series: one array per figure, all of the same length, oldest first.

use std::collections::BTreeMap;

use pointsman_actors::ledger::series::{SeriesRange, Slot, Subject};
use pointsman_domain::Usd;
use serde::Serialize;

use crate::api::{models::measurements::rfc_3339, number::Dollars};

/// A range of slots.
#[derive(Serialize)]
pub(crate) struct SeriesBody {
    /// When the first slot begins.
    pub(crate) start: String,
    /// Width of a slot in seconds.
    pub(crate) step_s: i64,
    pub(crate) series: Vec<OneSeriesBody>,
}

/// The series of one subject.
#[derive(Serialize)]
pub(crate) struct OneSeriesBody {
    /// Empty for all calls; `other` for what has no series of its own. The name of a removed key is `null`.
    pub(crate) labels: BTreeMap<&'static str, Option<String>>,
    pub(crate) ok: Vec<u32>,
    pub(crate) rescued: Vec<u32>,
    pub(crate) failed: Vec<u32>,
    pub(crate) shed: Vec<u32>,
    pub(crate) cost: Vec<Dollars>,
    /// Calls or attempts of which `cost` leaves something out, because a price is unknown.
    pub(crate) unknown_costs: Vec<u32>,
    pub(crate) tokens: Vec<u32>,
    /// `null` where no call had output.
    pub(crate) ttft_p50_ms: Vec<Option<u64>>,
    pub(crate) ttft_p95_ms: Vec<Option<u64>>,
}

impl SeriesBody {
    /// The body of a range. `key_name` names the key of an owner.
    pub(crate) fn new(range: &SeriesRange, key_name: impl Fn(u64, u64) -> Option<String>) -> SeriesBody {
        let one = |(subject, slots): &(Subject, Vec<Slot>)| OneSeriesBody::new(labels(subject, &key_name), slots);
        SeriesBody {
            start: rfc_3339(range.start_ms),
            step_s: range.step_ms / 1_000,
            series: range.series.iter().map(one).collect(),
        }
    }
}

impl OneSeriesBody {
    fn new(labels: BTreeMap<&'static str, Option<String>>, slots: &[Slot]) -> OneSeriesBody {
        fn column<T>(slots: &[Slot], figure: impl Fn(&Slot) -> T) -> Vec<T> {
            slots.iter().map(figure).collect()
        }
        OneSeriesBody {
            labels,
            ok: column(slots, |slot| slot.ok),
            rescued: column(slots, |slot| slot.rescued),
            failed: column(slots, |slot| slot.failed),
            shed: column(slots, |slot| slot.shed),
            cost: column(slots, |slot| Dollars(slot.cost())),
            unknown_costs: column(slots, |slot| slot.unknown_costs),
            tokens: column(slots, |slot| slot.tokens),
            ttft_p50_ms: column(slots, |slot| slot.first_output_ms(50)),
            ttft_p95_ms: column(slots, |slot| slot.first_output_ms(95)),
        }
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
    pub(crate) fn of<'a>(slots: impl IntoIterator<Item = &'a Slot>) -> Totals {
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

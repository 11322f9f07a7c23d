//! Series of the last hour and day: calls, cost, tokens and times to the first output, counted per slot of time.
//!
//! The ledger counts each ended generation once, in the slot in which it ended. Memory is bounded by the number of
//! series ([`MOST_ENDPOINTS`] and its siblings) and by the slots of each; a slot has 64 bytes. What has no series any
//! more because of these bounds is counted in one series of [`Subject::Other`]. Nothing here reads a clock.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{AttemptRecord, Generation, GenerationStatus, Usd};

/// Most endpoints with a series of their own.
pub const MOST_ENDPOINTS: usize = 256;
/// Most providers with a series of their own.
pub const MOST_PROVIDERS: usize = 32;
/// Most keys with a series of their own.
pub const MOST_KEYS: usize = 64;

/// Upper bounds of the buckets of times to the first output, milliseconds. The last bucket has none.
const BOUNDS_MS: [u64; 15] =
    [25, 50, 100, 200, 350, 500, 750, 1_000, 1_500, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000];
/// Number of buckets.
const BUCKETS: usize = BOUNDS_MS.len() + 1;
/// Billionths of a dollar to the unit of [`Usd`].
const FEMTO_PER_NANO: i128 = 1_000_000;

/// What a group of series divides the calls by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupBy {
    /// Nothing: one series of all calls.
    All,
    /// The model and the provider.
    Endpoint,
    /// The provider.
    Provider,
    /// The key that called.
    Key,
}

impl GroupBy {
    /// Width and number of the slots.
    const fn shape(self) -> Shape {
        match self {
            GroupBy::Endpoint => Shape { step_ms: 10_000, slots: 360 },
            _ => Shape { step_ms: 60_000, slots: 1_440 },
        }
    }

    const fn most(self) -> usize {
        match self {
            GroupBy::All => 1,
            GroupBy::Endpoint => MOST_ENDPOINTS,
            GroupBy::Provider => MOST_PROVIDERS,
            GroupBy::Key => MOST_KEYS,
        }
    }
}

/// What a series is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// All calls.
    All,
    /// A model at a provider.
    Endpoint {
        /// The model.
        model: Arc<str>,
        /// Slug of the provider.
        provider: Arc<str>,
    },
    /// A provider, by its slug.
    Provider(Arc<str>),
    /// A key.
    Key {
        /// The account that the call is charged to.
        owner: u64,
        /// Number of the key.
        key: u64,
    },
    /// Everything that has no series of its own.
    Other,
}

#[derive(Clone, Copy)]
struct Shape {
    step_ms: i64,
    slots: usize,
}

/// What happened within one slot of time.
///
/// In series of all calls and of keys, the numbers count calls. In series of endpoints and providers they count upstream
/// attempts: `ok` and `rescued` those that served, `failed` their own failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slot {
    /// Calls that the first attempt served.
    pub ok: u32,
    /// Calls that were served after another attempt had failed.
    pub rescued: u32,
    /// Calls or attempts that failed. A client that left is no failure.
    pub failed: u32,
    /// Calls refused because a limit of the gateway was reached; counted in the series of all calls only.
    pub shed: u32,
    /// Calls or attempts of whose cost something is unknown and not counted.
    pub unknown_costs: u32,
    /// Tokens of prompts and answers.
    pub tokens: u32,
    cost_nanos: u64,
    /// Times to the first output, by bucket.
    first_outputs: [u16; BUCKETS],
}

impl Slot {
    /// Known cost, to a billionth of a dollar.
    pub const fn cost(&self) -> Usd {
        Usd::from_femto(self.cost_nanos as i128 * FEMTO_PER_NANO)
    }

    /// The time to the first output that `percent` of the calls did not exceed, in milliseconds, interpolated within
    /// its bucket; `None` without a call that had output.
    pub fn first_output_ms(&self, percent: u64) -> Option<u64> {
        first_output_ms([self], percent)
    }

    fn add(&mut self, change: &Change) {
        match change.result {
            Some(Counted::Ok) => self.ok = self.ok.saturating_add(1),
            Some(Counted::Rescued) => self.rescued = self.rescued.saturating_add(1),
            Some(Counted::Failed) => self.failed = self.failed.saturating_add(1),
            None => {}
        }
        self.shed = self.shed.saturating_add(change.shed);
        self.unknown_costs = self.unknown_costs.saturating_add(u32::from(change.is_cost_unknown));
        self.cost_nanos = self.cost_nanos.saturating_add(nanos(change.cost));
        self.tokens = self.tokens.saturating_add(u32::try_from(change.tokens).unwrap_or(u32::MAX));
        if let Some(first_output_ms) = change.first_output_ms {
            self.add_first_output(first_output_ms);
        }
    }

    fn add_first_output(&mut self, first_output_ms: u64) {
        let bucket = BOUNDS_MS.partition_point(|bound| *bound < first_output_ms);
        let is_full = self.first_outputs.get(bucket) == Some(&u16::MAX);
        if is_full {
            // Halving all buckets keeps the shares, from which the percentiles are read.
            self.first_outputs.iter_mut().for_each(|count| *count /= 2);
        }
        if let Some(count) = self.first_outputs.get_mut(bucket) {
            *count += 1;
        }
    }
}

/// As [`Slot::first_output_ms`], for the calls of several slots together.
pub fn first_output_ms<'a>(slots: impl IntoIterator<Item = &'a Slot>, percent: u64) -> Option<u64> {
    let mut counts = [0_u64; BUCKETS];
    for slot in slots {
        counts.iter_mut().zip(slot.first_outputs).for_each(|(sum, count)| *sum += u64::from(count));
    }
    let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100).max(1);
    let (mut before, mut lower) = (0, 0);
    let uppers = BOUNDS_MS.into_iter().map(Some).chain([None]);
    for (count, upper) in counts.into_iter().zip(uppers) {
        if count > 0 && before + count >= wanted {
            // The last bucket has no upper bound: its lower one is all that is known. In any other, the values are taken to lie
            // in the middles of equal parts.
            let middle = 2 * (wanted - before) - 1;
            return Some(upper.map_or(lower, |upper| lower + (upper - lower) * middle / (2 * count)));
        }
        before += count;
        lower = upper.unwrap_or(lower);
    }
    None
}

/// Rounded to the nearest.
fn nanos(cost: Usd) -> u64 {
    let femto = cost.femto() + FEMTO_PER_NANO / 2;
    // Below 18,000 dollars a machine word is enough.
    let of_many = |_| u64::try_from(femto / FEMTO_PER_NANO).unwrap_or(0);
    u64::try_from(femto).map_or_else(of_many, |femto| femto / FEMTO_PER_NANO as u64)
}

#[derive(Clone, Copy)]
enum Counted {
    Ok,
    Rescued,
    Failed,
}

/// What one call or attempt adds to a slot.
#[derive(Default)]
struct Change {
    result: Option<Counted>,
    shed: u32,
    cost: Usd,
    is_cost_unknown: bool,
    tokens: u64,
    first_output_ms: Option<u64>,
}

/// The slots of one series. The slot of number `n` lies at `n` modulo their count.
struct Ring {
    slots: Box<[Slot]>,
    newest: i64,
}

impl Ring {
    fn new(shape: Shape, number: i64) -> Ring {
        Ring { slots: vec![Slot::default(); shape.slots].into_boxed_slice(), newest: number }
    }

    fn place(&self, number: i64) -> usize {
        number.rem_euclid(self.slots.len() as i64) as usize
    }

    fn holds(&self, number: i64) -> bool {
        number <= self.newest && self.newest - number < self.slots.len() as i64
    }

    /// The slot of this number. A number far before the newest one means that the clock was set back.
    fn slot_mut(&mut self, number: i64) -> Option<&mut Slot> {
        let length = self.slots.len() as i64;
        if (number - self.newest).abs() >= length {
            self.slots.fill(Slot::default());
            self.newest = number;
        }
        while self.newest < number {
            self.newest += 1;
            let place = self.place(self.newest);
            self.slots.get_mut(place).into_iter().for_each(|slot| *slot = Slot::default());
        }
        let place = self.place(number);
        self.slots.get_mut(place)
    }

    fn slot(&self, number: i64) -> Slot {
        let slot = self.slots.get(self.place(number)).filter(|_| self.holds(number));
        slot.copied().unwrap_or_default()
    }
}

/// All series.
#[derive(Default)]
pub struct Series {
    groups: BTreeMap<GroupBy, Group>,
}

/// The series of one group.
#[derive(Default)]
struct Group {
    rings: BTreeMap<Subject, Ring>,
    /// Slot in which room was last looked for: no series can give up its place before the next one.
    searched: Option<i64>,
}

/// A range of slots of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesRange {
    /// When the first slot begins, Unix milliseconds.
    pub start_ms: i64,
    /// Width of a slot, milliseconds.
    pub step_ms: i64,
    /// The slots of each subject, oldest first; all have the same number.
    pub series: Vec<(Subject, Vec<Slot>)>,
}

impl Series {
    /// Counts an ended generation. A running one changes nothing.
    pub fn count(&mut self, generation: &Generation) {
        self.count_since(generation, |_| i64::MIN);
    }

    /// The same for a generation of an earlier process, which may be older than a series reaches back.
    pub fn restore(&mut self, generation: &Generation, now_ms: i64) {
        self.count_since(generation, |by| {
            let Shape { step_ms, slots } = by.shape();
            // Less than the whole length: while this goes on, later calls move the beginning of a series on.
            let slots = (slots - slots / 60) as i64;
            (now_ms.div_euclid(step_ms) - slots) * step_ms
        });
    }

    /// Counts an ended generation in each group whose series began no later.
    fn count_since(&mut self, generation: &Generation, began_ms: impl Fn(GroupBy) -> i64) {
        if generation.status == GenerationStatus::Running {
            return;
        }
        let rescued = generation.attempts.iter().any(failed);
        let served = if rescued { Counted::Rescued } else { Counted::Ok };
        let result = match generation.status {
            GenerationStatus::Completed => Some(served),
            status => status.is_failure().then_some(Counted::Failed),
        };
        let tokens = generation.usage.prompt_tokens.saturating_add(generation.usage.completion_tokens);
        let first_output_ms = generation.latency_ms;
        let change = Change {
            result,
            shed: 0,
            cost: generation.known_spending(),
            is_cost_unknown: generation.spent().is_none(),
            tokens,
            first_output_ms,
        };
        let ended_ms = ended_ms(generation);
        let mut add = |by, subject, change: &Change| {
            if ended_ms >= began_ms(by) {
                self.add(by, subject, ended_ms, change);
            }
        };
        add(GroupBy::All, Subject::All, &change);
        let (owner, key) = (generation.owner, generation.key);
        add(GroupBy::Key, Subject::Key { owner, key }, &change);
        for attempt in &generation.attempts {
            let result = match attempt {
                attempt if failed(attempt) => Some(Counted::Failed),
                attempt if attempt.served && attempt.error_type.is_none() => Some(served),
                _ => None,
            };
            let cost = generation.total_cost().filter(|_| attempt.served).or(attempt.cost);
            let change = Change {
                result,
                shed: 0,
                cost: cost.unwrap_or(Usd::ZERO),
                is_cost_unknown: cost.is_none(),
                tokens: if attempt.served { tokens } else { 0 },
                first_output_ms: attempt.first_token_ms.filter(|_| attempt.served),
            };
            let (model, provider) = (Arc::clone(&attempt.model), Arc::clone(&attempt.provider_slug));
            add(GroupBy::Provider, Subject::Provider(Arc::clone(&provider)), &change);
            add(GroupBy::Endpoint, Subject::Endpoint { model, provider }, &change);
        }
    }

    /// Counts calls that were refused because a limit of the gateway was reached.
    pub fn count_shed(&mut self, calls: u32, now_ms: i64) {
        self.add(GroupBy::All, Subject::All, now_ms, &Change { shed: calls, ..Change::default() });
    }

    /// The slots of the last `span_ms`, the present one included, of each subject that had calls within them. The
    /// series of all calls is always there. `None` if the group does not reach back so far.
    pub fn range(&self, by: GroupBy, span_ms: i64, now_ms: i64) -> Option<SeriesRange> {
        let Shape { step_ms, slots } = by.shape();
        let wanted = span_ms / step_ms;
        if wanted > slots as i64 {
            return None;
        }
        let last = now_ms.div_euclid(step_ms);
        let first = last - wanted + 1;
        let read = |ring: &Ring| (first..=last).map(|number| ring.slot(number)).collect::<Vec<_>>();
        let of_group = self.groups.get(&by).into_iter().flat_map(|group| &group.rings);
        let mut series: Vec<_> = of_group
            .map(|(subject, ring)| (subject.clone(), read(ring)))
            .filter(|(_, slots)| slots.iter().any(|slot| *slot != Slot::default()))
            .collect();
        if by == GroupBy::All && series.is_empty() {
            series.push((Subject::All, (first..=last).map(|_| Slot::default()).collect()));
        }
        Some(SeriesRange { start_ms: first * step_ms, step_ms, series })
    }

    fn add(&mut self, by: GroupBy, subject: Subject, at_ms: i64, change: &Change) {
        let shape = by.shape();
        let number = at_ms.div_euclid(shape.step_ms);
        let count = |ring: &mut Ring| ring.slot_mut(number).into_iter().for_each(|slot| slot.add(change));
        let group = self.groups.entry(by).or_default();
        if let Some(ring) = group.rings.get_mut(&subject) {
            return count(ring);
        }
        let subject = if group.has_room(by, number) { subject } else { Subject::Other };
        count(group.rings.entry(subject).or_insert_with(|| Ring::new(shape, number)));
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> usize {
        let rings = self.groups.values().flat_map(|group| group.rings.values());
        rings.map(|ring| size_of_val(&*ring.slots)).sum()
    }
}

impl Group {
    /// Whether the group may have one more series. A series without a call in its whole range gives up its place.
    fn has_room(&mut self, by: GroupBy, number: i64) -> bool {
        let taken = |rings: &BTreeMap<Subject, Ring>| rings.len() - usize::from(rings.contains_key(&Subject::Other));
        if taken(&self.rings) >= by.most() && self.searched.replace(number) != Some(number) {
            self.rings.retain(|_, ring| number - ring.newest < by.shape().slots as i64);
        }
        taken(&self.rings) < by.most()
    }
}

/// When a generation ended, Unix milliseconds.
fn ended_ms(generation: &Generation) -> i64 {
    let ends = generation.attempts.iter().map(|attempt| attempt.started_ms.saturating_add(attempt.duration_ms));
    let took = ends.max().and_then(|took| i64::try_from(took).ok()).unwrap_or_default();
    generation.created_ms.saturating_add(took)
}

/// Whether an attempt failed by itself. One that was cancelled or lost a race did not.
fn failed(attempt: &AttemptRecord) -> bool {
    let harmless = [AttemptRecord::CANCELLED, AttemptRecord::LOST_RACE];
    attempt.error_type.as_deref().is_some_and(|kind| !harmless.contains(&kind))
}

#[cfg(test)]
mod tests;

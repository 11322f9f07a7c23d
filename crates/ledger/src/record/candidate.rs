//! A candidate as bytes. Figures that follow from others, or from the candidate before, are only marked as such: what
//! is written is told exactly, and is short all the same.

use pointsman_domain::{
    Candidate, Catalog, Circuit, EndpointHealth, EndpointId, Objective, OutputCostSpread, Prediction, Reopens,
    ScoreInputs, ScoreTerms, ScoreUnit,
};
use pointsman_routing::decide::{score_unit, term_names};
use postcard::Serializer;
use serde::{Serialize, de::DeserializeOwned};

use super::{Bytes, Source, put};

type Writer<'o> = Serializer<Bytes<'o>>;

/// What a candidate begins with: its place in the catalog and in the plan, its most output tokens, and unit and number of its terms.
type Head = (u32, u32, u32, ScoreUnit, u8);

/// Candidates one after the other.
pub(super) fn put_all(candidates: &[Candidate], catalog: &Catalog, out: &mut Writer<'_>) {
    let mut before = Earlier::default();
    for candidate in candidates {
        put_one(candidate, &before, catalog, out);
        before = Earlier::of(candidate);
    }
    put(&None::<Head>, out);
}

/// Reads what [`put_all`] wrote.
pub(super) fn take_all(from: &mut impl Source, catalog: &Catalog) -> Option<Vec<Candidate>> {
    let mut candidates = Vec::new();
    let mut before = Earlier::default();
    while let Some(head) = from.next::<Option<Head>>()? {
        let candidate = take(head, from, &before, catalog)?;
        before = Earlier::of(&candidate);
        candidates.push(candidate);
    }
    Some(candidates)
}

/// What candidates of one request mostly have in common.
#[derive(Default)]
struct Earlier {
    inputs: ScoreInputs,
    prompt_variance: f64,
}

impl Earlier {
    const fn of(candidate: &Candidate) -> Earlier {
        Earlier { inputs: candidate.inputs, prompt_variance: candidate.output.prompt_variance }
    }
}

/// Whether each figure of a candidate is what was expected of it, a bit each; only the others follow.
#[derive(Default)]
struct Marks {
    bits: u64,
    count: u32,
}

impl Marks {
    const BYTES: usize = size_of::<u64>();

    fn set(&mut self, is_set: bool) -> bool {
        self.bits |= u64::from(is_set) << self.count;
        self.count += 1;
        is_set
    }

    fn next(&mut self) -> bool {
        let is_set = self.bits >> self.count & 1 == 1;
        self.count += 1;
        is_set
    }

    #[inline]
    fn put<T: Figure>(&mut self, figure: &T, expected: &T, out: &mut Writer<'_>) {
        if !self.set(figure.is(expected)) {
            figure.append(out);
        }
    }

    #[inline]
    fn take<T: Figure>(&mut self, expected: T, from: &mut impl Source) -> Option<T> {
        if self.next() { Some(expected) } else { from.next() }
    }

    /// The next value, which is there if it is marked.
    fn take_marked<T: DeserializeOwned>(&mut self, from: &mut impl Source) -> Option<Option<T>> {
        if self.next() { from.next().map(Some) } else { Some(None) }
    }
}

/// A value that may be expected.
trait Figure: Serialize + DeserializeOwned {
    fn is(&self, expected: &Self) -> bool;

    fn append(&self, out: &mut Writer<'_>) {
        put(self, out);
    }
}

/// Bit for bit. What is no number has different bits on different machines, and so is never expected.
impl Figure for f64 {
    fn is(&self, expected: &f64) -> bool {
        self.to_bits() == expected.to_bits() && !self.is_nan()
    }

    /// What `postcard` makes of it, at half the time: of a record's values most are such.
    #[inline]
    fn append(&self, out: &mut Writer<'_>) {
        out.output.0.extend_from_slice(&self.to_bits().to_le_bytes());
    }
}

macro_rules! figure {
    ($($number:ty),*) => {$(
        impl Figure for $number {
            fn is(&self, expected: &$number) -> bool {
                self == expected
            }
        }
    )*};
}

figure!(u32, u64, EndpointId, Circuit, Reopens);

/// Every figure and what is expected of it, in order, for both directions: `one` puts or takes one of them.
macro_rules! figures {
    ($candidate:ident, $terms:ident, $rate:ident, $before:ident, $named:ident, $one:ident) => {
        $one!($candidate.endpoint, $named.0);
        $one!($candidate.provider, $named.1);
        $one!($candidate.target, 0);
        $one!($candidate.group, 0);
        $one!($candidate.health.circuit, Circuit::Closed);
        $one!($candidate.inputs.in_flight, 0);
        $one!($candidate.health.in_flight, $candidate.inputs.in_flight);
        $one!($candidate.inputs.prompt_tokens, $before.inputs.prompt_tokens);
        $one!($candidate.inputs.cached_tokens, 0);
        $one!($candidate.inputs.tier, $before.inputs.tier);
        $one!($candidate.inputs.reopens, Reopens::Now);
        // What the statistics say of an endpoint stands together, because it is the same in many records.
        $one!($candidate.inputs.intercept, 0.0);
        $one!($candidate.inputs.load_exponent, 1.0);
        $one!($candidate.inputs.knee, 0.0);
        $one!($candidate.inputs.variance, 0.0);
        $one!($candidate.inputs.prompt_slope, 0.0);
        $one!($candidate.inputs.weight, 0.0);
        $one!($candidate.inputs.per_token, 0.0);
        $one!($candidate.inputs.pace_variance, 0.0);
        $one!($candidate.inputs.pace_weight, 0.0);
        $one!($candidate.inputs.shown, 1.0);
        $one!($candidate.inputs.failures, 0.0);
        $one!($candidate.inputs.successes, 0.0);
        $one!($candidate.inputs.usual_failure, $before.inputs.usual_failure);
        $one!($candidate.inputs.age, 0.0);
        $one!($rate, success_rate(&$candidate.inputs));
        $one!($candidate.health.samples, samples(&$candidate.inputs));
        $one!($candidate.output.usd_per_token, 0.0);
        $one!($candidate.output.prompt_usd, 0.0);
        $one!($candidate.output.prompt_variance, $before.prompt_variance);
        $one!($candidate.inputs.output_tokens, $before.inputs.output_tokens);
        $one!($candidate.inputs.output_variance, $before.inputs.output_variance);
        $one!($candidate.inputs.cost, 0.0);
        $one!($candidate.inputs.floor, 0.0);
        $one!($candidate.predicted.first_token_p50, 0.0);
        $one!($candidate.predicted.first_token_p95, 0.0);
        $one!($candidate.predicted.tokens_per_second, 0.0);
        $one!($candidate.predicted.total_p50, 0.0);
        $one!($candidate.predicted.total_p95, 0.0);
        $one!($candidate.predicted.cost, $candidate.inputs.cost);
        $one!($candidate.predicted.failure, 0.0);
        $one!($candidate.inputs.expected, $candidate.predicted.first_token_p50);
        $one!($candidate.inputs.spread, $candidate.inputs.variance.sqrt());
        $one!($terms[0], 0.0);
        $one!($terms[1], 0.0);
        $one!($terms[2], 0.0);
        $one!($terms[3], 0.0);
        $one!($terms[4], 0.0);
        $one!($candidate.score, $terms.iter().sum::<f64>());
    };
}

fn put_one(candidate: &Candidate, before: &Earlier, catalog: &Catalog, out: &mut Writer<'_>) {
    let mut terms = [0.0; ScoreTerms::MAX_TERMS];
    terms.iter_mut().zip(candidate.terms.iter()).for_each(|(value, term)| *value = term.value);
    let count = candidate.terms.iter().count() as u8;
    let rate = candidate.health.success_rate.unwrap_or_else(|| success_rate(&candidate.inputs));
    let named = named(catalog, candidate.index);
    let head: Head = (candidate.index, candidate.place, candidate.output.most, candidate.unit, count);
    put(&Some(head), out);
    let start = out.output.0.len();
    out.output.0.extend_from_slice(&[0; Marks::BYTES]);
    let mut marks = Marks::default();
    marks.set(candidate.probe);
    marks.set(candidate.panic);
    marks.set(candidate.predicted.measured);
    marks.set(candidate.health.success_rate.is_some());
    if marks.set(candidate.selection_probability.is_some()) {
        candidate.selection_probability.iter().for_each(|probability| put(probability, out));
    }
    if marks.set(candidate.saving.is_some()) {
        candidate.saving.iter().for_each(|saving| put(saving, out));
    }
    if marks.set(candidate.inputs.quality.is_some()) {
        candidate.inputs.quality.iter().for_each(|quality| put(quality, out));
    }
    macro_rules! one {
        ($figure:expr, $expected:expr) => {
            marks.put(&$figure, &$expected, out);
        };
    }
    figures!(candidate, terms, rate, before, named, one);
    if let Some(place) = out.output.0.get_mut(start..start + Marks::BYTES) {
        place.copy_from_slice(&marks.bits.to_le_bytes());
    }
}

fn take(
    (index, place, most, unit, count): Head,
    from: &mut impl Source,
    before: &Earlier,
    catalog: &Catalog,
) -> Option<Candidate> {
    let named = named(catalog, index);
    let names = names(unit);
    let names = names.get(..usize::from(count)).unwrap_or(names);
    let mut marks = Marks { bits: u64::from_le_bytes(from.next()?), count: 0 };
    let (probe, panic, measured, is_rated) = (marks.next(), marks.next(), marks.next(), marks.next());
    let (selection_probability, saving) = (marks.take_marked(from)?, marks.take_marked(from)?);
    let quality = marks.take_marked(from)?;
    let mut terms = [0.0; ScoreTerms::MAX_TERMS];
    let rate;
    let mut candidate = Candidate {
        index,
        endpoint: named.0,
        place,
        target: 0,
        group: 0,
        provider: named.1,
        score: 0.0,
        unit,
        terms: ScoreTerms::new(names, terms),
        selection_probability,
        predicted: Prediction { measured, ..Prediction::NONE },
        health: EndpointHealth { circuit: Circuit::Closed, success_rate: None, samples: 0, in_flight: 0 },
        output: OutputCostSpread { most, ..OutputCostSpread::default() },
        saving,
        inputs: ScoreInputs { quality, ..ScoreInputs::default() },
        probe,
        panic,
    };
    macro_rules! one {
        ($figure:expr, $expected:expr) => {
            $figure = marks.take($expected, from)?;
        };
    }
    figures!(candidate, terms, rate, before, named, one);
    terms.iter_mut().skip(names.len()).for_each(|unused| *unused = 0.0);
    candidate.terms = ScoreTerms::new(names, terms);
    candidate.health.success_rate = is_rated.then_some(rate);
    Some(candidate)
}

/// Id and provider of the endpoint at a position.
fn named(catalog: &Catalog, index: u32) -> (EndpointId, u32) {
    catalog.endpoint(index).map_or((EndpointId(0), 0), |endpoint| (endpoint.id, endpoint.provider))
}

fn success_rate(inputs: &ScoreInputs) -> f64 {
    let answers = inputs.failures + inputs.successes;
    if answers > 0.0 { inputs.successes / answers } else { 0.0 }
}

fn samples(inputs: &ScoreInputs) -> u64 {
    (inputs.failures + inputs.successes + 0.5) as u64
}

/// The names of the terms of scores in this unit.
fn names(unit: ScoreUnit) -> &'static [&'static str] {
    let of = Objective::ALL.into_iter().find(|objective| score_unit(*objective) == unit);
    of.map_or(&[], term_names)
}

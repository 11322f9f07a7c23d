//! Where arrivals and lengths come from: drawn (Poisson, three kinds of answers), or one of two real hours.
//!
//! The hours are in `traces/`, with their source, licence and format.

use std::sync::OnceLock;

use crate::{
    dice::Dice,
    request::{Aim, Request, STREAMED},
};

/// Limit on output tokens of every request of a trace: above its longest answer, since the traces do not tell it.
const MAX_TOKENS: u32 = 2048;

/// One of the real hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hour {
    /// Conversations.
    Conversation,
    /// Code.
    Code,
}

/// How fast an hour goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As it happened.
    Real,
    /// Compressed or stretched to the mean rate of the scenario.
    Scenario,
}

/// Where arrivals and lengths come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traffic {
    /// Poisson arrivals and three kinds of answers.
    #[default]
    Poisson,
    /// A window of a real hour.
    Trace(Hour, Pace),
}

impl Traffic {
    /// The real hours, at both paces.
    pub const TRACES: [Traffic; 4] = [
        Traffic::Trace(Hour::Conversation, Pace::Real),
        Traffic::Trace(Hour::Conversation, Pace::Scenario),
        Traffic::Trace(Hour::Code, Pace::Real),
        Traffic::Trace(Hour::Code, Pace::Scenario),
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Traffic::Poisson => "Poisson",
            Traffic::Trace(Hour::Conversation, Pace::Real) => "conv",
            Traffic::Trace(Hour::Conversation, Pace::Scenario) => "conv, scenario's rate",
            Traffic::Trace(Hour::Code, Pace::Real) => "code",
            Traffic::Trace(Hour::Code, Pace::Scenario) => "code, scenario's rate",
        }
    }
}

impl Hour {
    /// The hour of this name on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Hour> {
        match name {
            "conv" => Some(Hour::Conversation),
            "code" => Some(Hour::Code),
            _ => None,
        }
    }

    fn trace(self) -> &'static Trace {
        static CONVERSATION: OnceLock<Trace> = OnceLock::new();
        static CODE: OnceLock<Trace> = OnceLock::new();
        match self {
            Hour::Conversation => {
                CONVERSATION.get_or_init(|| Trace::read(include_bytes!("../traces/azure_2023_conv.bin")))
            }
            Hour::Code => CODE.get_or_init(|| Trace::read(include_bytes!("../traces/azure_2023_code.bin"))),
        }
    }
}

/// A request of a trace.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Seconds since the beginning.
    at: f64,
    prompt: u32,
    answer: u32,
}

/// An hour, and what its prompts tell of its answers.
struct Trace {
    rows: Vec<Row>,
    seconds: f64,
    /// By the number of bits of the prompt's length: mean answer, spread (σ of ln).
    answers: [(f64, f64); 33],
}

impl Trace {
    fn read(packed: &[u8]) -> Trace {
        let mut bytes = packed.iter().copied();
        let (mut rows, mut millis) = (Vec::new(), 0);
        while let (Some(since), Some(prompt), Some(answer)) =
            (number(&mut bytes), number(&mut bytes), number(&mut bytes))
        {
            millis += since;
            rows.push(Row { at: f64::from(millis) / 1e3, prompt, answer: answer.max(1) });
        }
        let mut by_prompt = vec![Vec::new(); 33];
        rows.iter().for_each(|row| by_prompt[bits(row.prompt)].push(f64::from(row.answer)));
        let seconds = rows.last().map_or(1.0, |row| row.at + 1.0);
        Trace { answers: std::array::from_fn(|bits| mean_and_spread(&by_prompt[bits])), rows, seconds }
    }
}

fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes.next()?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

const fn bits(prompt: u32) -> usize {
    (u32::BITS - prompt.leading_zeros()) as usize
}

fn mean_and_spread(of: &[f64]) -> (f64, f64) {
    let count = of.len().max(1) as f64;
    let mean = of.iter().sum::<f64>() / count;
    let ln = of.iter().map(|answer| libm::log(*answer)).sum::<f64>() / count;
    let variance = of.iter().map(|answer| (libm::log(*answer) - ln).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

/// The requests of a window of so many seconds that begins where the seed says and goes on at the beginning of the
/// hour when the hour is over; `rate` is the scenario's.
#[must_use]
pub fn arrivals(hour: Hour, pace: Pace, seed: u64, aim: Aim, rate: f64, seconds: f64) -> Vec<Request> {
    let trace = hour.trace();
    let own_rate = trace.rows.len() as f64 / trace.seconds;
    let faster = if pace == Pace::Scenario { rate / own_rate } else { 1.0 };
    let mut dice = Dice::new(seed, 0x7ace);
    let begin = trace.seconds * dice.uniform();
    let first = trace.rows.partition_point(|row| row.at < begin);
    let mut requests = Vec::new();
    for position in first.. {
        let round = (position / trace.rows.len()) as f64;
        let row = trace.rows[position % trace.rows.len()];
        let at = (row.at + round * trace.seconds - begin) / faster;
        if at >= seconds {
            break;
        }
        let (expected_answer, answer_sigma) = trace.answers[bits(row.prompt)];
        requests.push(Request {
            id: requests.len(),
            at,
            prompt: row.prompt,
            answer: row.answer,
            expected_answer,
            answer_sigma,
            max_tokens: MAX_TOKENS,
            streamed: dice.uniform() < STREAMED,
            objective: aim.objective(dice.below(4)),
        });
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_domain::Objective;

    const AIM: Aim = Aim::All(Objective::Fastest);

    #[test]
    fn the_packed_hours_hold_every_request_and_its_lengths() {
        let (conversation, code) = (Hour::Conversation.trace(), Hour::Code.trace());
        assert_eq!((conversation.rows.len(), code.rows.len()), (19_366, 8_819));
        let first = |trace: &Trace| trace.rows[..2].iter().map(|row| (row.prompt, row.answer)).collect::<Vec<_>>();
        assert_eq!(first(conversation), [(374, 44), (396, 109)]);
        assert_eq!(first(code), [(4808, 10), (3180, 8)]);
        let last = |trace: &Trace| trace.rows.last().map(|row| (row.prompt, row.answer));
        assert_eq!((last(conversation), last(code)), (Some((197, 183)), Some((549, 173))));
        assert!((conversation.rows[1].at - 4.315).abs() < 1e-9, "{}", conversation.rows[1].at);
    }

    #[test]
    fn every_answer_is_below_the_limit_of_its_request() {
        for hour in [Hour::Conversation, Hour::Code] {
            assert!(hour.trace().rows.iter().all(|row| row.answer < MAX_TOKENS));
        }
    }

    #[test]
    fn a_seed_chooses_the_window_and_the_same_seed_the_same() {
        let of = |seed: u64| arrivals(Hour::Code, Pace::Real, seed, AIM, 4.0, 600.0);
        assert_eq!(of(5000), of(5000));
        assert_ne!(of(5000), of(5001));
    }

    #[test]
    fn a_window_goes_on_at_the_beginning_of_the_hour() {
        for seed in 0..8 {
            let requests = arrivals(Hour::Conversation, Pace::Real, seed, AIM, 4.0, 3502.7);
            assert!(requests.len().abs_diff(19_366) <= 2, "{}", requests.len());
            assert!(requests.is_sorted_by(|a, b| a.at <= b.at));
        }
    }

    #[test]
    fn compressed_an_hour_has_the_rate_of_the_scenario() {
        for hour in [Hour::Conversation, Hour::Code] {
            let requests = arrivals(hour, Pace::Scenario, 1, AIM, 40.0, 300.0);
            let rate = requests.len() as f64 / 300.0;
            assert!((20.0..60.0).contains(&rate), "{hour:?}: {rate}");
        }
    }
}

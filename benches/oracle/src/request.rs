//! What is asked: open-loop Poisson arrivals of a mix of sizes, streamed and plain.

use pointsman_domain::Objective;

use crate::dice::Dice;

/// Seconds after which a stream without a first token is given up, unless a rule knows better.
pub const FIRST_BYTE: f64 = 15.0;
/// Seconds that a request may take altogether. As long as another endpoint may take over, a plain answer gets half
/// of what is left of it: its head comes last, so no other clock tells a hang from a thinker.
pub const TOTAL: f64 = 120.0;

/// Share of requests that are streamed.
pub(crate) const STREAMED: f64 = 0.7;
/// Spread (σ of ln) of answer sizes around their kind's.
pub const ANSWER_SIGMA: f64 = 0.5;

/// A kind of request: share of the traffic, limit on output tokens, mean output tokens, prompt tokens from and to.
struct Kind {
    share: f64,
    max_tokens: u32,
    answer: f64,
    prompt: (f64, f64),
}

/// Labels and lookups, conversation, long texts.
const KINDS: [Kind; 3] = [
    Kind { share: 0.45, max_tokens: 64, answer: 16.0, prompt: (50.0, 2_000.0) },
    Kind { share: 0.40, max_tokens: 256, answer: 70.0, prompt: (100.0, 3_000.0) },
    Kind { share: 0.15, max_tokens: 1_024, answer: 260.0, prompt: (100.0, 6_000.0) },
];

/// What the objective of a run's requests is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// The same for all of them.
    All(Objective),
    /// One of the four at random for each.
    Mixed,
}

impl Aim {
    /// Every kind of run.
    pub const ALL: [Aim; 5] = [
        Aim::All(Objective::Fastest),
        Aim::All(Objective::Cheapest),
        Aim::All(Objective::Reliable),
        Aim::All(Objective::Balanced),
        Aim::Mixed,
    ];

    /// Its name on the command line and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Aim::All(objective) => objective.as_str(),
            Aim::Mixed => "mixed",
        }
    }

    /// The objective that something of this number has.
    #[must_use]
    pub fn objective(self, number: usize) -> Objective {
        match self {
            Aim::All(objective) => objective,
            Aim::Mixed => Objective::ALL.get(number % 4).copied().unwrap_or_default(),
        }
    }
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Its position in the run.
    pub id: usize,
    /// When it arrives, seconds.
    pub at: f64,
    /// Prompt tokens.
    pub prompt: u32,
    /// Tokens of its answer, wherever it is served. Nobody knows them before.
    pub answer: u32,
    /// Their mean over requests of its kind.
    pub expected_answer: f64,
    /// Spread (σ of ln) of the answers around it.
    pub answer_sigma: f64,
    /// Its limit on output tokens.
    pub max_tokens: u32,
    /// Whether the answer is streamed.
    pub streamed: bool,
    /// What it asks to be best at.
    pub objective: Objective,
}

/// The requests of a run: `rate` per second over `seconds`.
#[must_use]
pub fn arrivals(seed: u64, aim: Aim, rate: f64, seconds: f64) -> Vec<Request> {
    let mut dice = Dice::new(seed, 0xa11);
    let mut requests = Vec::with_capacity((rate * seconds * 1.1) as usize);
    let mut at = dice.exponential(1.0 / rate);
    while at < seconds {
        requests.push(request(&mut dice, requests.len(), at, aim));
        at += dice.exponential(1.0 / rate);
    }
    requests
}

fn request(dice: &mut Dice, id: usize, at: f64, aim: Aim) -> Request {
    let mut draw = dice.uniform();
    let mut kind = &KINDS[0];
    for candidate in &KINDS {
        kind = candidate;
        draw -= candidate.share;
        if draw < 0.0 {
            break;
        }
    }
    let answer = kind.answer * libm::exp(ANSWER_SIGMA * dice.normal() - 0.5 * ANSWER_SIGMA * ANSWER_SIGMA);
    Request {
        id,
        at,
        prompt: dice.ratio(kind.prompt.0, kind.prompt.1) as u32,
        answer: (answer.round() as u32).clamp(1, kind.max_tokens),
        expected_answer: kind.answer,
        answer_sigma: ANSWER_SIGMA,
        max_tokens: kind.max_tokens,
        streamed: dice.uniform() < STREAMED,
        objective: aim.objective(dice.below(4)),
    }
}

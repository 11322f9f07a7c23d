//! The synthetic endpoints and their true state at any moment.
//!
//! An endpoint has a character for life ([`Endpoint`]) and suffers [`Event`]s. What is true of it at a moment, for a
//! request that finds so many others in flight, is a [`Truth`]: only the clairvoyant and the losses read it.

use pointsman_domain::FailureKind;

use crate::{
    dice::Dice,
    request::{FIRST_BYTE, Request, TOTAL},
};

/// Half-life of the statistics, seconds: the unit of everything that lasts.
pub const HALF_LIFE: f64 = 60.0;
/// Half-lives over which requests arrive.
const HALF_LIVES: f64 = 25.0;

/// Endpoints of a world, each at a provider of its own; a world of measured calls may have fewer.
pub const ENDPOINTS: usize = 8;
/// Spread (σ of ln) of the time per token from request to request.
pub const TOKEN_SIGMA: f64 = 0.15;
/// An answer that takes longer, in seconds, is none for somebody who wants reliability.
pub const SLOW: f64 = 2.0;
/// Probability of a failure, clocks included, from which an endpoint is not healthy. On a good day it is 0.02 at most.
pub const UNHEALTHY: f64 = 0.05;
/// Requests in flight that nobody reaches: the knee of endpoints that do not queue.
pub const WIDE: f64 = 64.0;
/// Seconds after which a connection is refused, and after which a server error comes at once.
const REFUSED_AFTER: f64 = 0.005;
const ERROR_AFTER: f64 = 0.03;

/// The character of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Median seconds to the first token of an empty prompt, alone.
    pub median: f64,
    /// Standard deviation of ln of that.
    pub sigma: f64,
    /// Seconds that each prompt token adds.
    pub slope: f64,
    /// Median seconds per output token, alone.
    pub per_token: f64,
    /// Dollars per prompt token.
    pub price_in: f64,
    /// Dollars per output token.
    pub price_out: f64,
    /// Dollars per prompt token that lies in its cache, where that is cheaper.
    pub price_cached: Option<f64>,
    /// Probability of a 500 on a good day.
    pub failure: f64,
    /// Requests in flight up to which it is no slower.
    pub knee: f64,
    /// Power of the requests in flight with which it slows down beyond.
    pub exponent: f64,
    /// Daily wave: amplitude in ln, period in seconds, phase.
    pub wave: Option<(f64, f64, f64)>,
}

/// Something that happens to an endpoint for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// To which.
    pub endpoint: usize,
    /// From when, seconds.
    pub from: f64,
    /// Until when, seconds.
    pub to: f64,
    /// What.
    pub effect: Effect,
}

/// What an event does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effect {
    /// Everything takes so many times as long.
    Slow(f64),
    /// The same, growing from 1 over two thirds of the event and going back over the last third.
    Ramp(f64),
    /// This share of the requests gets a 500.
    Fails(f64),
    /// Connections are refused.
    Refuses,
    /// Connections are taken and nothing ever comes.
    Hangs,
    /// More than so many requests a second get a 429.
    Limits(f64),
    /// Every request gets a 500 in the second half of every period of so many seconds.
    Flaps(f64),
}

/// How an endpoint fails, if it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A 500 in the middle of thinking.
    Error,
    /// A 500 at once.
    ErrorAtOnce,
    /// No connection.
    Refused,
    /// Nothing.
    Hang,
    /// A 429.
    Limited,
}

/// What is true of an endpoint at a moment, for a request that makes so many in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    /// Median seconds to the first token, of an empty prompt.
    pub median: f64,
    /// Standard deviation of ln of that.
    pub sigma: f64,
    /// Seconds that each prompt token adds.
    pub slope: f64,
    /// Median seconds per output token.
    pub per_token: f64,
    /// Probability that it fails.
    pub failure: f64,
    /// How it would fail.
    pub fault: Fault,
}

/// How an endpoint treats one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    /// First token and last token after so many seconds.
    Answers {
        /// First token.
        first: f64,
        /// Last token.
        total: f64,
    },
    /// Fails after so many seconds.
    Fails {
        /// How.
        kind: FailureKind,
        /// The status, if any.
        status: Option<u16>,
        /// After so many seconds.
        after: f64,
    },
    /// Nothing ever comes.
    Hangs,
}

/// How long a run lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Half-life of the statistics, seconds.
    pub half_life: f64,
    /// Seconds over which requests arrive.
    pub seconds: f64,
}

impl Default for Span {
    fn default() -> Span {
        Span { half_life: HALF_LIFE, seconds: HALF_LIVES * HALF_LIFE }
    }
}

/// All of a run that does not depend on who routes.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// The seed everything was drawn from.
    pub seed: u64,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
    /// What happens, in the order of beginnings.
    pub events: Vec<Event>,
    /// The requests.
    pub requests: Vec<Request>,
    /// How long it lasts.
    pub span: Span,
    /// Measured calls that are drawn from, by part of the run and endpoint. Without any, fates follow from characters.
    pub calls: Vec<Vec<Vec<Fate>>>,
}

impl World {
    /// What is true of an endpoint at `now`, with `in_flight` requests there, the asking one included.
    #[must_use]
    pub fn truth(&self, endpoint: usize, now: f64, in_flight: u32) -> Truth {
        let character = &self.endpoints[endpoint];
        let mut slow = character.stretch(now, in_flight);
        let mut truth = Truth { failure: character.failure, fault: Fault::Error, ..character.alone() };
        for event in self.events.iter().filter(|event| event.endpoint == endpoint && event.is_on(now)) {
            match event.effect {
                Effect::Slow(factor) => slow *= factor,
                Effect::Ramp(factor) => slow *= libm::pow(factor, event.ramp(now)),
                Effect::Fails(share) if share >= 1.0 => {
                    truth = Truth { failure: 1.0, fault: Fault::ErrorAtOnce, ..truth }
                }
                Effect::Fails(share) => truth.failure = truth.failure.max(share),
                Effect::Refuses => truth = Truth { failure: 1.0, fault: Fault::Refused, ..truth },
                Effect::Hangs => truth = Truth { failure: 1.0, fault: Fault::Hang, ..truth },
                Effect::Flaps(period) if (now - event.from) % period >= 0.5 * period => {
                    truth = Truth { failure: 1.0, fault: Fault::ErrorAtOnce, ..truth };
                }
                Effect::Flaps(_) | Effect::Limits(_) => {}
            }
        }
        Truth { median: truth.median * slow, slope: truth.slope * slow, per_token: truth.per_token * slow, ..truth }
    }

    /// What is true of an endpoint when nothing happens to it and nobody else is there.
    #[must_use]
    pub fn good_day(&self, endpoint: usize) -> Truth {
        self.endpoints[endpoint].alone()
    }

    /// Whether anybody gets slower by a few requests in flight.
    #[must_use]
    pub fn queues(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.knee < WIDE)
    }

    /// Requests per second that an endpoint bears now, if it is limited.
    #[must_use]
    pub fn limit(&self, endpoint: usize, now: f64) -> Option<f64> {
        let on = self.events.iter().filter(|event| event.endpoint == endpoint && event.is_on(now));
        on.filter_map(|event| if let Effect::Limits(rate) = event.effect { Some(rate) } else { None }).reduce(f64::min)
    }

    /// The part of the run in which a moment lies: all parts of measured calls are equally long.
    #[must_use]
    pub fn part(&self, at: f64) -> usize {
        let parts = self.calls.len();
        ((at / self.span.seconds * parts as f64) as usize).min(parts.saturating_sub(1))
    }

    /// What comes of a request at an endpoint of which this is true. The same for everybody who routes.
    #[must_use]
    pub fn fate(&self, request: &Request, endpoint: usize, truth: &Truth) -> Fate {
        let mut dice = Dice::new(self.seed ^ 0xfa7e, (request.id * ENDPOINTS + endpoint) as u64);
        if let Some(calls) = self.calls.get(self.part(request.at)) {
            return calls[endpoint][dice.below(calls[endpoint].len())];
        }
        let (fails, z_first, z_token) = (dice.uniform() < truth.failure, dice.normal(), dice.normal());
        let first = truth.median * libm::exp(truth.sigma * z_first) + truth.slope * f64::from(request.prompt);
        if fails {
            return truth.fault.fate(first);
        }
        let per_token = truth.per_token * libm::exp(TOKEN_SIGMA * z_token);
        Fate::Answers { first, total: first + f64::from(request.answer) * per_token }
    }

    /// Dollars of a request at an endpoint, for so many output tokens.
    #[must_use]
    pub fn cost(&self, endpoint: usize, request: &Request, answer: f64) -> f64 {
        let Endpoint { price_in, price_out, .. } = self.endpoints[endpoint];
        f64::from(request.prompt) * price_in + answer * price_out
    }
}

impl Endpoint {
    fn alone(&self) -> Truth {
        let Endpoint { median, sigma, slope, per_token, .. } = *self;
        Truth { median, sigma, slope, per_token, failure: self.failure, fault: Fault::Error }
    }

    fn stretch(&self, now: f64, in_flight: u32) -> f64 {
        let load = libm::pow((f64::from(in_flight) / self.knee).max(1.0), self.exponent);
        let wave = self
            .wave
            .map_or(0.0, |(high, period, phase)| high * libm::sin(std::f64::consts::TAU * (now / period + phase)));
        load * libm::exp(wave)
    }
}

impl Event {
    fn is_on(&self, now: f64) -> bool {
        self.from <= now && now < self.to
    }

    /// Whether it is on at some moment of a span.
    #[must_use]
    pub fn meets(&self, (from, to): (f64, f64)) -> bool {
        self.from < to && from < self.to
    }

    /// From 0 to 1 over two thirds of the event and back.
    fn ramp(&self, now: f64) -> f64 {
        let share = (now - self.from) / (self.to - self.from);
        if share < 2.0 / 3.0 { 1.5 * share } else { 3.0 * (1.0 - share) }
    }
}

impl Fault {
    /// How it shows; `first` is when the first token would have come.
    pub(crate) fn fate(self, first: f64) -> Fate {
        let (kind, status, after) = match self {
            Fault::Error => (FailureKind::Server, Some(500), 0.5 * first),
            Fault::ErrorAtOnce => (FailureKind::Server, Some(500), ERROR_AFTER),
            Fault::Refused => (FailureKind::Connect, None, REFUSED_AFTER),
            Fault::Limited => (FailureKind::RateLimited, Some(429), ERROR_AFTER),
            Fault::Hang => return Fate::Hangs,
        };
        Fate::Fails { kind, status, after }
    }
}

impl Truth {
    /// Mean seconds to the last byte of an answer of so many tokens.
    #[must_use]
    pub fn mean_time(&self, prompt: u32, answer: f64) -> f64 {
        let first = self.median * libm::exp(0.5 * self.sigma * self.sigma) + self.slope * f64::from(prompt);
        first + answer * self.per_token * libm::exp(0.5 * TOKEN_SIGMA * TOKEN_SIGMA)
    }

    /// Mean seconds until a failure shows; `clock` is when a hang is given up.
    #[must_use]
    pub fn failing_time(&self, prompt: u32, clock: f64) -> f64 {
        match self.fault.fate(self.median + self.slope * f64::from(prompt)) {
            Fate::Fails { after, .. } => after,
            Fate::Answers { .. } | Fate::Hangs => clock,
        }
    }

    /// Probability that a request of this kind fails or takes over [`SLOW`] seconds.
    #[must_use]
    pub fn bad(&self, request: &Request) -> f64 {
        1.0 - (1.0 - self.failure) * (1.0 - self.slower_than(SLOW, request))
    }

    /// Whether nothing is wrong: it may fail now and then, as everybody does on a good day, but no more. That is a
    /// matter of its state, not of how the dice would fall.
    #[must_use]
    pub fn is_healthy(&self, request: &Request) -> bool {
        let late = self.late(request, FIRST_BYTE, 0.5 * TOTAL);
        1.0 - (1.0 - self.failure) * (1.0 - late) < UNHEALTHY
    }

    /// Probability that a stream has no first token in `first` seconds, or that a plain answer takes over `total`.
    #[must_use]
    pub fn late(&self, request: &Request, first: f64, total: f64) -> f64 {
        if request.streamed { self.slower(first, request.prompt, 0.0) } else { self.slower_than(total, request) }
    }

    /// Probability that an answer of this kind takes over so many seconds.
    fn slower_than(&self, seconds: f64, request: &Request) -> f64 {
        /// Standard normal values that stand for a fifth of all answers each.
        const FIFTHS: [f64; 5] = [-1.282, -0.524, 0.0, 0.524, 1.282];
        let slower = |z: f64| {
            let answer = request.expected_answer * libm::exp(request.answer_sigma * (z - 0.5 * request.answer_sigma));
            self.slower(seconds, request.prompt, answer.min(f64::from(request.max_tokens)))
        };
        FIFTHS.into_iter().map(slower).sum::<f64>() / FIFTHS.len() as f64
    }

    fn slower(&self, seconds: f64, prompt: u32, answer: f64) -> f64 {
        let left = seconds - self.slope * f64::from(prompt) - answer * self.per_token;
        if left <= 0.0 {
            return 1.0;
        }
        let sigmas = libm::log(left / self.median) / self.sigma;
        0.5 * libm::erfc(sigmas * std::f64::consts::FRAC_1_SQRT_2)
    }
}

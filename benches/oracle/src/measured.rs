//! Worlds whose endpoints replay calls that somebody measured at real providers.
//!
//! A [`MeasuredSet`] is read from a table of calls. In a [`World`] of it each request draws one of the calls of the endpoint that it
//! is sent to. Nobody measured prices that belong to these calls, so a [`Ladder`] assumes them.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_domain::{FailureKind, Objective};

use crate::{
    columns::{Columns, Line},
    dice::Dice,
    request::{Aim, Request},
    world::{ENDPOINTS, Endpoint, Fate, HALF_LIFE, Span, WIDE, World},
};

/// Requests per second.
pub const RATE: f64 = 4.0;
/// Seconds of a run.
pub const SECONDS: f64 = 3600.0;
/// Prompt and output tokens of every request: those of the calls of LLMPerf.
const PROMPT: u32 = 550;
const ANSWER: u32 = 150;
/// Dollars per token at the dearest endpoint, and the price of each next one relative to the one before.
const DEAREST: f64 = 1e-6;
const STEP: f64 = 0.8;
/// Seconds after which a refusal is taken to come; the tables do not say.
const REFUSED_AFTER: f64 = 0.03;

/// One model at several endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSet {
    /// Where it comes from.
    pub name: String,
    /// Names of the endpoints.
    pub endpoints: Vec<String>,
    /// The calls, by part of the measured time and endpoint: none is empty.
    pub calls: Vec<Vec<Vec<Fate>>>,
}

/// Who is cheap. Each endpoint costs a fifth less than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ladder {
    /// The slower the cheaper: a target always costs something.
    SlowerIsCheaper,
    /// In an order that is drawn from the seed.
    Drawn,
}

impl Ladder {
    /// All of them.
    pub const ALL: [Ladder; 2] = [Ladder::SlowerIsCheaper, Ladder::Drawn];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Ladder::SlowerIsCheaper => "slower is cheaper",
            Ladder::Drawn => "drawn",
        }
    }
}

/// A call as it stands in a table: model, part of the time, endpoint, and what came of it.
type Call<'t> = (&'t str, &'t str, &'t str, Fate);

impl MeasuredSet {
    /// The sets of `llmperf.csv`, one for each model.
    ///
    /// # Errors
    /// A column is missing, or a figure is none.
    pub fn of_llmperf(table: &str) -> Result<Vec<MeasuredSet>, String> {
        let table = Columns::parse("llmperf", table)?;
        sets("LLMPerf", &table.lines().map(|line| llmperf_call(&line)).collect::<Result<Vec<Call<'_>>, String>>()?)
    }

    /// The set of `computesdk.csv`. Its parts are its runs; calls over new and over kept connections count alike, from the moment
    /// the request was sent.
    ///
    /// # Errors
    /// A column is missing, or a figure is none.
    pub fn of_computesdk(table: &str) -> Result<Vec<MeasuredSet>, String> {
        let table = Columns::parse("computesdk", table)?;
        sets(
            "ComputeSDK",
            &table.lines().map(|line| computesdk_call(&line)).collect::<Result<Vec<Call<'_>>, String>>()?,
        )
    }

    /// A run of an hour with requests of one size under an objective.
    #[must_use]
    pub fn world(&self, ladder: Ladder, objective: Objective, seed: u64) -> World {
        let span = Span { half_life: HALF_LIFE, seconds: SECONDS };
        let mut order: Vec<usize> = (0..self.endpoints.len()).collect();
        match ladder {
            Ladder::SlowerIsCheaper => order.sort_by(|a, b| self.slowest(*a).total_cmp(&self.slowest(*b))),
            Ladder::Drawn => {
                let mut dice = Dice::new(seed, 0x9a1d);
                (1..order.len()).rev().for_each(|at| order.swap(at, dice.below(at + 1)));
            }
        }
        let rank = |endpoint| order.iter().position(|other| *other == endpoint).unwrap_or_default();
        let endpoint = |endpoint| self.endpoint(endpoint, DEAREST * libm::pow(STEP, rank(endpoint) as f64));
        let endpoints = (0..self.endpoints.len()).map(endpoint).collect();
        let requests = requests(objective, seed);
        World { seed, endpoints, events: Vec::new(), requests, span, calls: self.calls.clone() }
    }

    /// Seconds within which 19 of 20 calls had their first token.
    fn slowest(&self, endpoint: usize) -> f64 {
        quantile(self.calls.iter().flat_map(|part| &part[endpoint]).map(|fate| times(fate).0).collect(), 0.95)
    }

    /// What the losses take for its character: the measured calls say the rest.
    fn endpoint(&self, endpoint: usize, price: f64) -> Endpoint {
        let all = || self.calls.iter().flat_map(|part| &part[endpoint]).map(times);
        let answered = || all().filter(|(first, _)| first.is_finite());
        let median = quantile(answered().map(|(first, _)| first).collect(), 0.5);
        Endpoint {
            median,
            sigma: (libm::log(quantile(answered().map(|(first, _)| first).collect(), 0.95) / median) / 1.645).max(0.01),
            slope: 0.0,
            per_token: quantile(answered().map(|(first, total)| total - first).collect(), 0.5) / f64::from(ANSWER),
            price_in: price,
            price_out: price,
            price_cached: None,
            failure: 1.0 - answered().count() as f64 / all().count().max(1) as f64,
            knee: WIDE,
            exponent: 1.0,
            wave: None,
        }
    }
}

fn llmperf_call<'t>(line: &Line<'_, 't>) -> Result<Call<'t>, String> {
    let fate = match line.word("failed")? {
        "0" => answered(line.number("ttft_s")?, line.number("e2e_s")?, line.number("out_tok")?),
        _ if line.word("err")? == "429" => refused(FailureKind::RateLimited, 429),
        _ => refused(FailureKind::Server, 500),
    };
    Ok((line.word("model")?, "", line.word("provider")?, fate))
}

fn computesdk_call<'t>(line: &Line<'_, 't>) -> Result<Call<'t>, String> {
    let (first, tokens) = (line.number("ttft_ms")? / 1e3, line.number("out_tok")?);
    let total = first + tokens / line.number("tok_per_s")?.max(1e-9);
    Ok(("", line.word("run")?, line.word("route")?, answered(first, total, tokens)))
}

/// Calls by model; an endpoint that a part of the time lacks draws from all of its calls there.
fn sets(name: &str, calls: &[Call<'_>]) -> Result<Vec<MeasuredSet>, String> {
    let mut models: BTreeMap<&str, Vec<&Call<'_>>> = BTreeMap::new();
    calls.iter().for_each(|call| models.entry(call.0).or_default().push(call));
    let set = |(model, calls): (&str, Vec<&Call<'_>>)| {
        let parts: BTreeSet<&str> = calls.iter().map(|call| call.1).collect();
        let endpoints: BTreeSet<&str> = calls.iter().map(|call| call.2).collect();
        if endpoints.len() > ENDPOINTS {
            return Err(format!("{name} {model} has more than {ENDPOINTS} endpoints"));
        }
        let of = |part: &str, endpoint: &str| {
            let here = || calls.iter().filter(|call| call.2 == endpoint);
            let now: Vec<Fate> = here().filter(|call| call.1 == part).map(|call| call.3).collect();
            if now.is_empty() { here().map(|call| call.3).collect() } else { now }
        };
        Ok(MeasuredSet {
            name: format!("{name} {model}").trim_end().to_owned(),
            calls: parts.iter().map(|part| endpoints.iter().map(|endpoint| of(part, endpoint)).collect()).collect(),
            endpoints: endpoints.into_iter().map(str::to_owned).collect(),
        })
    };
    models.into_iter().map(set).collect()
}

/// An answer, stretched to the length that every request has.
fn answered(first: f64, total: f64, tokens: f64) -> Fate {
    Fate::Answers { first, total: first + (total - first).max(0.0) * f64::from(ANSWER) / tokens.max(1.0) }
}

fn refused(kind: FailureKind, status: u16) -> Fate {
    Fate::Fails { kind, status: Some(status), after: REFUSED_AFTER }
}

/// Seconds to the first and last token; never, where it failed.
#[must_use]
pub fn times(fate: &Fate) -> (f64, f64) {
    match *fate {
        Fate::Answers { first, total } => (first, total),
        Fate::Fails { .. } | Fate::Hangs => (f64::INFINITY, f64::INFINITY),
    }
}

/// Nearest rank; never, without values.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::INFINITY)
}

fn requests(objective: Objective, seed: u64) -> Vec<Request> {
    let alike = |request: Request| Request {
        prompt: PROMPT,
        answer: ANSWER,
        expected_answer: f64::from(ANSWER),
        max_tokens: 2 * ANSWER,
        streamed: true,
        ..request
    };
    crate::request::arrivals(seed, Aim::All(objective), RATE, SECONDS).into_iter().map(alike).collect()
}

//! Rules that rank endpoints by an average of the past, without load and without doubt.

use std::collections::VecDeque;

use pointsman_domain::{FailureKind, Objective};

use crate::{
    rule::{Ask, News, Report, Rule},
    world::ENDPOINTS,
};

/// Share of the newest answer in a moving average.
const NEWEST: f64 = 0.2;
/// Seconds that a failure counts as: an average that let failures look fast would not be worth comparing with.
const FAILED: f64 = 10.0;
/// LiteLLM: answers remembered, seconds a time-out counts as, failures in a minute that put an endpoint aside, and
/// for how many seconds.
const REMEMBERED: usize = 10;
const TIMED_OUT: f64 = 1_000.0;
const FAILURES: usize = 3;
const ASIDE: f64 = 5.0;

/// Moving averages of the total time and of failures; the least one wins. Endpoints never tried go first.
#[derive(Default)]
pub struct Greedy {
    time: [Option<f64>; ENDPOINTS],
    failure: [f64; ENDPOINTS],
}

impl Rule for Greedy {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let (typical_time, typical_cost) = ask.typical;
        super::ranked(|endpoint| {
            let Some(time) = self.time[endpoint] else { return f64::NEG_INFINITY };
            let cost = (ask.cost)(endpoint);
            match ask.request.objective {
                Objective::Fastest => time,
                Objective::Cheapest => cost,
                Objective::Reliable => self.failure[endpoint],
                Objective::Balanced => time / typical_time + cost / typical_cost,
            }
        })
    }

    fn heard(&mut self, report: &Report<'_>) {
        let (time, failed) = match report.news {
            News::Completed => (report.now - report.started, 0.0),
            News::Failed { .. } => (FAILED, 1.0),
            News::Began | News::FirstToken | News::Cancelled => return,
        };
        let average = self.time[report.endpoint].get_or_insert(time);
        *average += NEWEST * (time - *average);
        let failure = &mut self.failure[report.endpoint];
        *failure += NEWEST * (failed - *failure);
    }
}

/// The mean of the last ten: of first tokens for streams, of seconds per token otherwise.
#[derive(Default)]
pub struct LastTen {
    first: [VecDeque<f64>; ENDPOINTS],
    per_token: [VecDeque<f64>; ENDPOINTS],
    failures: [VecDeque<f64>; ENDPOINTS],
    aside_until: [f64; ENDPOINTS],
}

impl Rule for LastTen {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let samples = if ask.request.streamed { &self.first } else { &self.per_token };
        super::ranked(|endpoint| {
            let mean = samples[endpoint].iter().sum::<f64>() / samples[endpoint].len().max(1) as f64;
            if self.aside_until[endpoint] > ask.now { 1e9 + mean } else { mean }
        })
    }

    fn heard(&mut self, report: &Report<'_>) {
        let endpoint = report.endpoint;
        match report.news {
            News::Completed => {
                let total = report.now - report.started;
                remember(&mut self.per_token[endpoint], total / f64::from(report.request.answer), REMEMBERED);
                remember(&mut self.first[endpoint], report.first.unwrap_or(report.now) - report.started, REMEMBERED);
            }
            News::Failed { kind, .. } => {
                if kind == FailureKind::Timeout {
                    remember(&mut self.per_token[endpoint], TIMED_OUT, REMEMBERED);
                    remember(&mut self.first[endpoint], TIMED_OUT, REMEMBERED);
                }
                let failures = &mut self.failures[endpoint];
                remember(failures, report.now, FAILURES + 1);
                let recent = failures.iter().filter(|at| report.now - **at < 60.0).count();
                if recent > FAILURES || kind == FailureKind::RateLimited {
                    self.aside_until[endpoint] = report.now + ASIDE;
                }
            }
            News::Began | News::FirstToken | News::Cancelled => {}
        }
    }
}

fn remember(samples: &mut VecDeque<f64>, sample: f64, most: usize) {
    samples.push_back(sample);
    if samples.len() > most {
        samples.pop_front();
    }
}

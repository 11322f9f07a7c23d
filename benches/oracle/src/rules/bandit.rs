//! A discounted Thompson bandit: log-normal total time per token class, failures as a Beta; no load, no evidence from
//! requests that were not answered yet.

use pointsman_domain::Objective;

use crate::{
    dice::Dice,
    rule::{Ask, News, Report, Rule},
    world::ENDPOINTS,
};

/// Classes of answers, by their limit: one bandit each.
const CLASSES: usize = 3;
/// Spread of ln time assumed, and most answers remembered.
const SIGMA: f64 = 0.6;
const MOST: f64 = 40.0;
/// Seconds that a failed attempt costs.
const FAILED: f64 = 1.0;

/// What is known of an endpoint.
#[derive(Debug, Clone, Copy, Default)]
struct Arm {
    weight: [f64; CLASSES],
    mean: [f64; CLASSES],
    failures: f64,
    successes: f64,
    at: f64,
}

/// The bandit.
pub struct Bandit {
    dice: Dice,
    arms: [Arm; ENDPOINTS],
    half_life: f64,
}

impl Bandit {
    pub fn new(seed: u64, half_life: f64) -> Bandit {
        Bandit { dice: Dice::new(seed, 0xba4d), arms: [Arm::default(); ENDPOINTS], half_life }
    }
}

impl Arm {
    fn faded(&self, now: f64, half_life: f64) -> Arm {
        let left = libm::exp2(-(now - self.at) / half_life);
        let weight = self.weight.map(|weight| weight * left);
        Arm { weight, failures: self.failures * left, successes: self.successes * left, at: now, ..*self }
    }
}

impl Rule for Bandit {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let class = class(ask.request.max_tokens);
        let (typical_time, typical_cost) = ask.typical;
        let scores: [f64; ENDPOINTS] = std::array::from_fn(|endpoint| {
            let arm = self.arms[endpoint].faded(ask.now, self.half_life);
            let weight = arm.weight[class];
            let mean = (arm.mean[class] * weight + 0.5 * libm::log(typical_time)) / (weight + 0.5);
            let time = libm::exp(mean + 0.5 * SIGMA * self.dice.normal() / (weight + 0.5).sqrt());
            let failure = (arm.failures + 0.01) / (arm.failures + arm.successes + 1.0);
            let cost = (ask.cost)(endpoint);
            let retried = failure * (FAILED + typical_time);
            match ask.request.objective {
                Objective::Fastest => time + retried,
                Objective::Cheapest => cost + failure * typical_cost,
                Objective::Reliable => failure + 0.02 * time / typical_time,
                Objective::Balanced => (time + retried) / typical_time + cost / typical_cost,
            }
        });
        super::ranked(|endpoint| scores[endpoint])
    }

    fn heard(&mut self, report: &Report<'_>) {
        let arm = &mut self.arms[report.endpoint];
        match report.news {
            News::Completed => {
                *arm = arm.faded(report.now, self.half_life);
                arm.successes += 1.0;
                let class = class(report.request.max_tokens);
                arm.weight[class] = arm.weight[class].min(MOST - 1.0) + 1.0;
                arm.mean[class] += (libm::log(report.now - report.started) - arm.mean[class]) / arm.weight[class];
            }
            News::Failed { .. } => {
                *arm = arm.faded(report.now, self.half_life);
                arm.failures += 1.0;
            }
            News::Began | News::FirstToken | News::Cancelled => {}
        }
    }
}

fn class(max_tokens: u32) -> usize {
    match max_tokens {
        0..=64 => 0,
        65..=256 => 1,
        _ => 2,
    }
}

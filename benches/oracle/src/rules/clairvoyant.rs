//! The anchor at regret 0: it knows what is true of every endpoint at the moment, not how the dice will fall.
//!
//! For each request it takes the order of three endpoints with the least expected loss. A request beyond an endpoint's
//! knee also delays those that come after it; that is counted, as the loss of so many others as are in flight there.

use pointsman_actors::domain::Objective;

use crate::{
    loss::{FAILED_BALANCED, FAILED_PRICES, FAILED_SECONDS},
    rule::{ATTEMPTS, Ask, FIRST_BYTE, Rule, TOTAL},
    world::{ENDPOINTS, Fault, Truth},
};

/// The clairvoyant oracle.
pub struct Clairvoyant;

/// What trying an endpoint means for the loss.
#[derive(Debug, Clone, Copy)]
struct Prospect {
    /// Probability that it fails or is given up.
    failure: f64,
    /// Loss when it answers, and when it does not.
    answered: f64,
    failed: f64,
    /// Loss of those that come after.
    delay: f64,
}

impl Rule for Clairvoyant {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let prospects: [Prospect; ENDPOINTS] = std::array::from_fn(|endpoint| prospect(ask, endpoint));
        let dearest = (0..ENDPOINTS).map(ask.cost).fold(0.0, f64::max);
        let unanswered = match ask.request.objective {
            Objective::Fastest => FAILED_SECONDS,
            Objective::Cheapest => FAILED_PRICES * dearest,
            Objective::Balanced => FAILED_BALANCED,
            Objective::Reliable => 1.0,
        };
        let mut order = Vec::with_capacity(ATTEMPTS as usize);
        best(&prospects, 0, ATTEMPTS, unanswered, &mut order);
        order
    }
}

/// The least expected loss with so many attempts at endpoints not in the set `tried`, and how to get it.
fn best(prospects: &[Prospect; ENDPOINTS], tried: u32, attempts: u32, unanswered: f64, order: &mut Vec<usize>) -> f64 {
    let mut least = f64::INFINITY;
    let before = order.clone();
    for (endpoint, prospect) in prospects.iter().enumerate() {
        if tried & (1 << endpoint) != 0 {
            continue;
        }
        let mut with = before.clone();
        with.push(endpoint);
        let rest = match attempts {
            1 => unanswered,
            _ => best(prospects, tried | (1 << endpoint), attempts - 1, unanswered, &mut with),
        };
        let Prospect { failure, answered, failed, delay } = *prospect;
        let loss = delay + (1.0 - failure) * answered + failure * (failed + rest);
        if loss < least {
            least = loss;
            *order = with;
        }
    }
    least
}

/// Little's law: while the request is served there, about as many others arrive as it finds in flight.
fn prospect(ask: &Ask<'_>, endpoint: usize) -> Prospect {
    let here = alone(ask, endpoint, &(ask.truth)(endpoint, 0));
    let crowded = alone(ask, endpoint, &(ask.truth)(endpoint, 1));
    let (typical_time, typical_cost) = ask.typical;
    let elsewhere = match ask.request.objective {
        Objective::Fastest => typical_time,
        Objective::Cheapest => typical_cost,
        Objective::Balanced => 1.0,
        Objective::Reliable => 0.0,
    };
    let loss = |of: &Prospect| (1.0 - of.failure) * of.answered + of.failure * (of.failed + elsewhere);
    let others = f64::from(ask.in_flight[endpoint]);
    let waste = if is_past_its_best(ask, endpoint) { typical_cost } else { 0.0 };
    Prospect { delay: others * (loss(&crowded) - loss(&here)).max(0.0) + waste, ..here }
}

/// Whether an endpoint, once this request is there, would serve fewer per second with one more. Time alone would keep
/// the other objectives from it; whoever only counts dollars must not clog what is cheap.
fn is_past_its_best(ask: &Ask<'_>, endpoint: usize) -> bool {
    let per_second = |more: u32| {
        let time = (ask.truth)(endpoint, more).mean_time(ask.request.prompt, ask.request.expected_answer);
        f64::from(ask.in_flight[endpoint] + 1 + more) / time
    };
    ask.request.objective == Objective::Cheapest && per_second(1) < per_second(0)
}

fn alone(ask: &Ask<'_>, endpoint: usize, truth: &Truth) -> Prospect {
    let request = ask.request;
    let clock = if request.streamed { FIRST_BYTE } else { 0.5 * TOTAL };
    let late = truth.late(request, FIRST_BYTE, 0.5 * TOTAL);
    let failure = 1.0 - (1.0 - truth.failure) * (1.0 - late);
    let given_up = if truth.fault == Fault::Hang { 1.0 } else { late / failure.max(1e-12) };
    let time = truth.mean_time(request.prompt, request.expected_answer).min(clock);
    let lost = (1.0 - given_up) * truth.failing_time(request.prompt, clock) + given_up * clock;
    let (cost, prompt_cost) = ((ask.cost)(endpoint), given_up * (ask.prompt_cost)(endpoint));
    let (typical_time, typical_cost) = ask.typical;
    let (answered, failed) = match request.objective {
        Objective::Fastest => (time, lost),
        Objective::Cheapest => (cost, prompt_cost),
        Objective::Balanced => (
            0.5 * time / typical_time + 0.5 * cost / typical_cost,
            0.5 * lost / typical_time + 0.5 * prompt_cost / typical_cost,
        ),
        // Only the first choice counts: what no fallback can take back.
        Objective::Reliable => return Prospect { failure: 0.0, answered: truth.bad(request), failed: 0.0, delay: 0.0 },
    };
    Prospect { failure, answered, failed, delay: 0.0 }
}

//! The anchor at regret 0: it knows what is true of every endpoint at the moment, not how the dice will fall.
//!
//! For each request it takes the order of three endpoints with the least expected loss. A request beyond an endpoint's
//! knee also delays those that come after it; that is counted, as the loss of so many others as are in flight there.
//! How much room at an endpoint is worth later on cannot be known from the moment alone, above all to those who do
//! not mind waiting: where endpoints queue, the oracle of a world is the best of several [`Restraint`]s, chosen when
//! the run is over.

use pointsman_domain::Objective;

use crate::{
    loss::{FAILED_BALANCED, FAILED_PRICES, FAILED_SECONDS},
    request::{FIRST_BYTE, TOTAL},
    rule::{Ask, Rule},
    world::{ENDPOINTS, Fault, Truth},
};

/// The clairvoyant oracle.
pub struct Clairvoyant(pub Restraint);

/// How much a clairvoyant spares an endpoint for those who come after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Restraint {
    /// How many of those in flight are taken to be delayed, as a factor.
    pub others: f64,
    /// What a second of their delay counts for `cheapest`, in typical prices.
    pub second: f64,
    /// Whether `cheapest` shuns endpoints that serve fewer per second with one more.
    pub shuns: bool,
}

impl Restraint {
    /// The one for worlds without queues.
    pub const PLAIN: Restraint = Restraint { others: 1.0, second: 0.0, shuns: true };

    /// The restraints that are tried where endpoints queue.
    #[must_use]
    pub fn family(objectives: &[Objective]) -> Vec<Restraint> {
        let mut family = Vec::new();
        for others in [0.5, 1.0, 1.5] {
            family.push(Restraint { others, ..Restraint::PLAIN });
        }
        if objectives.contains(&Objective::Cheapest) {
            let seconds = [0.0, 0.03, 0.1, 0.2, 0.4, 0.8];
            let with = |shuns: bool| seconds.map(|second| Restraint { others: 1.0, second, shuns });
            family.extend(with(false).into_iter().chain(with(true)));
        }
        family
    }
}

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
        let prospects: [Prospect; ENDPOINTS] = std::array::from_fn(|endpoint| self.prospect(ask, endpoint));
        let dearest = (0..ENDPOINTS).map(ask.cost).fold(0.0, f64::max);
        let unanswered = match ask.request.objective {
            Objective::Fastest => FAILED_SECONDS.max(2.0 * ask.typical.0),
            Objective::Cheapest => FAILED_PRICES * dearest,
            Objective::Balanced => FAILED_BALANCED,
            Objective::Reliable => 1.0,
        };
        best(&prospects, unanswered).to_vec()
    }
}

impl Prospect {
    /// Loss of trying this endpoint, when what remains after its failure costs `rest`.
    fn then(&self, rest: f64) -> f64 {
        self.delay + (1.0 - self.failure) * self.answered + self.failure * (self.failed + rest)
    }
}

/// The three endpoints, in this order, with the least expected loss.
fn best(prospects: &[Prospect; ENDPOINTS], unanswered: f64) -> [usize; 3] {
    let (mut least, mut order) = (f64::INFINITY, [0, 1, 2]);
    for third in 0..ENDPOINTS {
        let after_second = prospects[third].then(unanswered);
        for second in (0..ENDPOINTS).filter(|second| *second != third) {
            let after_first = prospects[second].then(after_second);
            for first in (0..ENDPOINTS).filter(|first| *first != second && *first != third) {
                let loss = prospects[first].then(after_first);
                if loss < least {
                    (least, order) = (loss, [first, second, third]);
                }
            }
        }
    }
    order
}

impl Clairvoyant {
    /// Little's law: while the request is served there, about as many others arrive as it finds in flight.
    fn prospect(&self, ask: &Ask<'_>, endpoint: usize) -> Prospect {
        let (truth, fuller) = ((ask.truth)(endpoint, 0), (ask.truth)(endpoint, 1));
        let (here, crowded) = (alone(ask, endpoint, &truth), alone(ask, endpoint, &fuller));
        let (typical_time, typical_cost) = ask.typical;
        let elsewhere = match ask.request.objective {
            Objective::Fastest => typical_time,
            Objective::Cheapest => typical_cost,
            Objective::Balanced => 1.0,
            Objective::Reliable => 0.0,
        };
        let loss = |of: &Prospect| (1.0 - of.failure) * of.answered + of.failure * (of.failed + elsewhere);
        let others = self.0.others * f64::from(ask.in_flight[endpoint]);
        let dollars = match ask.request.objective {
            Objective::Cheapest => typical_cost * self.spared(ask, endpoint, &truth, &fuller),
            _ => 0.0,
        };
        Prospect { delay: others * (loss(&crowded) - loss(&here)).max(0.0) + dollars, ..here }
    }

    /// What keeps `cheapest` from an endpoint, in typical prices. Time alone keeps the other objectives from clogging
    /// it; who only counts dollars must mind that whatever is cheap serves fewer when it is full.
    fn spared(&self, ask: &Ask<'_>, endpoint: usize, truth: &Truth, fuller: &Truth) -> f64 {
        let time = |truth: &Truth| truth.mean_time(ask.request.prompt, ask.request.expected_answer);
        let in_flight = f64::from(ask.in_flight[endpoint] + 1);
        let fewer = (in_flight + 1.0) / time(fuller) < in_flight / time(truth);
        let delayed = (in_flight - 1.0) * (time(fuller) - time(truth));
        self.0.second * delayed + if fewer && self.0.shuns { 1.0 } else { 0.0 }
    }
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
        Objective::Reliable => return first_choice(truth.bad(request)),
    };
    Prospect { failure, answered, failed, delay: 0.0 }
}

/// For `reliable` only the first choice counts. What comes after it is chosen well all the same, for as good as nothing.
fn first_choice(bad: f64) -> Prospect {
    Prospect { failure: 1e-6 * bad, answered: bad, failed: bad, delay: 0.0 }
}

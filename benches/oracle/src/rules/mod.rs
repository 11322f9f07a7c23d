//! The rules that are compared: Pointsman's core, the anchors, and what the field does.

mod bandit;
mod clairvoyant;
mod conversing;
#[expect(clippy::disallowed_methods, reason = "ranks")]
mod core;
mod informed;
mod peak_ewma;
mod price;
mod simple;
mod targeted;
mod windows;

use pointsman_domain::{Catalog, Decision, RoutingPolicy};

use self::core::Core;
pub(crate) use self::core::catalog;
pub use self::{
    clairvoyant::Restraint,
    conversing::Conversing,
    core::{Beside, Logged, Without, policy},
    targeted::{Holder, Targeted},
};
use crate::{rule::Rule, world::World};

/// Everything that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The clairvoyant: regret 0.
    Oracle,
    /// Uniform: regret 1.
    Random,
    /// Pointsman.
    Pointsman,
    /// A discounted Thompson bandit per endpoint, without load.
    Bandit,
    /// Least moving average.
    Greedy,
    /// Mean of the last ten answers, as LiteLLM does it.
    LastTen,
    /// The better of two by peak EWMA times requests in flight.
    PeakEwma,
    /// 1/price² with a memory for outages, as OpenRouter does it.
    Price,
    /// One after the other.
    RoundRobin,
    /// Pointsman without something of its own.
    Crippled(Without),
}

impl Kind {
    /// The anchors first, then those with a column of their own.
    pub const ALL: [Kind; 9] = [
        Kind::Oracle,
        Kind::Random,
        Kind::Pointsman,
        Kind::Bandit,
        Kind::Greedy,
        Kind::LastTen,
        Kind::PeakEwma,
        Kind::Price,
        Kind::RoundRobin,
    ];

    /// Pointsman without each of the things that are said to matter.
    pub const CRIPPLED: [Kind; 3] =
        [Kind::Crippled(Without::Load), Kind::Crippled(Without::Exploration), Kind::Crippled(Without::LastResort)];

    /// Pointsman without each mechanism that can be taken from it.
    pub const ABLATED: [Kind; 12] = [
        Kind::Crippled(Without::Load),
        Kind::Crippled(Without::Silence),
        Kind::Crippled(Without::Exploration),
        Kind::Crippled(Without::Staleness),
        Kind::Crippled(Without::LastResort),
        Kind::Crippled(Without::Hedging),
        Kind::Crippled(Without::Races),
        Kind::Crippled(Without::Pacing),
        Kind::Crippled(Without::InRow),
        Kind::Crippled(Without::PastOpen),
        Kind::Crippled(Without::Clocks),
        Kind::Crippled(Without::FailureTime),
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Oracle => "oracle",
            Kind::Random => "random",
            Kind::Pointsman => "pointsman",
            Kind::Bandit => "bandit",
            Kind::Greedy => "greedy ewma",
            Kind::LastTen => "last ten",
            Kind::PeakEwma => "p2c peak",
            Kind::Price => "1/price²",
            Kind::RoundRobin => "round robin",
            Kind::Crippled(Without::Nothing) => "all there",
            Kind::Crippled(Without::Load) => "no load",
            Kind::Crippled(Without::Exploration) => "no trying",
            Kind::Crippled(Without::LastResort) => "no last resort",
            Kind::Crippled(Without::Silence) => "no silence",
            Kind::Crippled(Without::Hedging) => "no hedging",
            Kind::Crippled(Without::Races) => "no races",
            Kind::Crippled(Without::Pacing) => "no pacing",
            Kind::Crippled(Without::InRow) => "no failures in a row",
            Kind::Crippled(Without::Staleness) => "no staleness",
            Kind::Crippled(Without::FailureTime) => "no failure time",
            Kind::Crippled(Without::Clocks) => "no learned clocks",
            Kind::Crippled(Without::PastOpen) => "no past open",
            Kind::Crippled(Without::Ignorance) => "no ignorance",
        }
    }

    /// A fresh one for a world.
    #[must_use]
    pub fn rule(self, world: &World, policy: &RoutingPolicy) -> Box<dyn Rule> {
        match self {
            Kind::Oracle => Box::new(clairvoyant::Clairvoyant(Restraint::PLAIN)),
            Kind::Random => Box::new(simple::Random::new(world.seed)),
            Kind::Pointsman => Box::new(Core::new(world, policy.clone(), Without::Nothing)),
            Kind::Crippled(without) => Box::new(Core::new(world, policy.clone(), without)),
            Kind::Bandit => Box::new(bandit::Bandit::new(world.seed, world.span.half_life)),
            Kind::Greedy => Box::new(windows::Greedy::default()),
            Kind::LastTen => Box::new(windows::LastTen::default()),
            Kind::PeakEwma => Box::new(peak_ewma::PeakEwma::new(world.seed)),
            Kind::Price => Box::new(price::InverseSquare::new(world.seed)),
            Kind::RoundRobin => Box::new(simple::RoundRobin::default()),
        }
    }
}

/// The clairvoyant with this restraint.
#[must_use]
pub fn clairvoyant(restraint: Restraint) -> Box<dyn Rule> {
    Box::new(clairvoyant::Clairvoyant(restraint))
}

/// Every so many of Pointsman's decisions in a world, and what they were made under.
#[must_use]
pub fn decisions(world: &World, policy: RoutingPolicy, every: usize) -> (Vec<Decision>, RoutingPolicy) {
    Core::decisions(world, policy, every)
}

/// Pointsman's run through a world with a share of random choices, and every so many of its decisions. `luck` changes what is left
/// to chance.
#[must_use]
pub fn drawn(world: &World, policy: &RoutingPolicy, share: f64, luck: u64, every: usize) -> Logged {
    Core::drawn(world, policy.clone(), share, luck, every)
}

/// Pointsman's run through a world, with all of its decisions.
#[must_use]
pub fn logged(world: &World, policy: RoutingPolicy) -> Logged {
    Core::logged(world, policy, 1)
}

/// The same, and what the configuration as `change` leaves it would have chosen at each decision, from the same news and seeds.
#[must_use]
pub fn logged_beside(
    world: &World,
    policy: RoutingPolicy,
    change: impl FnOnce(&mut Catalog, &mut RoutingPolicy),
) -> (Logged, Option<Beside>) {
    Core::logged_beside(world, policy, change)
}

/// All endpoints, the least of these values first.
fn ranked(value: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..crate::world::ENDPOINTS).collect();
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    order
}

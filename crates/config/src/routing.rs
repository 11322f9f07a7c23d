//! Routing and the names of aliases: `[routing]` and `[service]`.
//!
//! Builds the [`RoutingPolicy`], which documents its constants.

use std::{path::Path, time::Duration};

use pointsman_domain::{
    BalancedPolicy, BreakerPolicy, HedgePolicy, Objective, Percentile, Preference, PreferenceFault, RetryPolicy,
    RoutingPolicy, StatsPolicy, StickyPolicy, TargetPolicy, Task, Weights,
};

use super::{
    memory::MemoryConfig,
    quantity::{DAY, HOUR, MILLISECOND, MINUTE, WEEK},
    section::Section,
    tree::Value,
};

/// Synonyms of the built-in aliases `<prefix>/auto` and `<prefix>/free`.
const DEFAULT_SYNONYMS: [&str; 5] = ["auto", "router", "free", "openrouter/auto", "openrouter/free"];

/// `[service]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceConfig {
    /// The prefix of `<prefix>/auto`, `<prefix>/free` and the operator's aliases.
    pub alias_prefix: String,
}

impl Default for ServiceConfig {
    fn default() -> ServiceConfig {
        ServiceConfig { alias_prefix: "service".to_owned() }
    }
}

impl ServiceConfig {
    pub(super) fn read(section: &Section<'_>) -> ServiceConfig {
        let Some(prefix) = section.filled("alias_prefix") else { return ServiceConfig::default() };
        if format!("{prefix}/auto").parse::<pointsman_domain::ModelId>().is_err() {
            section.fault("alias_prefix", "is not a namespace", "printable ASCII without spaces, slashes and stars");
            return ServiceConfig::default();
        }
        ServiceConfig { alias_prefix: prefix.to_owned() }
    }
}

/// `[routing]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingConfig {
    /// The constants of routing decisions. Their timeouts come from `[timeouts]` and `[stream]`.
    pub policy: RoutingPolicy,
    /// Objective when neither the request, the alias nor the key sets one.
    pub objective: Objective,
    /// Seed of all decisions; `None` means a random one, which is logged at start.
    pub seed: Option<u64>,
    /// Distinguishes replicas with the same seed; `None` means a random one.
    pub instance_id: Option<u64>,
    /// File of the saved statistics.
    pub memory: MemoryConfig,
    /// Synonyms of the built-in aliases: those ending in `free` mean `free`, those ending in `auto` or `router` mean
    /// `auto`.
    pub alias_synonyms: Vec<String>,
}

impl RoutingConfig {
    /// Relative paths are relative to `directory`.
    pub(super) fn read(section: &Section<'_>, directory: &Path) -> RoutingConfig {
        let seed = |key| section.integer(key, 0..=u64::MAX >> 1);
        RoutingConfig {
            policy: policy(section),
            objective: section.choice_or("objective", &OBJECTIVES, Objective::default()),
            seed: seed("seed"),
            instance_id: seed("instance_id"),
            memory: section.section("memory", |memory| MemoryConfig::read(memory, directory)),
            alias_synonyms: synonyms(section).unwrap_or(DEFAULT_SYNONYMS.map(str::to_owned).to_vec()),
        }
    }
}

/// The objectives by name, for [`Section::choice`].
pub(super) const OBJECTIVES: [(&str, Objective); 4] = {
    let [cheapest, fastest, reliable, balanced] = Objective::ALL;
    [
        (cheapest.as_str(), cheapest),
        (fastest.as_str(), fastest),
        (reliable.as_str(), reliable),
        (balanced.as_str(), balanced),
    ]
};

/// The classes of tasks by name.
pub(super) const TASKS: [(&str, Task); 8] = {
    let [general, code, math, structured, tools, long_context, creative, vision] = Task::ALL;
    [
        (general.as_str(), general),
        (code.as_str(), code),
        (math.as_str(), math),
        (structured.as_str(), structured),
        (tools.as_str(), tools),
        (long_context.as_str(), long_context),
        (creative.as_str(), creative),
        (vision.as_str(), vision),
    ]
};

fn synonyms(section: &Section<'_>) -> Option<Vec<String>> {
    let items = section.texts("alias_synonyms", 64)?;
    for item in &items {
        if built_in_alias(item.text).is_none() {
            item.fault("does not say which alias it stands for", "names whose last part is auto, router or free");
        }
    }
    Some(items.iter().map(|item| item.text.to_owned()).collect())
}

/// The built-in alias of a synonym, `auto` or `free`.
pub(super) fn built_in_alias(spelling: &str) -> Option<&'static str> {
    match spelling.rsplit('/').next() {
        Some("auto" | "router") => Some("auto"),
        Some("free") => Some("free"),
        _ => None,
    }
}

fn policy(section: &Section<'_>) -> RoutingPolicy {
    let default = section.section("expert", |expert| with_expert_constants(expert, RoutingPolicy::default()));
    RoutingPolicy {
        exploration: section.number_or("exploration", 0.0..=10.0, default.exploration),
        balanced: balanced(section, default.balanced),
        hedge: section.section("hedge", |hedge| hedge_policy(hedge, default.hedge)),
        retry: section.section("retry", |retry| RetryPolicy {
            max_attempts: retry.integer_or("max_attempts", 1..=10, default.retry.max_attempts),
            last_resort: retry.integer_or("last_resort", 0..=10, default.retry.last_resort),
            budget_ratio: retry.number_or("budget_ratio", 0.0..=1.0, default.retry.budget_ratio),
            wait: retry.duration_or("wait", Duration::ZERO..=MINUTE, default.retry.wait),
        }),
        breaker: section.section("breaker", |breaker| breaker_policy(breaker, default.breaker)),
        pacing: section.flag_or("pacing", default.pacing),
        sticky: section.section("sticky", |sticky| sticky_policy(sticky, default.sticky)),
        ..default
    }
}

/// `[routing.expert]`: constants whose defaults were measured and rarely need a change.
fn with_expert_constants(section: &Section<'_>, default: RoutingPolicy) -> RoutingPolicy {
    let number = |key, most, default| section.number_or(key, 0.0..=most, default);
    RoutingPolicy {
        stats: stats(section, default.stats),
        staleness: number("staleness", 10.0, default.staleness),
        hot_inflation: section.number_or("hot_inflation", 1.0..=1000.0, default.hot_inflation),
        failure_time: section.duration_or("failure_time", Duration::ZERO..=10 * MINUTE, default.failure_time),
        cheapest_time_value: number("cheapest_time_value", 1000.0, default.cheapest_time_value),
        reliable_time_share: number("reliable_time_share", 10.0, default.reliable_time_share),
        reliable_slow: section.duration_or("reliable_slow", MILLISECOND..=DAY, default.reliable_slow),
        hedge: HedgePolicy {
            sigma: section.number_or("hedge_sigma", 0.0..=10.0, default.hedge.sigma),
            ..default.hedge
        },
        breaker: BreakerPolicy {
            factor: section.number_or("breaker_factor", 1.0..=4.0, default.breaker.factor),
            max_steps: section.integer_or("breaker_max_steps", 1..=20, default.breaker.max_steps),
            timeout_step: section.integer_or("breaker_timeout_step", 1..=20, default.breaker.timeout_step),
            ..default.breaker
        },
        targets: target_policy(section, default.targets),
        ..default
    }
}

fn stats(section: &Section<'_>, default: StatsPolicy) -> StatsPolicy {
    // The lower limit is a microsecond, because some providers send more than one token per millisecond.
    let time = |key, default| section.duration_or(key, Duration::from_micros(1)..=10 * MINUTE, default);
    StatsPolicy {
        half_life: section.duration_or("half_life", MILLISECOND..=WEEK, default.half_life),
        max_weight: section.number_or("max_weight", 2.0..=1e6, default.max_weight),
        prior_first_token: time("prior_ttft", default.prior_first_token),
        prior_per_token: time("prior_time_per_token", default.prior_per_token),
    }
}

fn balanced(section: &Section<'_>, default: BalancedPolicy) -> BalancedPolicy {
    let default = Weights { latency: default.latency, cost: default.cost };
    let weights = weights(section, "balanced").unwrap_or(default);
    BalancedPolicy { latency: weights.latency, cost: weights.cost }
}

/// A table `{ latency, cost }`; an absent weight has its default.
pub(super) fn weights(section: &Section<'_>, key: &'static str) -> Option<Weights> {
    let default = Weights::default();
    let (latency, cost) = section.optional(key, |weights| {
        let weight = |key, default| weights.number_or(key, 0.0..=1e6, default);
        (weight("latency", default.latency), weight("cost", default.cost))
    })?;
    let weights = Weights::new(latency, cost);
    if weights.is_none() {
        section.fault(key, "both weights are 0", "weights of which at least one is above 0");
    }
    weights
}

fn hedge_policy(section: &Section<'_>, default: HedgePolicy) -> HedgePolicy {
    let objectives = section.texts("objectives", 4).map(|items| {
        let parsed = items.iter().filter_map(|item| {
            let objective = item.text.parse().ok();
            if objective.is_none() {
                item.unknown("not an objective", Objective::ALL.map(Objective::as_str));
            }
            objective
        });
        parsed.collect()
    });
    HedgePolicy {
        objectives: objectives.unwrap_or(default.objectives),
        sigma: default.sigma,
        budget: section.number_or("budget", 0.0..=1.0, default.budget),
    }
}

fn breaker_policy(section: &Section<'_>, default: BreakerPolicy) -> BreakerPolicy {
    BreakerPolicy {
        consecutive: section.integer_or("consecutive", 1..=1000, default.consecutive),
        base: section.duration_or("base", MILLISECOND..=HOUR, default.base),
        ..default
    }
}

fn sticky_policy(section: &Section<'_>, default: StickyPolicy) -> StickyPolicy {
    StickyPolicy {
        enabled: section.flag_or("enabled", default.enabled),
        ttl: section.duration_or("ttl", Duration::from_secs(1)..=WEEK, default.ttl),
        min_prompt_tokens: section.integer_or("min_prompt_tokens", 1..=u32::MAX, default.min_prompt_tokens),
        max_conversations: section.integer_or("max_conversations", 32..=10_000_000, default.max_conversations),
    }
}

fn target_policy(section: &Section<'_>, default: TargetPolicy) -> TargetPolicy {
    TargetPolicy {
        gain: section.number_or("target_gain", 0.001..=1.0, default.gain),
        max_margin: section.number_or("target_max_margin", 1.0..=100.0, default.max_margin),
        min_margin: section.number_or("target_min_margin", 0.1..=1.0, default.min_margin),
        reserve: section.number_or("target_reserve", 0.0..=0.9, default.reserve),
    }
}

/// A number, which limits the median, or a table `{ p50, p75, p90, p95, p99 }`. `check` returns a contradiction, if any.
pub(super) fn preference(
    section: &Section<'_>,
    key: &'static str,
    check: fn(&Preference) -> Option<PreferenceFault>,
) -> Option<Preference> {
    const RANGE: std::ops::RangeInclusive<f64> = 0.0..=1e6;
    let preference = match section.any(key)? {
        Value::Table(_) => section.optional(key, |bounds| {
            let bound = |key| bounds.number(key, RANGE);
            let read = Preference {
                p50: bound("p50"),
                p75: bound("p75"),
                p90: bound("p90"),
                p95: bound("p95"),
                p99: bound("p99"),
            };
            let refused = |it: Percentile| bounds.has(it.as_str()) && read.bound(it).is_none();
            (!Percentile::ALL.into_iter().any(refused)).then_some(read)
        })??,
        Value::Number(_) | Value::Integer(_) => Preference::median(section.number(key, RANGE)?),
        _ => {
            section.fault(key, "is not a target", "a number (of the median), or a table such as { p95 = 0.8 }");
            return None;
        }
    };
    if let Some(fault) = check(&preference) {
        section.fault(key, fault.to_string(), "numbers above 0 that do not contradict each other");
        return None;
    }
    Some(preference)
}

//! Routing and the names of aliases: `[routing]` and `[service]`.
//!
//! Builds the [`RoutingPolicy`], which documents its constants.

use std::{path::Path, time::Duration};

use pointsman_domain::{
    BreakerPolicy, Exploration, HedgePolicy, Objective, Percentile, Preference, PreferenceFault, RetryPolicy,
    RoutingPolicy, StatsPolicy, StickyPolicy, TargetPolicy, Weights,
};

use super::{
    memory::MemoryConfig,
    quantity::{DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, WEEK},
    section::{Section, words},
    tree::Value,
};

/// Synonyms of the built-in aliases `<prefix>/auto` and `<prefix>/free`.
const DEFAULT_SYNONYMS: [&str; 5] = ["auto", "router", "free", "openrouter/auto", "openrouter/free"];

settings! {
    /// Names of this gateway.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ServiceConfig read(section) {
        /// Prefix of the aliases: `service/auto`, `service/free` and those of `[[aliases]]`.
        pub alias_prefix: String = with(alias_prefix) [default = "\"service\""],
    }
}

fn alias_prefix(section: &Section<'_>, key: &'static str) -> String {
    let prefix = section.filled(key).filter(|prefix| {
        let is_namespace = format!("{prefix}/auto").parse::<pointsman_domain::ModelId>().is_ok();
        if !is_namespace {
            section.fault(key, "is not a namespace", "printable ASCII without spaces, slashes and stars");
        }
        is_namespace
    });
    prefix.unwrap_or("service").to_owned()
}

settings! {
    /// How endpoints are chosen; `docs/ROUTING.md` explains it.
    #[derive(Debug, Clone, PartialEq)]
    pub struct RoutingConfig read(section, directory: &Path) {
        /// The constants of routing decisions. Their timeouts come from `[timeouts]` and `[stream]`.
        pub policy: RoutingPolicy => policy(section),
        /// Choices at random to learn from.
        pub explore: ExploreConfig => section.section("explore", explore),
        /// Objective when neither the request, the alias nor the key sets one.
        pub objective: Objective = choice_or(&words(Objective::ALL, Objective::as_str), Objective::default()),
        /// Synonyms of the two built-in aliases: those ending in `auto` or `router` mean `<prefix>/auto`, those ending
        /// in `free` mean `<prefix>/free`.
        pub alias_synonyms: Vec<String> = with(synonyms)
            [allowed = "names ending in `auto`, `router` or `free`",
             default = "[\"auto\", \"router\", \"free\", \"openrouter/auto\", \"openrouter/free\"]"],
        /// Seed of all decisions. With a seed and an instance id a run can be repeated exactly. Needs a restart.
        pub seed: Option<u64> = integer(0..=u64::MAX >> 1) [absent = "random at each start, and logged"],
        /// Distinguishes replicas with the same seed; otherwise all of them would explore the same endpoint at the same
        /// time. Needs a restart.
        pub instance_id: Option<u64> = integer(0..=u64::MAX >> 1) [absent = "random at each start"],
        /// File of the saved statistics.
        pub memory: MemoryConfig => section.section("memory", |memory| MemoryConfig::read(memory, directory)),
    }
}

fn synonyms(section: &Section<'_>, key: &'static str) -> Vec<String> {
    let Some(items) = section.texts(key, 64) else { return DEFAULT_SYNONYMS.map(str::to_owned).to_vec() };
    for item in &items {
        if built_in_alias(item.text).is_none() {
            item.fault("does not say which alias it stands for", "names whose last part is auto, router or free");
        }
    }
    items.iter().map(|item| item.text.to_owned()).collect()
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
    let default = RoutingPolicy::default();
    keys! { section:
        /// Strength of exploration of uncertain endpoints; 0: none, and requests are ranked as in the preview.
        exploration = number_or(0.0..=10.0, default.exploration),
        /// Whether calls to an endpoint are paced after it answered 429.
        pacing = flag_or(default.pacing),
        /// Whether `cheapest` ranks by the cost of an accepted answer: what is spent until one is acceptable, by the lower tenth
        /// of the quality.
        per_accepted = flag_or(default.per_accepted),
    }
    let balanced = weights(section, "balanced", "Weights of the objective `balanced`; only their ratio matters.")
        .unwrap_or(default.balanced);
    let own = RoutingPolicy {
        exploration,
        pacing,
        per_accepted,
        balanced,
        hedge: section.section("hedge", |hedge| hedge_policy(hedge, default.hedge)),
        retry: section.section("retry", |retry| retry_policy(retry, default.retry)),
        breaker: section.section("breaker", |breaker| breaker_policy(breaker, default.breaker)),
        sticky: section.section("sticky", |sticky| sticky_policy(sticky, default.sticky)),
        ..default
    };
    section.section("expert", |expert| with_expert_constants(expert, own))
}

/// Constants whose defaults were measured and rarely need a change.
fn with_expert_constants(section: &Section<'_>, default: RoutingPolicy) -> RoutingPolicy {
    keys! { section:
        //! Constants of the routing models. Their defaults were measured in simulation (`benches/oracle/SIMULATION.md`)
        //! and rarely need a change.
        /// Time after which an observation has half of its weight.
        half_life = duration_or(MILLISECOND..=WEEK, default.stats.half_life),
        /// Maximum weight of past observations. It is reduced automatically when recent predictions are biased.
        max_weight = number_or(2.0..=1e6, default.stats.max_weight) [unit = "observations"],
        /// Additional variance (ln²) of the estimates per half-life without an observation; up to twice as much for
        /// endpoints with few successes.
        staleness = number_or(0.0..=10.0, default.staleness),
        /// Slowdown by its own load above which an endpoint counts as saturated.
        hot_inflation = number_or(1.0..=1000.0, default.hot_inflation) [unit = "times"],
        /// Time that a failed attempt takes before the next one starts.
        failure_time = duration_or(Duration::ZERO..=10 * MINUTE, default.failure_time),
        /// Expected time to first token of an endpoint without observations.
        prior_first_token "prior_ttft" = duration_or(MICROSECOND..=10 * MINUTE, default.stats.prior_first_token),
        /// Expected time per further token of an endpoint without observations.
        prior_per_token "prior_time_per_token" = duration_or(MICROSECOND..=10 * MINUTE, default.stats.prior_per_token),
        /// Value of a second in `cheapest`: breaks ties in favour of speed.
        cheapest_time_value = number_or(0.0..=1000.0, default.cheapest_time_value) [unit = "median costs per second"],
        /// Weight of relative time in `reliable`: enough to break ties, because healthy endpoints differ by less than a
        /// hundredth.
        reliable_time_share = number_or(0.0..=10.0, default.reliable_time_share) [unit = "failure probability"],
        /// Time to the last token above which an answer is too slow for `reliable`; its probability is added to the
        /// score.
        reliable_slow = duration_or(MILLISECOND..=DAY, default.reliable_slow),
        /// Delay of a hedge above the expected time to first token.
        sigma "hedge_sigma" = number_or(0.0..=10.0, default.hedge.sigma) [unit = "standard deviations"],
        /// Factor by which each further opening of a breaker is longer.
        factor "breaker_factor" = number_or(1.0..=4.0, default.breaker.factor) [unit = "times"],
        /// Number of openings that grow: 5, 11, 25, 57 and then 128 s each. An outage of ten minutes then costs seven
        /// probes, and a recovered endpoint waits for at most about two minutes.
        max_steps "breaker_max_steps" = integer_or(1..=20, default.breaker.max_steps) [unit = "openings"],
        /// After a timeout an opening counts at least as this one, because probing an endpoint that hangs costs a whole
        /// timeout. 1: timeouts count like any other failure.
        timeout_step "breaker_timeout_step" = integer_or(1..=20, default.breaker.timeout_step) [unit = "openings"],
        /// Latency targets (`preferred_max_latency`) are multiplied by a safety margin, which grows by this share with
        /// every missed target and shrinks with every met one. Higher values react faster and oscillate more.
        gain "target_gain" = number_or(0.001..=1.0, default.targets.gain),
        /// Maximum margin; 1: predictions are used without a margin.
        max_margin "target_max_margin" = number_or(1.0..=100.0, default.targets.max_margin) [unit = "times"],
        /// Minimum margin, for `cheapest` only: the target is relaxed by this factor while it is nearly always met, so
        /// that the error budget is used for cheaper endpoints; 1: never.
        min_margin "target_min_margin" = number_or(0.1..=1.0, default.targets.min_margin) [unit = "times"],
        /// Share of the allowed misses that is kept in reserve: with 0.2 a p95 target aims at 96 %.
        reserve "target_reserve" = number_or(0.0..=0.9, default.targets.reserve),
    }
    RoutingPolicy {
        stats: StatsPolicy { half_life, max_weight, prior_first_token, prior_per_token },
        staleness,
        hot_inflation,
        failure_time,
        cheapest_time_value,
        reliable_time_share,
        reliable_slow,
        hedge: HedgePolicy { sigma, ..default.hedge },
        breaker: BreakerPolicy { factor, max_steps, timeout_step, ..default.breaker },
        targets: TargetPolicy { gain, max_margin, min_margin, reserve },
        ..default
    }
}

/// A table `{ latency, cost, quality }`; an absent weight has its default. `about` describes it if it is no key but a section.
pub(super) fn weights(section: &Section<'_>, key: &'static str, about: &str) -> Option<Weights> {
    let default = Weights::default();
    let weights = section.optional(key, |section| {
        section.about(about);
        keys! { section:
            /// Weight of time.
            latency = number_or(0.0..=1e6, default.latency),
            /// Weight of cost.
            cost = number_or(0.0..=1e6, default.cost),
            /// Weight of quality; 0: it does not count. [POLICY.md](POLICY.md#quality) explains it.
            quality = number_or(0.0..=1e6, default.quality),
        }
        Weights { latency, cost, quality }.checked()
    })?;
    if weights.is_none() {
        section.fault(key, "all weights are 0", "weights of which at least one is above 0");
    }
    weights
}

fn hedge_policy(section: &Section<'_>, default: HedgePolicy) -> HedgePolicy {
    keys! { section:
        //! A late attempt may be hedged by a second one at another endpoint. The first attempt with content answers,
        //! the other one is cancelled. Never for images, with `allow_fallbacks = false`, or with another entry of
        //! `models`.
        /// Objectives with hedging. Empty: no hedging.
        objectives = with(objectives)
            [allowed = "`cheapest`, `fastest`, `reliable`, `balanced`", default = "[\"fastest\"]"],
        /// Average number of hedges; the tokens of the cancelled attempt are paid too. Up to 5 are saved up, 1 is
        /// available at the start. 0: no hedging.
        budget = number_or(0.0..=1.0, default.budget) [unit = "hedges per request"],
    }
    HedgePolicy { objectives: objectives.unwrap_or(default.objectives), budget, ..default }
}

fn objectives<C: FromIterator<Objective>>(section: &Section<'_>, key: &'static str) -> Option<C> {
    let items = section.texts(key, 4)?;
    Some(items.iter().filter_map(|item| item.named("not an objective", Objective::ALL, Objective::as_str)).collect())
}

/// Choices that are drawn at random, whatever the scores, so that something is known of endpoints that would not be chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct ExploreConfig {
    /// Share of requests and what it may cost.
    pub exploration: Exploration,
    /// Ids of aliases; of all requests if empty.
    pub aliases: Vec<String>,
    /// Objectives.
    pub objectives: Vec<Objective>,
}

fn explore(section: &Section<'_>) -> ExploreConfig {
    keys! { section:
        //! A small share of requests is sent to an endpoint drawn at random, whatever the scores, so that `pointsman estimate` can
        //! say what another configuration would have come to. Only endpoints that are as safe as the best one are drawn: none that a
        //! filter, a breaker or a preference leaves out, none that is saturated or more than two points likelier to fail. Never for
        //! requests with `allow_fallbacks: false`, `provider.order` or `provider.explore: false`, of keys with `explore = false`, and
        //! never while a prompt cache is warm. `pointsman check` says what it would cost on recorded requests.
        /// Share of requests; 0.01 is plenty for most. 0: none.
        share = number_or(0.0..=0.5, 0.0),
        /// Aliases whose requests are explored. Empty: those of all aliases and models; a model only between its own providers.
        aliases = with(alias_names) [allowed = "names of aliases that there are", default = "[]"],
        /// Objectives that are explored.
        objectives = with(objectives)
            [allowed = "`cheapest`, `fastest`, `reliable`, `balanced`", default = "[\"balanced\", \"cheapest\", \"fastest\"]"],
        /// Most that exploring may cost, as a share of expected spending within about an hour; then it pauses. 0: only endpoints
        /// that cost no more than the choice are drawn.
        max_extra_cost = number_or(0.0..=1.0, 0.02),
        /// Longest additional time to the first token that may be expected of a drawn endpoint.
        max_extra_first_token "max_extra_ttft" = duration_or(Duration::ZERO..=MINUTE, Duration::from_secs(1)),
    }
    let default = || vec![Objective::Balanced, Objective::Cheapest, Objective::Fastest];
    let max_extra_first_token = max_extra_first_token.as_secs_f64();
    ExploreConfig {
        exploration: Exploration { share, max_extra_cost, max_extra_first_token },
        aliases: aliases.unwrap_or_default(),
        objectives: objectives.unwrap_or_else(default),
    }
}

fn alias_names(section: &Section<'_>, key: &'static str) -> Option<Vec<String>> {
    let items = section.texts(key, 64)?;
    Some(items.iter().inspect(|item| item.names_alias()).map(|item| item.text.to_owned()).collect())
}

fn retry_policy(section: &Section<'_>, default: RetryPolicy) -> RetryPolicy {
    keys! { section => RetryPolicy {}:
        //! Attempts after a failed one.
        /// Attempts per request, including the first one and a hedge. 1: no failover, also not as a last resort.
        max_attempts = integer_or(1..=10, default.max_attempts) [unit = "attempts"],
        /// Further attempts after these have failed, limited by a budget, at endpoints whose breaker is not open: three
        /// attempts may fail by chance. 0: none, and the client gets the failure.
        last_resort = integer_or(0..=10, default.last_resort) [unit = "attempts"],
        /// Attempts that each request adds to the budgets for endpoints with open breakers and for last resorts, so
        /// that an outage of all providers does not multiply the traffic.
        budget_ratio = number_or(0.0..=1.0, default.budget_ratio) [unit = "attempts per request"],
        /// Longest time that a request waits, all its waits together, for an endpoint to take requests again when all
        /// that could serve it rest: limited in rate, paced, behind an open breaker or one that is being probed. One
        /// that rests longer is refused at once with its `Retry-After`. 0: nobody waits.
        wait = duration_or(Duration::ZERO..=MINUTE, default.wait),
    }
}

fn breaker_policy(section: &Section<'_>, default: BreakerPolicy) -> BreakerPolicy {
    keys! { section => BreakerPolicy { ..default }:
        //! When an endpoint that fails is excluded.
        /// Failures in a row that open the breaker of an endpoint; more for an endpoint with a high failure rate.
        consecutive = integer_or(1..=1000, default.consecutive) [unit = "failures"],
        /// Time that a breaker stays open the first time; each further time is longer.
        base = duration_or(MILLISECOND..=HOUR, default.base),
    }
}

fn sticky_policy(section: &Section<'_>, default: StickyPolicy) -> StickyPolicy {
    keys! { section => StickyPolicy {}:
        //! Prefers the endpoint whose provider has the prompt of a conversation in its cache, by the dollars and time
        //! that this saves. Conversations are identified by a hash; their content is not stored.
        /// Whether cached prompts are preferred.
        enabled = flag_or(default.enabled),
        /// Time after the last turn in which a provider may still cache the prompt; most keep it for five minutes.
        ttl = duration_or(SECOND..=WEEK, default.ttl),
        /// Estimated prompt size from which providers cache.
        min_prompt_tokens = integer_or(1..=u32::MAX, default.min_prompt_tokens) [unit = "tokens"],
        /// Maximum number of conversations, about 100 bytes each; the least recently used are removed first.
        max_conversations = integer_or(32..=10_000_000, default.max_conversations) [unit = "conversations"],
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

//! Every key of `[routing]` reaches the constant it names, in the unit it names.

use std::{path::Path, time::Duration};

use pointsman_config::{Config, Environment};
use pointsman_domain::{
    BreakerPolicy, HedgePolicy, Objective, RetryPolicy, RoutingPolicy, StatsPolicy, StickyPolicy, TargetPolicy, Weights,
};

/// No value here is a default, and no two are the same.
const EVERY_KEY: &str = r#"
[routing]
objective = "reliable"
seed = 11
instance_id = 12
exploration = 1.5
balanced = { latency = 2.4, cost = 2.5, quality = 2.55 }
per_accepted = true
pacing = false
hedge = { objectives = ["reliable", "cheapest"], budget = 0.27 }
retry = { max_attempts = 4, last_resort = 3, budget_ratio = 0.28, wait = "1500ms" }
breaker = { consecutive = 29, base = "30s" }
sticky = { enabled = false, ttl = "32s", min_prompt_tokens = 33, max_conversations = 34 }
[routing.expert]
half_life = "13s 500ms"
max_weight = 14
staleness = 1.6
hot_inflation = 1.7
failure_time = "18ms"
prior_ttft = "19ms"
prior_time_per_token = "20ms 500us"
cheapest_time_value = 2.1
reliable_time_share = 2.2
reliable_slow = "2300ms"
hedge_sigma = 2.6
breaker_factor = 3.1
breaker_max_steps = 7
breaker_timeout_step = 2
target_gain = 0.35
target_max_margin = 36
target_min_margin = 0.37
target_reserve = 0.38
"#;

#[test]
fn every_key_of_routing_reaches_the_constant_it_names() {
    let config = Config::parse(EVERY_KEY, "config.toml", Path::new("."), &Environment::default()).unwrap();
    let routing = &config.routing;
    assert_eq!((routing.objective, routing.seed, routing.instance_id), (Objective::Reliable, Some(11), Some(12)));
    let policy = config.routing_policy(5);
    let expected = RoutingPolicy {
        version: 5,
        fingerprint: policy.fingerprint.clone(),
        stats: StatsPolicy {
            half_life: Duration::from_millis(13_500),
            max_weight: 14.0,
            prior_first_token: Duration::from_millis(19),
            prior_per_token: Duration::from_micros(20_500),
        },
        exploration: 1.5,
        staleness: 1.6,
        hot_inflation: 1.7,
        failure_time: Duration::from_millis(18),
        cheapest_time_value: 2.1,
        reliable_time_share: 2.2,
        reliable_slow: Duration::from_millis(2_300),
        balanced: Weights { latency: 2.4, cost: 2.5, quality: 2.55 },
        per_accepted: true,
        hedge: HedgePolicy { objectives: vec![Objective::Reliable, Objective::Cheapest], sigma: 2.6, budget: 0.27 },
        retry: RetryPolicy { max_attempts: 4, last_resort: 3, budget_ratio: 0.28, wait: Duration::from_millis(1500) },
        breaker: BreakerPolicy {
            consecutive: 29,
            base: Duration::from_secs(30),
            factor: 3.1,
            max_steps: 7,
            timeout_step: 2,
        },
        pacing: false,
        sticky: StickyPolicy {
            enabled: false,
            ttl: Duration::from_secs(32),
            min_prompt_tokens: 33,
            max_conversations: 34,
        },
        targets: TargetPolicy { gain: 0.35, max_margin: 36.0, min_margin: 0.37, reserve: 0.38 },
        clocks: policy.clocks,
    };
    assert_eq!(policy, expected);
}

//! Latency targets and spend paces of aliases, and how they and conversations are kept, as an operator writes them.

use std::path::Path;

use expect_test::{Expect, expect};
use pointsman_config::{Config, Environment};
use pointsman_domain::Preference;

fn read(toml: &str) -> Result<Config, String> {
    let config = Config::parse(toml.trim_start(), "f", Path::new("/nowhere"), &Environment::default());
    config.map_err(|faults| faults.iter().map(|fault| format!("{fault}\n")).collect())
}

#[track_caller]
fn check(toml: &str, expected: Expect) {
    expected.assert_eq(&read(toml).map_or_else(|faults| faults, |_| "good\n".to_owned()));
}

#[test]
fn a_bound_is_a_number_of_the_median_or_a_table_of_percentiles() {
    let toml = "[[aliases]]\nname = \"quick\"\npreferred_max_latency = { p50 = 0.3, p95 = 0.8 }\n\
                preferred_min_throughput = 30\n[[aliases]]\nname = \"steady\"\n\
                preferred_min_throughput = { p50 = 40, p90 = 20.5 }";
    let catalog = read(toml).unwrap().catalog(1);
    let targets_of = |name: &str| {
        let alias = catalog.aliases.iter().find(|alias| alias.id == name).unwrap();
        (alias.preferred_max_latency, alias.preferred_min_throughput)
    };
    let latency = Preference { p50: Some(0.3), p95: Some(0.8), ..Preference::default() };
    assert_eq!(targets_of("service/quick"), (Some(latency), Some(Preference::median(30.0))));
    let throughput = Preference { p50: Some(40.0), p90: Some(20.5), ..Preference::default() };
    assert_eq!(targets_of("service/steady"), (None, Some(throughput)));
    assert_eq!(targets_of("service/auto"), (None, None));
}

#[test]
fn bounds_that_make_no_sense_are_refused_with_the_reason() {
    check(
        r#"
[[aliases]]
name = "a"
preferred_max_latency = 0
preferred_min_throughput = "fast"
[[aliases]]
name = "b"
preferred_max_latency = { p95 = -0.8 }
preferred_min_throughput = {}
[[aliases]]
name = "c"
preferred_max_latency = { p50 = 0.8, p95 = 0.3 }
preferred_min_throughput = { p50 = 20, p95 = 30 }
[[aliases]]
name = "d"
preferred_max_latency = { p97 = 0.8 }
"#,
        expect![[r#"
            f:3:25: aliases[0].preferred_max_latency: p50 must be above 0; allowed: numbers above 0 that do not contradict each other
            f:4:28: aliases[0].preferred_min_throughput: is not a target; allowed: a number (of the median), or a table such as { p95 = 0.8 }
            f:7:33: aliases[1].preferred_max_latency.p95: -0.8 is out of range; allowed: a number from 0 to 1000000
            f:8:28: aliases[1].preferred_min_throughput: names none of p50, p75, p90, p95, p99; allowed: numbers above 0 that do not contradict each other
            f:11:25: aliases[2].preferred_max_latency: p50 may not be above p95; allowed: numbers above 0 that do not contradict each other
            f:12:28: aliases[2].preferred_min_throughput: p50 may not be below p95; allowed: numbers above 0 that do not contradict each other
            f:15:25: aliases[3].preferred_max_latency: names none of p50, p75, p90, p95, p99; allowed: numbers above 0 that do not contradict each other
            f:15:27: aliases[3].preferred_max_latency.p97: unknown key, did you mean 'p90'?; allowed: p90, p95, p99, p50, p75
        "#]],
    );
}

#[test]
fn how_targets_and_conversations_are_kept_is_checked() {
    check(
        r#"
[routing.sticky]
enabled = "yes"
ttl = "0s"
min_prompt_tokens = 0
max_conversations = 1
[routing.expert]
target_gain = 0
target_max_margin = 0.5
target_min_margin = 2
target_reserve = 1
"#,
        expect![[r#"
            f:2:11: routing.sticky.enabled: got a string; allowed: true or false
            f:3:7: routing.sticky.ttl: 0s is out of range; allowed: a time with its unit from 1s to 7days, such as "15s"
            f:4:21: routing.sticky.min_prompt_tokens: 0 is out of range; allowed: a whole number from 1 to 4294967295
            f:5:21: routing.sticky.max_conversations: 1 is out of range; allowed: a whole number from 32 to 10000000
            f:7:15: routing.expert.target_gain: 0 is out of range; allowed: a number from 0.001 to 1
            f:8:21: routing.expert.target_max_margin: 0.5 is out of range; allowed: a number from 1 to 100
            f:9:21: routing.expert.target_min_margin: 2 is out of range; allowed: a number from 0.1 to 1
            f:10:18: routing.expert.target_reserve: 1 is out of range; allowed: a number from 0 to 0.9
        "#]],
    );
}

#[test]
fn a_spend_pace_is_an_amount_of_money_for_a_thousand_chats() {
    let toml = "[[aliases]]\nname = \"paced\"\nobjective = \"balanced\"\nweights = { latency = 0, cost = 0, quality = 1 }\n\
                spend_pace = \"2.50\"";
    let catalog = read(toml).unwrap().catalog(1);
    let pace_of = |name: &str| catalog.aliases.iter().find(|alias| alias.id == name).unwrap().spend_pace;
    assert_eq!(pace_of("service/paced").map(|amount| amount.to_string()).as_deref(), Some("2.5"));
    assert_eq!(pace_of("service/auto"), None);
}

#[test]
fn a_spend_pace_that_is_no_amount_or_has_nothing_to_steer_is_refused_with_the_reason() {
    check(
        r#"
[[aliases]]
name = "a"
objective = "balanced"
weights = { quality = 1 }
spend_pace = 2.5
[[aliases]]
name = "b"
objective = "balanced"
weights = { quality = 1 }
spend_pace = "0"
[[aliases]]
name = "c"
objective = "balanced"
spend_pace = "2.5"
[[aliases]]
name = "d"
objective = "fastest"
weights = { quality = 1 }
spend_pace = "2.5"
[[aliases]]
name = "e"
objective = "balanced"
weights = { quality = 1 }
spend_pace = "-1"
"#,
        expect![[r#"
            f:5:14: aliases[0].spend_pace: got a number; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
            f:10:14: aliases[1].spend_pace: is 0; allowed: an amount above 0; free_only = true is for models without cost
            f:14:14: aliases[2].spend_pace: weighs cost against quality, and the weight of quality is 0; allowed: quality above 0 in weights beside it, or in [routing.balanced]
            f:19:14: aliases[3].spend_pace: steers the objective 'balanced' alone; allowed: objective = "balanced" beside it
            f:24:14: aliases[4].spend_pace: is not an amount of money; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
        "#]],
    );
}

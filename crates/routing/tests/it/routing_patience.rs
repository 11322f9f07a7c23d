//! How long an attempt is waited for, measured by what its endpoint usually takes.

use std::time::Duration;

use pointsman_domain::{Candidate, Objective, RoutingPolicy};
use pointsman_routing::decide::{first_byte_clock, hedge_after, overdue_after};

use crate::routing_world::World;

/// The only candidate of a world, for a plain answer.
fn candidate(world: &str, policy: &RoutingPolicy) -> Candidate {
    let world = World::under(world, policy.clone());
    let mut query = world.query(Objective::Fastest, "");
    query.streamed = false;
    world.decide(&query).unwrap().candidates.remove(0)
}

#[test]
fn a_plain_answer_is_overdue_at_four_times_what_even_a_slow_one_takes_but_never_within_two_seconds() {
    let policy = RoutingPolicy::default();
    let slow = candidate("acme/a 900ms 20tps", &policy);
    let even_a_slow_one = slow.inputs.expected * (2.0 * slow.inputs.spread).exp();
    let overdue = overdue_after(&slow, &policy).as_secs_f64();
    assert!((overdue - 4.0 * even_a_slow_one).abs() < 1e-6, "{overdue}");
    let quick = candidate("acme/a 5ms 90000tps", &policy);
    assert_eq!(overdue_after(&quick, &policy), Duration::from_secs(2));
}

#[test]
fn where_nothing_was_measured_a_plain_answer_has_the_time_of_a_stream_to_its_first_content() {
    let policy = RoutingPolicy::default();
    let unseen = candidate("acme/a unseen", &policy);
    assert_eq!(overdue_after(&unseen, &policy), policy.clocks.first_byte + policy.clocks.first_content);
}

#[test]
fn what_was_measured_before_a_long_quiet_time_counts() {
    let policy = RoutingPolicy::default();
    let quiet = candidate("acme/a w0 idle90000 5ms 90000tps", &policy);
    assert!(quiet.predicted.measured);
    assert_eq!(overdue_after(&quiet, &policy), Duration::from_secs(2));
    assert!(!candidate("acme/a unseen", &policy).predicted.measured);
}

#[test]
fn a_configured_clock_on_the_first_byte_is_never_exceeded() {
    let mut policy = RoutingPolicy::default();
    policy.clocks.first_byte = Duration::from_millis(600);
    let (quick, slow) = (candidate("acme/a 5ms 90000tps", &policy), candidate("acme/a 9000ms", &policy));
    assert_eq!(overdue_after(&quick, &policy), Duration::from_millis(600));
    assert_eq!(first_byte_clock(&quick, &policy), Duration::from_millis(600));
    assert_eq!(first_byte_clock(&slow, &policy), Duration::from_millis(600));
    let usual = RoutingPolicy::default();
    assert_eq!(first_byte_clock(&quick, &usual), Duration::from_secs(2));
    assert!(first_byte_clock(&slow, &usual) > Duration::from_secs(9));
}

#[test]
fn a_plain_answer_is_raced_after_its_generation_too_and_long_before_it_is_overdue() {
    let policy = RoutingPolicy::default();
    let plain = candidate("acme/a 400ms 50tps", &policy);
    let raced = hedge_after(&plain, false, &policy);
    assert!(raced < overdue_after(&plain, &policy), "{raced:?}");
    let generation = plain.predicted.total_p50 - plain.predicted.first_token_p50;
    assert!(raced.as_secs_f64() > 1.2 * generation && generation > 1.0, "{raced:?}, {generation} of it generated");
}

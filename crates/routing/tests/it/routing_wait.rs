//! Which endpoints a request waits for, in virtual time.

use std::time::Duration;

use pointsman_domain::{ExclusionReason, Tick};
use pointsman_routing::decide::{Hope, Obstacle, Outlook, Wait, outlook};

use crate::routing_world::{NOW, World};

fn at(seconds: f64) -> Tick {
    NOW.plus(Duration::from_secs_f64(seconds))
}

/// What a request hopes for, where all endpoints of this world could serve it.
fn outlook_within(limit: Duration, world: &str, obstacle: impl Fn(u32) -> Obstacle) -> Outlook {
    let world = World::of(world);
    let hopes = (0..world.catalog().endpoints.len() as u32).map(|index| Hope { index, obstacle: obstacle(index) });
    outlook((world.catalog(), &world.live), hopes, NOW, limit)
}

/// `<awaited endpoints> until <seconds> (<reason>)`, two seconds at most, or `nothing`; behind `open now` if one is.
fn told(world: &str, obstacle: impl Fn(u32) -> Obstacle) -> String {
    let Outlook { is_open, wait } = outlook_within(Duration::from_secs(2), world, obstacle);
    let open = if is_open { "open now, " } else { "" };
    let Some(Wait { awaited, until, reason }) = wait else { return format!("{open}nothing") };
    let until = until.map_or("a notice".to_owned(), |until| format!("{:.1}", until.seconds_since(NOW)));
    format!("{open}{awaited:?} until {until} ({})", reason.as_str())
}

#[test]
fn a_request_waits_for_what_reopens_first_within_its_time() {
    for (world, expected) in [
        ("a/x cool1.5 | b/x cool0.3 | c/x cool9", "[1, 0] until 0.3 (rate_limited)"),
        ("a/x open1 | b/x paced0.5", "[1, 0] until 0.5 (paced)"),
        ("a/x probing | b/x cool1", "[1, 0] until 1.0 (rate_limited)"),
        ("a/x probing | b/x cool5", "[0] until a notice (probe_in_flight)"),
        ("a/x cool2", "[0] until 2.0 (rate_limited)"),
        ("a/x cool2.1 | b/x open3 | c/x paced4", "nothing"),
        ("a/x fault1", "nothing"),
        ("a/x | b/x half1", "open now, nothing"),
        ("a/x half1 | b/x cool1", "open now, [1] until 1.0 (rate_limited)"),
        ("a/x half1 | b/x fault1", "open now, nothing"),
    ] {
        assert_eq!(told(world, |_| Obstacle::None), expected, "{world}");
    }
}

#[test]
fn what_stands_in_the_way_of_the_request_alone_counts_too() {
    let until = |seconds| move |_| Obstacle::Until(at(seconds), ExclusionReason::RateLimited);
    for (world, obstacle, expected) in [
        ("a/x", &until(0.7) as &dyn Fn(u32) -> Obstacle, "[0] until 0.7 (rate_limited)"),
        ("a/x cool0.2", &until(0.7), "[0] until 0.7 (rate_limited)"),
        ("a/x cool1.2", &until(0.7), "[0] until 1.2 (rate_limited)"),
        ("a/x", &until(2.5), "nothing"),
        ("a/x", &|_| Obstacle::Queue, "[0] until a notice (saturated)"),
        ("a/x paced1", &|_| Obstacle::Queue, "[0] until 1.0 (paced)"),
        ("a/x cool1", &|_| Obstacle::Lasting, "nothing"),
        ("a/x cool1", &|_| Obstacle::None, "[0] until 1.0 (rate_limited)"),
        ("a/x", &until(0.0), "open now, nothing"),
        ("a/x", &|_| Obstacle::Lasting, "nothing"),
    ] {
        assert_eq!(told(world, obstacle), expected, "{world}");
    }
}

#[test]
fn a_request_waits_for_sixteen_endpoints_at_most_and_not_at_all_without_time() {
    let many = (0..40).map(|n| format!("m{n}/x cool1.{n:02}")).collect::<Vec<_>>().join(" | ");
    let wait = |limit| outlook_within(limit, &many, |_| Obstacle::None).wait;
    assert_eq!(wait(Duration::from_secs(2)).unwrap().awaited, (0..16).collect::<Vec<u32>>());
    assert_eq!(wait(Duration::ZERO), None);
    assert!(outlook_within(Duration::ZERO, "a/x", |_| Obstacle::None).is_open, "that needs no time");
}

//! Decisions in one sentence for a team lead, word for word.

use expect_test::{Expect, expect};
use pointsman_domain::{
    Objective::{self, *},
    Preference, Query, Source, Sourced,
};
use pointsman_routing::{
    decide::decide,
    explain::{summary_sentence, summary_without_choice},
};

use crate::routing_world::{NOW, World, attempts};

/// The summaries of a request after each of these courses of its attempts.
fn check(world: &str, objective: Objective, ask: impl FnOnce(&mut Query), courses: &[&str], summaries: Expect) {
    let world = World::of(world);
    let mut query = world.query(objective, "");
    ask(&mut query);
    let summaries_of = match decide(&world.snapshot, &world.live, &query, NOW, Some(0)) {
        Ok(decision) => {
            let of = |course: &&str| {
                let attempts = attempts::attempts(&world, &decision, course);
                format!("{course:30} |{}\n", summary_sentence(&decision, world.catalog(), &attempts))
            };
            courses.iter().map(of).collect::<String>()
        }
        Err(error) => format!("{}\n", summary_without_choice(&error.excluded)),
    };
    summaries.assert_eq(&summaries_of);
}

const THREE: &str = "acme/small $0.15/0.6 | beta/medium $0.4/1.6 bad1 | core/large $3/15";

#[test]
fn each_objective_says_what_the_choice_is_best_at() {
    for (objective, summaries) in [
        (
            Cheapest,
            expect![[r#"
                                           |acme/small on acme would be called: the cheapest of 3 endpoints, about $0.00021, 64 % below the next.
            ok                             |acme/small on acme answered: the cheapest of 3 endpoints, about $0.00021, 64 % below the next.
        "#]],
        ),
        (
            Fastest,
            expect![[r#"
                                           |acme/small on acme would be called: the fastest of 3 endpoints, about 1.2 s.
            ok                             |acme/small on acme answered: the fastest of 3 endpoints, about 1.2 s.
        "#]],
        ),
        (
            Reliable,
            expect![[r#"
                                           |acme/small on acme would be called: the most reliable of 3 endpoints, 0.14 % likely to fail.
            ok                             |acme/small on acme answered: the most reliable of 3 endpoints, 0.14 % likely to fail.
        "#]],
        ),
        (
            Balanced,
            expect![[r#"
                                           |acme/small on acme would be called: the best balance of time and cost among 3 endpoints, about 1.2 s for $0.00021.
            ok                             |acme/small on acme answered: the best balance of time and cost among 3 endpoints, about 1.2 s for $0.00021.
        "#]],
        ),
    ] {
        check(THREE, objective, |_| (), &["", "ok"], summaries);
    }
}

#[test]
fn what_became_of_the_attempts_is_said_with_who_answered_instead() {
    let courses = [
        "500, ok",
        "timeout, 503, ok",
        "connect refused, hedge ok",
        "lost_race, hedge ok",
        "skip ok",
        "500, 503, timeout",
        "connect refused",
        "partly 500",
        "partly cancelled",
        "cancelled",
    ];
    check(
        THREE,
        Cheapest,
        |_| (),
        &courses,
        expect![[r#"
        500, ok                        |acme/small on acme, the cheapest of 3 endpoints, failed with error 500; beta/medium on beta answered instead.
        timeout, 503, ok               |acme/small on acme, the cheapest of 3 endpoints, took too long; after 2 failures core/large on core answered instead.
        connect refused, hedge ok      |acme/small on acme, the cheapest of 3 endpoints, could not be reached; beta/medium on beta, asked in parallel, answered instead.
        lost_race, hedge ok            |acme/small on acme, the cheapest of 3 endpoints, was late; beta/medium on beta, asked in parallel, answered instead.
        skip ok                        |acme/small on acme, the cheapest of 3 endpoints, was no longer free; beta/medium on beta answered instead.
        500, 503, timeout              |No answer after 3 attempts: core/large on core, the last, took too long.
        connect refused                |No answer: acme/small on acme could not be reached.
        partly 500                     |acme/small on acme broke off in the middle of its answer.
        partly cancelled               |The client left while acme/small on acme answered.
        cancelled                      |The client left before an answer came.
    "#]],
    );
}

#[test]
fn a_preferred_latency_is_said_in_seconds() {
    let ask = |query: &mut Query| {
        let bound = Preference { p95: Some(0.8), ..Preference::default() };
        query.routing_mut().preferred_max_latency = Some(Sourced { value: bound, source: Source::TopLevel });
    };
    check(
        "acme/slow 3000ms ok30 $0.1/0.1 | beta/quick 100ms ok30 $4/8 | core/dear 100ms ok30 $9/9",
        Cheapest,
        ask,
        &["ok"],
        expect![[r#"
        ok                             |beta/quick on beta answered: the cheapest that starts to answer within 0.8 s, about $0.0048, 51 % below the next.
    "#]],
    );
}

#[test]
fn without_an_endpoint_the_most_frequent_obstacle_is_named() {
    check(
        "acme/a disabled",
        Cheapest,
        |_| (),
        &[],
        expect![[r#"
        No endpoint could take the request: the only one is switched off.
    "#]],
    );
    check(
        "acme/a cool4 | bolt/b cool9 | core/c disabled",
        Cheapest,
        |_| (),
        &[],
        expect![[r#"
        No endpoint could take the request: 2 of 3 are resting after too many requests, others for other reasons.
    "#]],
    );
    let too_dear = |query: &mut Query| {
        query.routing_mut().max_cost = Some(Sourced { value: "0.0000001".parse().unwrap(), source: Source::TopLevel });
    };
    check(
        THREE,
        Cheapest,
        too_dear,
        &[],
        expect![[r#"
        No endpoint could take the request: all 3 are dearer than the request allows.
    "#]],
    );
}

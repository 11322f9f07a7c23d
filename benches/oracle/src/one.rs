//! One run over time, for a person who wants to see where regret comes from.

use std::fmt::{self, Write};

use pointsman_domain::RoutingPolicy;

use crate::{
    engine::{self, Run},
    loss::{Yardsticks, loss},
    oracle,
    rules::Kind,
    world::{ENDPOINTS, HALF_LIFE, World},
};

/// Seconds per line.
const SPAN: f64 = HALF_LIFE / 2.0;

/// Writes what happened: the endpoints, the events, then per half half-life the mean loss of oracle, random and
/// `kind`, the failed attempts, and the share of first choices at each endpoint of the rule and of the oracle.
///
/// # Errors
/// None but those of `out`.
pub fn write(world: &World, kind: Kind, policy: &RoutingPolicy, out: &mut impl Write) -> fmt::Result {
    write_world(world, out)?;
    let run = |kind: Kind| engine::run(world, &mut *kind.rule(world, policy));
    let (oracle, random, own) = (oracle::run(world), run(Kind::Random), run(kind));
    writeln!(out, "\nlosses of oracle, {}, random; failed attempts; shares of {} (oracle)", kind.name(), kind.name())?;
    let mut from = 0.0;
    while from < world.span.seconds {
        let span = (from, from + SPAN);
        let mean = |run: &Run| mean_loss(world, run, span);
        write!(out, "{from:>6.0} {:>9.4} {:>9.4} {:>9.4}", mean(&oracle), mean(&own), mean(&random))?;
        let failed = own.attempts.iter().filter(|a| a.failed.is_some() && (span.0..span.1).contains(&a.at)).count();
        write!(out, " {failed:>4} ")?;
        let (shares, ideal) = (shares(&own, span), shares(&oracle, span));
        for endpoint in 0..ENDPOINTS {
            let mark = if world.events.iter().any(|event| event.endpoint == endpoint && event.meets(span)) {
                '*'
            } else {
                ' '
            };
            write!(out, "{mark}{:>3.0} ({:>3.0})", 100.0 * shares[endpoint], 100.0 * ideal[endpoint])?;
        }
        writeln!(out)?;
        from += SPAN;
    }
    Ok(())
}

fn write_world(world: &World, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "   first s  sigma   tok/s  $/M in  $/M out  fails %  prefill ms/k  knee  power")?;
    for (position, endpoint) in world.endpoints.iter().enumerate() {
        writeln!(
            out,
            "{position}  {:>7.3} {:>6.2} {:>7.0} {:>7.2} {:>8.2} {:>8.2} {:>13.1} {:>5.0} {:>6.2}",
            endpoint.median,
            endpoint.sigma,
            1.0 / endpoint.per_token,
            1e6 * endpoint.price_in,
            1e6 * endpoint.price_out,
            100.0 * endpoint.failure,
            1e6 * endpoint.slope,
            endpoint.knee,
            endpoint.exponent
        )?;
    }
    for event in &world.events {
        writeln!(out, "{:>6.0} to {:>6.0} s: endpoint {} {:?}", event.from, event.to, event.endpoint, event.effect)?;
    }
    Ok(())
}

fn mean_loss(world: &World, run: &Run, (from, to): (f64, f64)) -> f64 {
    let of = world.requests.iter().zip(&run.served).filter(|(request, _)| (from..to).contains(&request.at));
    let losses: Vec<f64> = of
        .map(|(request, served)| {
            loss(request.objective, served, &Yardsticks::of(world, request, f64::from(request.answer)))
        })
        .collect();
    losses.iter().sum::<f64>() / losses.len().max(1) as f64
}

fn shares(run: &Run, (from, to): (f64, f64)) -> [f64; ENDPOINTS] {
    let firsts: Vec<usize> = run
        .attempts
        .iter()
        .filter(|attempt| attempt.first && (from..to).contains(&attempt.at))
        .map(|attempt| attempt.endpoint)
        .collect();
    std::array::from_fn(|endpoint| {
        firsts.iter().filter(|first| **first == endpoint).count() as f64 / firsts.len().max(1) as f64
    })
}

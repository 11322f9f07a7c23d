use proptest::prelude::*;

use super::*;

/// Prices of a token, billionths of a dollar.
#[derive(Debug, Clone, Copy)]
struct Prices {
    input: u64,
    cached: u64,
    output: u64,
}

const PRICES: Prices = Prices { input: 3_000, cached: 300, output: 15_000 };

/// Requests of one shape at one endpoint.
#[derive(Debug, Clone, Copy)]
struct Calls {
    requests: u64,
    prompt: u64,
    cached: u64,
    output: u64,
    prices: Prices,
    /// Of all attempts that did not serve together, billionths of a dollar.
    lost: u64,
}

const CALLS: Calls = Calls { requests: 100, prompt: 1_000, cached: 200, output: 100, prices: PRICES, lost: 0 };

impl Calls {
    fn counted(self) -> ActivityCounters {
        let Calls { requests, prompt, cached, output, prices, lost } = self;
        let input_nanos = requests * (prompt - cached) * prices.input;
        let (cache_nanos, output_nanos) = (requests * cached * prices.cached, requests * output * prices.output);
        let nanos = input_nanos + cache_nanos + output_nanos + lost;
        ActivityCounters {
            requests,
            prompt_tokens: requests * prompt,
            cached_tokens: requests * cached,
            completion_tokens: requests * output,
            input_nanos,
            cache_nanos,
            output_nanos,
            lost_nanos: lost,
            cost: Usd::from_femto(i128::from(nanos) * FEMTO_PER_NANO),
            ..ActivityCounters::default()
        }
    }
}

fn at(model: &str, provider: &str) -> Endpoint {
    Endpoint { model: model.to_owned(), provider: provider.to_owned() }
}

fn bill(calls: &[(&str, Calls)]) -> Bill {
    calls.iter().map(|(model, calls)| (at(model, "acme"), calls.counted())).collect()
}

fn cost(bill: &Bill) -> Usd {
    bill.values().fold(Usd::ZERO, |sum, counters| sum + counters.cost)
}

/// The parts, each with its share of the whole change in whole percent.
fn parts(before: &Bill, after: &Bill) -> Vec<(Cause, i128)> {
    let change = (cost(after) - cost(before)).femto();
    explain(before, after).iter().map(|part| (part.cause, part.change.femto() * 100 / change)).collect()
}

#[test]
fn a_planted_cause_is_the_only_part() {
    let two = |calls: Calls| bill(&[("acme/small", calls), ("acme/large", CALLS)]);
    let dearer = Prices { input: 6_000, cached: 600, output: 30_000 };
    for (cause, after) in [
        (Cause::Prompts, two(Calls { prompt: 2_000, cached: 400, ..CALLS })),
        (Cause::Answers, two(Calls { output: 300, ..CALLS })),
        (Cause::Answers, two(Calls { output: 10, ..CALLS })),
        (Cause::Prices, two(Calls { prices: dearer, ..CALLS })),
        (Cause::Caches, two(Calls { cached: 800, ..CALLS })),
        (Cause::Caches, two(Calls { cached: 0, ..CALLS })),
        (Cause::Attempts, two(Calls { lost: 4_000_000_000, ..CALLS })),
        (
            Cause::Requests,
            bill(&[("acme/small", Calls { requests: 250, ..CALLS }), ("acme/large", Calls { requests: 250, ..CALLS })]),
        ),
    ] {
        assert_eq!(parts(&two(CALLS), &after), [(cause, 100)], "{cause:?}");
    }
}

#[test]
fn requests_that_move_to_a_dearer_model_are_a_change_of_models() {
    let large = Calls { prices: Prices { input: 30_000, cached: 3_000, output: 150_000 }, ..CALLS };
    let split = |small, big| {
        bill(&[("acme/small", Calls { requests: small, ..CALLS }), ("acme/large", Calls { requests: big, ..large })])
    };
    assert_eq!(parts(&split(90, 10), &split(10, 90)), [(Cause::Models, 100)]);
    let only_small = bill(&[("acme/small", CALLS)]);
    assert_eq!(parts(&only_small, &bill(&[("acme/large", large)])), [(Cause::Models, 100)], "a new model");
}

#[test]
fn the_first_hits_of_a_cache_are_told_from_its_price() {
    let (before, after) = (Calls { cached: 0, ..CALLS }, Calls { cached: 900, ..CALLS });
    assert_eq!(parts(&bill(&[("acme/small", before)]), &bill(&[("acme/small", after)])), [(Cause::Caches, 100)]);
}

#[test]
fn what_nobody_served_is_lost_and_more_of_it_is_no_request() {
    let mut after = bill(&[("acme/small", CALLS)]);
    let cost = Usd::from_femto(5);
    after.insert(
        at("acme/small", ""),
        ActivityCounters { requests: 40, failed: 40, cost, ..ActivityCounters::default() },
    );
    assert_eq!(parts(&bill(&[("acme/small", CALLS)]), &after), [(Cause::Attempts, 100)]);
}

#[test]
fn a_first_period_is_all_requests_and_an_empty_one_is_all_fewer() {
    let all = bill(&[("acme/small", CALLS)]);
    assert_eq!(parts(&Bill::new(), &all), [(Cause::Requests, 100)]);
    assert_eq!(parts(&all, &Bill::new()), [(Cause::Requests, 100)]);
    assert_eq!(explain(&all, &all), []);
}

prop_compose! {
    /// Sums of any kind, also such as no ledger has.
    fn any_counters()(counts in prop::array::uniform12(0_u64..2_000_000), requests in 1_u64..5_000, rest in 0_i128..1_000_000) -> ActivityCounters {
        let [prompt, completion, cached, written, input, cache, output, lost, fees, failed, ..] = counts;
        let nanos = i128::from(input + cache + output + lost + fees);
        ActivityCounters {
            requests,
            failed,
            prompt_tokens: prompt,
            completion_tokens: completion,
            cached_tokens: cached,
            cache_write_tokens: written,
            input_nanos: input,
            cache_nanos: cache,
            output_nanos: output,
            lost_nanos: lost,
            cost: Usd::from_femto(nanos * FEMTO_PER_NANO + rest),
            ..ActivityCounters::default()
        }
    }
}

fn any_bill() -> impl Strategy<Value = Bill> {
    let endpoint = (0..4_usize, 0..3_usize)
        .prop_map(|(model, provider)| at(["a", "b", "c", "d"][model], ["", "x", "y"][provider]));
    prop::collection::btree_map(endpoint, any_counters(), 0..9)
}

proptest! {
    #[test]
    fn the_parts_add_up_to_the_change_to_the_last_unit_and_the_largest_is_first(
        before in any_bill(), after in any_bill(),
    ) {
        let parts = explain(&before, &after);
        let sum = parts.iter().fold(Usd::ZERO, |sum, part| sum + part.change);
        prop_assert_eq!(sum, cost(&after) - cost(&before));
        let sizes: Vec<u128> = parts.iter().map(|part| part.change.femto().unsigned_abs()).collect();
        prop_assert!(sizes.is_sorted_by(|one, next| one >= next) && !sizes.contains(&0), "{sizes:?}");
    }

    #[test]
    fn a_cause_that_is_planted_in_a_random_ledger_is_named_first(
        calls in prop::collection::vec((1_u64..400, 100_u64..4_000, 0_u64..99, 10_u64..900), 1..5), which in 0..5_usize, times in 4_u64..9,
    ) {
        let names = ["acme/a", "acme/b", "acme/c", "acme/d", "acme/e"];
        let planted = |plant: &dyn Fn(Calls) -> Calls| -> Bill {
            let of = |(requests, prompt, cached, output): (u64, u64, u64, u64)| {
                plant(Calls { requests, prompt, cached, output, ..CALLS })
            };
            bill(&names.into_iter().zip(calls.iter().copied().map(of)).collect::<Vec<_>>())
        };
        let (cause, plant): (Cause, Box<dyn Fn(Calls) -> Calls>) = match which {
            0 => (Cause::Requests, Box::new(|calls| Calls { requests: calls.requests * times, ..calls })),
            1 => (Cause::Prompts, Box::new(|calls| Calls { prompt: calls.prompt * times, cached: calls.cached * times, ..calls })),
            2 => (Cause::Answers, Box::new(|calls| Calls { output: calls.output * times, ..calls })),
            3 => (Cause::Prices, Box::new(|calls| {
                let Prices { input, cached, output } = calls.prices;
                Calls { prices: Prices { input: input * times, cached: cached * times, output: output * times }, ..calls }
            })),
            _ => (Cause::Attempts, Box::new(|calls| Calls { lost: 9_000_000_000 * times, ..calls })),
        };
        let parts = explain(&planted(&|calls| calls), &planted(&plant));
        prop_assert_eq!(parts.first().map(|part| part.cause), Some(cause), "{:?}", parts);
    }
}

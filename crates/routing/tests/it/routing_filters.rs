//! What a request may not be served by, reason by reason.

use pointsman_domain::{
    Alias, ApiType, DataCollection, ExclusionReason, Modalities, Modality, ModelPattern, Objective, PriceCeiling,
    Query, RoutingPolicy, Source, Sourced, Usd,
};
use pointsman_routing::explain::nearest_relaxation;

use crate::routing_world::{World, alias, parameters};

fn pattern(text: &str) -> ModelPattern {
    text.parse().expect("a pattern")
}

fn usd(text: &str) -> Usd {
    text.parse().expect("an amount")
}

fn sourced<T>(value: T) -> Option<Sourced<T>> {
    Some(Sourced { value, source: Source::Metadata })
}

/// Asks a world for its first endpoint's exclusion: the first endpoint must be out, all others in.
fn check(world: &str, models: &str, ask: impl Fn(&mut Query), reason: &str, detail: &str) {
    let world = World::of(world);
    let mut query = world.query(Objective::Balanced, models);
    ask(&mut query);
    let (candidates, excluded) = match world.decide(&query) {
        Ok(decision) => (decision.candidates.len(), decision.excluded),
        Err(error) => (0, error.excluded),
    };
    let told: Vec<_> = excluded.iter().map(|e| (e.index, e.reason.as_str(), e.detail.to_string())).collect();
    assert_eq!(told, [(0, reason, detail.to_owned())]);
    assert_eq!(candidates + excluded.len(), world.catalog().endpoints.len(), "candidates and excluded make the pool");
}

#[test]
fn each_hard_filter_has_its_reason() {
    let pool = "acme/a | bolt/b";
    check(pool, "", |q| q.routing_mut().blocked = vec![pattern("acme/*")], "blocked_model", "matches acme/*");
    check(
        pool,
        "",
        |q| q.routing_mut().allowed = vec![vec![pattern("bolt/b")]],
        "not_allowed_model",
        "matches no entry of an allowed list",
    );
    check(
        pool,
        "",
        |q| q.routing_mut().allowed = vec![vec![pattern("*")], vec![pattern("bolt/*")]],
        "not_allowed_model",
        "matches no entry of an allowed list",
    );
    check(
        pool,
        "",
        |q| q.routing_mut().provider.only = vec![vec!["BOLT".into()]],
        "provider_not_allowed",
        "not among the allowed providers",
    );
    check(pool, "", |q| q.routing_mut().provider.ignore = vec!["Acme".into()], "provider_ignored", "named by 'Acme'");
    check(pool, "", |q| q.key_blocked = vec![pattern("acme/a")], "key_policy", "matches acme/a");
    check(pool, "", |q| q.key_allowed = vec![pattern("bolt/*")], "key_policy", "not among the models of the key");
    check("acme/a | bolt/b $0/0", "service/free", |_| (), "not_free", "prompt price $0.000001 above $0");
    check("acme/a $0/0 +0.01 | bolt/b $0/0", "service/free", |_| (), "not_free", "request price $0.01 above $0");
    let tools = |q: &mut Query| q.needs.parameters = parameters(["tools"]);
    check("acme/a | bolt/b tools", "", tools, "unsupported_parameter", "does not support 'tools'");
    let schema = |q: &mut Query| q.needs.any_parameter = parameters(["structured_outputs", "response_format"]);
    check("acme/a tools | bolt/b json", "", schema, "unsupported_parameter", "does not support 'structured_outputs'");
    let sees = |q: &mut Query| q.needs.input = Modalities::NONE.with(Modality::Image);
    check("acme/a | bolt/b in:image", "", sees, "input_modality", "does not take image");
    let draws = |q: &mut Query| q.needs.output = Modalities::TEXT.with(Modality::Image);
    check("acme/a | bolt/b out:text out:image", "", draws, "output_modality", "does not give image");
    check("acme/a ctx849 | bolt/b", "", |_| (), "context_length", "needs about 1100 tokens, has 849");
    check("acme/a prompt749 | bolt/b", "", |_| (), "context_length", "needs about 1000 tokens, has 749");
    let fp8 = |q: &mut Query| q.routing_mut().provider.quantizations = vec!["fp8".into()];
    check("acme/a | bolt/b fp8", "", fp8, "quantization", "does not state its quantization");
    check(
        "acme/a fp8 | bolt/b",
        "",
        |q| q.routing_mut().provider.quantizations = vec!["unknown".into()],
        "quantization",
        "is fp8",
    );
    let deny = |q: &mut Query| q.routing_mut().provider.data_collection = DataCollection::Deny;
    check("acme/a collects | bolt/b", "", deny, "data_policy", "the provider may keep prompts");
    let zdr = |q: &mut Query| q.routing_mut().provider.zero_data_retention = true;
    check("acme/a | bolt/b zdr", "", zdr, "data_policy", "the provider does not promise to keep nothing");
    check("acme/a expired | bolt/b", "", |_| (), "model_expired", "retired on 2026-01-31");
    check("acme/a disabled | bolt/b", "", |_| (), "disabled", "switched off in the configuration");
    check("acme/a@x off | acme/a@y", "acme/a", |_| (), "provider_off", "its key is not set");
    check("acme/a out:image | bolt/b", "acme/a, bolt/b", |_| (), "wrong_endpoint", "does not give text");
    check(
        "acme/a | bolt/b out:image",
        "acme/a, bolt/b",
        |q| q.api = ApiType::Image,
        "wrong_endpoint",
        "does not give image",
    );
}

#[test]
fn each_price_has_its_ceiling() {
    let pool = "acme/a $3/15 +0.01 img0.05 | bolt/b";
    let ceiling = |price: PriceCeiling| move |q: &mut Query| q.routing_mut().provider.max_price = price;
    let free = PriceCeiling::default();
    let prompt = PriceCeiling { prompt: Some(usd("0.000001")), ..free };
    check(pool, "", ceiling(prompt), "max_price", "prompt price $0.000003 above $0.000001");
    let completion = PriceCeiling { completion: Some(usd("0.000002")), ..free };
    check(pool, "", ceiling(completion), "max_price", "completion price $0.000015 above $0.000002");
    let request = PriceCeiling { request: Some(usd("0")), ..free };
    check(pool, "", ceiling(request), "max_price", "request price $0.01 above $0");
    let image = PriceCeiling { image: Some(usd("0.04")), ..free };
    check(pool, "", ceiling(image), "max_price", "image price $0.05 above $0.04");
    let per_1k = |q: &mut Query| q.routing_mut().max_cost_per_1k_tokens = sourced(usd("0.002"));
    check(pool, "", per_1k, "max_cost_per_1k_tokens", "price per 1,000 tokens $0.015 above $0.002");
    // 1,000 prompt tokens, 100 expected: $0.003 + $0.0015 + $0.01.
    let eight_answers = |q: &mut Query| {
        q.answers = 8;
        q.routing_mut().max_cost = sourced(usd("0.0145"));
    };
    check(pool, "", eight_answers, "max_price", "expected cost $0.025 above max_cost $0.0145");
    let max_cost = |q: &mut Query| q.routing_mut().max_cost = sourced(usd("0.0144"));
    check(pool, "", max_cost, "max_price", "expected cost $0.0145 above max_cost $0.0144");
    // 256 tokens are expected where nothing limits them; 100 are the most that the second gives.
    let no_limit = |q: &mut Query| {
        q.max_tokens = None;
        q.routing_mut().max_cost = sourced(usd("0.002"));
    };
    let limits = "acme/a $0/10 | bolt/b $0/10 most100";
    check(limits, "", no_limit, "max_price", "expected cost $0.00256 above max_cost $0.002");
}

/// Unpriced endpoints rank behind nothing where cost does not matter, and are out where it is limited or minimised.
#[test]
fn an_unknown_price_is_out_wherever_cost_is_limited_or_minimised() {
    let told = "the configuration names no price";
    for pool in ["acme/a $? | bolt/b", "acme/a@x $? | acme/a@y"] {
        check(pool, "", |q| q.objective.value = Objective::Cheapest, "price_unknown", told);
        check(pool, "", |q| q.routing_mut().max_cost = sourced(usd("1")), "price_unknown", told);
        check(pool, "", |q| q.routing_mut().max_cost_per_1k_tokens = sourced(usd("1")), "price_unknown", told);
        let dear = PriceCeiling { request: Some(usd("1")), ..PriceCeiling::default() };
        check(pool, "", |q| q.routing_mut().provider.max_price = dear, "price_unknown", told);
    }
    check("acme/a $? | bolt/b $0/0", "service/free", |_| (), "price_unknown", told);
    for objective in [Objective::Fastest, Objective::Reliable, Objective::Balanced] {
        let world = World::of("acme/a $? | bolt/b");
        let decision = world.decide(&world.query(objective, "")).expect("a decision");
        assert_eq!((decision.candidates.len(), decision.excluded.len()), (2, 0), "{objective}");
    }
}

#[test]
fn an_unknown_price_ranks_as_the_highest_of_its_model_or_else_of_all() {
    let costs = |text: &str| -> Vec<f64> {
        let world = World::of(text);
        world.snapshot.endpoints.iter().map(|stats| (stats.prices.at(1.0).prompt * 1e6).round()).collect()
    };
    assert_eq!(costs("acme/a@x $? | acme/a@y $3/4 | acme/a@z $2/9 | bolt/b $8/8"), [3.0, 3.0, 2.0, 8.0]);
    assert_eq!(costs("acme/a $? | bolt/b $8/8 | core/c $1/1"), [8.0, 8.0, 1.0]);
    assert_eq!(costs("acme/a $? | bolt/b $?"), [0.0, 0.0]);
}

#[test]
fn each_gate_has_its_reason() {
    check("acme/a open3.2 | bolt/b", "", |_| (), "circuit_open", "breaker open 3.2 s more: 3 consecutive 503");
    check("acme/a half1 9000ms | bolt/b", "", |_| (), "circuit_open", "half-open, not worth a probe now");
    check("acme/a probing | bolt/b", "", |_| (), "probe_in_flight", "half-open, its probe is out");
    check("acme/a cool0.7 | bolt/b", "", |_| (), "rate_limited", "429, retry in 0.7 s");
    check(
        "acme/a cool42 told4469039625 | bolt/b",
        "",
        |_| (),
        "rate_limited",
        "429, retry in 42.0 s: told to wait 141 years, taken as 60 s",
    );
    check(
        "acme/a fault42 | bolt/b",
        "",
        |_| (),
        "config_fault",
        "the provider refuses the gateway's model: 404, next try in 42.0 s",
    );
    check("acme/a paced0.4 | bolt/b", "", |_| (), "paced", "paced, next in 0.4 s");
    check("acme/a k9 knee4 | bolt/b", "", |_| (), "saturated", "saturated: 9 in flight, knee 4");
}

#[test]
fn a_model_in_both_lists_is_excluded_as_blocked() {
    let both = |q: &mut Query| {
        q.routing_mut().allowed = vec![vec![pattern("acme/a"), pattern("bolt/*")]];
        q.routing_mut().blocked = vec![pattern("acme/a")];
    };
    check("acme/a | bolt/b", "", both, "blocked_model", "matches acme/a");
}

#[test]
fn a_trailing_wildcard_matches_exactly_the_ids_that_begin_so() {
    let small = |q: &mut Query| q.routing_mut().blocked = vec![pattern("acme/sm*")];
    check("acme/small | acme/large | acmesm/x", "", small, "blocked_model", "matches acme/sm*");
}

#[test]
fn the_canonical_slug_matches_like_the_id() {
    check(
        "acme/a | bolt/b",
        "",
        |q| q.routing_mut().blocked = vec![pattern("acme/a-2026")],
        "blocked_model",
        "matches acme/a-2026",
    );
}

#[test]
fn lists_apply_to_fixed_models_and_to_fallback_models_alike() {
    let block = |q: &mut Query| q.routing_mut().blocked = vec![pattern("acme/*")];
    check("acme/a | bolt/b", "acme/a, bolt/b", block, "blocked_model", "matches acme/*");
}

#[test]
fn a_variant_is_named_after_a_slash() {
    let ignore = |q: &mut Query| q.routing_mut().provider.ignore = vec!["x/fast".into()];
    check("acme/a@x variant:fast | acme/a@x variant:slow", "acme/a", ignore, "provider_ignored", "named by 'x/fast'");
}

#[test]
fn an_aliass_lists_bind_what_it_stands_for_and_nothing_else() {
    let narrow = Alias {
        blocked: vec![pattern("acme/*")],
        allowed: vec![pattern("acme/*"), pattern("bolt/*")],
        ..alias("service/narrow")
    };
    let world = World::aliased("acme/a | bolt/b | core/c", RoutingPolicy::default(), vec![narrow]);
    let by_alias = world.decide(&world.query(Objective::Balanced, "service/narrow")).unwrap();
    assert_eq!(world.plan(&by_alias), "bolt/b");
    let with_fixed = world.decide(&world.query(Objective::Balanced, "service/narrow, acme/a")).unwrap();
    assert_eq!(world.plan(&with_fixed), "bolt/b acme/a", "the fixed model is not the alias's");
    assert_eq!(with_fixed.excluded.len(), 1, "core/c; acme/a is no longer excluded");
}

#[test]
fn an_aliass_pool_holds_what_is_on_and_serves_the_call() {
    let world = World::of("acme/a | bolt/b off | core/c out:image | dawn/d disabled");
    let decision = world.decide(&world.query(Objective::Balanced, "")).unwrap();
    let told: Vec<_> = decision.excluded.iter().map(|e| (world.name(e.index), e.reason.as_str())).collect();
    assert_eq!(world.plan(&decision), "acme/a");
    assert_eq!(told, [("dawn/d".to_owned(), "disabled")], "neither bolt, which is off, nor core, which draws");
}

#[test]
fn near_misses_of_the_context_window_go_upstream() {
    let world = World::of("acme/a ctx850 | bolt/b");
    let decision = world.decide(&world.query(Objective::Balanced, "")).unwrap();
    assert!(decision.excluded.is_empty(), "three quarters of 1,000 and 100 just fit");
}

#[test]
fn when_nothing_is_left_the_error_names_every_reason_and_the_earliest_gate() {
    let world = World::of("acme/a cool5 | bolt/b cool2 | core/c fault60 | dawn/d ctx10");
    let error = world.decide(&world.query(Objective::Balanced, "")).unwrap_err();
    let reasons: Vec<_> = error.excluded.iter().map(|e| e.reason).collect();
    use ExclusionReason::{ConfigFault, ContextLength, RateLimited};
    assert_eq!(reasons, [RateLimited, RateLimited, ConfigFault, ContextLength]);
    assert_eq!(error.opens.unwrap() - crate::routing_world::NOW, std::time::Duration::from_secs(2));
}

#[test]
fn waiting_does_not_help_against_a_hard_filter() {
    let world = World::of("acme/a ctx10");
    assert_eq!(world.decide(&world.query(Objective::Balanced, "")).unwrap_err().opens, None);
}

#[test]
fn the_nearest_relaxation_is_what_the_fewest_reasons_stand_against() {
    let world = World::of("acme/a tools ctx10 collects | bolt/b ctx10 | core/c disabled");
    let mut query = world.query(Objective::Balanced, "");
    query.needs.parameters = parameters(["tools"]);
    query.routing_mut().provider.data_collection = DataCollection::Deny;
    query.routing_mut().blocked = vec![pattern("acme/*")];
    let error = world.decide(&query).unwrap_err();
    let hint = nearest_relaxation(&error, &world.snapshot).unwrap();
    let against: Vec<_> = hint.against.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!((world.name(hint.index).as_str(), against), ("bolt/b", vec!["unsupported_parameter", "context_length"]));
}

#[test]
fn of_several_that_as_many_reasons_stand_against_the_nearest_to_its_limit_is_hinted_at() {
    let check = |world: &str, ask: &dyn Fn(&mut Query)| {
        let world = World::of(world);
        let mut query = world.query(Objective::Balanced, "");
        ask(&mut query);
        let hint = nearest_relaxation(&world.decide(&query).unwrap_err(), &world.snapshot).unwrap();
        assert_eq!(world.name(hint.index), "bolt/b");
    };
    for ceiling in ["0.000001", "0"] {
        let prompt = PriceCeiling { prompt: Some(usd(ceiling)), ..PriceCeiling::default() };
        check("acme/a $9/9 | bolt/b $3/3 | core/c $5/5", &|query| query.routing_mut().provider.max_price = prompt);
    }
    check("acme/a $9/9 | bolt/b $3/3", &|query| query.routing_mut().max_cost = sourced(usd("0.000001")));
    check("acme/a ctx10 | bolt/b ctx500 | core/c ctx90", &|query| query.prompt_tokens = 9000);
}

#[test]
fn the_lists_of_an_alias_are_no_reason_against_a_model_beside_it() {
    let narrow = Alias { blocked: vec![pattern("bolt/*")], ..alias("service/narrow") };
    let world = World::aliased("acme/a ctx10 disabled | bolt/b ctx10", RoutingPolicy::default(), vec![narrow]);
    let error = world.decide(&world.query(Objective::Balanced, "service/narrow, bolt/b")).unwrap_err();
    let hint = nearest_relaxation(&error, &world.snapshot).unwrap();
    let against: Vec<_> = hint.against.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!((world.name(hint.index).as_str(), against), ("bolt/b", vec!["context_length"]));
}

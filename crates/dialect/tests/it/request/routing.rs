//! Routing parameters: where they may stand, in which forms, and which of several wins.

use std::collections::BTreeSet;

use pointsman_domain::{
    DataCollection, Objective, Preference, ProviderPolicy, QualityFloor, RoutingParameters, Source, Sourced,
    UnknownQuality, Weights,
};

use super::world::{body, parse, preview, read};

fn routing(fields: &str) -> RoutingParameters {
    read(body(&format!(",{fields}"))).routing
}

fn refused(fields: &str) -> (String, &'static str) {
    let invalid = parse(body(&format!(",{fields}"))).expect_err(fields);
    (invalid.param.unwrap_or_default(), invalid.reason.as_str())
}

#[test]
fn nothing_said_means_no_restriction() {
    assert_eq!(read(body("")).routing, RoutingParameters::default());
}

#[test]
fn an_objective_means_the_same_in_every_place() {
    for (fields, source) in [
        (r#""metadata":{"objective":"fastest"}"#, Source::Metadata),
        (r#""extra_body":{"objective":"fastest"}"#, Source::ExtraBody),
        (r#""objective":"fastest""#, Source::TopLevel),
        (r#""provider":{"sort":"latency"}"#, Source::Provider),
        (r#""provider":{"sort":{"by":"throughput","partition":"none"}}"#, Source::Provider),
        (r#""extra_body":{"metadata":{"objective":"fastest"}}"#, Source::Metadata),
        (r#""extra_body":{"provider":{"sort":"latency"}}"#, Source::Provider),
    ] {
        let wanted = Some(Sourced { value: Objective::Fastest, source });
        assert_eq!(routing(fields).objective, wanted, "{fields}");
    }
}

#[test]
fn of_two_objectives_the_stronger_place_wins() {
    let both = r#""objective":"cheapest","extra_body":{"objective":"reliable"}"#;
    assert_eq!(routing(both).objective, Some(Sourced { value: Objective::Reliable, source: Source::ExtraBody }));
    let all = format!(r#"{both},"metadata":{{"objective":"fastest"}},"provider":{{"sort":"price"}}"#);
    assert_eq!(routing(&all).objective, Some(Sourced { value: Objective::Fastest, source: Source::Metadata }));
}

#[test]
fn an_unknown_objective_is_refused_and_the_four_are_listed() {
    for (fields, param) in [
        (r#""metadata":{"objective":"best"}"#, "metadata.objective"),
        (r#""extra_body":{"objective":"best"}"#, "extra_body.objective"),
        (r#""objective":"best""#, "objective"),
        (r#""objective":"Fastest""#, "objective"),
    ] {
        let invalid = parse(body(&format!(",{fields}"))).unwrap_err();
        assert_eq!(invalid.param.as_deref(), Some(param));
        assert_eq!(invalid.reason.as_str(), "invalid_value");
        assert_eq!(invalid.allowed_values, ["cheapest", "fastest", "reliable", "balanced"]);
    }
    let invalid = parse(body(r#","objective":"best""#)).unwrap_err();
    assert_eq!(invalid.message, "Unknown objective 'best'. Allowed: cheapest, fastest, reliable, balanced.");
}

#[test]
fn a_list_may_be_an_array_its_text_or_a_comma_list() {
    let array = routing(r#""metadata":{"allowed_models":["acme/*","bolt/one"]}"#).allowed;
    assert_eq!(array.len(), 1);
    for form in [r#""[\"acme/*\", \"bolt/one\"]""#, r#""acme/*,bolt/one""#, r#"" acme/* , bolt/one ,""#] {
        assert_eq!(routing(&format!(r#""metadata":{{"allowed_models":{form}}}"#)).allowed, array, "{form}");
        assert_eq!(routing(&format!(r#""allowed_models":{form}"#)).allowed, array, "{form}");
    }
}

#[test]
fn a_star_stands_only_at_the_end() {
    let pattern = &routing(r#""allowed_models":["acme/*"]"#).allowed[0][0];
    assert!(pattern.matches("acme/x", "acme/x") && !pattern.matches("acmex/y", "acmex/y"));
    for (fields, param, reason) in [
        (r#""metadata":{"allowed_models":["a/b","*/x"]}"#, "metadata.allowed_models[1]", "invalid_value"),
        (r#""metadata":{"blocked_models":[""]}"#, "metadata.blocked_models[0]", "invalid_value"),
        (r#""blocked_models":["a**"]"#, "blocked_models[0]", "invalid_value"),
        (r#""allowed_models":[7]"#, "allowed_models[0]", "invalid_type"),
        (r#""allowed_models":7"#, "allowed_models", "invalid_type"),
        (r#""allowed_models":"[1]""#, "allowed_models[0]", "invalid_type"),
        (r#""allowed_models":"[\"a/b\"""#, "allowed_models", "invalid_value"),
        (r#""extra_body":{"allowed_models":["a*b"]}"#, "extra_body.allowed_models[0]", "invalid_value"),
    ] {
        assert_eq!(refused(fields), (param.to_owned(), reason), "{fields}");
    }
}

#[test]
fn lists_add_up_and_empty_ones_restrict_nothing() {
    let said = routing(
        r#""metadata":{"allowed_models":["a/*"],"blocked_models":"a/x"},
           "extra_body":{"allowed_models":["a/y","a/z"],"blocked_models":["a/z"]},
           "allowed_models":[],"blocked_models":[],
           "plugins":[{"id":"auto-router","allowed_models":["a/y"],"excluded_models":["b/*"]},
                      {"id":"web","enabled":false}]"#,
    );
    let shown =
        |list: &[pointsman_domain::ModelPattern]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let mut allowed: Vec<String> = said.allowed.iter().map(|list| shown(list)).collect();
    allowed.sort();
    assert_eq!(allowed, ["a/*", "a/y", "a/y a/z"]);
    let mut blocked: Vec<String> = said.blocked.iter().map(ToString::to_string).collect();
    blocked.sort();
    assert_eq!(blocked, ["a/x", "a/z", "b/*"]);
}

#[test]
fn lists_are_bounded_in_every_form_and_together() {
    let many = |count: usize| vec!["\"a/*\""; count].join(",");
    for fields in [
        format!(r#""allowed_models":[{}]"#, many(1001)),
        format!(r#""allowed_models":"{}""#, "a/*,".repeat(1001)),
        format!(r#""extra_body":{{"allowed_models":[{0}]}},"allowed_models":[{0}]"#, many(501)),
    ] {
        let (param, reason) = refused(&fields);
        assert!(param.ends_with("allowed_models") && reason == "invalid_value", "{param}");
    }
    assert_eq!(refused(&format!(r#""provider":{{"only":[{}]}}"#, many(1001))).0, "provider.only");
    assert_eq!(refused(&format!(r#""plugins":[{}]"#, many(33))).0, "plugins");
    assert_eq!(routing(&format!(r#""allowed_models":[{}]"#, many(1000))).allowed[0].len(), 1000);
}

#[test]
fn a_plugin_that_is_not_here_is_refused() {
    assert_eq!(refused(r#""plugins":[{"id":"web"}]"#), ("plugins[0].id".to_owned(), "unsupported_plugin"));
    assert_eq!(refused(r#""plugins":[{}]"#), ("plugins[0].id".to_owned(), "missing_field"));
    assert_eq!(refused(r#""plugins":[7]"#), ("plugins[0]".to_owned(), "invalid_type"));
}

#[test]
fn tags_leave_routing_alone_and_may_be_nested() {
    let request = read(body(r#","metadata":{"run":"a\nb","depth":{"x": [1, null]},"n":1.50,"none":null}"#));
    assert_eq!(request.routing, RoutingParameters::default());
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        request.tags,
        [tag("run", "a\nb"), tag("depth", r#"{"x":[1,null]}"#), tag("n", "1.50"), tag("none", "null")]
    );
    let many = (0..65).map(|n| format!("\"t{n}\":1")).collect::<Vec<_>>().join(",");
    let wide = format!(r#""metadata":{{"x":"{}"}}"#, "x".repeat(16_384));
    assert_eq!(refused(&format!("\"metadata\":{{{many}}}")), ("metadata".to_owned(), "invalid_value"));
    assert_eq!(refused(&wide), ("metadata".to_owned(), "invalid_value"));
}

#[test]
fn what_may_be_spent_is_kept_exactly() {
    let said = routing(r#""max_cost_per_1k_tokens":0.002,"metadata":{"max_cost":"0.05"}"#);
    assert_eq!(said.max_cost_per_1k_tokens.map(|cost| cost.value.to_string()).as_deref(), Some("0.002"));
    assert_eq!(
        said.max_cost.map(|cost| (cost.value.to_string(), cost.source)),
        Some(("0.05".to_owned(), Source::Metadata))
    );
    for bad in ["0", "-1", "\"much\"", "true", "{}"] {
        let (param, _) = refused(&format!(r#""max_cost_per_1k_tokens":{bad}"#));
        assert_eq!(param, "max_cost_per_1k_tokens", "{bad}");
    }
}

#[test]
fn weights_and_preferences_may_come_as_objects_or_as_their_text() {
    let weights = Some(Sourced { value: Weights { latency: 3.0, cost: 1.0, quality: 0.0 }, source: Source::Metadata });
    for form in [r#"{"latency":3,"cost":1}"#, r#""{\"latency\":3,\"cost\":1}""#] {
        assert_eq!(routing(&format!(r#""metadata":{{"weights":{form}}}"#)).weights, weights);
    }
    for bad in [r#"{"latency":0,"cost":0}"#, r#"{"latency":-1}"#, r#"{"latency":"x"}"#, "7", "\"7\"", "\"x\""] {
        assert!(refused(&format!("\"weights\":{bad}")).0.starts_with("weights"), "{bad}");
    }
    let said = routing(
        r#""preferred_max_latency":1.5,"provider":{"preferred_max_latency":9,
                          "preferred_min_throughput":{"p50":40,"p99":10}}"#,
    );
    let p50 = |bound| Preference { p50: Some(bound), ..Preference::default() };
    assert_eq!(said.preferred_max_latency, Some(Sourced { value: p50(1.5), source: Source::TopLevel }));
    let throughput = Preference { p99: Some(10.0), ..p50(40.0) };
    assert_eq!(said.preferred_min_throughput, Some(Sourced { value: throughput, source: Source::Provider }));
}

#[test]
fn a_least_quality_is_a_number_or_a_lower_tenth_wherever_it_stands() {
    let sourced = |value, source| Some(Sourced { value, source });
    let said = routing(r#""min_quality":0.7,"quality_unknown":"allow","weights":{"quality":2}"#);
    assert_eq!(said.min_quality, sourced(QualityFloor::Mean(0.7), Source::TopLevel));
    assert_eq!(said.quality_unknown.map(|given| given.value), Some(UnknownQuality::Allow));
    assert_eq!(said.weights.map(|weights| weights.value), Some(Weights { latency: 0.0, cost: 0.0, quality: 2.0 }));
    let said = routing(r#""min_quality":0.7,"metadata":{"min_quality":"{\"p10\":0.6}","quality_unknown":"exclude"}"#);
    assert_eq!(said.min_quality, sourced(QualityFloor::Tenth(0.6), Source::Metadata));
    assert_eq!(said.quality_unknown.map(|given| given.value), Some(UnknownQuality::Exclude));
    for bad in ["1.1", "-0.1", "{}", r#"{"p10":2}"#, r#"{"p50":0.5}"#, "\"good\"", "[0.5]", "true"] {
        assert!(refused(&format!(r#""min_quality":{bad}"#)).0.starts_with("min_quality"), "{bad}");
    }
    assert_eq!(refused(r#""quality_unknown":"maybe""#).0, "quality_unknown");
}

#[test]
fn the_provider_object_is_read_whole() {
    let said = routing(
        r#""provider":{"order":["acme","Bolt/fast"],"only":["acme","bolt"],"ignore":"cove",
            "allow_fallbacks":false,"require_parameters":true,"data_collection":"deny","zdr":true,
            "quantizations":["FP8","bf16"],"max_price":{"prompt":"1.5","completion":2,"request":0.01,"image":"0.04"},
            "sort":"price","somebody_elses":{"x":1}}"#,
    );
    let provider = said.provider;
    assert_eq!(provider.order, ["acme", "Bolt/fast"]);
    assert_eq!(provider.only, [["acme", "bolt"]]);
    assert_eq!(provider.ignore, ["cove"]);
    assert!(!provider.allow_fallbacks && provider.require_parameters && provider.zero_data_retention);
    assert_eq!(provider.data_collection, DataCollection::Deny);
    assert_eq!(provider.quantizations, ["fp8", "bf16"]);
    let dollars = |price: Option<pointsman_domain::Usd>| price.map(|price| price.to_string()).unwrap_or_default();
    assert_eq!(dollars(provider.max_price.prompt), "0.0000015");
    assert_eq!(dollars(provider.max_price.completion), "0.000002");
    assert_eq!(dollars(provider.max_price.request), "0.01");
    assert_eq!(dollars(provider.max_price.image), "0.04");
    assert_eq!(said.objective.map(|objective| objective.value), Some(Objective::Cheapest));
}

#[test]
fn the_provider_policies_of_several_places_tighten_each_other() {
    let said = routing(
        r#""provider":{"only":["a","b"],"order":["b"],"allow_fallbacks":true,"quantizations":["fp8","int4"]},
           "provider_policy":{"only":["b","c"],"ignore":["d"],"order":["c"]},
           "metadata":{"provider_policy":"{\"allow_fallbacks\":false,\"quantizations\":[\"fp8\"],\"ignore\":[\"e\"]}"}"#,
    );
    let provider = said.provider;
    assert_eq!(provider.only.len(), 2);
    assert_eq!(provider.order, ["c"], "the top level is stronger than the provider object");
    assert!(!provider.allow_fallbacks, "metadata is stronger than both");
    assert_eq!(provider.quantizations, ["fp8"]);
    let mut ignore = provider.ignore;
    ignore.sort();
    assert_eq!(ignore, ["d", "e"]);
}

#[test]
fn two_lists_of_quantizations_with_nothing_in_common_leave_nothing() {
    let said = routing(r#""provider":{"quantizations":["fp8"]},"provider_policy":{"quantizations":["int4"]}"#);
    assert_eq!(said.provider.quantizations, ["(none)"]);
    assert_eq!(ProviderPolicy::default(), routing(r#""provider":{}"#).provider);
}

#[test]
fn mistakes_inside_the_provider_object_are_blamed_by_their_path() {
    for (fields, param, reason) in [
        (r#""provider":{"sort":"vibes"}"#, "provider.sort", "invalid_value"),
        (r#""provider":{"sort":{"by":"price","partition":"city"}}"#, "provider.sort.partition", "invalid_value"),
        (r#""provider":{"order":[7]}"#, "provider.order[0]", "invalid_type"),
        (r#""provider":{"allow_fallbacks":"no"}"#, "provider.allow_fallbacks", "invalid_type"),
        (r#""provider":{"data_collection":"maybe"}"#, "provider.data_collection", "invalid_value"),
        (r#""provider":{"max_price":{"prompt":-1}}"#, "provider.max_price.prompt", "invalid_value"),
        (r#""provider":{"max_price":{"prompt":"free"}}"#, "provider.max_price.prompt", "invalid_type"),
        (r#""metadata":{"provider_policy":{"zdr":1}}"#, "metadata.provider_policy.zdr", "invalid_type"),
        (r#""metadata":{"provider_policy":"acme"}"#, "metadata.provider_policy", "invalid_type"),
    ] {
        assert_eq!(refused(fields), (param.to_owned(), reason), "{fields}");
    }
}

#[test]
fn a_preview_may_leave_model_and_messages_out_but_not_get_them_wrong() {
    let request = preview(r#"{"top_n":3,"route_seed":"18446744073709551615"}"#).unwrap();
    assert_eq!((request.model, request.prompt_tokens), (None, 0));
    assert_eq!(request.routing.top_n, Some(3));
    assert_eq!(request.routing.route_seed, Some(u64::MAX));
    assert_eq!(preview(r#"{"model":null,"messages":null}"#).unwrap().prompt_tokens, 0);
    assert_eq!(preview(r#"{"metadata":{"top_n":"7"}}"#).unwrap().routing.top_n, Some(7));
    assert_eq!(preview(r#"{"route_seed":12}"#).unwrap().routing.route_seed, Some(12));
    for (text, param) in [
        (r#"{"messages":[]}"#, "messages"),
        (r#"{"top_n":0}"#, "top_n"),
        (r#"{"top_n":101}"#, "top_n"),
        (r#"{"route_seed":-1}"#, "route_seed"),
        (r#"{"route_seed":"x"}"#, "route_seed"),
        (r#"{"model":""}"#, "model"),
    ] {
        assert_eq!(preview(text).unwrap_err().param.as_deref(), Some(param), "{text}");
    }
}

#[test]
fn impossible_bounds_are_refused_with_their_path() {
    for (fields, param) in [
        (r#""preferred_max_latency":0"#, "preferred_max_latency"),
        (r#""preferred_max_latency":-1.5"#, "preferred_max_latency"),
        (r#""metadata":{"preferred_max_latency":"0"}"#, "metadata.preferred_max_latency"),
        (r#""preferred_max_latency":{"p50":1,"p90":0}"#, "preferred_max_latency.p90"),
        (r#""preferred_max_latency":{"p50":1,"p95":0.5}"#, "preferred_max_latency.p95"),
        (r#""provider":{"preferred_max_latency":{"p75":2,"p99":1.5}}"#, "provider.preferred_max_latency.p99"),
        (r#""preferred_max_latency":{}"#, "preferred_max_latency"),
        (r#""preferred_max_latency":{"p96":1}"#, "preferred_max_latency.p96"),
        (r#""provider":{"preferred_min_throughput":{"p50":null}}"#, "provider.preferred_min_throughput"),
        (r#""preferred_min_throughput":0"#, "preferred_min_throughput"),
        (r#""provider":{"preferred_min_throughput":{"p50":-1}}"#, "provider.preferred_min_throughput.p50"),
        (r#""weights":{"latency":1,"cost":-1}"#, "weights.cost"),
        (r#""extra_body":{"weights":{"latency":0}}"#, "extra_body.weights"),
    ] {
        assert_eq!(refused(fields), (param.to_owned(), "invalid_value"), "{fields}");
    }
    let invalid = parse(body(r#","preferred_max_latency":{"p50":1,"p95":0.5}"#)).unwrap_err();
    let message = "'preferred_max_latency.p95' is 0.5, below the 1 of 'p50': no distribution falls so.";
    assert_eq!(invalid.message, message);
    for fine in [
        r#""preferred_max_latency":{"p50":1,"p95":1}"#,
        r#""preferred_max_latency":{"p99":3,"p75":1}"#,
        r#""preferred_min_throughput":{"p50":40,"p90":60}"#,
    ] {
        routing(fine);
    }
}

/// Ignored, it would spend other people's money or drop a promise.
#[test]
fn a_misspelt_weight_price_or_percentile_is_refused_with_the_known_ones() {
    let percentiles = "p50, p75, p90, p95, p99";
    let weights = "cost, latency, quality";
    for (fields, param, parent, known) in [
        (r#""weights":{"latency":1,"costs":9}"#, "weights.costs", "weights", weights),
        (r#""metadata":{"weights":"{\"price\":1}"}"#, "metadata.weights.price", "metadata.weights", weights),
        (
            r#""provider":{"max_price":{"promt":0.001}}"#,
            "provider.max_price.promt",
            "provider.max_price",
            "prompt, completion, request, image, audio",
        ),
        (
            r#""preferred_max_latency":{"p50":1,"p96":2}"#,
            "preferred_max_latency.p96",
            "preferred_max_latency",
            percentiles,
        ),
        (
            r#""provider":{"preferred_min_throughput":{"p50":1,"P90":2}}"#,
            "provider.preferred_min_throughput.P90",
            "provider.preferred_min_throughput",
            percentiles,
        ),
    ] {
        let invalid = parse(body(&format!(",{fields}"))).unwrap_err();
        assert_eq!((invalid.param.as_deref(), invalid.reason.as_str()), (Some(param), "invalid_value"), "{fields}");
        let (told, names) = invalid.message.split_once(" may hold ").unwrap();
        assert_eq!(told, format!("'{param}' is not known. '{parent}'"));
        // The message names similar ones first.
        let sorted = |names: &str| names.split(", ").map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(names.trim_end_matches('.')), sorted(known));
        assert_eq!(sorted(&invalid.allowed_values.join(", ")), sorted(known));
    }
    routing(r#""weights":{"latency":1,"costs":null}"#);
}

#[test]
fn a_price_that_no_endpoint_has_is_let_pass_and_told() {
    let request = read(body(r#","provider":{"max_price":{"prompt":1,"audio":2}}"#));
    assert_eq!(request.unknown_members, ["provider.max_price.audio"]);
    assert!(request.routing.provider.max_price.prompt.is_some());
}

#[test]
fn lists_of_providers_that_contradict_themselves_are_refused() {
    for (fields, param) in [
        (r#""provider":{"order":["bolt","Acme"],"ignore":["acme"]}"#, "provider.order[1]"),
        (r#""provider":{"order":["acme/fast"],"ignore":["acme"]}"#, "provider.order[0]"),
        (r#""provider":{"only":["acme","bolt"],"ignore":["bolt","cove","ACME"]}"#, "provider.only"),
        (r#""provider":{"only":["acme/fast"],"ignore":"acme"}"#, "provider.only"),
        (r#""metadata":{"provider_policy":{"only":["acme"],"ignore":["acme"]}}"#, "metadata.provider_policy.only"),
    ] {
        assert_eq!(refused(fields), (param.to_owned(), "invalid_value"), "{fields}");
    }
    for fine in [
        r#""provider":{"order":["acme"],"ignore":["acme/fast"]}"#,
        r#""provider":{"only":["acme","bolt"],"ignore":["acme"]}"#,
        r#""provider":{"only":["acme"]},"provider_policy":{"ignore":["acme"]}"#,
    ] {
        routing(fine);
    }
    let invalid = parse(body(r#","provider":{"order":["Acme"],"ignore":["acme"]}"#)).unwrap_err();
    assert_eq!(invalid.message, "'provider.order[0]' names 'Acme', which 'provider.ignore' excludes as 'acme'.");
}

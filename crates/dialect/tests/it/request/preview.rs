//! What only a preview is asked: `why_not` and `what_if`, read strictly.

use pointsman_domain::{Circuit, EndpointOverride, Objective, PriceOverride, Weights, WhatIf};

use super::world::{body, preview, read};

fn imagined(what_if: &str) -> WhatIf {
    *preview(&format!(r#"{{"what_if":{what_if}}}"#)).expect(what_if).what_if.expect("a world")
}

#[test]
fn a_world_is_read_whole() {
    let endpoint = r#"{"model":"acme/small","provider":"Acme","price":{"prompt":"0.000001","completion":2e-6,"request":0,
        "image":"0.04","factor":0.5},"circuit":"half_open","off":false,"in_flight":7,"ttft_ms":120.5,
        "tokens_per_second":80,"failure_probability":0.25,"quality":0.9}"#;
    let what_if = imagined(&format!(r#"{{"objective":"fastest","weights":{{"latency":2}},"endpoints":[{endpoint}]}}"#));
    let usd = |text: &str| Some(text.parse().expect("an amount"));
    let price = PriceOverride {
        prompt: usd("0.000001"),
        completion: usd("0.000002"),
        request: usd("0"),
        image: usd("0.04"),
        factor: Some(0.5),
    };
    let otherwise = EndpointOverride {
        model: Some("acme/small".to_owned()),
        provider: Some("Acme".to_owned()),
        price,
        circuit: Some(Circuit::HalfOpen),
        off: Some(false),
        in_flight: Some(7),
        first_token: Some(0.1205),
        tokens_per_second: Some(80.0),
        failure_probability: Some(0.25),
        quality: Some(0.9),
    };
    let weights = Some(Weights { latency: 2.0, cost: 0.0, quality: 0.0 });
    assert_eq!(what_if, WhatIf { objective: Some(Objective::Fastest), weights, endpoints: vec![otherwise] });
}

#[test]
fn null_means_absent() {
    let what_if =
        imagined(r#"{"objective":"fastest","weights":null,"endpoints":[{"model":"a/b","provider":null,"off":true}]}"#);
    assert_eq!((what_if.weights, &what_if.endpoints[0].provider), (None, &None));
    assert_eq!(preview(r#"{"what_if":null,"why_not":null}"#).expect("a preview").what_if, None);
}

#[test]
fn mistakes_are_blamed_by_their_path_and_say_what_is_allowed() {
    let circuits = &["closed", "open", "half_open", "cooldown"][..];
    let prices = &["prompt", "completion", "request", "image", "factor"][..];
    for (what_if, param, reason, allowed) in [
        ("7", "what_if", "invalid_type", &[][..]),
        ("{}", "what_if", "invalid_value", &["objective", "weights", "endpoints"][..]),
        (r#"{"objektive":"fastest"}"#, "what_if.objektive", "invalid_value", &["objective", "weights", "endpoints"]),
        (
            r#"{"objective":"best"}"#,
            "what_if.objective",
            "invalid_value",
            &["cheapest", "fastest", "reliable", "balanced"],
        ),
        (r#"{"weights":{"latency":-1}}"#, "what_if.weights.latency", "invalid_value", &[]),
        (r#"{"weights":{"latency":0,"cost":0}}"#, "what_if.weights", "invalid_value", &[]),
        (r#"{"weights":{"speed":1}}"#, "what_if.weights.speed", "invalid_value", &["latency", "cost", "quality"]),
        (r#"{"endpoints":{}}"#, "what_if.endpoints", "invalid_type", &[]),
        (r#"{"endpoints":[7]}"#, "what_if.endpoints[0]", "invalid_type", &[]),
        (r#"{"endpoints":[{"off":true}]}"#, "what_if.endpoints[0].model", "missing_field", &[]),
        (r#"{"endpoints":[{"model":""}]}"#, "what_if.endpoints[0].model", "invalid_value", &[]),
        (
            r#"{"endpoints":[{"model":"a/b"}]}"#,
            "what_if.endpoints[0]",
            "invalid_value",
            &["price", "circuit", "off", "in_flight", "ttft_ms", "tokens_per_second", "failure_probability", "quality"],
        ),
        (r#"{"endpoints":[{"model":"a/b","off":1}]}"#, "what_if.endpoints[0].off", "invalid_type", &[]),
        (
            r#"{"endpoints":[{"model":"a/b","circuit":"shut"}]}"#,
            "what_if.endpoints[0].circuit",
            "invalid_value",
            circuits,
        ),
        (r#"{"endpoints":[{"model":"a/b","in_flight":-1}]}"#, "what_if.endpoints[0].in_flight", "invalid_value", &[]),
        (r#"{"endpoints":[{"model":"a/b","ttft_ms":0}]}"#, "what_if.endpoints[0].ttft_ms", "invalid_value", &[]),
        (
            r#"{"endpoints":[{"model":"a/b","tokens_per_second":-5}]}"#,
            "what_if.endpoints[0].tokens_per_second",
            "invalid_value",
            &[],
        ),
        (
            r#"{"endpoints":[{"model":"a/b","failure_probability":1.5}]}"#,
            "what_if.endpoints[0].failure_probability",
            "invalid_value",
            &[],
        ),
        (
            r#"{"endpoints":[{"model":"a/b","price":{"prompt":-1}}]}"#,
            "what_if.endpoints[0].price.prompt",
            "invalid_value",
            &[],
        ),
        (
            r#"{"endpoints":[{"model":"a/b","price":{"prompt":"free"}}]}"#,
            "what_if.endpoints[0].price.prompt",
            "invalid_type",
            &[],
        ),
        (
            r#"{"endpoints":[{"model":"a/b","price":{"input":1}}]}"#,
            "what_if.endpoints[0].price.input",
            "invalid_value",
            prices,
        ),
        (
            r#"{"endpoints":[{"model":"a/b","off":true},{"model":"a/b","price":{"factor":-1}}]}"#,
            "what_if.endpoints[1].price.factor",
            "invalid_value",
            &[],
        ),
    ] {
        let invalid = preview(&format!(r#"{{"what_if":{what_if}}}"#)).expect_err(what_if);
        assert_eq!((invalid.param.as_deref(), invalid.reason.as_str()), (Some(param), reason), "{what_if}");
        assert_eq!(invalid.allowed_values, allowed, "{what_if}");
    }
}

#[test]
fn somebody_asked_about_has_a_name() {
    let asked = |why_not: &str| preview(&format!(r#"{{"why_not":{why_not}}}"#));
    assert_eq!(asked(r#"" acme/x@acme ""#).expect("a preview").why_not.as_deref(), Some("acme/x@acme"));
    for (why_not, reason) in
        [("7", "invalid_type"), ("\"\"", "invalid_value"), (r#"["a"]"#, "invalid_type"), (r#""a\nb""#, "invalid_value")]
    {
        let invalid = asked(why_not).expect_err(why_not);
        assert_eq!((invalid.param.as_deref(), invalid.reason.as_str()), (Some("why_not"), reason), "{why_not}");
    }
    let within = preview(r#"{"extra_body":{"why_not":7}}"#).expect_err("a number");
    assert_eq!(within.param.as_deref(), Some("extra_body.why_not"));
}

#[test]
fn a_chat_is_none_the_wiser() {
    let chat = read(body(r#","why_not":7,"what_if":{"anything":1}"#));
    assert_eq!((chat.why_not, chat.what_if), (None, None));
}

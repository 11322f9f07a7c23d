//! Statements about the table, and about words that a client puts into a provider's mouth.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{table::About, *};

const MODEL: &str = "acme-1";

fn read(dialect: Dialect, status: u16, body: &Value, request: &Value) -> Refusal {
    let (body, request) = (body.to_string(), request.to_string());
    let call = RefusedAttempt {
        dialect,
        status,
        amazon_type: None,
        names_a_wait: false,
        model: MODEL,
        request: request.as_bytes(),
        prompt_tokens: 8,
        limit: None,
    };
    read_refusal(call, body.as_bytes())
}

fn is_known(refusal: &Refusal) -> bool {
    matches!(refusal.evidence, Evidence::Known(_))
}

/// A sentence that follows a pattern.
fn sentence(pattern: &str) -> String {
    pattern.replace("{model}", MODEL).replace("''", "'acme-1-001'").replace('*', "x").trim_end_matches('$').to_owned()
}

fn closing_sentences() -> Vec<String> {
    let closing = ROWS.iter().filter(|row| row.about.closes());
    closing
        .flat_map(|row| match row.sign {
            Sign::Words(words) => words.iter().map(|words| sentence(words)).collect(),
            Sign::Code(codes) => codes.iter().map(|code| (*code).to_owned()).collect::<Vec<_>>(),
        })
        .collect()
}

#[test]
fn rows_that_close_hold_whole_codes_or_words_that_begin_a_message() {
    for row in ROWS.iter().filter(|row| row.about.closes()) {
        let signs = match row.sign {
            Sign::Code(signs) | Sign::Words(signs) => signs,
        };
        for sign in signs {
            assert!(!sign.starts_with('*') && sign.len() >= 4, "{sign}");
            assert!(!matches!(row.sign, Sign::Code(_)) || !sign.contains('*'), "{sign}");
            assert_eq!(*sign, sign.to_lowercase());
        }
    }
}

/// Every row is reached: no earlier one hides it.
#[test]
fn every_sentence_of_the_table_is_known_in_a_request_that_does_not_hold_it() {
    let request = json!({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]});
    for row in ROWS {
        let (Sign::Words(words), About::Account(_) | About::Model(_)) = (row.sign, row.about) else { continue };
        for words in words {
            let status = row.statuses.first().copied().unwrap_or(400);
            let refusal = read(Dialect::OpenAi, status, &json!({"error": {"message": sentence(words)}}), &request);
            assert!(is_known(&refusal), "{words}: {refusal:?}");
        }
    }
}

/// The law of docs/ROUTING.md: nothing that one client can put into a request closes anything for another.
#[test]
fn words_of_the_request_prove_nothing_wherever_a_provider_repeats_them() {
    for text in closing_sentences() {
        let requests = [
            json!({"model": MODEL, "messages": [{"role": "user", "content": text}]}),
            json!({"model": MODEL, "user": text}),
            json!({"model": MODEL, "tools": [{"function": {"name": text}}]}),
            json!({"model": MODEL, text.clone(): 1}),
            json!({"model": MODEL, "metadata": {"x": text.to_uppercase()}}),
        ];
        let messages = [
            text.clone(),
            format!("{text}: Extra inputs are not permitted"),
            format!("{text} is not supported"),
            format!("Unknown parameter: '{text}'."),
            format!("Invalid value: {text}"),
            format!("'{text}'"),
            format!("\"{text}\" is not of type 'string' - 'user'"),
            format!("File {text} not found"),
        ];
        for (request, message) in requests.iter().flat_map(|request| messages.iter().map(move |it| (request, it))) {
            for status in [400, 402, 403, 404, 412] {
                let refusal = read(Dialect::OpenAi, status, &json!({"error": {"message": message}}), request);
                assert!(!is_known(&refusal), "{status} {message}: {refusal:?}");
            }
        }
    }
}

#[test]
fn words_that_are_escaped_in_the_request_are_found() {
    let request = br#"{"model":"acme-1","user":"This organi\u007aation  has\tbeen disabled"}"#;
    let body = br#"{"error":{"message":"This organization has been disabled. Unknown user"}}"#;
    let call = RefusedAttempt {
        dialect: Dialect::Anthropic,
        status: 400,
        amazon_type: None,
        names_a_wait: false,
        model: MODEL,
        request,
        prompt_tokens: 8,
        limit: None,
    };
    assert!(!is_known(&read_refusal(call, body)));
    assert!(is_known(&read_refusal(RefusedAttempt { request: b"{}", ..call }, body)));
}

#[test]
fn words_up_to_the_name_of_a_model_may_be_the_clients_however_short_it_is() {
    let said = |message: &str, user: &str| {
        let request = json!({"model": "o3", "user": user}).to_string();
        let request = request.as_bytes();
        let call = RefusedAttempt {
            dialect: Dialect::OpenAi,
            status: 404,
            amazon_type: None,
            names_a_wait: false,
            model: "o3",
            request,
            prompt_tokens: 8,
            limit: None,
        };
        is_known(&read_refusal(call, json!({"error": {"message": message}}).to_string().as_bytes()))
    };
    for message in ["The model o3 does not exist", "The model `o3` does not exist"] {
        assert!(said(message, "somebody"), "{message}");
    }
    assert!(!said("The model o3 does not exist", "The model o3"));
    assert!(!said("The model `o3` does not exist", "The model `o3`"));
}

#[test]
fn a_refusal_that_repeats_more_texts_than_are_looked_up_is_not_shown() {
    let request = json!({"model": MODEL, "messages": [{"content": "My account"}]});
    let shown = |repeated: usize| {
        let body = json!({"error": {"message": "Bad request", "input": vec!["My account"; repeated]}});
        read(Dialect::OpenAi, 422, &body, &request).is_for_client
    };
    assert!(shown(16));
    assert!(!shown(17));
}

#[test]
fn a_model_that_the_client_names_for_a_tool_is_not_the_endpoints() {
    let tool = json!({"model": MODEL, "input": "Hi", "tools": [{"type": "image_generation", "model": "nope-2"}]});
    let said = |model: &str| json!({"error": {"message": format!("The model `{model}` does not exist."), "code": "model_not_found"}});
    for status in [400, 403, 404] {
        let theirs = read(Dialect::Responses, status, &said("nope-2"), &tool);
        assert_eq!((theirs.kind, theirs.evidence), (FailureKind::RefusedHere, Evidence::None), "{status}");
        let ours = read(Dialect::Responses, status, &said(MODEL), &tool);
        assert_eq!((ours.kind.blame(), ours.evidence), (Blame::Configuration, Evidence::None), "{status}");
        let plain = json!({"model": MODEL, "input": "Hi"});
        assert!(is_known(&read(Dialect::Responses, status, &said(MODEL), &plain)), "{status}");
        assert!(!is_known(&read(Dialect::Responses, status, &said("nope-2"), &plain)), "{status}");
    }
}

#[test]
fn a_request_that_names_a_resource_is_no_evidence() {
    let body = json!({"error": {"message": "No."}});
    for named in [
        json!({"messages": [{"content": [{"type": "document_url", "document_url": "d"}]}]}),
        json!({"model": MODEL, "tools": [{"type": "document_library", "library_ids": ["l"]}]}),
        json!({"model": MODEL, "messages": [{"content": [{"type": "odd", "place": "s3://bucket/x"}]}]}),
        json!({"model": MODEL, "preset": "p"}),
        json!({"model": MODEL, "previous_response_id": "r"}),
        json!({"messages": [{"content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}]}),
        json!({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}),
        json!({"tools": [{"type": "code_interpreter", "container": "c"}]}),
        json!({"cachedContent": "cachedContents/1"}),
        json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": "https://h/x.png"}}]}]}),
        json!({"contents": [{"parts": [{"fileData": {"fileUri": "f"}}]}]}),
        json!({"mcp_servers": [{"name": "x"}]}),
        json!({"prompt": {"id": "pmpt_1"}}),
    ] {
        for status in [401, 402, 403, 404] {
            let refusal = read(Dialect::OpenAi, status, &body, &named);
            assert_eq!(refusal.evidence, Evidence::None, "{status} {named}");
        }
        assert!(Doubt::of_request(named.to_string().as_bytes()).is_any(), "{named}");
        let missing = read(Dialect::OpenAi, 404, &body, &named);
        assert_eq!(missing.kind, FailureKind::RefusedHere, "{named}");
    }
    let plain = json!({
        "model": MODEL, "metadata": {"link": "https://h"}, "user": null, "unheard_of": null,
        "messages": [{"role": "user", "content": "See https://h/x.png"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"$schema": "http://json-schema.org/x#",
            "properties": {"file_id": {"type": "string"}, "model": {"type": "string", "description": "s3://"}}}}}],
    });
    assert!(matches!(read(Dialect::OpenAi, 404, &body, &plain).evidence, Evidence::Unknown { .. }));
}

/// What a client may bring along: a key, an account or a model of its own.
#[test]
fn a_request_that_brings_its_own_proves_nothing_by_any_code_or_sentence() {
    for odd in [
        json!({"api_key": "bad"}),
        json!({"fallbacks": ["nope"]}),
        json!({"models": ["nope"]}),
        json!({"deferred": true}),
        json!({"tools": [{"type": "image_generation"}]}),
        json!({"tools": [{"googleSearch": {}}]}),
        json!({"mcp_servers": [{"type": "url", "name": "x", "authorization_token": "bad"}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "odd", "model": "nope"}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "agent", "input": {"model": "other/x"}}]}]}),
        json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "remote", "remote": {}}]}]}),
    ] {
        let mut request = json!({"model": MODEL});
        request.as_object_mut().unwrap().extend(odd.as_object().unwrap().clone());
        let broken = read(Dialect::OpenAi, 500, &json!({"error": {"message": "No."}}), &request);
        assert_eq!(broken.evidence, Evidence::Request, "{request}");
        for row in ROWS.iter().filter(|row| row.about.closes()) {
            let bodies: Vec<Value> = match row.sign {
                Sign::Words(words) => words.iter().map(|it| json!({"error": {"message": sentence(it)}})).collect(),
                Sign::Code(codes) => codes.iter().map(|it| json!({"error": {"code": it, "message": "No."}})).collect(),
            };
            let status = row.statuses.first().copied().unwrap_or(401);
            for body in bodies {
                let refusal = read(Dialect::OpenAi, status, &body, &request);
                assert_eq!(refusal.evidence, Evidence::None, "{request} {body}");
            }
        }
    }
}

/// What follows a sentence may be a condition that one request meets.
#[test]
fn a_sentence_that_goes_on_closes_nothing() {
    let request = json!({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]});
    for row in ROWS.iter().filter(|row| row.about.closes()) {
        let Sign::Words(words) = row.sign else { continue };
        for words in words.iter().filter(|words| !words.ends_with('*')) {
            for more in [
                " when using flex processing",
                " that support image input",
                " to use model x",
                " for streams",
                ": streams only",
                " (in streams)",
                " [flex]",
            ] {
                let status = row.statuses.first().copied().unwrap_or(400);
                let body = json!({"error": {"message": format!("{}{more}.", sentence(words))}});
                let refusal = read(Dialect::OpenAi, status, &body, &request);
                assert!(!is_known(&refusal), "{body}: {refusal:?}");
            }
        }
    }
}

#[test]
fn a_limit_of_a_tier_or_of_another_model_is_not_that_of_the_endpoint() {
    let limited = |message: &str, odd: Value| {
        let mut request = json!({"model": MODEL});
        request.as_object_mut().unwrap().extend(odd.as_object().unwrap().clone());
        [429, 503]
            .map(|status| read(Dialect::OpenAi, status, &json!({"error": {"message": message}}), &request).evidence)
    };
    for tier in [
        json!({"speed": "fast"}),
        json!({"service_tier": "flex"}),
        json!({"service_tier": "Priority"}),
        json!({"serviceTier": "flex"}),
    ] {
        assert_eq!(limited("Slow down.", tier.clone()), [Evidence::Request; 2], "{tier}");
    }
    for usual in
        [json!({"service_tier": "auto"}), json!({"service_tier": "default"}), json!({"speed": "standard"}), json!({})]
    {
        assert_eq!(limited("Slow down.", usual.clone()), [Evidence::None; 2], "{usual}");
    }
    let image = json!({"tools": [{"type": "image_generation"}]});
    assert_eq!(limited("Rate limit reached for gpt-image-1 in organization x", image.clone()), [Evidence::Request; 2]);
    assert_eq!(limited("Rate limit reached for acme-1 in organization x", image), [Evidence::None; 2]);
}

#[test]
fn a_model_that_a_tier_lacks_is_not_missing_for_requests_without_the_tier() {
    let body = json!({"error": {"code": "model_not_found", "message": "The model does not exist."}});
    let evidence = |request: Value| read(Dialect::OpenAi, 404, &body, &request).evidence;
    assert!(matches!(evidence(json!({"model": MODEL})), Evidence::Known(_)));
    assert_eq!(evidence(json!({"model": MODEL, "service_tier": "flex"})), Evidence::None);
}

#[test]
fn no_part_of_a_shown_body_tells_the_state_of_the_account() {
    let request = json!({"model": MODEL, "messages": [{"role": "user", "content": "My account has no credit"}]});
    let shown = |body: Value| read(Dialect::OpenAi, 400, &body, &request).is_for_client;
    let raw = json!({"error": {"message": "Your credit balance is too low. Organization acme-corp is past due."}})
        .to_string();
    assert!(!shown(json!({"error": {"message": "Provider returned error", "metadata": {"raw": raw}}})));
    assert!(!shown(json!({"error": {"message": "Bad request"}, "account": {"id": "a", "funds": "-12.50"}})));
    assert!(!shown(json!({"error": {"message": "Bad request", "hint": "top up your credits"}})));
    assert!(shown(json!({"error": {"message": "Bad request", "input": "My account has no credit"}})), "its own words");
    assert!(shown(json!({"error": {"message": "Unknown field 'account'.", "account": null}})));
}

#[test]
fn what_an_aggregator_repeats_is_read_but_closes_nothing() {
    let wrapped = |status: u16, message: &str, code: &str| {
        let raw = json!({"error": {"message": message, "code": code}}).to_string();
        let body = json!({"error": {"message": "Provider returned error", "code": status, "metadata": {"raw": raw}}});
        read(Dialect::OpenAi, status, &body, &json!({"model": MODEL}))
    };
    let large = "Request too large for gpt-4 on tokens per min (TPM): Limit 30000, Requested 41000.";
    assert_eq!(wrapped(429, large, "x").kind, FailureKind::OverLimit);
    assert_eq!(wrapped(400, "This model's maximum context length is 9.", "x").kind, FailureKind::ContextLength);
    assert!(!is_known(&wrapped(401, "Incorrect API key provided: x.", "invalid_api_key")));
}

#[test]
fn the_same_refusal_is_the_same_whatever_it_quotes_or_counts() {
    let said = |message: &str| read(Dialect::OpenAi, 401, &json!({"error": {"message": message}}), &json!({})).evidence;
    assert_eq!(said("Field 'a' of 17 is closed today"), said("Field 'b' of 18 is closed today"));
    assert_ne!(said("Field 'a' is closed today"), said("Field 'a' is open today"));
}

#[test]
fn an_error_within_an_answer_closes_by_its_code_alone() {
    let within = |body: Value| fault_of_data(body.to_string().as_bytes());
    let by_code = within(json!({"error": {"code": "insufficient_quota", "message": "no"}}));
    assert!(matches!((by_code.kind, by_code.evidence), (FailureKind::Auth, Evidence::Known(_))));
    for body in [
        json!({"error": {"message": "This organization has been disabled."}}),
        json!({"error": {"type": "authentication_error", "message": "MCP server 'x' refused the token"}}),
        json!({"error": {"code": 1002, "message": "Too many requests"}}),
        json!({"error": {"code": "model_not_found", "message": "The model `x` does not exist."}}),
        json!({"error": {"code": 401, "message": "No."}}),
    ] {
        assert!(!matches!(within(body.clone()).evidence, Evidence::Known(_)), "{body}");
    }
    let minimax =
        |code: u32| within(json!({"id": "x", "choices": null, "base_resp": {"status_code": code, "status_msg": "no"}}));
    for (code, kind) in [(1008, FailureKind::Auth), (2061, FailureKind::NotFound)] {
        let fault = minimax(code);
        assert!(matches!(fault.evidence, Evidence::Known(_)), "{code}: {fault:?}");
        assert_eq!(fault.kind, kind);
        let own = Doubt { brings_its_own: true, ..Doubt::default() };
        assert_eq!(own.weigh(kind, fault.evidence), Evidence::Request, "{code}");
        let tier = Doubt { chooses_a_tier: true, ..Doubt::default() };
        let is_of_tier = !matches!(tier.weigh(kind, fault.evidence), Evidence::Known(_));
        assert_eq!(is_of_tier, kind == FailureKind::NotFound, "an account is one for all tiers: {code}");
    }
    for (code, kind) in [
        (1002, FailureKind::RateLimited),
        (2045, FailureKind::RateLimited),
        (1041, FailureKind::Overloaded),
        (1026, FailureKind::BadRequest),
        (1042, FailureKind::BadRequest),
        (1000, FailureKind::Server),
        (2056, FailureKind::Auth),
        (2061, FailureKind::NotFound),
        (20132, FailureKind::RefusedHere),
        (2042, FailureKind::RefusedHere),
        (9999, FailureKind::RefusedHere),
    ] {
        assert_eq!(minimax(code).kind, kind, "{code}");
    }
    let flagged = within(json!({"error": {"code": 403, "message": "no", "metadata": {"reasons": ["x"]}}}));
    assert_eq!(flagged.kind, FailureKind::ContentPolicy);
    assert!(within(json!({"error": {"code": 402, "message": "You can, but can only afford 3"}})).wants_fewer_tokens);
}

#[test]
fn a_place_or_a_part_that_the_client_chose_may_be_what_is_refused() {
    let doubt = |extra: Value| {
        let mut body = json!({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        Doubt::of_request(body.to_string().as_bytes())
    };
    for extra in [json!({"inference_geo": "us"}), json!({"provider": {"only": ["x"]}})] {
        let doubt = doubt(extra.clone());
        assert!(doubt.chooses_a_tier && doubt.names_a_resource && !doubt.brings_its_own, "{extra}");
    }
    assert!(!doubt(json!({"inference_geo": "global"})).chooses_a_tier);
    let said = |part: Value| json!([{"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}]);
    for extra in [
        json!({"background": true}),
        json!({"messages": said(json!({"type": "skill", "id": "x"}))}),
        json!({"input": said(json!({"type": "input_video", "video": "x"}))}),
        json!({"input": [{"type": "mcp_call", "server_label": "x"}]}),
    ] {
        assert!(doubt(extra.clone()).brings_its_own, "{extra}");
    }
    let item = json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]});
    for plain in [
        json!({"background": false}),
        json!({"messages": said(json!({"type": "text", "text": "x"}))}),
        json!({"input": said(json!({"type": "input_text", "text": "x"}))}),
        json!({"input": [item, {"role": "user", "content": "x"}, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]}]}),
        json!({"input": ["a", "b"]}),
    ] {
        assert!(!doubt(plain.clone()).brings_its_own, "{plain}");
    }
    let refused = json!({"error": {"code": "model_not_found", "message": "no"}});
    for extra in [json!({"inference_geo": "us"}), json!({"background": true})] {
        assert!(!is_known(&read(Dialect::OpenAi, 404, &refused, &extra)), "{extra}");
    }
    assert!(is_known(&read(Dialect::OpenAi, 404, &refused, &json!({}))));
}

proptest! {
    #[test]
    fn no_body_and_no_request_make_the_reader_fail(
        body in "\\PC{0,200}", request in "\\PC{0,200}", status in 200_u16..600,
        members in prop::collection::vec((prop::sample::select(vec!["error", "message", "code", "type", "details"]), "\\PC{0,40}"), 0..6),
    ) {
        let object = json!(members.iter().cloned().collect::<std::collections::HashMap<_, _>>());
        for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Responses, Dialect::Converse] {
            let call = RefusedAttempt {
                dialect, status, amazon_type: None, names_a_wait: false, model: &body, request: request.as_bytes(),
                prompt_tokens: 8, limit: Some(TokenLimit::Prompts(9)),
            };
            let _ = read_refusal(call, body.as_bytes());
            let _ = read(dialect, status, &json!({"error": object}), &object);
        }
        let _ = fault_of_data(body.as_bytes());
    }
}

/// The kind and evidence of a failure of each kind of request.
#[test]
fn the_same_doubt_holds_for_every_fault() {
    let plain = json!({"model": MODEL, "messages": [{"role": "user", "content": "https://not.an/address in a text"}]});
    let with = |name: &str, value: Value| {
        let mut body = plain.clone();
        body[name] = value;
        Doubt::of_request(body.to_string().as_bytes())
    };
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://dead.example/a.png"}}]}]);
    let (own, resource) = (with("deferred", json!(true)), with("messages", image));
    let (tier, nothing) = (with("service_tier", json!("flex")), with("n", json!(1)));
    for kind in FailureKind::ALL {
        use FailureKind::{Malformed, Overloaded, RateLimited, Reset, Server, Timeout, Truncated, UnexpectedStatus};
        let is_busy = matches!(kind, RateLimited | Overloaded);
        let is_fault = matches!(kind, Overloaded | Server | Timeout | Reset | Malformed | Truncated | UnexpectedStatus);
        let expected = |doubted: bool, evidence| if doubted { evidence } else { Evidence::None };
        let weighed = |doubt: Doubt| doubt.weigh(kind, Evidence::None);
        assert_eq!(weighed(nothing), Evidence::None, "{kind:?}");
        assert_eq!(weighed(own), expected(is_busy || is_fault, Evidence::Request), "{kind:?}");
        assert_eq!(weighed(resource), expected(is_fault, Evidence::OF_ONE_CALLER), "{kind:?}");
        assert_eq!(weighed(tier), expected(is_busy, Evidence::Request), "{kind:?}");
    }
    let read_as =
        |status: u16, body: &Value| read(Dialect::OpenAi, status, &json!({"error": {"message": "Oh."}}), body).evidence;
    let mut dead = plain.clone();
    dead["messages"] =
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://dead.example/a"}}]}]);
    assert_eq!((read_as(500, &dead), read_as(500, &plain)), (Evidence::OF_ONE_CALLER, Evidence::None));
}

/// A provider that tells of a time-out has answered.
#[test]
fn a_time_out_that_is_told_is_evidence_of_one_caller() {
    let plain = json!({"model": MODEL});
    let told = [
        (
            Dialect::Gemini,
            504,
            json!({"error": {"code": 504, "status": "DEADLINE_EXCEEDED", "message": "Deadline expired."}}),
        ),
        (
            Dialect::Gemini,
            499,
            json!({"error": {"code": 499, "status": "CANCELLED", "message": "The operation was cancelled."}}),
        ),
        (Dialect::Converse, 408, json!({"message": "Model has timed out in processing the request."})),
        (
            Dialect::Anthropic,
            504,
            json!({"type": "error", "error": {"type": "timeout_error", "message": "Request timed out."}}),
        ),
    ];
    for (dialect, status, body) in told {
        let refusal = read(dialect, status, &body, &plain);
        assert_eq!((refusal.kind, refusal.evidence), (FailureKind::Timeout, Evidence::OF_ONE_CALLER), "{body}");
        let within = fault_of_data(body.to_string().as_bytes());
        // A 4xx within an answer is about the request.
        let expected = if status == 499 { FailureKind::BadRequest } else { FailureKind::Timeout };
        assert!(dialect == Dialect::Converse || within.kind == expected, "{body}: {within}");
        assert!(within.kind != FailureKind::Timeout || within.evidence == Evidence::OF_ONE_CALLER, "{body}");
    }
    for message in [
        "Your input context is too long. Shorten it, or use another model.",
        "Your prompt (or context) is too large to be processed in time.",
    ] {
        for status in [500, 504] {
            let body = json!({"error": {"code": status, "message": message}});
            assert_eq!(read(Dialect::Gemini, status, &body, &plain).kind, FailureKind::ContextLength, "{status}");
        }
    }
}

#[test]
fn a_request_that_may_be_larger_than_the_quota_rests_nobody_else() {
    let azure = "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2025-04-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 86400 seconds.";
    let body = json!({"error": {"code": "429", "message": azure}});
    let refusal = read(Dialect::OpenAi, 429, &body, &json!({"model": MODEL}));
    assert_eq!((refusal.kind, refusal.evidence), (FailureKind::RateLimited, Evidence::Request));
    let peak = json!({"error": {"code": "429", "message": "Your request exceeds the maximum usage size allowed during peak load."}});
    assert_eq!(read(Dialect::OpenAi, 429, &peak, &json!({"model": MODEL})).kind, FailureKind::OverLimit);
    let other = json!({"error": {"code": "429", "message": "Please retry after 6 seconds."}});
    assert_eq!(read(Dialect::OpenAi, 429, &other, &json!({"model": MODEL})).evidence, Evidence::None);
}

/// Vertex: the same code and sentence for a model that is not open to us and for a cache that the client names.
#[test]
fn a_denied_permission_is_about_the_model_only_if_it_names_it_and_the_client_does_not() {
    let denied = |resource: &str, request: &Value| {
        let message = format!(
            "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/p/locations/l/{resource}' (or it may not exist)."
        );
        let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED"}]);
        let error = json!({"code": 403, "message": message, "status": "PERMISSION_DENIED", "details": details});
        read(Dialect::Gemini, 403, &json!({"error": error}), request)
    };
    let plain = json!({"contents": []});
    let cache = |name: &str| json!({"contents": [], "cachedContent": format!("projects/p/locations/l/{name}")});
    let of_model = denied("publishers/google/models/acme-1", &plain);
    assert_eq!((of_model.kind, is_known(&of_model)), (FailureKind::Forbidden, true));
    let of_cache = denied("cachedContents/7", &cache("cachedContents/7"));
    assert_eq!((of_cache.kind, is_known(&of_cache)), (FailureKind::RefusedHere, false));
    assert!(of_cache.is_for_client, "the client named the project");
    let feigned = denied("publishers/google/models/acme-1", &cache("publishers/google/models/acme-1"));
    assert!(!is_known(&feigned), "{feigned:?}");
}

#[test]
fn names_of_our_projects_and_resources_are_not_shown_even_if_they_are_quoted() {
    let request = json!({"model": MODEL, "messages": [{"role": "user", "content": "projects/mine/x"}]});
    let shown =
        |message: &str| read(Dialect::OpenAi, 400, &json!({"error": {"message": message}}), &request).is_for_client;
    assert!(shown("'projects/mine/x' is no address.") && shown("The value 'x' is wrong."));
    for ours in [
        "`projects/p/locations/l`",
        "'arn:aws:bedrock:us-east-1:1:x/y'",
        "projects/p",
        "\"projects/mine\" and \"projects/p\"",
    ] {
        assert!(!shown(&format!("Something of {ours} is wrong.")), "{ours}");
    }
}

/// A budget that LiteLLM keeps for what the client names is no news for others.
#[test]
fn a_spent_budget_closes_the_provider_unless_it_is_that_of_the_clients_user() {
    let spent = |message: &str| {
        let error = json!({"message": message, "type": "budget_exceeded", "param": null, "code": "400"});
        let request = json!({"model": MODEL, "user": "u1"});
        let refusal = read(Dialect::OpenAi, 400, &json!({"error": error}), &request);
        (refusal.kind, is_known(&refusal))
    };
    for ours in [
        "Budget has been exceeded! Current cost: 51.2, Max budget: 50.0",
        "ExceededBudget: User=o over budget. Spend=12.0, Budget=10.0",
    ] {
        assert_eq!(spent(ours), (FailureKind::Auth, true), "{ours}");
    }
    for theirs in [
        "ExceededBudget: End User=u1 over budget. Spend=3.0, Budget=2.0",
        "Budget has been exceeded! Tag=t Current cost: 1.2, Max budget: 1.0",
    ] {
        assert_eq!(spent(theirs), (FailureKind::RefusedHere, false), "{theirs}");
    }
}

/// LiteLLM keeps a rate for each user that the client names.
#[test]
fn a_rate_limit_of_a_user_that_the_client_names_is_no_news_for_others() {
    let is_of_one = |message: &str, request: &Value| {
        let refusal = read(Dialect::OpenAi, 429, &json!({"error": {"message": message}}), request);
        assert_eq!(refusal.kind, FailureKind::RateLimited);
        refusal.evidence == Evidence::Request
    };
    let of_user = "Rate limit exceeded for end_user: u1. Limit type: requests. Current limit: 5, Remaining: 0.";
    for request in [json!({"user": "u1"}), json!({"safety_identifier": "u1"}), json!({"metadata": {"user_id": "u1"}})] {
        assert!(is_of_one(of_user, &request), "{request}");
        assert!(is_of_one("Rate limit exceeded for U1.", &request), "{request}");
        assert!(!is_of_one("Rate limit exceeded for model.", &request), "{request}");
    }
    assert!(!is_of_one(of_user, &json!({"user": ""})) && !is_of_one(of_user, &json!({})));
}

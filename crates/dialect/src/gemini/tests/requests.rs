use super::*;

#[test]
fn the_model_stands_in_the_path_and_the_key_does_not() {
    assert_eq!(path(&endpoint("gemini-x"), false), "/models/gemini-x:generateContent");
    assert_eq!(path(&endpoint("tuned/a b"), true), "/models/tuned%2Fa%20b:streamGenerateContent?alt=sse");
}

#[test]
fn a_whole_request_has_its_parameters_where_this_api_looks_for_them() {
    let (body, _, dropped, emulated) = send(
        NEWEST,
        &json!({
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [
                {"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
                {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}]}],
            "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "seed": 7, "stop": ["a", "b", "c", "d", "e", "f"],
            "frequency_penalty": 0.1, "logit_bias": {"1": 1}, "user": "u", "service_tier": "flex", "n": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/$defs/a", "$defs": {"a": {}}}}},
        }),
    );
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {
            "maxOutputTokens": 9, "temperature": 0.5, "topP": 0.9, "topK": 3, "seed": 7, "frequencyPenalty": 0.1,
            "stopSequences": ["a", "b", "c", "d", "e"], "responseMimeType": "application/json",
            "responseJsonSchema": {"$ref": "#/$defs/a", "$defs": {"a": {}}},
        },
        "serviceTier": "flex",
        "contents": [{"role": "user", "parts": [
            {"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}]}],
    });
    assert_eq!(body, expected);
    assert_eq!((dropped, emulated), (vec!["logit_bias".to_owned(), "stop[]".into(), "user".into()], vec![]));
}

#[test]
fn level_and_budget_are_never_sent_together_and_what_a_model_cannot_do_is_named() {
    let thinking = |model: &str, reasoning: Value| {
        let (body, _, dropped, emulated) = send(model, &with(json!({"reasoning": reasoning})));
        (body["generationConfig"]["thinkingConfig"].clone(), dropped.len() + emulated.len())
    };
    let level = |level: &str| json!({"thinkingLevel": level, "includeThoughts": true});
    assert_eq!(thinking(NEWEST, json!({"effort": "high"})), (level("HIGH"), 0));
    assert_eq!(thinking(NEWEST, json!({"effort": "xhigh"})), (level("HIGH"), 1));
    assert_eq!(thinking(NEWEST, json!({"max_tokens": 2_000})), (level("LOW"), 1));
    assert_eq!(thinking(NEWEST, json!({"effort": "none"})), (json!({"thinkingLevel": "MINIMAL"}), 1));
    assert_eq!(thinking(NEWEST, json!({"enabled": true})), (json!({"includeThoughts": true}), 0));
    assert_eq!(thinking(NEWEST, json!({"effort": "low", "exclude": true})), (json!({"thinkingLevel": "LOW"}), 0));
    assert_eq!(thinking(BUDGET, json!({"effort": "none"})), (json!({"thinkingBudget": 0}), 0));
    assert_eq!(thinking(PRO, json!({"effort": "none"})), (json!({"thinkingBudget": 128}), 1));
    assert_eq!(thinking(BUDGET, json!({"enabled": true})), (json!({"thinkingBudget": -1, "includeThoughts": true}), 0));
    assert_eq!(
        thinking(BUDGET, json!({"max_tokens": 99_999})),
        (json!({"thinkingBudget": 24_576, "includeThoughts": true}), 1)
    );
    assert_eq!(thinking("gemini-2.0-flash", json!({"effort": "low"})), (Value::Null, 1));
}

#[test]
fn a_choice_of_tools_becomes_a_mode() {
    let tools =
        json!([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]);
    let config = |choice: Value| {
        send(NEWEST, &with(json!({"tools": tools, "tool_choice": choice}))).0["toolConfig"]["functionCallingConfig"]
            .clone()
    };
    assert_eq!(config(json!("auto")), json!({"mode": "AUTO"}));
    assert_eq!(config(json!("none")), json!({"mode": "NONE"}));
    assert_eq!(config(json!("required")), json!({"mode": "ANY"}));
    let named = json!({"type": "function", "function": {"name": "f"}});
    assert_eq!(config(named), json!({"mode": "ANY", "allowedFunctionNames": ["f"]}));
}

#[test]
fn a_name_that_does_not_fit_is_replaced_everywhere_and_restored() {
    let tools = json!([{"type": "function", "function": {"name": "1st-tool!"}}]);
    let choice = json!({"type": "function", "function": {"name": "1st-tool!"}});
    let (body, names, ..) = send(NEWEST, &with(json!({"tools": tools, "tool_choice": choice})));
    let sent = body["tools"][0]["functionDeclarations"][0]["name"].as_str().unwrap().to_owned();
    assert!(super::super::models::NAMES.fits(&sent), "{sent}");
    assert_eq!(body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"], json!([sent]));
    let answer = streamed(&[chunk(json!([{"functionCall": {"name": sent}}]), Some("STOP"))], names).unwrap();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "1st-tool!");
}

#[test]
fn a_recursive_schema_is_sent_unchanged_byte_for_byte() {
    let schema = r##"{"type":"object","$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"}}}},"properties":{"z":{"$ref":"#/$defs/n"},"a":{"minimum":1.0}}}"##;
    let body = format!(
        r#"{{"messages":[],"tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}],"response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}}}}"#
    );
    let written =
        write_request(&read_conversation(&body).unwrap(), &endpoint(NEWEST), &mut UnsupportedFields::default());
    let text = String::from_utf8(written.body.to_vec()).unwrap();
    assert!(text.contains(&format!(r#""parametersJsonSchema":{schema}"#)), "{text}");
    assert!(text.contains(&format!(r#""responseJsonSchema":{schema}"#)), "{text}");
}

#[test]
fn early_models_get_schemas_in_their_own_subset_or_none() {
    let tool = |schema: Value| json!({"tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": schema}}]});
    let declared = |schema: Value| {
        let (body, _, dropped, _) = send("gemini-1.5-pro", &with(tool(schema)));
        (body["tools"][0]["functionDeclarations"][0].clone(), dropped)
    };
    let (declaration, dropped) = declared(json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}));
    assert_eq!(declaration["parameters"]["properties"]["a"], json!({"type": "string", "nullable": true}));
    assert_eq!(dropped, ["tools[].function.strict"]);
    let (declaration, dropped) = declared(json!({"$ref": "#/$defs/a"}));
    assert_eq!((declaration, dropped.len()), (json!({"name": "f"}), 2));
    let (declaration, dropped) = declared(json!({"type": "object", "properties": {}}));
    assert_eq!((declaration, dropped.len()), (json!({"name": "f"}), 1));
    let format = json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"const": "x"}}}}}});
    let (body, ..) = send("gemini-1.5-pro", &with(format));
    let expected = json!({"responseMimeType": "application/json", "responseSchema": {"type": "object", "properties": {"a": {"enum": ["x"]}}}});
    assert_eq!(body["generationConfig"], expected);
}

#[test]
fn json_is_asked_for_in_words_where_tools_exclude_it() {
    let asked = |model: &str, format: Value| {
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let (body, _, dropped, emulated) = send(model, &with(json!({"tools": tools, "response_format": format})));
        (
            body["generationConfig"]["responseMimeType"].is_string(),
            body["systemInstruction"].is_object(),
            dropped,
            emulated,
        )
    };
    let format = vec!["response_format".to_owned()];
    assert_eq!(asked(BUDGET, json!({"type": "json_object"})), (false, true, vec![], format.clone()));
    let strict =
        json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type": "object"}}});
    assert_eq!(asked(BUDGET, strict.clone()), (false, true, format, vec![]));
    assert_eq!(asked(NEWEST, strict), (true, false, vec![], vec![]));
}

#[test]
fn every_other_parameter_is_mapped_or_named() {
    let (body, _, dropped, emulated) = send(
        NEWEST,
        &with(json!({
            "n": 2, "logprobs": true, "top_logprobs": 3, "seed": 4_294_967_296_u64, "presence_penalty": -0.5, "max_tokens": 0,
            "modalities": ["image", "text"], "image_config": {"aspect_ratio": "16:9", "image_size": "2K", "quality": "high"},
            "service_tier": "default", "store": false, "parallel_tool_calls": false, "metadata": {}, "min_p": 0.1, "stop": ["", "x"],
            "verbosity": "low", "prediction": {}, "brand_new": 1,
        })),
    );
    let expected = json!({
        "maxOutputTokens": 1, "candidateCount": 2, "responseLogprobs": true, "logprobs": 3, "presencePenalty": -0.5,
        "responseModalities": ["IMAGE", "TEXT"], "imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"}, "stopSequences": ["x"],
    });
    assert_eq!(body["generationConfig"], expected);
    assert_eq!(body["serviceTier"], "standard");
    let named = [
        "brand_new",
        "image_config.quality",
        "min_p",
        "parallel_tool_calls",
        "prediction",
        "seed",
        "stop[]",
        "verbosity",
    ];
    assert_eq!(dropped, named);
    assert_eq!(emulated, ["max_tokens"]);
    let (body, _, dropped, _) =
        send(NEWEST, &with(json!({"n": 2, "stream": true, "top_logprobs": 3, "service_tier": "batch"})));
    assert_eq!(body.get("generationConfig"), None);
    assert_eq!(dropped, ["n", "service_tier", "top_logprobs"]);
    let (body, _, dropped, _) =
        send(NEWEST, &with(json!({"modalities": ["text", "audio"], "audio": {"voice": "Kore"}})));
    assert_eq!((body.get("generationConfig"), dropped), (None, vec!["audio".to_owned(), "modalities".into()]));
    let asked = with(json!({"stream": true, "stream_options": {"include_usage": true}}));
    assert_eq!(send(NEWEST, &asked).2, Vec::<String>::new(), "usage is always told");
}

#[test]
fn a_level_that_a_model_lacks_is_the_nearest_lower_one() {
    let level = |model: &str, effort: &str| {
        let (body, _, _, emulated) = send(model, &with(json!({"reasoning_effort": effort})));
        let level = body["generationConfig"]["thinkingConfig"]["thinkingLevel"].as_str().unwrap().to_owned();
        (level, !emulated.is_empty())
    };
    assert_eq!(level("gemini-3-pro-preview", "medium"), ("LOW".into(), true));
    assert_eq!(level("gemini-3.1-pro-preview", "medium"), ("MEDIUM".into(), false));
    assert_eq!(level("gemini-3.1-pro-preview", "minimal"), ("LOW".into(), true));
    assert_eq!(level("gemini-3.1-pro-preview", "none"), ("LOW".into(), true));
    assert_eq!(level(NEWEST, "minimal"), ("MINIMAL".into(), false));
    assert_eq!(level(NEWEST, "max"), ("HIGH".into(), true));
}

#[test]
fn only_allowed_tools_are_callable() {
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let ask = |mode: &str| {
        let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named("f")]}});
        send(NEWEST, &with(json!({"tools": [named("f"), named("g")], "tool_choice": choice})))
    };
    let (body, _, _, emulated) = ask("required");
    assert_eq!(body["toolConfig"]["functionCallingConfig"], json!({"mode": "ANY", "allowedFunctionNames": ["f"]}));
    assert_eq!((body["tools"][0]["functionDeclarations"].as_array().unwrap().len(), emulated.len()), (2, 0));
    let (body, _, _, emulated) = ask("auto");
    assert_eq!(body["tools"][0]["functionDeclarations"], json!([{"name": "f"}]));
    assert_eq!(emulated, ["tool_choice"]);
}

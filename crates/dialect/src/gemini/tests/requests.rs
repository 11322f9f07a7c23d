use super::*;

#[test]
fn the_model_stands_in_the_path_and_the_key_does_not() {
    assert_eq!(path(&endpoint("gemini-x"), false), "/models/gemini-x:generateContent");
    assert_eq!(path(&endpoint("tuned/a b"), true), "/models/tuned%2Fa%20b:streamGenerateContent?alt=sse");
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

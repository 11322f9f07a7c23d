//! What is said when a fixed model cannot do what was asked of it.

use super::world::{body, catalog, model_named, read, talk};

fn blame(id: &str, text: &str) -> Option<(String, &'static str, String)> {
    let catalog = catalog();
    let invalid = read(text).unmet(&catalog, model_named(&catalog, id))?;
    Some((invalid.param.unwrap_or_default(), invalid.reason.as_str(), invalid.message))
}

fn check(id: &str, text: &str, param: &str, thing: &str) {
    let message = format!("Model '{id}' does not support {thing}.");
    assert_eq!(blame(id, text), Some((param.to_owned(), "unsupported_parameter", message)));
}

const TOOLS: &str = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
const SCHEMA: &str = r#","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}"#;

#[test]
fn tools_for_a_model_without_them_are_blamed_on_tools() {
    check("acme/plain", &body(TOOLS), "tools", "tools");
    check("acme/plain", &body(&format!(r#","tool_choice":"required"{TOOLS}"#)), "tool_choice", "tool_choice");
    let extra = format!(r#","extra_body":{{{}}}"#, TOOLS.trim_start_matches(','));
    check("acme/plain", &body(&extra), "extra_body.tools", "tools");
    assert_eq!(blame("acme/able", &body(TOOLS)), None);
}

#[test]
fn an_input_the_model_cannot_take_is_blamed_on_its_first_part() {
    let image = r#"{"type":"image_url","image_url":{"url":"https://a/b"}}"#;
    let audio = r#"{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}"#;
    let text = talk(&format!(
        r#"{{"role":"user","content":"x"}},{{"role":"user","content":[{{"type":"text","text":"x"}},{image},{audio}]}},
           {{"role":"user","content":[{image}]}}"#
    ));
    check("acme/plain", &text, "messages[1].content[1]", "image input");
    check("acme/able", &text, "messages[1].content[2]", "audio input");
}

#[test]
fn a_shape_of_the_answer_is_blamed_on_response_format() {
    check("acme/plain", &body(SCHEMA), "response_format", "response_format of type json_schema");
    let object = r#","response_format":{"type":"json_object"}"#;
    check("acme/newer", &body(object), "response_format", "response_format");
    assert_eq!(blame("acme/newer", &body(SCHEMA)), None, "either name will do for a schema");
}

#[test]
fn an_output_the_model_does_not_give_is_blamed_on_modalities() {
    check("acme/able", &body(r#","modalities":["text","image"]"#), "modalities", "image output");
    assert_eq!(blame("acme/draw", &body(r#","modalities":["text","image"]"#)), None);
    assert_eq!(blame("acme/paint", &body(r#","modalities":["image"]"#)), None);
}

#[test]
fn a_model_that_gives_no_text_belongs_to_another_endpoint() {
    for id in ["acme/vectors", "acme/paint"] {
        let message = format!("Model '{id}' cannot be used with this endpoint.");
        assert_eq!(blame(id, &body("")), Some(("model".to_owned(), "wrong_endpoint", message)));
    }
}

#[test]
fn a_required_parameter_is_blamed_by_its_own_name() {
    let fields = r#","provider":{"require_parameters":true},"temperature":1,"reasoning_effort":"low""#;
    check("acme/plain", &body(fields), "reasoning_effort", "reasoning_effort");
}

#[test]
fn an_endpoint_that_lists_the_effort_alone_meets_a_requirement_of_reasoning() {
    for form in [r#","reasoning":{"effort":"high"}"#, r#","reasoning_effort":"high""#] {
        let required = body(&format!(r#"{form},"provider":{{"require_parameters":true}}"#));
        assert_eq!(blame("acme/thinks", &required), None, "{form}");
        assert!(blame("acme/plain", &required).is_some(), "{form}");
    }
}

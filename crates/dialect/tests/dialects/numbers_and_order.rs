//! Numbers of schemas and arguments are never printed anew, and the members of an object keep their order.

use pointsman_domain::Dialect;
use proptest::prelude::*;

use crate::world::{catalog, sent};

/// Numbers as people and programs write them; a parser would print most of them in another way.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1.0".to_owned()),
        Just("1e3".to_owned()),
        Just("-0".to_owned()),
        Just("12345678901234567890".to_owned()),
        Just("0.1000000000000000055511151231257827".to_owned()),
        "-?[1-9][0-9]{0,25}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
    ]
}

/// A value of JSON as text, with white space and names in any order.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![number(), Just("null".to_owned()), Just("true".to_owned()), "\"[a-zé😀 ]{0,8}\""];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let member = ("[a-z]{1,6}", inner.clone()).prop_map(|(name, value)| format!("\"{name}\": {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec(member, 0..4).prop_map(|members| format!("{{ {} }}", members.join(","))),
        ]
    })
}

proptest! {
    #[test]
    fn schemas_and_arguments_reach_every_dialect_as_they_were_written(one in value(), other in value(), number in number()) {
        let schema = format!("{{\"type\":\"object\",\"properties\":{{\"z\":{{\"default\":{one}}},\"a\":{{\"examples\":[{other}]}}}}}}");
        let arguments = format!("{{\"z\": {other},\"a\":{number}}}");
        let quoted = serde_json::to_string(&arguments).unwrap();
        let body = format!(
            "{{\"model\":\"acme/m\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hi\"}},{{\"role\":\"assistant\",\"content\":null,\
             \"tool_calls\":[{{\"id\":\"c\",\"type\":\"function\",\"function\":{{\"name\":\"f\",\"arguments\":{quoted}}}}}]}},\
             {{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"x\"}}],\"tools\":[{{\"type\":\"function\",\"function\":{{\"name\":\"f\",\"parameters\":{schema}}}}}]}}"
        );
        let catalog = catalog();
        for dialect in Dialect::ALL {
            let outgoing = sent(&catalog, dialect, &body);
            let text = std::str::from_utf8(&outgoing.bytes).unwrap();
            prop_assert!(text.contains(&schema), "{dialect:?}: {schema} in {text}");
            let form = match dialect {
                Dialect::OpenAi | Dialect::Responses => &quoted,
                Dialect::Anthropic | Dialect::Gemini | Dialect::Converse => &arguments,
            };
            prop_assert!(text.contains(form.as_str()), "{dialect:?}: {form} in {text}");
            prop_assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
        }
    }
}

use bytes::Bytes;
use pointsman_domain::ReasoningFormat;

use super::*;
use crate::{
    ChatPurpose, ChatRequest, RequestLimits,
    neutral::{Content, MediaSource, Role},
};

#[test]
fn leading_system_messages_are_told_from_later_ones() {
    let conversation = read_settled(
        r#"{"messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},
        {"role":"user","content":"d"},{"role":"system","content":"e"}]}"#,
    );
    assert_eq!(conversation.system.len(), 3);
    let roles: Vec<Role> = conversation.turns.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::User, Role::System]);
}

#[test]
fn reasoning_comes_before_text_and_calls_and_keeps_its_format() {
    let conversation = read_settled(
        r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"content":"x",
        "reasoning_details":[{"type":"reasoning.encrypted","data":"AbC=","id":"c","format":"google-gemini-v1"}]}]}"#,
    );
    let parts = &conversation.turns[0].parts;
    assert!(matches!(&parts[0].content, Content::Reasoning(state) if state.format == ReasoningFormat::Gemini));
    assert!(matches!(&parts[1].content, Content::Text(_)));
    assert!(matches!(&parts[2].content, Content::ToolCall { .. }));
}

#[test]
fn a_signature_in_extra_content_is_found_when_the_client_keeps_no_details() {
    let conversation = read_settled(
        r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""},"extra_content":{"google":{"thought_signature":"AbC="}}}]}]}"#,
    );
    let Content::Reasoning(state) = &conversation.turns[0].parts[0].content else { panic!("no reasoning") };
    assert_eq!((state.format, state.sealed.clone()), (ReasoningFormat::Gemini, Some(EscapedText::plain("AbC="))));
}

#[test]
fn a_data_url_is_split_and_an_address_is_kept() {
    let conversation = read_settled(
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/PNG;base64,iVBO","detail":"low"}},
        {"type":"image_url","image_url":{"url":"https:\/\/h\/a.png"}},{"type":"file","file":{"file_id":"f1"}}]}]}"#,
    );
    let sources: Vec<String> = conversation.turns[0]
        .parts
        .iter()
        .map(|part| match &part.content {
            Content::Image { source: MediaSource::Base64 { media_type, data }, .. } => {
                format!("{media_type:?} {data:?}")
            }
            Content::Image { source: MediaSource::Url(url), .. } => format!("{url:?}"),
            Content::File { source: MediaSource::FileId(id), .. } => format!("{id:?}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sources, [r#""image/png" "iVBO""#, r#""https:\/\/h\/a.png""#, r#""f1""#]);
}

#[test]
fn members_of_the_gateway_and_nulls_are_no_parameters_and_the_body_wins_over_extra_body() {
    let body = Bytes::from_static(
        br#"{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":0.50,"seed":null,"provider":{},"objective":"fastest","metadata":{"a":"b"},"extra_body":{"temperature":1,"top_k":5,"zzz":{"q":1.0}},
        "reasoning":{"max_tokens":9,"exclude":true},"reasoning_effort":"high","stop":"x","max_tokens":7,"stream":true,"parallel_tool_calls":false}"#,
    );
    let chat = ChatRequest::parse(body, ChatPurpose::Chat, &RequestLimits::default()).unwrap();
    let conversation = chat.conversation(&mut |_| true).unwrap();
    let parameters: Vec<String> = conversation
        .parameters
        .iter()
        .map(|parameter| format!("{}={}", parameter.name, String::from_utf8_lossy(parameter.value().bytes())))
        .collect();
    assert_eq!(parameters, ["temperature=0.50", "top_k=5", r#"zzz={"q":1.0}"#]);
    assert_eq!(
        (conversation.max_tokens, conversation.stream, conversation.parallel_tool_calls),
        (Some(7), true, Some(false))
    );
    let reasoning = conversation.reasoning;
    assert_eq!((reasoning.effort, reasoning.max_tokens, reasoning.exclude), (Some(Effort::High), Some(9), true));
}

#[test]
fn custom_tools_functions_and_choices_are_read() {
    let conversation = read_settled(
        r#"{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}},
        {"type":"custom","custom":{"name":"patch","format":{"type":"grammar"}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}}"#,
    );
    assert_eq!(conversation.tools.len(), 2);
    assert_eq!(conversation.tools[0].strict, Some(true));
    assert!(conversation.tools[1].grammar.is_some());
    assert!(matches!(&conversation.tool_choice, ToolChoice::Allowed { required: true, names } if names.len() == 1));
}

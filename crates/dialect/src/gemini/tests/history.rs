use super::*;

#[test]
fn a_signature_that_was_refused_is_replaced() {
    let signed = r#"{"role":"assistant","content":"x","reasoning_details":[{"type":"reasoning.encrypted","data":"SECRET","id":"a","format":"google-gemini-v1"}],"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":""}}]}"#;
    let (sent, _, emulated) = contents(NEWEST, Signatures::StandIns, signed);
    let stand_ins = sent.matches(r#""thoughtSignature":"skip_thought_signature_validator""#).count();
    assert!(!sent.contains("SECRET") && stand_ins == 1, "{sent}");
    assert!(emulated.contains(&"messages[].reasoning_details".to_owned()));
}

use super::*;

#[test]
fn the_name_of_the_model_is_one_segment_of_the_path() {
    let endpoint = endpoint("us.anthropic.claude-x-v1:0");
    assert_eq!(path(&endpoint, false), "/model/us.anthropic.claude-x-v1%3A0/converse");
    assert_eq!(path(&endpoint, true), "/model/us.anthropic.claude-x-v1%3A0/converse-stream");
    let profile = super::endpoint("arn:aws:bedrock:eu-west-1:1:inference-profile/a");
    assert_eq!(path(&profile, false), "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fa/converse");
}

//! Suggestions for misspelt names of routing fields.
//!
//! An unknown name in `metadata` is a tag of the client, and one at the top level may be a field of a provider, so
//! neither is rejected. But the client is warned of a restriction without effect because of a typing error.

use pointsman_domain::name_distance;

use crate::gateway_fields::RoutingField;

/// Fields that may stand at the top level and in `extra_body` besides.
const OUTSIDE_METADATA: [&str; 6] = ["provider", "models", "plugins", "route_seed", "why_not", "what_if"];
/// Parameters of chats with names long enough that one typing error does not make another word of them.
const PARAMETERS: [&str; 21] = names![
    frequency_penalty include_reasoning logit_bias logprobs max_completion_tokens max_tokens messages metadata
    modalities parallel_tool_calls presence_penalty reasoning reasoning_effort repetition_penalty response_format
    session_id stream stream_options temperature tool_choice tools
];
/// Most typing errors of a name that is treated as a misspelling.
const MAX_TYPING_ERRORS: usize = 2;

/// The field of `metadata` that the unknown `name` was probably meant to be.
pub fn field_meant_in_metadata(name: &str) -> Option<&'static str> {
    nearest(name, &RoutingField::ALL.map(RoutingField::as_str))
}

/// The field of the top level that the unknown `name` was probably meant to be.
pub fn field_meant_at_top_level(name: &str) -> Option<&'static str> {
    field_meant_in_metadata(name).or_else(|| nearest(name, &OUTSIDE_METADATA))
}

/// The parameter of a chat that the unknown `name` of the top level was probably meant to be: one typing error away, and
/// with the same first letter. The name is passed on all the same, because a provider may know it.
pub fn parameter_meant(name: &str) -> Option<&'static str> {
    let first = name.bytes().next()?.to_ascii_lowercase();
    let is_alike =
        |parameter: &&&str| parameter.bytes().next() == Some(first) && parameter.len().abs_diff(name.len()) <= 2;
    let bare = |text: &str| text.replace(['_', '-'], "");
    let mut alike = PARAMETERS.iter().filter(is_alike);
    alike.find(|parameter| name_distance(&bare(name), &bare(parameter)).is_some_and(|apart| apart <= 1)).copied()
}

/// The most similar of `fields`, at most two typing errors away, fewer for short names. Ignores case, hyphens and
/// underscores: `allowedModels` matches `allowed_models`.
fn nearest(name: &str, fields: &[&'static str]) -> Option<&'static str> {
    let separates = |byte: u8| matches!(byte, b'_' | b'-');
    let letters = |text: &str| text.bytes().filter(|byte| !separates(*byte)).count();
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || separates(byte));
    let count = letters(name);
    let most = MAX_TYPING_ERRORS.min((count / 3).max(1));
    let slips = |field: &'static str| {
        let comparable = is_plain && count.abs_diff(letters(field)) <= most;
        let bare = |text: &str| text.replace(['_', '-'], "");
        let apart = comparable.then(|| name_distance(&bare(name), &bare(field))).flatten()?;
        (apart <= most).then_some((apart, field))
    };
    fields.iter().filter_map(|field| slips(field)).min_by_key(|(apart, _)| *apart).map(|(_, field)| field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_traced_to_the_field_that_was_meant() {
        for (name, meant) in [
            ("objektive", "objective"),
            ("Objective", "objective"),
            ("allowed_model", "allowed_models"),
            ("allowedModels", "allowed_models"),
            ("block_models", "blocked_models"),
            ("maxCostPer1kTokens", "max_cost_per_1k_tokens"),
            ("max-cost", "max_cost"),
            ("topn", "top_n"),
            ("weigths", "weights"),
        ] {
            assert_eq!(field_meant_in_metadata(name), Some(meant), "{name}");
            assert_eq!(field_meant_at_top_level(name), Some(meant), "{name}");
        }
        assert_eq!(field_meant_at_top_level("providers"), Some("provider"));
        assert_eq!(field_meant_in_metadata("providers"), None, "a tag");
    }

    #[test]
    fn ordinary_tags_and_fields_of_providers_are_no_misspellings() {
        for name in ["team", "topic", "region", "customer", "trace_id", "max_price_note", "objective\n", "", "größe"]
        {
            assert_eq!(field_meant_in_metadata(name), None, "{name}");
        }
        for name in ["prompt_cache", "safe_prompt", "num_ctx", "keep_alive", "guided_json"] {
            assert_eq!(field_meant_at_top_level(name), None, "{name}");
        }
    }

    #[test]
    fn a_misspelt_parameter_is_traced_and_fields_of_providers_are_left_alone() {
        for (name, meant) in [
            ("max_token", "max_tokens"),
            ("maxTokens", "max_tokens"),
            ("temprature", "temperature"),
            ("temperatur", "temperature"),
            ("steam", "stream"),
            ("message", "messages"),
            ("tool", "tools"),
            ("respons_format", "response_format"),
        ] {
            assert_eq!(parameter_meant(name), Some(meant), "{name}");
        }
        for name in [
            "min_tokens",
            "typ_p",
            "top_n_sigma",
            "num_ctx",
            "guided_json",
            "stop_token_ids",
            "best_of",
            "mode",
            "models_",
            "thinking",
            "",
            "ö",
            "seeds",
            "format",
            "options",
            "keep_alive",
            "safe_prompt",
            "extra_headers",
        ] {
            assert_eq!(parameter_meant(name), None, "{name}");
        }
    }
}

use std::time::Duration;

use super::*;

const A: EndpointId = EndpointId(1);
const B: EndpointId = EndpointId(2);
const POLICY: StickyPolicy =
    StickyPolicy { enabled: true, ttl: Duration::from_secs(300), min_prompt_tokens: 1000, max_conversations: 1600 };

fn sessions() -> Sessions {
    Sessions::new([1, 2, 3, 4])
}

/// A conversation with this opening and length.
fn says(instructions: u128, first: u128, prompt_tokens: u32) -> ConversationStart<'static> {
    let opening = ConversationOpening { instructions, instruction_tokens: 1500, conversation: first };
    ConversationStart { owner: 7, target: "service/auto", session_id: None, opening: Some(opening), prompt_tokens }
}

fn used(prompt_tokens: u64, cached_tokens: u64) -> Usage {
    Usage { prompt_tokens, completion_tokens: 100, cached_tokens, ..Usage::default() }
}

fn at(seconds: u64) -> Tick {
    Tick(seconds * 1_000_000)
}

/// Where this turn would go, and with how many cached tokens.
fn goes(sessions: &Sessions, speaker: &ConversationStart<'_>, seconds: u64) -> Option<(EndpointId, u32)> {
    let sticky = sessions.sticky(&POLICY, &sessions.turn(&POLICY, speaker)?, at(seconds))?;
    Some((sticky.endpoint, sticky.cached_tokens))
}

/// Records that the endpoint answered and read this much from its cache.
fn went(sessions: &Sessions, speaker: &ConversationStart<'_>, endpoint: EndpointId, cached: u64, seconds: u64) {
    let turn = sessions.turn(&POLICY, speaker).expect("long enough");
    sessions.served(&POLICY, &turn, endpoint, &used(u64::from(speaker.prompt_tokens), cached), at(seconds));
}

#[test]
fn the_next_turn_is_expected_to_find_prompt_and_answer_of_the_last() {
    let sessions = sessions();
    assert_eq!(goes(&sessions, &says(1, 2, 2000), 0), None);
    went(&sessions, &says(1, 2, 2000), A, 0, 0);
    assert_eq!(goes(&sessions, &says(1, 2, 2500), 10), Some((A, 2100)));
    assert_eq!(goes(&sessions, &says(1, 2, 2050), 10), Some((A, 2050)), "no more than the prompt has");
}

#[test]
fn a_session_id_names_the_conversation_whatever_the_prompt_says() {
    let sessions = sessions();
    let named = |first| ConversationStart { session_id: Some("s-1"), ..says(1, first, 2000) };
    went(&sessions, &named(2), A, 0, 0);
    assert_eq!(goes(&sessions, &named(99), 10), Some((A, 2000)));
    let other = ConversationStart { session_id: Some("s-2"), opening: None, ..says(1, 2, 2000) };
    assert_eq!(goes(&sessions, &other, 10), None);
}

#[test]
fn other_requests_with_the_same_instructions_find_these() {
    let sessions = sessions();
    went(&sessions, &says(1, 2, 3000), A, 0, 0);
    assert_eq!(goes(&sessions, &says(1, 3, 2000), 10), Some((A, 1500)));
    assert_eq!(goes(&sessions, &says(5, 3, 2000), 10), None);
    let short = ConversationOpening { instructions: 1, instruction_tokens: 900, conversation: 3 };
    assert_eq!(
        goes(&sessions, &ConversationStart { opening: Some(short), ..says(1, 3, 2000) }, 10),
        None,
        "too short to share"
    );
}

#[test]
fn instructions_are_counted_as_the_provider_counts() {
    let sessions = sessions();
    let turn = sessions.turn(&POLICY, &says(1, 2, 3000)).expect("long enough");
    sessions.served(&POLICY, &turn, A, &used(1500, 0), at(0));
    assert_eq!(goes(&sessions, &says(1, 3, 2000), 10), Some((A, 750)), "half of the estimate");
}

#[test]
fn callers_and_models_never_share() {
    let sessions = sessions();
    let speaker = says(1, 2, 2000);
    went(&sessions, &speaker, A, 0, 0);
    assert_eq!(goes(&sessions, &ConversationStart { owner: 8, ..speaker }, 10), None);
    assert_eq!(goes(&sessions, &ConversationStart { target: "acme/small", ..speaker }, 10), None);
    let named = ConversationStart { session_id: Some("s"), ..speaker };
    went(&sessions, &named, A, 0, 0);
    let foreign = ConversationStart { owner: 8, opening: None, ..named };
    assert_eq!(goes(&sessions, &foreign, 10), None);
}

#[test]
fn a_cache_is_expected_to_last_as_long_as_the_ttl() {
    let sessions = sessions();
    went(&sessions, &says(1, 2, 2000), A, 0, 0);
    assert!(goes(&sessions, &says(1, 2, 2000), 299).is_some());
    assert_eq!(goes(&sessions, &says(1, 2, 2000), 300), None);
    went(&sessions, &says(1, 2, 2000), A, 0, 299);
    assert!(goes(&sessions, &says(1, 2, 2000), 500).is_some(), "each turn renews it");
}

#[test]
fn the_last_endpoint_counts() {
    let sessions = sessions();
    went(&sessions, &says(1, 2, 2000), A, 0, 0);
    went(&sessions, &says(1, 2, 2000), B, 0, 1);
    assert_eq!(goes(&sessions, &says(1, 2, 2000), 2), Some((B, 2000)));
}

#[test]
fn short_prompts_and_a_switched_off_memory_leave_no_trace() {
    let sessions = sessions();
    assert!(sessions.turn(&POLICY, &says(1, 2, 999)).is_none());
    assert!(sessions.turn(&StickyPolicy { enabled: false, ..POLICY }, &says(1, 2, 2000)).is_none());
    assert!(sessions.is_empty());
}

#[test]
fn an_endpoint_that_reads_nothing_from_its_cache_is_expected_to_less_and_less() {
    let sessions = sessions();
    let speaker = says(1, 2, 2000);
    let mut expected = Vec::new();
    for turn in 0..12 {
        went(&sessions, &speaker, A, 0, turn);
        expected.push(goes(&sessions, &speaker, turn).expect("known").1);
    }
    assert_eq!(expected[..4], [2000, 933, 579, 404]);
    assert!(expected.windows(2).all(|pair| pair[0] >= pair[1]), "{expected:?}");
    assert!(*expected.last().expect("some") < 100, "{expected:?}");
    for turn in 12..40 {
        went(&sessions, &speaker, A, 2000, turn);
    }
    assert!(goes(&sessions, &speaker, 40).expect("known").1 > 1900, "it learns again");
}

#[test]
fn an_endpoint_that_keeps_its_promise_is_believed() {
    let sessions = sessions();
    let speaker = says(1, 2, 2000);
    for turn in 0..10 {
        went(&sessions, &speaker, A, 2000, turn);
    }
    assert_eq!(goes(&sessions, &speaker, 10), Some((A, 2000)));
}

#[test]
fn estimated_usage_teaches_nothing() {
    let sessions = sessions();
    let turn = sessions.turn(&POLICY, &says(1, 2, 2000)).expect("long enough");
    for second in 0..5 {
        sessions.served(&POLICY, &turn, A, &Usage { estimated: true, ..used(2000, 0) }, at(second));
    }
    assert_eq!(goes(&sessions, &says(1, 2, 2000), 6), Some((A, 2000)));
}

#[test]
fn the_bound_holds_and_the_quiet_ones_leave() {
    let sessions = sessions();
    let lone = |first| ConversationStart {
        opening: Some(ConversationOpening { instructions: 0, instruction_tokens: 0, conversation: first }),
        ..says(0, 0, 2000)
    };
    for first in 0..50_000 {
        went(&sessions, &lone(first), A, 2000, 0);
        went(&sessions, &lone(1_000_000), A, 2000, 0);
    }
    assert!(sessions.len() <= POLICY.max_conversations as usize, "{}", sessions.len());
    assert!(sessions.len() > POLICY.max_conversations as usize / 3, "{}", sessions.len());
    assert!(goes(&sessions, &lone(1_000_000), 1).is_some(), "the one that goes on stays");
    assert!(goes(&sessions, &lone(49_999), 1).is_some(), "the newest stays");
    assert_eq!(goes(&sessions, &lone(0), 1), None);
}

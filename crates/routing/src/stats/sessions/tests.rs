use std::time::Duration;

use pointsman_domain::PromptPrefix;

use super::*;

const A: EndpointId = EndpointId(1);
const B: EndpointId = EndpointId(2);
const POLICY: StickyPolicy =
    StickyPolicy { enabled: true, ttl: Duration::from_secs(300), min_prompt_tokens: 1000, max_conversations: 1600 };

fn sessions() -> Sessions {
    Sessions::new([1, 2, 3, 4])
}

/// Number of entries.
fn count(sessions: &Sessions) -> usize {
    let shards = sessions.shards.iter().map(|shard| shard.lock());
    shards.map(|shard| shard.young.len() + shard.old.len()).sum()
}

fn prefix(hash: u128, tokens: u32) -> PromptPrefix {
    PromptPrefix { hash, tokens }
}

/// A conversation with this opening and length.
fn conversation(instructions: u128, first: u128, prompt_tokens: u32) -> SessionStart<'static> {
    let opening = SessionOpening { instructions: prefix(instructions, 1500), beginning: None, conversation: first };
    SessionStart { owner: 7, target: "service/auto", session_id: None, opening: Some(opening), prompt_tokens }
}

fn used(prompt_tokens: u64, cached_tokens: u64) -> Usage {
    Usage { prompt_tokens, completion_tokens: 100, cached_tokens, ..Usage::default() }
}

fn at(seconds: u64) -> Tick {
    Tick(seconds * 1_000_000)
}

/// Where this turn would go, and with how many cached tokens.
fn expected_cache(sessions: &Sessions, conversation: &SessionStart<'_>, seconds: u64) -> Option<(EndpointId, u32)> {
    let sticky = sessions.sticky(&POLICY, &sessions.turn(&POLICY, conversation)?, at(seconds))?;
    Some((sticky.endpoint, sticky.cached_tokens))
}

/// Records that the endpoint answered and read this much from its cache.
fn serve(sessions: &Sessions, conversation: &SessionStart<'_>, endpoint: EndpointId, cached: u64, seconds: u64) {
    let turn = sessions.turn(&POLICY, conversation).expect("long enough");
    sessions.served(&POLICY, &turn, endpoint, None, &used(u64::from(conversation.prompt_tokens), cached), at(seconds));
}

#[test]
fn the_next_turn_is_expected_to_find_prompt_and_answer_of_the_last() {
    let sessions = sessions();
    assert_eq!(expected_cache(&sessions, &conversation(1, 2, 2000), 0), None);
    serve(&sessions, &conversation(1, 2, 2000), A, 0, 0);
    assert_eq!(expected_cache(&sessions, &conversation(1, 2, 2500), 10), Some((A, 2100)));
    assert_eq!(
        expected_cache(&sessions, &conversation(1, 2, 2050), 10),
        Some((A, 2050)),
        "no more than the prompt has"
    );
}

#[test]
fn a_session_id_names_the_conversation_whatever_the_prompt_says() {
    let sessions = sessions();
    let named = |first| SessionStart { session_id: Some("s-1"), ..conversation(1, first, 2000) };
    serve(&sessions, &named(2), A, 0, 0);
    assert_eq!(expected_cache(&sessions, &named(99), 10), Some((A, 2000)));
    let other = SessionStart { session_id: Some("s-2"), opening: None, ..conversation(1, 2, 2000) };
    assert_eq!(expected_cache(&sessions, &other, 10), None);
}

#[test]
fn other_requests_with_the_same_instructions_find_these() {
    let sessions = sessions();
    serve(&sessions, &conversation(1, 2, 3000), A, 0, 0);
    assert_eq!(expected_cache(&sessions, &conversation(1, 3, 2000), 10), Some((A, 1500)));
    assert_eq!(expected_cache(&sessions, &conversation(5, 3, 2000), 10), None);
    let short = SessionOpening { instructions: prefix(1, 900), beginning: None, conversation: 3 };
    assert_eq!(
        expected_cache(&sessions, &SessionStart { opening: Some(short), ..conversation(1, 3, 2000) }, 10),
        None,
        "too short to share"
    );
}

#[test]
fn instructions_too_short_for_a_cache_leave_it_to_the_beginning_of_the_text() {
    let asking = |instructions, beginning, first| {
        let beginning = Some(prefix(beginning, 1024));
        let opening = SessionOpening { instructions: prefix(instructions, 750), beginning, conversation: first };
        SessionStart { opening: Some(opening), ..conversation(0, 0, 2000) }
    };
    let found = |min_prompt_tokens: u32, later: SessionStart<'_>| {
        let (sessions, policy) = (sessions(), StickyPolicy { min_prompt_tokens, ..POLICY });
        let turn = |start: &SessionStart<'_>| sessions.turn(&policy, start).expect("long enough");
        sessions.served(&policy, &turn(&asking(1, 2, 3)), A, None, &used(2000, 0), at(0));
        sessions.sticky(&policy, &turn(&later), at(1)).map(|sticky| sticky.cached_tokens)
    };
    assert_eq!([asking(1, 9, 4), asking(9, 2, 4)].map(|later| found(1000, later)), [None, Some(1024)]);
    assert_eq!([asking(1, 9, 4), asking(9, 2, 4)].map(|later| found(700, later)), [Some(750), None]);
    assert_eq!([asking(1, 9, 4), asking(9, 2, 4)].map(|later| found(1025, later)), [None, None]);
}

#[test]
fn requests_that_only_share_a_prefix_say_nothing_about_conversations() {
    let sessions = sessions();
    serve(&sessions, &conversation(1, 1000, 3000), A, 0, 0);
    for first in 0..20 {
        serve(&sessions, &conversation(1, first, 1600), A, 0, 1);
    }
    assert_eq!(expected_cache(&sessions, &conversation(1, 1000, 3200), 2), Some((A, 3100)));
    let shared = expected_cache(&sessions, &conversation(1, 1001, 1600), 2);
    assert!(shared.is_none_or(|(_, tokens)| tokens < 100), "the prefix is in no cache: {shared:?}");
}

#[test]
fn instructions_are_counted_as_the_provider_counts() {
    let sessions = sessions();
    let turn = sessions.turn(&POLICY, &conversation(1, 2, 3000)).expect("long enough");
    sessions.served(&POLICY, &turn, A, None, &used(1500, 0), at(0));
    assert_eq!(expected_cache(&sessions, &conversation(1, 3, 2000), 10), Some((A, 750)), "half of the estimate");
}

#[test]
fn callers_and_models_never_share() {
    let sessions = sessions();
    let conversation = conversation(1, 2, 2000);
    serve(&sessions, &conversation, A, 0, 0);
    assert_eq!(expected_cache(&sessions, &SessionStart { owner: 8, ..conversation }, 10), None);
    assert_eq!(expected_cache(&sessions, &SessionStart { target: "acme/small", ..conversation }, 10), None);
    let named = SessionStart { session_id: Some("s"), ..conversation };
    serve(&sessions, &named, A, 0, 0);
    let foreign = SessionStart { owner: 8, opening: None, ..named };
    assert_eq!(expected_cache(&sessions, &foreign, 10), None);
}

#[test]
fn a_cache_is_expected_to_last_as_long_as_the_ttl() {
    let sessions = sessions();
    serve(&sessions, &conversation(1, 2, 2000), A, 0, 0);
    assert!(expected_cache(&sessions, &conversation(1, 2, 2000), 299).is_some());
    assert_eq!(expected_cache(&sessions, &conversation(1, 2, 2000), 300), None);
    serve(&sessions, &conversation(1, 2, 2000), A, 0, 299);
    assert!(expected_cache(&sessions, &conversation(1, 2, 2000), 500).is_some(), "each turn renews it");
}

#[test]
fn the_last_endpoint_counts() {
    let sessions = sessions();
    serve(&sessions, &conversation(1, 2, 2000), A, 0, 0);
    serve(&sessions, &conversation(1, 2, 2000), B, 0, 1);
    assert_eq!(expected_cache(&sessions, &conversation(1, 2, 2000), 2), Some((B, 2000)));
}

#[test]
fn short_prompts_and_a_switched_off_memory_leave_no_trace() {
    let sessions = sessions();
    assert!(sessions.turn(&POLICY, &conversation(1, 2, 999)).is_none());
    assert!(sessions.turn(&StickyPolicy { enabled: false, ..POLICY }, &conversation(1, 2, 2000)).is_none());
    assert_eq!(count(&sessions), 0);
}

#[test]
fn an_endpoint_that_reads_nothing_from_its_cache_is_expected_to_less_and_less() {
    let sessions = sessions();
    let conversation = conversation(1, 2, 2000);
    let mut expected = Vec::new();
    for turn in 0..12 {
        serve(&sessions, &conversation, A, 0, turn);
        expected.push(expected_cache(&sessions, &conversation, turn).expect("known").1);
    }
    assert_eq!(expected[..4], [2000, 933, 579, 404]);
    assert!(expected.windows(2).all(|pair| pair[0] >= pair[1]), "{expected:?}");
    assert!(*expected.last().expect("some") < 100, "{expected:?}");
    for turn in 12..40 {
        serve(&sessions, &conversation, A, 2000, turn);
    }
    assert!(expected_cache(&sessions, &conversation, 40).expect("known").1 > 1900, "it learns again");
}

#[test]
fn an_endpoint_that_keeps_its_promise_is_believed() {
    let sessions = sessions();
    let conversation = conversation(1, 2, 2000);
    for turn in 0..10 {
        serve(&sessions, &conversation, A, 2000, turn);
    }
    assert_eq!(expected_cache(&sessions, &conversation, 10), Some((A, 2000)));
}

#[test]
fn estimated_usage_teaches_nothing() {
    let sessions = sessions();
    let turn = sessions.turn(&POLICY, &conversation(1, 2, 2000)).expect("long enough");
    for second in 0..5 {
        sessions.served(&POLICY, &turn, A, None, &Usage { estimated: true, ..used(2000, 0) }, at(second));
    }
    assert_eq!(expected_cache(&sessions, &conversation(1, 2, 2000), 6), Some((A, 2000)));
}

#[test]
fn the_size_is_bounded_and_unused_entries_are_dropped() {
    let sessions = sessions();
    let lone = |first| SessionStart {
        opening: Some(SessionOpening { instructions: prefix(0, 0), beginning: None, conversation: first }),
        ..conversation(0, 0, 2000)
    };
    for first in 0..50_000 {
        serve(&sessions, &lone(first), A, 2000, 0);
        serve(&sessions, &lone(1_000_000), A, 2000, 0);
    }
    let (count, most) = (count(&sessions), POLICY.max_conversations as usize);
    assert!(count <= most && count > most / 3, "{count}");
    assert!(expected_cache(&sessions, &lone(1_000_000), 1).is_some(), "the one that goes on stays");
    assert!(expected_cache(&sessions, &lone(49_999), 1).is_some(), "the newest stays");
    assert_eq!(expected_cache(&sessions, &lone(0), 1), None);
}

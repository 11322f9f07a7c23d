//! A generation as bytes, without its catalog and its policy.

use std::sync::Arc;

use pointsman_domain::{
    AttemptRecord, Catalog, CostBreakdown, Generation, RoutingPolicy, ServedTime, TraceParent, Usage, Waited,
};

use super::{
    bytes::{Reader, Stored, Unreadable, stored_struct},
    decision,
};

stored_struct! {
    AttemptRecord {
        n, reason, endpoint, model, provider_name, provider_slug, status, error_type, cause, started_ms, queue_ms,
        connect_ms, tls_ms, first_byte_ms, first_token_ms, stream_ms, duration_ms, cost, estimated, reported_cost,
        served,
    }
    Usage {
        prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, audio_tokens,
        audio_output_tokens, reasoning_tokens, images, web_searches, reported_cost,
        estimated, service,
    }
    CostBreakdown {
        prompt, completion, reasoning, cache_read, cache_write, cache_write_1h, audio, audio_output, request, image,
        web_search,
    }
    TraceParent { trace, span, sampled }
    ServedTime { from_us, until_us }
    Waited { ms, reason }
}

/// Lists the stored members of a generation but for the decision, once for both directions. Key and team stand among the
/// facts of its entry.
macro_rules! members {
    ($with:ident) => {
        $with! {
            id, owner, api_type, request_id, created_ms, status, requested_model, streamed, attempts, model,
            provider_name, provider_slug, upstream_id, latency_ms, generation_time_ms, usage, cost, finish,
            native_finish_reason, dropped_parameters, external_user, session_id, tags, trace, user_agent, http_referer,
            origin, media_prompt, media_completion
        }
    };
}

/// Appends a generation.
pub(super) fn put(generation: &Generation, out: &mut Vec<u8>) {
    macro_rules! put {
        ($($member:ident),*) => {
            let Generation {
                decision, policy: _, catalog, key: _, team: _, emulated_parameters, client_dialect, trace_parent, served,
                waited, $($member),*
            } = generation;
            $($member.put(out);)*
            decision::put(decision, catalog, out);
            emulated_parameters.put(out);
            client_dialect.put(out);
            trace_parent.put(out);
            served.put(out);
            waited.put(out);
        };
    }
    members!(put);
}

/// Reads what [`put`] wrote.
pub(super) fn take(
    from: &mut Reader<'_>,
    catalog: Arc<Catalog>,
    policy: Arc<RoutingPolicy>,
) -> Result<Generation, Unreadable> {
    macro_rules! take {
        ($($member:ident),*) => {{
            $(let $member = Stored::take(from)?;)*
            let decision = Arc::new(decision::take(from, &catalog)?);
            let (emulated_parameters, client_dialect) = (Stored::take(from)?, Stored::take(from)?);
            let (trace_parent, served) = (Stored::take(from)?, Stored::take(from)?);
            let waited = Stored::take(from)?;
            Ok(Generation {
                decision, policy, catalog, key: 0, team: None, emulated_parameters, client_dialect, trace_parent, served,
                waited, $($member),*
            })
        }};
    }
    members!(take)
}

/// Any generation of this catalog and policy.
#[cfg(test)]
pub(super) fn any(dice: &mut super::dice::Dice, catalog: &Arc<Catalog>, policy: &Arc<RoutingPolicy>) -> Generation {
    use super::dice::Any;
    macro_rules! any {
        ($($member:ident),*) => {{
            $(let $member = Any::any(dice);)*
            let (catalog, policy) = (Arc::clone(catalog), Arc::clone(policy));
            let (emulated_parameters, client_dialect) = (Any::any(dice), Any::any(dice));
            let decision = Any::any(dice);
            let (trace_parent, served, waited) = (Any::any(dice), Any::any(dice), Any::any(dice));
            Generation {
                decision, policy, catalog, key: 0, team: None, emulated_parameters, client_dialect, trace_parent, served,
                waited,                $($member),*
            }
        }};
    }
    members!(any)
}

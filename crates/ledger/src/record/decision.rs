//! A decision as bytes.

use pointsman_domain::{
    Catalog, Decision, ExcludedEndpoint, ExclusionDetail, ExclusionReason, GateState, LostParameter, NativeFeature,
    Needs, RecordedGate, RequestFacts, RoutingParameters, StickyEndpoint, TakenSplit, Task, TaskClass, TaskClassSource,
    TaskFeatures,
};

use super::{
    bytes::{Reader, Stored, Unreadable, stored_enum, stored_struct},
    candidate,
};

stored_enum! {
    ExclusionReason {
        0 => NotAllowedModel, 1 => BlockedModel, 2 => ProviderNotAllowed, 3 => ProviderIgnored, 4 => NotFree,
        5 => UnsupportedParameter, 6 => InputModality, 7 => OutputModality, 8 => ContextLength, 9 => MaxPrice,
        10 => MaxCostPer1kTokens, 11 => DataPolicy, 12 => Quantization, 13 => KeyPolicy, 14 => ModelExpired,
        15 => Disabled, 16 => ProviderOff, 17 => ConfigFault, 18 => CircuitOpen, 19 => ProbeInFlight,
        20 => RateLimited, 21 => Paced, 22 => Saturated, 23 => WrongEndpoint, 24 => Draining,
        25 => PriceUnknown,
    }
    ExclusionDetail {
        0 => Text(text),
        1 => Sentence(text),
        2 => Matches(pattern),
        3 => Named(entry),
        4 => Lacks(name),
        5 => DoesNotTake(modality),
        6 => DoesNotGive(modality),
        7 => Tokens { needed, limit },
        8 => Above { what, price, limit },
        9 => Quantization(format),
        10 => Retired(day),
        11 => Open { wait, failures, last },
        12 => Cooling { wait, last },
        13 => ConfigFault { wait, last },
        14 => Saturated { in_flight, knee },
        15 => Paced { wait },
        16 => Shortened { wait, last, told },
    }
    GateState { 0 => Cooling, 1 => Open, 2 => ConfigFault, 3 => HalfOpen, 4 => Probing }
    Task {
        0 => General, 1 => Code, 2 => Math, 3 => Structured, 4 => Tools, 5 => LongContext, 6 => Creative, 7 => Vision,
    }
    TaskClassSource { 0 => Metadata, 1 => Key, 2 => Alias, 3 => Features, 4 => Default, 5 => Conversation }
}

stored_struct! {
    ExcludedEndpoint { index, endpoint, reason, detail }
    Needs { input, output, parameters, any_parameter, native, capabilities, lost, service }
    NativeFeature { dialect, field }
    LostParameter { endpoint, name }
    StickyEndpoint { endpoint, cached_tokens }
    RequestFacts {
        api, today, targets, needs, key_allowed, key_blocked, prompt_tokens, images, max_tokens, answers, sticky,
        pending_reasoning,
    }
    RecordedGate { index, state, until }
    TakenSplit { requested, alias, split, sticky, place, canary_stopped, part, probability }
    TaskClass { task, source, features }
    RoutingParameters {
        objective, weights, allowed, blocked, provider, max_cost_per_1k_tokens, max_cost, preferred_max_latency,
        preferred_min_throughput, top_n, route_seed,
    }
}

impl Stored for TaskFeatures {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<TaskFeatures, Unreadable> {
        u16::take(from).map(TaskFeatures)
    }
}

/// Lists the members of a decision but for the candidates, once for both directions.
macro_rules! members {
    ($with:ident) => {
        $with! {
            router, objective, weights, parameters, code, omitted, excluded, prompt_tokens, streamed, completion_tokens,
            snapshot_version, catalog_version, policy_version, tick, seed, explored, max_attempts, baselines,
            latency_margin, request, gates, algorithm, exploration_share, task_class, split
        }
    };
}

/// Appends a decision. `catalog` is that of the decision.
pub(super) fn put(decision: &Decision, catalog: &Catalog, out: &mut Vec<u8>) {
    macro_rules! put {
        ($($member:ident),*) => {
            let Decision { candidates, rivals, standby, safe_set, $($member),* } = decision;
            $($member.put(out);)*
            candidate::put_all(candidates, catalog, out);
            candidate::put_all(rivals, catalog, out);
            candidate::put_all(standby, catalog, out);
            safe_set.put(out);
        };
    }
    members!(put);
}

/// Reads what [`put`] wrote.
pub(super) fn take(from: &mut Reader<'_>, catalog: &Catalog) -> Result<Decision, Unreadable> {
    macro_rules! take {
        ($($member:ident),*) => {{
            $(let $member = Stored::take(from)?;)*
            let candidates = candidate::take_all(from, catalog)?;
            let (rivals, standby) = (candidate::take_all(from, catalog)?, candidate::take_all(from, catalog)?);
            let safe_set = Stored::take(from)?;
            Ok(Decision { candidates, rivals, standby, safe_set, $($member),* })
        }};
    }
    members!(take)
}

#[cfg(test)]
impl super::dice::Any for Decision {
    fn any(dice: &mut super::dice::Dice) -> Decision {
        use super::dice::Any;
        macro_rules! any {
            ($($member:ident),*) => {{
                $(let $member = Any::any(dice);)*
                let (candidates, rivals, standby) = (Any::any(dice), Any::any(dice), Any::any(dice));
                let safe_set = Any::any(dice);
                Decision { candidates, rivals, standby, safe_set, $($member),* }
            }};
        }
        members!(any)
    }
}

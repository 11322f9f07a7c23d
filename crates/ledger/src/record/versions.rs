//! Catalogs and policies as bytes. They are stored once per version, under the hash of their bytes.

use pointsman_domain::{
    Alias, AliasSplit, Architecture, BalancedPolicy, BreakerPolicy, Canary, Catalog, DefaultParameters, EffortBudgets,
    Endpoint, EndpointLimits, GeographyPrice, Guardrail, HedgePolicy, Model, ParameterNames, ParameterSet, PhaseClocks,
    PriceTier, Pricing, Provider, RetryPolicy, RoutingPolicy, ServiceTierPrices, SplitPart, SplitRule, SplitShare,
    StatsPolicy, StickyBy, StickyPolicy, TargetPolicy,
};

use super::bytes::{Reader, Stored, Unreadable, stored_enum, stored_struct};

stored_enum! {
    StickyBy { 0 => Session, 1 => User, 2 => Key, 3 => Request }
    SplitPart { 0 => Own, 1 => Rule(at), 2 => Canary, 3 => Share(at) }
}

stored_struct! {
    RoutingPolicy {
        version, fingerprint, stats, exploration, staleness, hot_inflation, failure_time, cheapest_time_value,
        reliable_time_share, reliable_slow, balanced, hedge, retry, breaker, pacing, sticky, targets, clocks,
    }
    StatsPolicy { half_life, max_weight, prior_first_token, prior_per_token }
    BalancedPolicy { latency, cost }
    HedgePolicy { objectives, sigma, budget }
    RetryPolicy { max_attempts, last_resort, budget_ratio, wait }
    BreakerPolicy { consecutive, base, factor, max_steps, timeout_step }
    StickyPolicy { enabled, ttl, min_prompt_tokens, max_conversations }
    TargetPolicy { gain, max_margin, min_margin, reserve }
    PhaseClocks { connect, first_byte, first_content, idle, total }
    Provider {
        slug, name, state, simulated, collects_data, zero_data_retention, privacy_policy_url, terms_of_service_url,
        status_page_url, headquarters, datacenters,
    }
    Architecture { input, output, tokenizer, instruct_type }
    DefaultParameters { temperature, top_p, top_k, frequency_penalty, presence_penalty, repetition_penalty }
    Model {
        id, canonical_slug, name, created, description, architecture, default_parameters, expiration_date,
        hugging_face_id, knowledge_cutoff, image_sizes, endpoints,
    }
    EndpointLimits { context_length, max_completion_tokens, max_prompt_tokens }
    Pricing {
        prompt, completion, request, image, web_search, internal_reasoning, input_cache_read, input_cache_write,
        input_cache_write_1h, audio, audio_output, tiers, service_tiers, geographies,
    }
    GeographyPrice { name, per_mille }
    PriceTier {
        above_prompt_tokens, prompt, completion, internal_reasoning, input_cache_read, input_cache_write,
        input_cache_write_1h, audio, audio_output,
    }
    Endpoint {
        id, model, provider, variant, upstream_model, pricing, limits, parameters, quantization, is_moderated, disabled,
        wants_max_completion_tokens, knows_developer_role, forwards_unknown_fields, images_through_chat,
        dialect, wants_reasoning_effort, lacks, platform,
        counts_tokens, safety_settings, effort_none_cures, reasoning_state, effort_budgets,
        inputs_per_call, takes_instructions, reasoning_history, omits,
    }
    AliasSplit { sticky, ladder, rules, canary, shares }
    SplitRule { tags, names }
    SplitShare { weight, names }
    Canary { share, names, guardrail }
    Guardrail { spend, failures, first_token }
    EffortBudgets { minimal, low, medium, high, xhigh, max }
    Alias {
        id, free_only, objective, weights, preferred_max_latency, preferred_min_throughput, allowed, blocked,
        description, task, split,
    }
}

impl Stored for ServiceTierPrices {
    fn put(&self, out: &mut Vec<u8>) {
        let ServiceTierPrices { name, pricing } = self;
        name.put(out);
        pricing.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<ServiceTierPrices, Unreadable> {
        Ok(ServiceTierPrices { name: Stored::take(from)?, pricing: Stored::take(from)? })
    }
}

impl Stored for ParameterNames {
    fn put(&self, out: &mut Vec<u8>) {
        self.names(ParameterSet::of_bits(u128::MAX)).cloned().collect::<Vec<_>>().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<ParameterNames, Unreadable> {
        let mut names = ParameterNames::default();
        for name in Vec::<String>::take(from)? {
            names.intern(&name).map_err(|_| from.fault("too many parameters"))?;
        }
        Ok(names)
    }
}

/// The names by which models and aliases are found are worked out again.
impl Stored for Catalog {
    fn put(&self, out: &mut Vec<u8>) {
        self.version.put(out);
        self.providers.put(out);
        self.models.put(out);
        self.endpoints.put(out);
        self.aliases.put(out);
        self.synonyms().put(out);
        self.parameters.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Catalog, Unreadable> {
        let (version, providers, models) = (u64::take(from)?, Vec::take(from)?, Vec::take(from)?);
        let (endpoints, aliases) = (Vec::take(from)?, Vec::take(from)?);
        let synonyms = Vec::<(String, String)>::take(from)?;
        let parameters = ParameterNames::take(from)?;
        Catalog::new(version, providers, models, endpoints, aliases, &synonyms, parameters)
            .map_err(|_| from.fault("two entries of a catalog have one name"))
    }
}

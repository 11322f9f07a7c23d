//! The values that records and catalogs share.

use pointsman_domain::{
    AddedMembers, ApiType, AttemptReason, CapabilitySet, Circuit, DataCollection, DecisionCode, Dialect, EndpointId,
    FailureCause, FailureKind, FinishReason, GenerationId, GenerationStatus, Modalities, Modality, ModelId,
    ModelPattern, Objective, ParameterSet, Platform, Preference, PriceCeiling, ProviderPolicy, ProviderSlug,
    ProviderState, ReasoningFormat, ReasoningHistory, Reopens, RequestedService, ServedService, ServiceName,
    ServicePreference, Source, Sourced, Target, Tick, Usd, Weights,
};

use super::bytes::{Reader, Stored, Unreadable, stored_enum, stored_struct};

stored_enum! {
    ApiType { 0 => Completions, 1 => Image, 2 => Embeddings }
    GenerationStatus { 0 => Running, 1 => Completed, 2 => Failed, 3 => Cancelled, 4 => Truncated }
    FinishReason { 0 => Stop, 1 => Length, 2 => ToolCalls, 3 => ContentFilter, 4 => Error }
    AttemptReason { 0 => First, 1 => Fallback, 2 => Hedge, 3 => LastResort, 4 => Panic, 5 => Probe }
    Circuit { 0 => Closed, 1 => Open, 2 => HalfOpen, 3 => Cooldown }
    Objective { 0 => Cheapest, 1 => Fastest, 2 => Reliable, 3 => Balanced }
    Modality { 0 => Text, 1 => Image, 2 => Audio, 3 => File, 4 => Video, 5 => Embeddings }
    Dialect { 0 => OpenAi, 1 => Anthropic, 2 => Gemini, 3 => Responses, 4 => Converse }
    ReasoningFormat { 0 => Unknown, 1 => Anthropic, 2 => Gemini, 3 => Responses }
    ServicePreference { 0 => Open, 1 => Standard, 2 => Any, 3 => Named(name), 4 => Unknown }
    Platform { 0 => Native, 1 => Bedrock, 2 => Vertex }
    ReasoningHistory { 0 => Unknown, 1 => Content, 2 => Reasoning, 3 => Both, 4 => Details, 5 => Nothing, 6 => Required }
    DataCollection { 0 => Allow, 1 => Deny }
    ProviderState { 0 => On, 1 => Off(why) }
    Target { 0 => Model(position), 1 => Alias(position) }
    ModelPattern { 0 => Exact(text), 1 => Prefix(text) }
    Source {
        0 => Metadata, 1 => ExtraBody, 2 => TopLevel, 3 => Provider, 4 => Plugins, 5 => Alias, 6 => Key, 7 => Default, 8 => Header,
    }
    DecisionCode {
        0 => FixedModel, 1 => OnlyCandidate, 2 => CheapestAvailable, 3 => FastestAvailable, 4 => MostReliable,
        5 => BalancedBestMatch, 6 => FreePool, 7 => ModelFallback, 8 => ProviderFallback, 9 => SessionSticky,
        10 => Exploration, 11 => NoCandidates,
    }
    FailureKind {
        0 => Connect, 1 => Tls, 2 => Reset, 3 => Timeout, 4 => Shortage, 5 => Deadline, 6 => RateLimited,
        7 => Overloaded, 8 => Server, 9 => Auth, 10 => Forbidden, 11 => ContentPolicy, 12 => NotFound, 13 => Malformed,
        14 => Truncated, 15 => UnexpectedStatus, 16 => ContextLength, 17 => BadRequest, 18 => TooLarge,
        19 => Unprocessable, 20 => RefusedHere, 21 => OverLimit, 22 => GatewayLimit,
    }
}

stored_struct! {
    Weights { latency, cost }
    Preference { p50, p75, p90, p95, p99 }
    PriceCeiling { prompt, completion, request, image }
    ProviderPolicy {
        order, only, ignore, across_models, allow_fallbacks, require_parameters, data_collection, zero_data_retention,
        quantizations, max_price,
    }
    FailureCause { kind, status }
    ServedService { tier, geography }
    RequestedService { tier, speed, geography }
}

impl<T: Stored> Stored for Sourced<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.value.put(out);
        self.source.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Sourced<T>, Unreadable> {
        Ok(Sourced { value: T::take(from)?, source: Source::take(from)? })
    }
}

impl Stored for Usd {
    fn put(&self, out: &mut Vec<u8>) {
        self.femto().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Usd, Unreadable> {
        i128::take(from).map(Usd::from_femto)
    }
}

impl Stored for ServiceName {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_str().to_owned().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<ServiceName, Unreadable> {
        ServiceName::parse(&String::take(from)?).ok_or(from.fault("no name of a service"))
    }
}

impl Stored for Tick {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Tick, Unreadable> {
        u64::take(from).map(Tick)
    }
}

impl Stored for Reopens {
    fn put(&self, out: &mut Vec<u8>) {
        self.recorded().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Reopens, Unreadable> {
        u64::take(from).map(Reopens::of_recorded)
    }
}

/// A hash: all of its bytes are in use.
impl Stored for EndpointId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<EndpointId, Unreadable> {
        Ok(EndpointId(u64::from_le_bytes(from.array()?)))
    }
}

impl Stored for GenerationId {
    fn put(&self, out: &mut Vec<u8>) {
        let text = self.as_str();
        (text.len() as u64).put(out);
        out.extend_from_slice(text.as_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<GenerationId, Unreadable> {
        GenerationId::parse(&String::take(from)?).ok_or(from.fault("no id of a generation"))
    }
}

impl Stored for ModelId {
    fn put(&self, out: &mut Vec<u8>) {
        self.shared().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<ModelId, Unreadable> {
        String::take(from)?.parse().map_err(|_| from.fault("no model id"))
    }
}

impl Stored for ProviderSlug {
    fn put(&self, out: &mut Vec<u8>) {
        self.shared().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<ProviderSlug, Unreadable> {
        ProviderSlug::new(&String::take(from)?).ok_or(from.fault("no name of a provider"))
    }
}

impl Stored for ParameterSet {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<ParameterSet, Unreadable> {
        u128::take(from).map(ParameterSet::of_bits)
    }
}

impl Stored for CapabilitySet {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(self.bits()).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<CapabilitySet, Unreadable> {
        let bits = u32::try_from(u64::take(from)?).map_err(|_| from.fault("unknown capabilities"))?;
        Ok(CapabilitySet::of_bits(bits))
    }
}

impl Stored for AddedMembers {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(self.bits()).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<AddedMembers, Unreadable> {
        let bits = u8::try_from(u64::take(from)?).map_err(|_| from.fault("unknown members"))?;
        Ok(AddedMembers::of_bits(bits))
    }
}

impl Stored for Modalities {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().collect::<Vec<_>>().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Modalities, Unreadable> {
        Vec::<Modality>::take(from).map(Modalities::from_iter)
    }
}

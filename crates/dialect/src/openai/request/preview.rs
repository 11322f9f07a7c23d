//! Fields of previews: `why_not` and `what_if`. Chat requests ignore them.
//!
//! Unlike most fields they are read strictly, because a misspelt member would give an answer to another question.

use pointsman_domain::{Circuit, EndpointOverride, Invalid, PriceOverride, Usd, WhatIf};

use super::{
    fault, json,
    routing_values::{objective, weights},
};
use crate::{json::Raw, neutral::Path};

/// Longest name that may be asked about, characters.
const MAX_NAME_CHARS: usize = 256;
/// Most endpoints, models or providers that may be imagined otherwise.
const MAX_ENDPOINTS: usize = 64;
/// Largest imagined figures.
const MAX_IN_FLIGHT: i64 = 1_000_000;
const MAX_MILLIS: f64 = 86_400_000.0;
const MAX_RATE: f64 = 1e9;
const MAX_FACTOR: f64 = 1e6;

const MEMBERS: [&str; 3] = ["objective", "weights", "endpoints"];
const ENDPOINT_MEMBERS: [&str; 9] = names![
    model provider price circuit off in_flight ttft_ms tokens_per_second failure_probability
];
const PRICE_MEMBERS: [&str; 5] = ["prompt", "completion", "request", "image", "factor"];

/// Reads `why_not`: the name of a model or provider.
pub(super) fn why_not(raw: Raw<'_>, path: &Path<'_>) -> Result<String, Invalid> {
    name(raw, path)
}

/// Reads `what_if`: the hypothetical changes.
pub(super) fn what_if(raw: Raw<'_>, path: &Path<'_>) -> Result<WhatIf, Invalid> {
    let object = json::known(raw, path, &MEMBERS)?;
    let imagined = WhatIf {
        objective: object.get("objective").map(|raw| objective(raw, &path.member("objective"))).transpose()?,
        weights: object.get("weights").map(|raw| weights(raw, &path.member("weights"))).transpose()?,
        endpoints: object.get("endpoints").map_or(Ok(Vec::new()), |raw| endpoints(raw, &path.member("endpoints")))?,
    };
    if imagined == WhatIf::default() {
        let message = format!("'{path}' changes nothing. It may hold {}.", MEMBERS.join(", "));
        return Err(fault::refused(path, message).allowing(MEMBERS));
    }
    Ok(imagined)
}

fn endpoints(raw: Raw<'_>, path: &Path<'_>) -> Result<Vec<EndpointOverride>, Invalid> {
    let elements = json::elements(raw, path, MAX_ENDPOINTS)?;
    elements.into_iter().enumerate().map(|(position, raw)| endpoint(raw, &path.item(position))).collect()
}

fn endpoint(raw: Raw<'_>, path: &Path<'_>) -> Result<EndpointOverride, Invalid> {
    let object = json::known(raw, path, &ENDPOINT_MEMBERS)?;
    let text = |member: &str| object.get(member).map(|raw| name(raw, &path.member(member))).transpose();
    let positive =
        |member: &str, most: f64| object.get(member).map(|raw| above_zero(raw, &path.member(member), most)).transpose();
    let probability = |raw: Raw<'_>| json::number_within(raw, &path.member("failure_probability"), 0.0, 1.0);
    let in_flight = |raw: Raw<'_>| json::integer_within(raw, &path.member("in_flight"), 0, MAX_IN_FLIGHT);
    let otherwise = EndpointOverride {
        model: text("model")?,
        provider: text("provider")?,
        price: object.get("price").map_or(Ok(PriceOverride::default()), |raw| price(raw, &path.member("price")))?,
        circuit: object.get("circuit").map(|raw| circuit(raw, &path.member("circuit"))).transpose()?,
        off: object.get("off").map(|raw| json::flag(raw, &path.member("off"))).transpose()?,
        in_flight: object.get("in_flight").map(in_flight).transpose()?.and_then(|count| u32::try_from(count).ok()),
        first_token: positive("ttft_ms", MAX_MILLIS)?.map(|millis| millis / 1e3),
        tokens_per_second: positive("tokens_per_second", MAX_RATE)?,
        failure_probability: object.get("failure_probability").map(probability).transpose()?,
    };
    if otherwise.model.is_none() && otherwise.provider.is_none() {
        let at = path.member("model");
        let message = format!("'{path}' needs a 'model', a 'provider', or both.");
        return Err(Invalid { message, ..fault::required(&at) });
    }
    let EndpointOverride { model, provider, .. } = otherwise.clone();
    if otherwise == (EndpointOverride { model, provider, ..EndpointOverride::default() }) {
        let changes = ENDPOINT_MEMBERS.iter().skip(2).copied();
        let message = format!("'{path}' changes nothing. It may hold {}.", ENDPOINT_MEMBERS.join(", "));
        return Err(fault::refused(path, message).allowing(changes));
    }
    Ok(otherwise)
}

fn price(raw: Raw<'_>, path: &Path<'_>) -> Result<PriceOverride, Invalid> {
    let object = json::known(raw, path, &PRICE_MEMBERS)?;
    let amount = |member: &str| -> Result<Option<Usd>, Invalid> {
        object.get(member).map(|raw| json::dollars(raw, &path.member(member))).transpose()
    };
    let factor = |raw: Raw<'_>| json::number_within(raw, &path.member("factor"), 0.0, MAX_FACTOR);
    Ok(PriceOverride {
        prompt: amount("prompt")?,
        completion: amount("completion")?,
        request: amount("request")?,
        image: amount("image")?,
        factor: object.get("factor").map(factor).transpose()?,
    })
}

fn circuit(raw: Raw<'_>, path: &Path<'_>) -> Result<Circuit, Invalid> {
    let position = json::choice(raw, path, &Circuit::ALL.map(Circuit::as_str))?;
    Ok(Circuit::ALL.get(position).copied().unwrap_or(Circuit::Closed))
}

fn above_zero(raw: Raw<'_>, path: &Path<'_>, most: f64) -> Result<f64, Invalid> {
    let number = json::number(raw, path)?;
    let message = || format!("'{path}' must be above 0 and at most {most}.");
    if number > 0.0 && number <= most { Ok(number) } else { Err(fault::refused(path, message())) }
}

fn name(raw: Raw<'_>, path: &Path<'_>) -> Result<String, Invalid> {
    let name = json::text_within(raw, path, MAX_NAME_CHARS)?;
    let good = !name.trim().is_empty() && !name.chars().any(char::is_control);
    let message = || format!("'{path}' must name a model, a provider, or model@provider.");
    if good { Ok(name.trim().to_owned()) } else { Err(fault::refused(path, message())) }
}

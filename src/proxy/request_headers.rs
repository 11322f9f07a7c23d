//! Routing parameters in headers, for clients that can set nothing else. What the body says has precedence.

use actix_web::{HttpRequest, http::header::HeaderName};
use pointsman_config::spend_amount;
use pointsman_dialect::shown;
use pointsman_domain::{Invalid, InvalidReason, ModelPattern, Objective, RoutingParameters, Source, Sourced, Usd};

use crate::proxy::body::{MAX_SESSION_CHARS, SESSION_ID};

static MAX_COST: HeaderName = HeaderName::from_static("x-max-cost");
static OBJECTIVE: HeaderName = HeaderName::from_static("x-route-objective");
static MODELS: HeaderName = HeaderName::from_static("x-route-models");
static ALLOWED_MODELS: HeaderName = HeaderName::from_static("x-route-allowed-models");
static BLOCKED_MODELS: HeaderName = HeaderName::from_static("x-route-blocked-models");
static MAX_COST_PER_1K_TOKENS: HeaderName = HeaderName::from_static("x-route-max-cost-per-1k-tokens");
/// Most entries of a list.
const MAX_ENTRIES: usize = 64;

/// Adds the parameters of the headers to those of the body. Of two ceilings in dollars the lower applies.
///
/// # Errors
/// 400 for a value that is not one of the header's.
pub fn apply(routing: &mut RoutingParameters, request: &HttpRequest) -> Result<(), Invalid> {
    // One pass over the headers of a request costs less than a look-up of each of these.
    let mut names = request.headers().keys().map(HeaderName::as_str);
    if !names.any(|name| name.starts_with("x-route-") || name.starts_with("x-max-cost")) {
        return Ok(());
    }
    if let Some(amount) = dollars(request, &MAX_COST)?
        && routing.max_cost.is_none_or(|given| amount < given.value)
    {
        routing.max_cost = of_header(amount);
    }
    if let Some(amount) = dollars(request, &MAX_COST_PER_1K_TOKENS)?
        && routing.max_cost_per_1k_tokens.is_none_or(|given| amount < given.value)
    {
        routing.max_cost_per_1k_tokens = of_header(amount);
    }
    if let Some(text) = text(request, &OBJECTIVE)?
        && routing.objective.is_none()
    {
        let unknown = || Invalid::none_of(OBJECTIVE.as_str(), &shown(text), &Objective::ALL.map(Objective::as_str));
        let objective: Objective = text.trim().parse().map_err(|()| unknown())?;
        routing.objective = of_header(objective);
    }
    let allowed = patterns(request, &ALLOWED_MODELS)?;
    if !allowed.is_empty() {
        routing.allowed.push(allowed);
    }
    routing.blocked.extend(patterns(request, &BLOCKED_MODELS)?);
    Ok(())
}

/// Checks the name of a session in its header.
///
/// # Errors
/// 400 for one that is too long.
pub fn check_session(request: &HttpRequest) -> Result<(), Invalid> {
    match request.headers().get(&SESSION_ID) {
        Some(session) if session.len() > MAX_SESSION_CHARS => {
            Err(refused(&SESSION_ID, &format!("must have at most {MAX_SESSION_CHARS} characters.")))
        }
        _ => Ok(()),
    }
}

/// Adds further models to fall back to, unless the body names some.
///
/// # Errors
/// 400 for a list that is too long.
pub fn add_models(models: &mut Vec<String>, request: &HttpRequest) -> Result<(), Invalid> {
    if models.is_empty() {
        models.extend(list(request, &MODELS)?.into_iter().map(str::to_owned));
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the fields are optional")]
fn of_header<T>(value: T) -> Option<Sourced<T>> {
    Some(Sourced { value, source: Source::Header })
}

fn dollars(request: &HttpRequest, name: &'static HeaderName) -> Result<Option<Usd>, Invalid> {
    let Some(text) = text(request, name)? else { return Ok(None) };
    let amount = spend_amount(text);
    let wrong = || refused(name, "must be US dollars as a plain decimal number, such as 0.05.");
    amount.ok_or_else(wrong).map(Some)
}

fn patterns(request: &HttpRequest, name: &'static HeaderName) -> Result<Vec<ModelPattern>, Invalid> {
    let parsed = list(request, name)?.into_iter().map(str::parse);
    let wrong = |_| refused(name, "must be model ids or prefixes that end in '*', separated by commas.");
    parsed.collect::<Result<_, _>>().map_err(wrong)
}

fn list<'r>(request: &'r HttpRequest, name: &'static HeaderName) -> Result<Vec<&'r str>, Invalid> {
    let Some(text) = text(request, name)? else { return Ok(Vec::new()) };
    let entries: Vec<&str> = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    if entries.len() > MAX_ENTRIES {
        return Err(refused(name, "has more than 64 entries."));
    }
    Ok(entries)
}

fn text<'r>(request: &'r HttpRequest, name: &'static HeaderName) -> Result<Option<&'r str>, Invalid> {
    let Some(value) = request.headers().get(name) else { return Ok(None) };
    value.to_str().map(Some).map_err(|_| refused(name, "must be visible ASCII."))
}

fn refused(name: &'static HeaderName, what: &str) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, name.as_str(), format!("The header '{name}' {what}"))
}

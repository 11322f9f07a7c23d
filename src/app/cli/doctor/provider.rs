//! The checks of one provider: name, connection, TLS, key, clock and models, from one read of its list of models.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use pointsman_config::{KeyHeader, ProviderConfig, Routes};
use pointsman_domain::{Catalog, Dialect};
use pointsman_transport::{
    ProviderPage, UpstreamError, client_config, providers::connection_to, read_provider_page, read_signed_list,
    try_service_account,
};
use serde_json::Value;

use super::{Check, Status, count};

/// Timeout of the call to a provider.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Difference of two clocks above which signatures, certificates and records can be wrong.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(120);
/// Most models that are named in a row.
const MAX_NAMED: usize = 5;

/// The steps of a connection, in their order.
const STEPS: [&str; 3] = ["name", "connect", "tls"];

/// Checks one provider by reading its list of models.
pub(super) async fn check(provider: &ProviderConfig, catalog: &Catalog) -> Vec<Check> {
    let slug = provider.slug.as_str();
    let tls = match client_config(provider.ca_file.as_deref()) {
        Ok(tls) => tls,
        Err(fault) => return vec![Check::failed(slug, "tls", fault.to_string(), "correct ca_file")],
    };
    let connection = match connection_to(provider) {
        Ok(connection) => connection,
        Err(why) => return vec![Check::failed(slug, "connect", why, "correct base_url and headers")],
    };
    let called = match provider.auth {
        KeyHeader::SigV4 if provider.key.is_some() => read_signed_list(&connection, &tls, TIMEOUT).await,
        _ => read_provider_page(&connection, &tls, "/models", TIMEOUT).await,
    };
    let account = match provider.auth {
        KeyHeader::ServiceAccount if provider.key.is_some() && called.is_ok() => {
            Some(try_service_account(&connection, &tls, TIMEOUT).await)
        }
        _ => None,
    };
    match called {
        Err(error) => unreachable(provider, &error),
        Ok(page) => {
            let mut checks = connected(provider, STEPS.len());
            checks.extend(page.date.map(|theirs| clock(slug, theirs, SystemTime::now())));
            match account {
                Some(tried) => checks.push(service_account(slug, tried)),
                None if provider.auth == KeyHeader::SigV4 && provider.key.is_some() => {
                    checks.push(signature(slug, &page));
                }
                None => checks.extend(answered(provider, catalog, &page)),
            }
            checks
        }
    }
}

/// The first `steps` steps as passed.
fn connected(provider: &ProviderConfig, steps: usize) -> Vec<Check> {
    let url = &provider.base_url;
    let row = |step: &&'static str| match *step {
        "tls" if !url.is_tls() => {
            let status = if url.is_loopback() { Status::Skipped } else { Status::Notice };
            Check::new(provider.slug.as_str(), "tls", status, "not encrypted: base_url begins with http://")
        }
        "tls" => Check::new(provider.slug.as_str(), "tls", Status::Passed, "the certificate is trusted"),
        "connect" => {
            let detail = format!("{}:{}", url.host(), url.port());
            Check::new(provider.slug.as_str(), "connect", Status::Passed, detail)
        }
        _ => Check::new(provider.slug.as_str(), "name", Status::Passed, url.host()),
    };
    STEPS.iter().take(steps).map(row).collect()
}

/// The steps before the failure, and the failure.
fn unreachable(provider: &ProviderConfig, error: &UpstreamError) -> Vec<Check> {
    let slug = provider.slug.as_str();
    let (passed, name, remedy) = match error.cause {
        Some("name_unknown") => (0, "name", "check the host in base_url, and the name server of this machine"),
        Some("refused" | "unreachable" | "timed_out" | "not_connected" | "reset") => {
            (1, "connect", "check the port in base_url, the firewall, and whether the provider runs")
        }
        Some("tls_unknown_issuer") => (2, "tls", "name the certificate authority in ca_file, or install it"),
        Some("tls_expired") => (2, "tls", "check the clock of this machine; else the provider must renew it"),
        Some("tls_name_mismatch") => (2, "tls", "write the host in base_url as it stands in the certificate"),
        Some(cause) if cause.starts_with("tls") => (2, "tls", "check that base_url names a port that speaks TLS"),
        Some(_) => (0, "connect", "raise the limits of this machine for open files and memory"),
        None => (STEPS.len(), "answer", "check that base_url names the API of a provider"),
    };
    let mut checks = connected(provider, passed);
    checks.push(Check::failed(slug, name, error.to_string(), remedy));
    checks
}

fn clock(slug: &str, theirs: SystemTime, ours: SystemTime) -> Check {
    let (apart, ahead) = match ours.duration_since(theirs) {
        Ok(apart) => (apart, "ahead of"),
        Err(error) => (error.duration(), "behind"),
    };
    if apart <= CLOCK_TOLERANCE {
        return Check::new(slug, "clock", Status::Passed, "agrees with that of this machine");
    }
    let detail = format!("this machine is {} s {ahead} the provider", apart.as_secs());
    Check::failed(slug, "clock", detail, "set the clock of this machine, for example by NTP")
}

/// Whether the account gets tokens. What they allow shows only in a call that costs.
fn service_account(slug: &str, tried: Result<(), UpstreamError>) -> Check {
    match tried {
        Ok(()) => Check::new(slug, "key", Status::Passed, "the service account gets a token; models are not checked"),
        Err(error) => {
            let remedy = "name a key file of an account that exists, and set the clock of this machine";
            Check::failed(slug, "key", error.to_string(), remedy)
        }
    }
}

/// Whether the keys sign for an account.
fn signature(slug: &str, page: &ProviderPage) -> Check {
    let error = page.amazon_error.as_deref().unwrap_or_default();
    let status = page.status;
    match status {
        200 => {
            let listed = listed_models(&page.body).map_or(0, |(names, _)| names.len());
            let detail = format!("the signature is accepted; {} are listed", count(listed, "model"));
            Check::new(slug, "key", Status::Passed, detail)
        }
        403 if error.starts_with("AccessDenied") => {
            let detail = "the signature is accepted; the account may not list models, so they are not checked";
            Check::new(slug, "key", Status::Notice, detail)
        }
        400 | 401 | 403 => {
            let remedy = "set its variable (api_key_env) or file (api_key_file) to keys that are valid and not expired";
            let named = if error.is_empty() { String::new() } else { format!(", {error}") };
            Check::failed(slug, "key", format!("answers {status}{named}: the signature is refused"), remedy)
        }
        _ => {
            let detail = format!("answers {status}: it lists no models, so the keys are not checked");
            Check::new(slug, "key", Status::Notice, detail)
        }
    }
}

fn answered(provider: &ProviderConfig, catalog: &Catalog, page: &ProviderPage) -> Vec<Check> {
    let slug = provider.slug.as_str();
    let status = page.status;
    match status {
        200 => {}
        401 | 403 if !lists_models(provider) => {
            let detail = "reached; its list of models is not read in this way, so key and models are not checked";
            return vec![Check::new(slug, "key", Status::Notice, detail)];
        }
        401 | 403 if provider.key.is_none() => {
            let remedy = "name the variable with its key in api_key_env";
            return vec![Check::failed(slug, "key", format!("answers {status}: it wants a key"), remedy)];
        }
        401 | 403 => {
            let remedy = "set its variable (api_key_env) or file (api_key_file) to a valid key";
            return vec![Check::failed(slug, "key", format!("answers {status}: the key is refused"), remedy)];
        }
        404 | 405 => {
            let detail = format!("answers {status}: it lists no models, so key and models are not checked");
            return vec![Check::new(slug, "key", Status::Notice, detail)];
        }
        429 => {
            let remedy = "wait, or ask the provider for a higher limit";
            return vec![Check::failed(slug, "answer", "answers 429: the key is over a limit", remedy)];
        }
        _ => {
            let remedy = "check base_url and the status page of the provider";
            return vec![Check::failed(slug, "answer", format!("answers {status}"), remedy)];
        }
    }
    let key = match provider.key {
        Some(_) => "set, and not refused",
        None => "none configured, and none asked for",
    };
    vec![Check::new(slug, "key", Status::Passed, key), models(provider, catalog, &page.body)]
}

/// Whether a list of models is read with the key as calls are made with it. Clouds list theirs elsewhere, and their calls are
/// signed or made with tokens.
fn lists_models(provider: &ProviderConfig) -> bool {
    provider.dialect != Dialect::Converse
        && matches!(provider.routes, Routes::Standard | Routes::Deployments)
        && !matches!(provider.auth, KeyHeader::ServiceAccount | KeyHeader::SigV4)
}

/// Compares the configured models with those that the provider lists.
fn models(provider: &ProviderConfig, catalog: &Catalog, body: &[u8]) -> Check {
    let slug = provider.slug.as_str();
    let Some((listed, complete)) = listed_models(body) else {
        let remedy = "check that base_url names the API of a provider, not its web site";
        return Check::failed(slug, "models", "the list of models cannot be read", remedy);
    };
    let mine = catalog.endpoints.iter().filter(|endpoint| endpoint.provider == provider.index && !endpoint.disabled);
    let mut configured: Vec<&str> = mine.map(|endpoint| &*endpoint.upstream_model).collect();
    configured.sort_unstable();
    configured.dedup();
    let missing: Vec<&str> = configured.iter().copied().filter(|name| !listed.contains(*name)).collect();
    let shown = count(listed.len(), "model");
    if missing.is_empty() {
        let detail = format!("lists {shown}; all {} configured are among them", configured.len());
        return Check::new(slug, "models", Status::Passed, detail);
    }
    let more = if missing.len() > MAX_NAMED { ", …" } else { "" };
    let named = missing.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    let detail = format!("lists {shown}, {} of {} configured not: {named}{more}", missing.len(), configured.len());
    if !complete {
        return Check::new(slug, "models", Status::Notice, format!("{detail}; the list has further pages"));
    }
    Check::failed(slug, "models", detail, "correct upstream_model, or set disabled = true at the endpoint")
}

/// Names in a list of models, and whether it is the whole list. `None` if it is no such list.
fn listed_models(body: &[u8]) -> Option<(HashSet<String>, bool)> {
    let page: Value = serde_json::from_slice(body).ok()?;
    // Most providers: {"data": [{"id": …}]}; some only the list; Gemini: {"models": [{"name": "models/…"}]}.
    // Bedrock: {"modelSummaries": [{"modelId": …}]}.
    let list = ["data", "models", "modelSummaries"].iter().find_map(|member| page.get(member)).unwrap_or(&page);
    let list = list.as_array()?;
    let name = |model: &Value| {
        let name = ["id", "name", "modelId"].iter().find_map(|member| model.get(member))?.as_str()?;
        Some(name.trim_start_matches("models/").to_owned())
    };
    let more = page.get("has_more") == Some(&Value::Bool(true)) || page.get("nextPageToken").is_some();
    Some((list.iter().filter_map(name).collect(), !more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_providers_are_read() {
        let names = |body: &str| {
            let (names, complete) = listed_models(body.as_bytes())?;
            let mut names: Vec<String> = names.into_iter().collect();
            names.sort();
            Some((names.join(" "), complete))
        };
        let read = |names: &str, complete| Some((names.to_owned(), complete));
        assert_eq!(names(r#"{"data":[{"id":"a"},{"id":"b"}]}"#), read("a b", true));
        assert_eq!(names(r#"{"data":[{"id":"a"}],"has_more":true}"#), read("a", false));
        assert_eq!(names(r#"{"models":[{"name":"models/g"}],"nextPageToken":"x"}"#), read("g", false));
        assert_eq!(names(r#"[{"id":"t"}]"#), read("t", true));
        assert_eq!(names(r#"{"modelSummaries":[{"modelId":"m","modelName":"M"}]}"#), read("m", true));
        assert_eq!(names("<html>"), None);
        assert_eq!(names(r#"{"error":"no"}"#), None);
    }

    #[test]
    fn clocks_may_differ_by_two_minutes_either_way() {
        let ours = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (seconds, status) in [(0, Status::Passed), (119, Status::Passed), (121, Status::Failed)] {
            let apart = Duration::from_secs(seconds);
            assert_eq!(clock("p", ours + apart, ours).status, status, "{seconds}");
            assert_eq!(clock("p", ours - apart, ours).status, status, "{seconds}");
        }
        assert!(clock("p", ours + Duration::from_secs(600), ours).detail.contains("600 s behind"));
    }
}

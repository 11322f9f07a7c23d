//! What a name of a model in a request means. The one place where such names are resolved, at every door.
//!
//! In this order: an alias of the key; a model or alias of the catalog; for clients of the Messages API also a name of
//! `[messages] models`, and the name of a model at a provider of that API.

use std::fmt;

use chrono::NaiveDate;
use pointsman_config::Config;
use pointsman_domain::{Catalog, Dialect, Endpoint, Resolved, Target};

use crate::{access::keys::Caller, base::error::ApiError, proxy::unknown_fields};

/// What decides about the meaning of names.
#[derive(Clone, Copy)]
pub struct NameScope<'s> {
    /// The models and aliases.
    pub catalog: &'s Catalog,
    /// The names for clients of the Messages API.
    pub config: &'s Config,
    /// Whose aliases count.
    pub caller: Option<&'s Caller>,
    /// Whether the client speaks the Messages API.
    pub is_messages: bool,
    /// The day on which models are retired or not.
    pub today: NaiveDate,
}

impl<'s> NameScope<'s> {
    /// The name that `name` stands for, and what that is in the catalog today.
    fn resolve<'n>(&self, name: &'n str) -> (&'n str, Resolved)
    where
        's: 'n,
    {
        let name = self.caller.map_or(name, |caller| caller.key.meant(name));
        let resolved = self.catalog.resolve(name, self.today);
        if resolved != Resolved::Unknown || !self.is_messages {
            return (name, resolved);
        }
        let meant = self.of_messages(name).unwrap_or(name);
        (meant, self.catalog.resolve(meant, self.today))
    }

    /// The model or alias that the name in the field `param` means.
    ///
    /// # Errors
    /// 404 for an unknown name or a retired model, with names that resemble it.
    pub fn target(&self, name: &str, param: impl fmt::Display) -> Result<Target, ApiError> {
        let (name, resolved) = self.resolve(name);
        let similar = || unknown_fields::models(self.catalog, name, self.today);
        match resolved {
            Resolved::Found(target) => Ok(target),
            Resolved::Retired(date) => Err(ApiError::retired_model(&param.to_string(), name, date, similar().served)),
            Resolved::Unknown => Err(similar().unknown(&param.to_string(), name)),
        }
    }

    /// What a name that is neither a model nor an alias means to clients of the Messages API.
    fn of_messages(&self, name: &str) -> Option<&'s str> {
        let configured = self.config.messages.models.iter().find(|(pattern, _)| pattern.matches(name, name));
        if let Some((_, meant)) = configured {
            return Some(meant);
        }
        let is_it = |upstream: &str| name.strip_prefix(upstream).is_some_and(|rest| rest.is_empty() || is_date(rest));
        let speaks = |endpoint: &&Endpoint| endpoint.dialect == Dialect::Anthropic && is_it(&endpoint.upstream_model);
        let endpoint = self.catalog.endpoints.iter().find(speaks)?;
        Some(self.catalog.model_of(endpoint)?.id.as_str())
    }
}

/// Whether it is `-` and a date of eight digits.
fn is_date(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|date| date.len() == 8 && date.bytes().all(|digit| digit.is_ascii_digit()))
}

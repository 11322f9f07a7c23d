use std::{borrow::Cow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Most bytes of a name.
const LONGEST: usize = 23;
/// Words of providers for the service that costs the standard price.
const STANDARD: [&str; 7] =
    ["default", "standard", "standard_only", "on_demand", "unspecified", "global", "not_available"];
/// Two words for one service at OpenAI, of which answers may tell either.
const SAME: [&str; 2] = ["fast", "priority"];

/// The name of a service with a price of its own: a tier such as `flex`, or a geography such as `us`. Kept in place, so that it
/// is copied like a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceName {
    length: u8,
    bytes: [u8; LONGEST],
}

impl ServiceName {
    /// The name in lower case. `None` if it is no word of 1 to 23 letters, digits, `_`, `-` and `.`.
    pub fn parse(text: &str) -> Option<ServiceName> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if text.is_empty() || !text.bytes().all(is_fit) {
            return None;
        }
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        bytes.make_ascii_lowercase();
        Some(ServiceName { length: u8::try_from(text.len()).ok()?, bytes })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.length)).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// Whether it is a word for the service that costs the standard price.
    pub fn is_standard(&self) -> bool {
        STANDARD.contains(&self.as_str())
    }

    /// Whether both may be told for one service.
    pub(super) fn is_like(&self, other: &ServiceName) -> bool {
        let same = |name: &ServiceName| SAME.contains(&name.as_str());
        self == other || (same(self) && same(other))
    }

    /// The other word for the same service, if there is one.
    pub fn other_word(&self) -> Option<ServiceName> {
        let other = SAME.iter().find(|word| **word != self.as_str())?;
        ServiceName::parse(other).filter(|_| SAME.contains(&self.as_str()))
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a field of a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ServicePreference {
    /// It is absent: the provider decides by the settings of the account, as a rule for the standard.
    #[default]
    Open,
    /// The standard.
    Standard,
    /// Whatever the account has.
    Any,
    /// The service with this name.
    Named(ServiceName),
    /// A word that names no service.
    Unknown,
}

impl ServicePreference {
    /// What this word asks for.
    pub fn of(word: &str) -> ServicePreference {
        match ServiceName::parse(word) {
            Some(name) if name.as_str() == "auto" => ServicePreference::Any,
            Some(name) if name.is_standard() => ServicePreference::Standard,
            Some(name) => ServicePreference::Named(name),
            None => ServicePreference::Unknown,
        }
    }

    pub(super) fn may_get(self, name: &ServiceName) -> bool {
        match self {
            ServicePreference::Open | ServicePreference::Standard | ServicePreference::Unknown => false,
            ServicePreference::Any => true,
            ServicePreference::Named(wanted) => wanted.is_like(name),
        }
    }

    pub(super) fn name(self) -> Option<ServiceName> {
        if let ServicePreference::Named(name) = self { Some(name) } else { None }
    }
}

/// What a request asks for in the fields that change its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestedService {
    /// `service_tier`.
    pub tier: ServicePreference,
    /// `speed`, which names the tier `fast`.
    pub speed: ServicePreference,
    /// `inference_geo`.
    pub geography: ServicePreference,
}

/// The service that an answer was made with: as the provider tells it, else as requested. Decides about its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServedService {
    /// The tier; `None` if neither the answer nor the request names one.
    pub tier: Option<ServiceName>,
    /// The geography, as the tier.
    pub geography: Option<ServiceName>,
}

impl RequestedService {
    /// The fields of requests that change the price, by their names.
    pub const FIELDS: [&str; 3] = ["service_tier", "speed", "inference_geo"];

    /// What fields with these values ask for.
    pub fn of<'v>(value: impl Fn(&'static str) -> Option<Cow<'v, str>>) -> RequestedService {
        let [tier, speed, geography] = Self::FIELDS.map(|name| value(name).map(|word| ServicePreference::of(&word)));
        RequestedService {
            tier: tier.unwrap_or_default(),
            speed: speed.unwrap_or_default(),
            geography: geography.unwrap_or_default(),
        }
    }

    /// The same without the fields that stand among `dropped`.
    #[must_use]
    pub fn without(mut self, dropped: &[Arc<str>]) -> RequestedService {
        for (name, wish) in Self::FIELDS.into_iter().zip([&mut self.tier, &mut self.speed, &mut self.geography]) {
            if dropped.iter().any(|dropped| **dropped == *name) {
                *wish = ServicePreference::Open;
            }
        }
        self
    }

    /// The same where what was left open may be anything that the account has.
    pub(super) fn at_its_dearest(mut self) -> RequestedService {
        if self.tier == ServicePreference::Open && self.speed == ServicePreference::Open {
            self.tier = ServicePreference::Any;
        }
        if self.geography == ServicePreference::Open {
            self.geography = ServicePreference::Any;
        }
        self
    }

    /// Whether the tier may be served, and paid, by what was asked for. Where nothing was asked, only the provider knows.
    pub(super) fn may_get_tier(&self, name: &ServiceName) -> bool {
        self.tier.may_get(name) || self.speed.may_get(name)
    }

    /// Whether the geography may be served, and paid.
    pub(super) fn may_get_geography(&self, name: &ServiceName) -> bool {
        self.geography.may_get(name)
    }
}

use std::{borrow::Cow, fmt, sync::Arc};

use super::usage::Pricing;

/// Most bytes of a name.
const LONGEST: usize = 23;
/// Words of providers for the service that costs the standard price.
const STANDARD: [&str; 7] =
    ["default", "standard", "standard_only", "on_demand", "unspecified", "global", "not_available"];
/// Two words for one service at OpenAI, of which answers may tell either.
const SAME: [&str; 2] = ["fast", "priority"];

/// The name of a service with a price of its own: a tier such as `flex`, or a geography such as `us`. Kept in place, so that it
/// is copied like a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    length: u8,
    bytes: [u8; LONGEST],
}

impl ServiceName {
    /// The name in lower case. `None` if it is no word of 1 to 23 letters, digits, `_`, `-` and `.`.
    #[must_use]
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
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.length)).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// Whether it is a word for the service that costs the standard price.
    #[must_use]
    pub fn is_standard(&self) -> bool {
        STANDARD.contains(&self.as_str())
    }

    /// Whether both may be told for one service.
    fn is_like(&self, other: &ServiceName) -> bool {
        let same = |name: &ServiceName| SAME.contains(&name.as_str());
        self == other || (same(self) && same(other))
    }

    /// The other word for the same service, if there is one.
    #[must_use]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
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

impl Wish {
    /// What this word asks for.
    #[must_use]
    pub fn of(word: &str) -> Wish {
        match ServiceName::parse(word) {
            Some(name) if name.as_str() == "auto" => Wish::Any,
            Some(name) if name.is_standard() => Wish::Standard,
            Some(name) => Wish::Named(name),
            None => Wish::Unknown,
        }
    }

    fn may_get(self, name: &ServiceName) -> bool {
        match self {
            Wish::Open | Wish::Standard | Wish::Unknown => false,
            Wish::Any => true,
            Wish::Named(wanted) => wanted.is_like(name),
        }
    }

    fn name(self) -> Option<ServiceName> {
        if let Wish::Named(name) = self { Some(name) } else { None }
    }
}

/// What a request asks for in the fields that change its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedService {
    /// `service_tier`.
    pub tier: Wish,
    /// `speed`, which names the tier `fast`.
    pub speed: Wish,
    /// `inference_geo`.
    pub geography: Wish,
}

/// The service that an answer was made with: as the provider tells it, else as requested. Decides about its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    #[must_use]
    pub fn of<'v>(value: impl Fn(&'static str) -> Option<Cow<'v, str>>) -> RequestedService {
        let [tier, speed, geography] = Self::FIELDS.map(|name| value(name).map(|word| Wish::of(&word)));
        RequestedService {
            tier: tier.unwrap_or_default(),
            speed: speed.unwrap_or_default(),
            geography: geography.unwrap_or_default(),
        }
    }

    /// What is asked of an endpoint with these prices: a service without a price is not, unless all prices are zero or unknown.
    #[must_use]
    pub fn sent_to(self, pricing: Option<&Pricing>) -> RequestedService {
        let Some(pricing) = pricing.filter(|pricing| self != RequestedService::default() && !pricing.is_free()) else {
            return self;
        };
        let sent = |wish: Wish, is_priced: &dyn Fn(&ServiceName) -> bool| match wish {
            Wish::Named(name) if !is_priced(&name) => Wish::Open,
            Wish::Unknown => Wish::Open,
            wish => wish,
        };
        let has_tier = |name: &ServiceName| pricing.service_tier(name).is_some();
        RequestedService {
            tier: sent(self.tier, &has_tier),
            speed: sent(self.speed, &has_tier),
            geography: sent(self.geography, &|name| pricing.geography(name).is_some()),
        }
    }

    /// The same without the fields that stand among `dropped`.
    #[must_use]
    pub fn without(mut self, dropped: &[Arc<str>]) -> RequestedService {
        for (name, wish) in Self::FIELDS.into_iter().zip([&mut self.tier, &mut self.speed, &mut self.geography]) {
            if dropped.iter().any(|dropped| **dropped == *name) {
                *wish = Wish::Open;
            }
        }
        self
    }

    /// The fields that an endpoint with these prices does not get, because what they ask for has no price.
    pub fn unpriced(self, pricing: Option<&Pricing>) -> impl Iterator<Item = &'static str> + use<> {
        let sent = self.sent_to(pricing);
        let pairs = [(self.tier, sent.tier), (self.speed, sent.speed), (self.geography, sent.geography)];
        Self::FIELDS.into_iter().zip(pairs).filter(|(_, (asked, sent))| asked != sent).map(|(name, _)| name)
    }

    /// Whether the tier may be served, and paid, by what was asked for. Where nothing was asked, only the provider knows.
    pub(super) fn may_get_tier(&self, name: &ServiceName) -> bool {
        self.tier.may_get(name) || self.speed.may_get(name)
    }

    /// Whether the geography may be served, and paid.
    pub(super) fn may_get_geography(&self, name: &ServiceName) -> bool {
        self.geography.may_get(name)
    }

    /// What is billed at an endpoint with these prices, if its answer tells `told`: that, unless it has a price that the request
    /// does not allow, or is unknown although another one was asked for; then what was asked for.
    #[must_use]
    pub fn served(self, told: ServedService, pricing: Option<&Pricing>) -> ServedService {
        let sent = self.sent_to(pricing);
        let asked_tier = sent.speed.name().or(sent.tier.name());
        let asked_geography = sent.geography.name();
        let is_open = sent.tier == Wish::Open && sent.speed == Wish::Open;
        let takes_tier = |name: &ServiceName| match pricing.and_then(|pricing| pricing.service_tier(name)) {
            // It repeats the request.
            _ if name.as_str() == "auto" => false,
            Some(_) => is_open || sent.may_get_tier(name),
            None => asked_tier.is_none() || name.is_standard(),
        };
        let takes_geography = |name: &ServiceName| match pricing.and_then(|pricing| pricing.geography(name)) {
            Some(_) => sent.geography == Wish::Open || sent.may_get_geography(name),
            None => asked_geography.is_none() || name.is_standard(),
        };
        ServedService {
            tier: told.tier.filter(takes_tier).or(asked_tier),
            geography: told.geography.filter(takes_geography).or(asked_geography),
        }
    }
}

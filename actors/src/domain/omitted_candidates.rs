//! Who stands in a plan without figures.

use super::id::EndpointId;

/// Endpoints of a plan that are only named. Their order is worked out when somebody asks for it: a request that is served
/// does not need it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OmittedCandidates(Vec<(u64, EndpointId)>);

impl OmittedCandidates {
    /// Endpoints, each with what it is ordered by; of equals the lesser id goes first.
    #[must_use]
    pub const fn by_rank(endpoints: Vec<(u64, EndpointId)>) -> OmittedCandidates {
        OmittedCandidates(endpoints)
    }

    /// How many they are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// They in the order of the plan. Sorts them.
    #[must_use]
    pub fn in_order(&self) -> Vec<EndpointId> {
        let mut ranked = self.0.clone();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, endpoint)| endpoint).collect()
    }
}

/// Endpoints that are in order already.
impl FromIterator<EndpointId> for OmittedCandidates {
    fn from_iter<I: IntoIterator<Item = EndpointId>>(endpoints: I) -> OmittedCandidates {
        OmittedCandidates((0..).zip(endpoints).collect())
    }
}

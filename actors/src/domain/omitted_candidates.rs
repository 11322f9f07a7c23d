//! Candidates of a plan that are recorded without figures.

use super::id::EndpointId;

/// Candidates of a plan of which only the id is recorded. They are sorted on demand, because serving a request does not
/// need their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OmittedCandidates(Vec<(u64, EndpointId)>);

impl OmittedCandidates {
    /// Endpoints with their sort keys. Equal keys are ordered by id.
    #[must_use]
    pub const fn by_rank(endpoints: Vec<(u64, EndpointId)>) -> OmittedCandidates {
        OmittedCandidates(endpoints)
    }

    /// The endpoints with their sort keys, as they were given: for records.
    #[must_use]
    pub fn keyed(&self) -> &[(u64, EndpointId)] {
        &self.0
    }

    /// Number of omitted candidates.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no candidate is omitted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The endpoints in plan order. Sorts them.
    #[must_use]
    pub fn in_order(&self) -> Vec<EndpointId> {
        let mut ranked = self.0.clone();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, endpoint)| endpoint).collect()
    }
}

/// Collects endpoints that are already in plan order.
impl FromIterator<EndpointId> for OmittedCandidates {
    fn from_iter<I: IntoIterator<Item = EndpointId>>(endpoints: I) -> OmittedCandidates {
        OmittedCandidates((0..).zip(endpoints).collect())
    }
}

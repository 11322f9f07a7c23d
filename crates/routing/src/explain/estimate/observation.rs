//! Requests as an estimate uses them.

/// Least probability of a choice that counts as support: rarer ones say nothing.
pub const LEAST_PROBABILITY: f64 = 0.001;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The same for requests that depend on each other.
    pub cluster: u64,
    /// Probability of its choice under the other policy by that under its own; 0 where its own is too small.
    pub weight: f64,
    /// What it came to.
    pub outcome: f64,
    /// The prediction for its choice, made before the outcome was known.
    pub predicted: f64,
    /// The prediction under its own policy, over all of its choices.
    pub own: f64,
    /// The prediction under the other policy, over choices that its own policy makes, too.
    pub expected: f64,
    /// The same over those that its own policy hardly ever makes.
    pub expected_unsupported: f64,
    /// Share of the latter in the other policy.
    pub unsupported: f64,
}

impl Observation {
    /// An outcome, and nothing to compare it with.
    pub(in crate::explain) fn plain(cluster: u64, outcome: f64) -> Observation {
        Observation {
            cluster,
            weight: 1.0,
            outcome,
            predicted: 0.0,
            own: 0.0,
            expected: 0.0,
            expected_unsupported: 0.0,
            unsupported: 0.0,
        }
    }

    /// What is averaged for the doubly robust estimate, with this weight.
    pub(super) fn doubly_robust(&self, weight: f64) -> f64 {
        self.expected + weight * (self.outcome - self.predicted)
    }

    /// The same less the doubly robust estimate of its own policy, of which every weight is 1. Where both policies choose alike it is
    /// 0, whatever was drawn.
    pub(super) fn difference(&self) -> f64 {
        self.expected + self.expected_unsupported - self.own + (self.weight - 1.0) * (self.outcome - self.predicted)
    }
}

/// Requests in the order of their clusters.
#[derive(Debug, Clone, Default)]
pub struct Observations(Vec<Observation>);

impl Observations {
    /// Of one cluster the order stays.
    #[must_use]
    pub fn new(mut requests: Vec<Observation>) -> Observations {
        requests.sort_by_key(|one| one.cluster);
        Observations(requests)
    }

    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Observation> {
        self.0.iter()
    }

    /// The observations of each cluster.
    pub fn clusters(&self) -> impl Iterator<Item = &[Observation]> {
        self.0.chunk_by(|one, other| one.cluster == other.cluster)
    }

    pub(super) fn mean(&self, value: impl Fn(&Observation) -> f64) -> f64 {
        self.sum(value) / self.0.len() as f64
    }

    pub(super) fn sum(&self, value: impl Fn(&Observation) -> f64) -> f64 {
        self.0.iter().map(value).sum()
    }

    /// Standard error of the mean of values around `centre`, by sums over clusters.
    pub(super) fn error_of_mean(&self, centre: f64, value: impl Fn(&Observation) -> f64) -> f64 {
        self.error_of_sum(|one| value(one) - centre) / self.0.len() as f64
    }

    /// Standard error of a sum of deviations. One cluster tells nothing of it.
    pub(super) fn error_of_sum(&self, deviation: impl Fn(&Observation) -> f64) -> f64 {
        let (mut clusters, mut squares) = (0.0, 0.0);
        for cluster in self.clusters() {
            let sum: f64 = cluster.iter().map(&deviation).sum();
            clusters += 1.0;
            squares += sum * sum;
        }
        if clusters > 1.0 { (squares * clusters / (clusters - 1.0)).sqrt() } else { f64::INFINITY }
    }

    /// (Σ v)² / Σ v², with the sums of clusters as values: how many equal ones say as much.
    pub(super) fn effective(&self, value: impl Fn(&Observation) -> f64) -> f64 {
        let single = (self.sum(&value), self.sum(|one| value(one) * value(one)));
        let by_cluster = self.clusters().map(|cluster| cluster.iter().map(&value).sum::<f64>());
        let squares: f64 = by_cluster.map(|sum| sum * sum).sum();
        let effective = |squares: f64| if squares > 0.0 { single.0 * single.0 / squares } else { 0.0 };
        effective(single.1).min(effective(squares))
    }
}

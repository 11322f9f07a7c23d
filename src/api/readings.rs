//! What has been measured, as it stands at one moment: the figures and the fast cells together.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use chrono::{DateTime, SecondsFormat};
use pointsman_actors::{
    actors::provider_health::ReadFigures,
    domain::{Catalog, Tick},
    stats::{Figures, LiveStatus, LiveView, Summary},
};

use super::condition::Condition;
use crate::{
    base::{clock, error::ApiError},
    state::{ask::ask, gateway::Worker},
};

/// All measurements, by position in one catalog.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readings {
    pub(crate) figures: Arc<Figures>,
    pub(crate) live: LiveView,
    pub(crate) clocks: Clocks,
}

/// The measurements of one endpoint or provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) summary: &'a Summary,
    pub(crate) standing: LiveStatus,
    pub(crate) condition: Condition,
}

/// What is read of an endpoint that nobody knows.
static NOTHING: LazyLock<Summary> = LazyLock::new(Summary::default);

impl Readings {
    /// Reads everything as it is now, what just ended included.
    ///
    /// # Errors
    /// 503 when the owner of the figures does not answer in time.
    pub(crate) async fn now(worker: &Worker) -> Result<Readings, ApiError> {
        worker.shared.event_batchers.flush();
        Readings::take(worker, Duration::ZERO).await
    }

    /// Reads figures that may be a second old: for pages that need no key.
    ///
    /// # Errors
    /// As [`Readings::now`].
    pub(crate) async fn recent(worker: &Worker) -> Result<Readings, ApiError> {
        Readings::take(worker, Duration::from_secs(1)).await
    }

    async fn take(worker: &Worker, patience: Duration) -> Result<Readings, ApiError> {
        let clocks = Clocks { now: clock::now(), unix_millis: clock::unix_millis() };
        let question = ReadFigures { now: clocks.now, patience };
        let figures = ask(&worker.shared.control.health(), question).await?;
        let known = figures.catalog_version == worker.setup.version;
        // For the moment in which a new configuration is taken over: positions in it mean something else.
        let figures = if known { figures } else { Arc::default() };
        Ok(Readings { figures, live: worker.setup.published.live.view(clocks.now), clocks })
    }

    /// The figures of an endpoint, if there are any.
    pub(crate) fn summary(&self, position: u32) -> Option<&Summary> {
        self.figures.endpoints.get(position as usize).map(|figures| &figures.summary)
    }

    /// The measurements of an endpoint.
    pub(crate) fn endpoint(&self, catalog: &Catalog, position: u32) -> Reading<'_> {
        let figures = self.figures.endpoints.get(position as usize);
        // The figures may be a catalog version older or newer: the id tells.
        let known = figures.filter(|figures| catalog.endpoint(position).is_some_and(|it| it.id == figures.endpoint));
        Reading::new(known.map(|figures| &figures.summary), self.live.standing(catalog, position))
    }

    /// Providers that are on and whose circuit is not open.
    pub(crate) fn available_providers(&self, catalog: &Catalog) -> usize {
        let positions = (0_u32..).zip(&catalog.providers).filter(|(_, provider)| provider.is_on());
        positions.filter(|(position, _)| self.provider(catalog, *position).condition != Condition::Down).count()
    }

    /// The measurements of a provider: its endpoints together.
    pub(crate) fn provider(&self, catalog: &Catalog, position: u32) -> Reading<'_> {
        let summary = self.figures.providers.get(position as usize);
        Reading::new(summary, self.live.provider_standing(catalog, position))
    }
}

impl<'a> Reading<'a> {
    fn new(summary: Option<&'a Summary>, standing: LiveStatus) -> Reading<'a> {
        let summary = summary.unwrap_or(&NOTHING);
        Reading { summary, standing, condition: Condition::of_standing(standing, summary.success_rate) }
    }
}

/// The monotonic clock and the wall's, read together, so that moments can be shown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clocks {
    pub(crate) now: Tick,
    pub(crate) unix_millis: i64,
}

impl Clocks {
    /// A moment of the monotonic clock as RFC 3339.
    pub(crate) fn show(self, moment: Tick) -> String {
        let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let ahead = millis(moment.since(self.now));
        let behind = millis(self.now.since(moment));
        rfc_3339(self.unix_millis.saturating_add(ahead).saturating_sub(behind))
    }
}

/// A moment in Unix milliseconds as clients read it: `2025-11-20T09:05:00.000Z`.
pub(crate) fn rfc_3339(unix_millis: i64) -> String {
    DateTime::from_timestamp_millis(unix_millis).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_and_after_now_are_shown_on_the_wall() {
        let clocks = Clocks { now: Tick(10_000_000), unix_millis: 1_763_629_500_000 };
        assert_eq!(clocks.show(Tick(10_000_000)), "2025-11-20T09:05:00.000Z");
        assert_eq!(clocks.show(Tick(12_500_000)), "2025-11-20T09:05:02.500Z");
        assert_eq!(clocks.show(Tick(0)), "2025-11-20T09:04:50.000Z");
    }
}

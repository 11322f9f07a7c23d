//! Current measurements: the statistics and the live board, read at the same time.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use chrono::{DateTime, SecondsFormat};
use pointsman_actors::provider_health::ReadFigures;
use pointsman_base::clock;
use pointsman_domain::{Catalog, Tick};
use pointsman_routing::stats::{Figures, LiveStatus, LiveView, Summary};

use crate::{
    api::condition::Condition,
    base::error::ApiError,
    state::{ask::ask, gateway::GatewayView},
};

/// All measurements, by position in one catalog.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measurements {
    pub(crate) figures: Arc<Figures>,
    pub(crate) live: LiveView,
    pub(crate) clocks: Clocks,
}

/// The measurements of one endpoint or provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured<'a> {
    pub(crate) summary: &'a Summary,
    pub(crate) live_status: LiveStatus,
    pub(crate) condition: Condition,
}

/// Summary of an unknown endpoint.
static NO_SUMMARY: LazyLock<Summary> = LazyLock::new(Summary::default);

impl Measurements {
    /// Reads the current measurements, including attempts that have just ended.
    ///
    /// # Errors
    /// 503 when the statistics actor does not answer in time.
    pub(crate) async fn now(worker: &GatewayView) -> Result<Measurements, ApiError> {
        worker.shared.actors.event_batchers.flush();
        Measurements::read(worker, Duration::ZERO).await
    }

    /// Reads statistics that may be one second old: for pages that need no key.
    ///
    /// # Errors
    /// As [`Measurements::now`].
    pub(crate) async fn recent(worker: &GatewayView) -> Result<Measurements, ApiError> {
        Measurements::read(worker, Duration::from_secs(1)).await
    }

    async fn read(worker: &GatewayView, max_age: Duration) -> Result<Measurements, ApiError> {
        let clocks = Clocks { now: clock::now(), unix_millis: clock::unix_millis() };
        let question = ReadFigures { now: clocks.now, patience: max_age };
        let figures = ask(&worker.shared.actors.control.health(), question).await?;
        // While a new configuration takes effect, the versions can differ. Positions are valid in one version only.
        let is_current = figures.catalog_version == worker.setup.version;
        let figures = if is_current { figures } else { Arc::default() };
        Ok(Measurements { figures, live: worker.setup.published.live.view(clocks.now), clocks })
    }

    /// The statistics of an endpoint, if known.
    pub(crate) fn summary(&self, position: u32) -> Option<&Summary> {
        self.figures.endpoints.get(position as usize).map(|figures| &figures.summary)
    }

    /// The measurements of an endpoint.
    pub(crate) fn endpoint(&self, catalog: &Catalog, position: u32) -> Measured<'_> {
        let figures = self.figures.endpoints.get(position as usize);
        // Compares ids, because the statistics may belong to another version of the catalog.
        let known = figures.filter(|figures| catalog.endpoint(position).is_some_and(|it| it.id == figures.endpoint));
        Measured::new(known.map(|figures| &figures.summary), self.live.status(catalog, position))
    }

    /// Enabled providers that are not down.
    pub(crate) fn available_providers(&self, catalog: &Catalog) -> usize {
        let positions = (0_u32..).zip(&catalog.providers).filter(|(_, provider)| provider.is_on());
        positions.filter(|(position, _)| self.provider(catalog, *position).condition != Condition::Down).count()
    }

    /// The measurements of a provider, over all its endpoints.
    pub(crate) fn provider(&self, catalog: &Catalog, position: u32) -> Measured<'_> {
        let summary = self.figures.providers.get(position as usize);
        Measured::new(summary, self.live.provider_status(catalog, position))
    }
}

impl<'a> Measured<'a> {
    fn new(summary: Option<&'a Summary>, live_status: LiveStatus) -> Measured<'a> {
        let summary = summary.unwrap_or(&NO_SUMMARY);
        Measured { summary, live_status, condition: Condition::from_status(live_status, summary.success_rate) }
    }
}

/// The monotonic and the wall clock, read together, to convert ticks to dates.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clocks {
    pub(crate) now: Tick,
    pub(crate) unix_millis: i64,
}

impl Clocks {
    /// A tick of the monotonic clock as RFC 3339.
    pub(crate) fn format(self, tick: Tick) -> String {
        let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let ahead = millis(tick.since(self.now));
        let behind = millis(self.now.since(tick));
        rfc_3339(self.unix_millis.saturating_add(ahead).saturating_sub(behind))
    }
}

/// Unix milliseconds as RFC 3339: `2025-11-20T09:05:00.000Z`.
pub(crate) fn rfc_3339(unix_millis: i64) -> String {
    DateTime::from_timestamp_millis(unix_millis).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_before_and_after_now_are_converted_to_dates() {
        let clocks = Clocks { now: Tick(10_000_000), unix_millis: 1_763_629_500_000 };
        assert_eq!(clocks.format(Tick(10_000_000)), "2025-11-20T09:05:00.000Z");
        assert_eq!(clocks.format(Tick(12_500_000)), "2025-11-20T09:05:02.500Z");
        assert_eq!(clocks.format(Tick(0)), "2025-11-20T09:04:50.000Z");
    }
}

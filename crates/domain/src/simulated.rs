//! What a simulated provider is set to, by the configuration or a test. `pointsman_simulation` runs it.

use std::time::Duration;

use crate::{Dialect, Modalities, Modality};

/// Speed, faults and models of a simulated provider. The default is fast, without faults and without models.
///
/// Values out of range are replaced by the nearest valid value.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// Short name, as configuration and metrics use it.
    pub slug: String,
    /// Display name, used in its answers.
    pub name: String,
    /// The API that it serves.
    pub dialect: Dialect,
    /// Median time to first token without other requests.
    pub first_token: Duration,
    /// Standard deviation of the logarithm of that time. Real services have 0.3 to 0.9.
    pub first_token_spread: f64,
    /// Median output tokens per second without other requests.
    pub tokens_per_second: f64,
    /// Standard deviation of the logarithm of that speed, drawn once per request.
    pub tokens_per_second_spread: f64,
    /// Requests in flight that it serves at full speed.
    pub capacity: u32,
    /// Above the capacity all times grow by `(in flight / capacity) ^ slowdown_power`.
    pub slowdown_power: f64,
    /// Share of requests answered with a 500 before any content, 0 to 1.
    pub error_rate: f64,
    /// Share of truncated answers: the connection closes in the middle of the body.
    pub truncate_rate: f64,
    /// Share of requests that hang: before the head of the answer, or in the middle of a stream.
    pub hang_rate: f64,
    /// Requests admitted in any sixty seconds; the next one gets a 429 with `Retry-After`.
    pub rate_limit_per_minute: Option<u32>,
    /// Output tokens per streamed chunk, at least 1.
    pub tokens_per_chunk: u32,
    /// Share of stream events with unusual framing: two in one write, or one split over two.
    pub odd_framing_rate: f64,
    /// Whether answers have token counts. Some real servers leave them out.
    pub reports_usage: bool,
    /// Seed: the same seed and order of requests give the same results.
    pub seed: u64,
    /// The models that it serves.
    pub models: Vec<SimulatedModel>,
}

impl Default for ProviderSettings {
    fn default() -> ProviderSettings {
        ProviderSettings {
            slug: "simulated".to_owned(),
            name: "Simulated".to_owned(),
            dialect: Dialect::OpenAi,
            first_token: Duration::from_millis(200),
            first_token_spread: 0.3,
            tokens_per_second: 80.0,
            tokens_per_second_spread: 0.2,
            capacity: 32,
            slowdown_power: 1.5,
            error_rate: 0.0,
            truncate_rate: 0.0,
            hang_rate: 0.0,
            rate_limit_per_minute: None,
            tokens_per_chunk: 1,
            odd_framing_rate: 0.05,
            reports_usage: true,
            seed: 1,
            models: Vec::new(),
        }
    }
}

impl ProviderSettings {
    /// The model with this name.
    pub fn model(&self, id: &str) -> Option<&SimulatedModel> {
        self.models.iter().find(|model| model.id == id)
    }
}

/// A model of a simulated provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedModel {
    /// Its name at this provider.
    pub id: String,
    /// Accepted inputs. An image for a model without image input is refused with a 400.
    pub inputs: Modalities,
    /// Generated outputs. With [`Modality::Image`] it generates images through chat and the images path.
    pub outputs: Modalities,
    /// Whether it supports tools. If not, a request with tools is refused with a 400.
    pub tools: bool,
    /// Limit of prompt and answer together, in tokens; a larger request is refused with a 400.
    pub context_length: Option<u32>,
    /// Limit of the answer, in tokens.
    pub max_output_tokens: Option<u32>,
}

impl SimulatedModel {
    /// A model that reads and writes text and calls tools.
    pub fn text(id: &str) -> SimulatedModel {
        SimulatedModel {
            id: id.to_owned(),
            inputs: Modalities::TEXT,
            outputs: Modalities::TEXT,
            tools: true,
            context_length: None,
            max_output_tokens: None,
        }
    }

    /// A model that generates images from text and does not support tools.
    pub fn image(id: &str) -> SimulatedModel {
        let outputs = Modalities::NONE.with(Modality::Image);
        SimulatedModel { outputs, tools: false, ..SimulatedModel::text(id) }
    }

    /// The same model with image input.
    #[must_use]
    pub fn seeing(mut self) -> SimulatedModel {
        self.inputs = self.inputs.with(Modality::Image);
        self
    }
}

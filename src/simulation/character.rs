//! What a simulated provider is like: plain values, filled from configuration or by a test.

use std::time::Duration;

use pointsman_actors::domain::{Modalities, Modality};

/// One simulated provider. `Character::default()` is quick, faultless and serves nothing.
///
/// Values out of range are taken as the nearest sensible one; nothing here can make a server fall over.
#[derive(Debug, Clone, PartialEq)]
pub struct Character {
    /// Short name, as configuration and metrics use it.
    pub slug: String,
    /// The name it calls itself in its answers.
    pub name: String,
    /// Median time to the first token of a request that has the provider to itself.
    pub first_token: Duration,
    /// Standard deviation of the logarithm of that time. Real services show 0.3 to 0.9.
    pub first_token_spread: f64,
    /// Median output tokens per second of a request that has the provider to itself.
    pub tokens_per_second: f64,
    /// Standard deviation of the logarithm of that speed, drawn once per request.
    pub tokens_per_second_spread: f64,
    /// Requests in flight that it serves at full speed.
    pub capacity: u32,
    /// Beyond its capacity all times grow by `(in flight / capacity) ^ slowdown_power`.
    pub slowdown_power: f64,
    /// Share of requests answered with a 500 before any content, 0 to 1.
    pub error_rate: f64,
    /// Share of answers cut off on the way: the connection closes in the middle of the body.
    pub truncate_rate: f64,
    /// Share of requests that fall silent: before the answer's head, or in the middle of a stream.
    pub hang_rate: f64,
    /// Requests admitted in any sixty seconds; the next one gets a 429 with `Retry-After`.
    pub rate_limit_per_minute: Option<u32>,
    /// Output tokens per streamed chunk, at least 1.
    pub tokens_per_chunk: u32,
    /// Share of stream events that leave in an odd shape: two in one write, or one split over two.
    pub odd_framing_rate: f64,
    /// Whether answers carry token counts. Some real servers leave them out.
    pub reports_usage: bool,
    /// Where chance starts. One seed, one order of requests: one outcome.
    pub seed: u64,
    /// What it serves.
    pub models: Vec<SimulatedModel>,
}

impl Default for Character {
    fn default() -> Character {
        Character {
            slug: "simulated".to_owned(),
            name: "Simulated".to_owned(),
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

impl Character {
    /// The model of that name, if it serves it.
    #[must_use]
    pub fn model(&self, id: &str) -> Option<&SimulatedModel> {
        self.models.iter().find(|model| model.id == id)
    }
}

/// A model of a simulated provider, under the name its clients must send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedModel {
    /// Its name at this provider.
    pub id: String,
    /// What messages may hold. An image sent to a model that takes none is refused with a 400.
    pub inputs: Modalities,
    /// What answers may hold. With [`Modality::Image`] it draws, through chat and the images path.
    pub outputs: Modalities,
    /// Whether it takes tools. If not, a request with tools is refused with a 400.
    pub tools: bool,
    /// Prompt and answer together, in tokens; a request for more is refused with a 400.
    pub context_length: Option<u32>,
    /// The longest answer, in tokens, whatever was asked for.
    pub max_output_tokens: Option<u32>,
}

impl SimulatedModel {
    /// A model that reads and writes text and calls tools.
    #[must_use]
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

    /// A model that draws from a text and calls no tools.
    #[must_use]
    pub fn image(id: &str) -> SimulatedModel {
        let outputs = Modalities::NONE.with(Modality::Image);
        SimulatedModel { outputs, tools: false, ..SimulatedModel::text(id) }
    }

    /// The same model, which also looks at pictures.
    #[must_use]
    pub fn seeing(mut self) -> SimulatedModel {
        self.inputs = self.inputs.with(Modality::Image);
        self
    }
}

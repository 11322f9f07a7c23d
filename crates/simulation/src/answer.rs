//! Generates the answer of a simulated model: text, JSON, tool calls or images, within the limits of the request.
//!
//! Pure functions from a request, a model and a random number generator to an [`Answer`]. `chat` and `stream` send it.

use pointsman_domain::{FinishReason, Modality};
use rand::SeedableRng;
use serde_json::{Value, json};

use super::{
    ProviderSettings, Rng, SimulatedModel,
    images::{IMAGE_TOKENS, picture},
    prompt_cache::PromptCache,
    request::ChatBody,
    schema,
    tools::{self, ToolCall, random_name},
    words::{self, TextAnswer},
};

/// Cached tokens are counted in blocks of so many.
const CACHED_BLOCK: u32 = 128;

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) fingerprint: String,
    pub(super) prompt_tokens: u32,
    /// Of the prompt, read from the cache.
    pub(super) cached_tokens: u32,
    pub(super) choices: Vec<Choice>,
}

/// One choice of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) content: Option<String>,
    pub(super) calls: Vec<ToolCall>,
    /// Images as data URLs.
    pub(super) images: Vec<String>,
    pub(super) finish: FinishReason,
}

impl Answer {
    /// Generates the answer of `model` to `body`. With a `seed` in the body the text depends only on the seed and the
    /// request.
    pub(super) fn generate(
        body: &ChatBody,
        model: &SimulatedModel,
        settings: &ProviderSettings,
        rng: &mut Rng,
    ) -> Answer {
        let id = format!("chatcmpl-{}", random_name(rng, 29));
        let mut seeded = body.seed.map(|seed| Rng::seed_from_u64(seed.to_bits()));
        let words = seeded.as_mut().unwrap_or(rng);
        Answer {
            id,
            model: model.id.clone(),
            fingerprint: format!("fp_simulated_{}", settings.slug),
            prompt_tokens: body.prompt_tokens(),
            cached_tokens: 0,
            choices: (0..body.choices()).map(|_| Choice::generate(body, model, settings, words)).collect(),
        }
    }

    /// With what the provider remembers of the prompt of `body`.
    pub(super) fn with_cache(self, body: &ChatBody, prompts: &PromptCache) -> Answer {
        let used = prompts.pass(&body.prefixes(), self.prompt_tokens);
        Answer { cached_tokens: used.read / CACHED_BLOCK * CACHED_BLOCK, ..self }
    }

    /// Output tokens of all choices.
    pub(super) fn completion_tokens(&self) -> u32 {
        self.choices.iter().map(Choice::tokens).sum()
    }

    /// The `usage` object.
    pub(super) fn usage(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens, self.completion_tokens());
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt.saturating_add(completion),
            "prompt_tokens_details": { "cached_tokens": self.cached_tokens },
            "completion_tokens_details": { "reasoning_tokens": 0 },
        })
    }
}

impl Choice {
    fn generate(body: &ChatBody, model: &SimulatedModel, settings: &ProviderSettings, rng: &mut Rng) -> Choice {
        let choice = if generates_image(body, model) {
            Choice::image(body, model)
        } else {
            let calls = tools::calls(body, rng);
            match body.response_format.as_ref().filter(|format| format.kind.starts_with("json")) {
                _ if !calls.is_empty() => {
                    Choice { content: None, calls, images: Vec::new(), finish: FinishReason::ToolCalls }
                }
                Some(format) => Choice::text(structured(body, format.schema(), model, settings, rng)),
                None => {
                    let text = compose_text(body, model, settings, rng);
                    Choice::text(words::before_stop(&text, body.stops()).to_owned())
                }
            }
        };
        let limit = [body.max_tokens(), model.max_output_tokens].into_iter().flatten().min();
        limit.map_or(choice.clone(), |limit| choice.truncated(limit))
    }

    fn text(text: String) -> Choice {
        Choice { content: Some(text), calls: Vec::new(), images: Vec::new(), finish: FinishReason::Stop }
    }

    fn image(body: &ChatBody, model: &SimulatedModel) -> Choice {
        let prompt = body.question();
        let text = if model.outputs.contains(Modality::Text) {
            format!("A simulated picture by {}: “{}”.", model.id, words::hint(&prompt))
        } else {
            String::new()
        };
        Choice { images: vec![format!("data:image/png;base64,{}", picture(&prompt, 0))], ..Choice::text(text) }
    }

    /// Its output tokens.
    fn tokens(&self) -> u32 {
        let calls = self.calls.iter().map(|call| words::tokens(&call.name) + words::tokens(&call.arguments));
        let content = self.content.as_deref().map_or(0, words::tokens);
        content + calls.sum::<u32>() + self.images.len() as u32 * IMAGE_TOKENS
    }

    /// The choice with at most `limit` tokens. Text and arguments are truncated, as with real models; images are not.
    fn truncated(mut self, limit: u32) -> Choice {
        if self.tokens() <= limit || !self.images.is_empty() {
            return self;
        }
        self.finish = FinishReason::Length;
        self.content = self.content.map(|text| words::first_tokens(&text, limit).to_owned());
        let mut left = limit;
        self.calls.retain_mut(|call| {
            let name = words::tokens(&call.name);
            if name > left {
                left = 0;
                return false;
            }
            left -= name;
            call.arguments = words::first_tokens(&call.arguments, left).to_owned();
            left -= words::tokens(&call.arguments);
            true
        });
        if self.calls.is_empty() && self.content.is_none() {
            self.content = Some(String::new());
        }
        self
    }
}

/// Whether the answer is an image: the request asks for one and the model supports it, or the model has no text output.
fn generates_image(body: &ChatBody, model: &SimulatedModel) -> bool {
    model.outputs.contains(Modality::Image) && (body.wants_image() || !model.outputs.contains(Modality::Text))
}

fn compose_text(body: &ChatBody, model: &SimulatedModel, settings: &ProviderSettings, rng: &mut Rng) -> String {
    let (question, results) = (body.question(), body.tool_results());
    let images = body.messages().iter().map(|message| message.images()).sum();
    let speech =
        TextAnswer { model: &model.id, provider: &settings.name, question: &question, images, results: &results };
    speech.compose(rng)
}

/// An answer in JSON that fits the schema; without a schema an object with the usual text.
fn structured(
    body: &ChatBody,
    schema: Option<&Value>,
    model: &SimulatedModel,
    settings: &ProviderSettings,
    rng: &mut Rng,
) -> String {
    let free = || json!({ "simulated": true, "answer": compose_text(body, model, settings, rng) });
    schema.map_or_else(free, |schema| schema::fit(schema, &body.question())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(mut body: Value) -> Answer {
        let object = body.as_object_mut().unwrap();
        object.entry("messages").or_insert(json!([{ "role": "user", "content": "Weather in Oslo?" }]));
        let body: ChatBody = serde_json::from_value(body).unwrap();
        let settings = ProviderSettings { name: "Hare".to_owned(), ..ProviderSettings::default() };
        let both = SimulatedModel {
            outputs: SimulatedModel::image("").outputs.with(Modality::Text),
            ..SimulatedModel::text("hare-1")
        };
        Answer::generate(&body, &both, &settings, &mut crate::load::rng(&settings, 3))
    }

    fn only(body: Value) -> Choice {
        answer(body).choices.remove(0)
    }

    fn tools() -> Value {
        let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        json!([{ "type": "function", "function": { "name": "get_weather", "parameters": parameters } }])
    }

    #[test]
    fn an_answer_keeps_to_the_token_limit_and_says_so() {
        let short = only(json!({ "max_tokens": 5 }));
        assert_eq!((short.content.as_deref(), short.finish), (Some("I am a simulated mod"), FinishReason::Length));
        assert_eq!(short.tokens(), 5);
        assert_eq!(only(json!({ "max_tokens": 5000 })).finish, FinishReason::Stop);
        assert_eq!(only(json!({ "max_tokens": 50, "max_completion_tokens": 1 })).tokens(), 1);
    }

    #[test]
    fn a_stop_sequence_ends_the_answer_before_it() {
        let stopped = only(json!({ "stop": ["never", " model"] }));
        assert_eq!((stopped.content.as_deref(), stopped.finish), (Some("I am a simulated"), FinishReason::Stop));
    }

    #[test]
    fn the_same_seed_gives_the_same_words_and_choices_differ() {
        let words = |seed: i64| answer(json!({ "seed": seed, "n": 3 })).choices;
        assert_eq!(words(5), words(5));
        assert_ne!(words(5), words(6));
        assert_ne!(words(5)[0], words(5)[1]);
    }

    #[test]
    fn json_is_valid_and_follows_the_schema() {
        let free = only(json!({ "response_format": { "type": "json_object" } })).content.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&free).unwrap()["simulated"], true);
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
        for format in [
            json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } }),
            json!({ "type": "json_object", "schema": schema }),
        ] {
            let content = only(json!({ "response_format": format })).content;
            assert_eq!(content.as_deref(), Some(r#"{"city":"Weather in Oslo?"}"#));
        }
    }

    #[test]
    fn a_tool_call_has_no_text_and_a_small_limit_truncates_its_arguments() {
        let whole = only(json!({ "tools": tools() }));
        assert_eq!((whole.content, whole.finish), (None, FinishReason::ToolCalls));
        assert_eq!(whole.calls[0].arguments, r#"{"city":"Oslo"}"#);
        let tight = only(json!({ "tools": tools(), "max_tokens": 4 }));
        assert_eq!((tight.calls[0].arguments.as_str(), tight.finish), (r#"{"ci"#, FinishReason::Length));
        let tighter = only(json!({ "tools": tools(), "max_tokens": 2 }));
        assert_eq!((tighter.calls.len(), tighter.content.as_deref()), (0, Some("")));
    }

    #[test]
    fn an_image_is_generated_when_requested_and_supported() {
        let image = only(json!({ "modalities": ["image", "text"] }));
        assert!(image.images[0].starts_with("data:image/png;base64,"));
        assert!(only(json!({})).images.is_empty());
    }

    #[test]
    fn usage_adds_up() {
        let answer = answer(json!({ "n": 2, "max_tokens": 7 }));
        let usage = answer.usage();
        assert_eq!(usage["completion_tokens"], 14);
        assert_eq!(usage["prompt_tokens"], 4 + 4);
        assert_eq!(usage["total_tokens"], 22);
    }
}

//! Vectors and images, as OpenAI offers them. Their requests are in the folder `written`.

use schemars::JsonSchema;

use super::Cost;

#[derive(JsonSchema)]
pub(crate) struct EmbeddingList {
    /// Always `list`.
    object: String,
    /// One vector for each input, in their order.
    data: Vec<Embedding>,
    /// Id of the model that served.
    model: String,
    usage: EmbeddingUsage,
    /// Id of the generation, for `/generation` and `/route/explain`.
    id: Option<String>,
    /// Display name of the provider that served.
    provider: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Embedding {
    /// Always `embedding`.
    object: String,
    /// Position of the input, from 0.
    index: u64,
    /// The vector: numbers, or base64 of floats of 32 bits in little-endian order, as `encoding_format` asks.
    embedding: Vector,
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum Vector {
    Numbers(Vec<f64>),
    Base64(String),
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct EmbeddingUsage {
    /// Tokens of the inputs.
    prompt_tokens: u64,
    /// The same.
    total_tokens: u64,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(JsonSchema)]
pub(crate) struct ImageList {
    /// When the answer was made, in Unix seconds.
    created: u64,
    /// The images.
    data: Vec<Image>,
    usage: Option<ImageUsage>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Image {
    /// The image in base64; absent where `url` is there.
    b64_json: Option<String>,
    /// Its media type; beside `b64_json`.
    media_type: Option<String>,
    /// Address of the image; absent where `b64_json` is there.
    url: Option<String>,
    /// When that address ends, in Unix seconds; absent if the gateway does not know.
    expires_at: Option<u64>,
    /// The prompt that the model worked with; absent if the provider tells none.
    revised_prompt: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct ImageUsage {
    /// Tokens of the prompt, those read from or written to a cache included.
    prompt_tokens: u64,
    /// Tokens of the answer, reasoning included.
    completion_tokens: u64,
    /// Both together.
    total_tokens: u64,
    /// The same as `prompt_tokens`.
    input_tokens: u64,
    /// The same as `completion_tokens`.
    output_tokens: u64,
    /// The tokens of the prompt.
    input_tokens_details: TokensByKind,
    /// The tokens of the answer; absent if the provider does not tell them apart.
    output_tokens_details: Option<TokensByKind>,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct TokensByKind {
    /// Tokens of images.
    image_tokens: u64,
    /// Tokens of text.
    text_tokens: u64,
}

//! POST /v1/images/generations. Pictures are small squares of one colour.

use actix_web::{
    HttpResponse,
    web::{Bytes, Data},
};
use pointsman_domain::Modality;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    json_response::{send_json, unix_seconds},
    provider::Provider,
    rejection::Rejection,
    words,
};

/// Output tokens that one image counts as.
pub(super) const IMAGE_TOKENS: u32 = 256;

/// Squares of 16 by 16 pixels, red, green, blue and yellow: PNG in base64.
const PICTURES: [&str; 4] = [
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQAQMAAAAlPW0iAAAAA1BMVEXZTz0Kqyy+AAAADElEQVR42mNgIA0AAAAwAAEodEl9AAAAAElFTkSuQmCC",
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQAQMAAAAlPW0iAAAAA1BMVEU9i275tEbGAAAADElEQVR42mNgIA0AAAAwAAEodEl9AAAAAElFTkSuQmCC",
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQAQMAAAAlPW0iAAAAA1BMVEUvbbX/M27uAAAADElEQVR42mNgIA0AAAAwAAEodEl9AAAAAElFTkSuQmCC",
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQAQMAAAAlPW0iAAAAA1BMVEXgpS4BPqgZAAAADElEQVR42mNgIA0AAAAwAAEodEl9AAAAAElFTkSuQmCC",
];

/// Maximum number of images per request.
const MAX_IMAGES: f64 = 10.0;

#[derive(Debug, Deserialize)]
struct ImageBody {
    model: Option<String>,
    prompt: Option<String>,
    n: Option<f64>,
}

impl ImageBody {
    fn parse(body: &[u8]) -> Result<ImageBody, Rejection> {
        serde_json::from_slice(body).map_err(|_| Rejection::BrokenJson)
    }

    fn count(&self) -> Result<u32, Rejection> {
        let count = self.n.unwrap_or(1.0);
        if (1.0..=MAX_IMAGES).contains(&count) {
            return Ok(count as u32);
        }
        Err(Rejection::Invalid { param: Some("n".to_owned()), message: "Invalid 'n': expected 1 to 10.".to_owned() })
    }
}

/// Generates images for a prompt. Always answers with `b64_json`, never with links.
pub(super) async fn create(provider: Data<Provider>, body: Bytes) -> Result<HttpResponse, Rejection> {
    provider.record_request();
    let body = ImageBody::parse(&body)?;
    let id = body.model.as_deref().ok_or(Rejection::Missing("model"))?;
    let prompt = body.prompt.as_deref().filter(|prompt| !prompt.is_empty()).ok_or(Rejection::Missing("prompt"))?;
    let settings = provider.settings();
    let model = settings.model(id).ok_or_else(|| Rejection::UnknownModel(id.to_owned()))?;
    if !model.outputs.contains(Modality::Image) {
        let message = format!("The model '{id}' does not generate images.");
        return Err(Rejection::Invalid { param: Some("model".to_owned()), message });
    }
    let count = body.count()?;
    let active = provider.admit(&settings, id)?;
    let tokens = count.saturating_mul(IMAGE_TOKENS);
    send_json(active, tokens, answer(prompt, count).to_string()).await
}

fn answer(prompt: &str, count: u32) -> Value {
    let image = |position| json!({ "b64_json": picture(prompt, position), "revised_prompt": prompt });
    let (input, output) = (words::tokens(prompt), count.saturating_mul(IMAGE_TOKENS));
    json!({
        "created": unix_seconds(),
        "data": (0..count).map(image).collect::<Vec<_>>(),
        "output_format": "png",
        "usage": {
            "input_tokens": input,
            "output_tokens": output,
            "total_tokens": input.saturating_add(output),
            "input_tokens_details": { "text_tokens": input, "image_tokens": 0 },
        },
    })
}

/// The picture of a prompt at this position: PNG in base64.
pub(super) fn picture(prompt: &str, position: u32) -> &'static str {
    let sum: u32 = prompt.bytes().map(u32::from).sum();
    let index = sum.wrapping_add(position) as usize % PICTURES.len();
    PICTURES.get(index).copied().unwrap_or_default()
}

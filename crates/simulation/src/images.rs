//! POST /v1/images/generations.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Bytes, Data},
};
use pointsman_domain::Modality;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    drawing::{IMAGE_TOKENS, draw},
    json_response::{send_json, unix_seconds},
    provider::Provider,
    refusal::Refusal,
    words,
};

/// Default edge length of an image, in pixels.
const DEFAULT_EDGE: u32 = 256;

/// Maximum edge length, in pixels. An image of this size takes a few milliseconds.
const MAX_EDGE: u32 = 2048;

/// Maximum number of images per request.
const MAX_IMAGES: f64 = 10.0;

#[derive(Debug, Deserialize)]
struct ImageBody {
    model: Option<String>,
    prompt: Option<String>,
    n: Option<f64>,
    size: Option<String>,
}

impl ImageBody {
    fn parse(body: &[u8]) -> Result<ImageBody, Refusal> {
        serde_json::from_slice(body).map_err(|_| Refusal::BrokenJson)
    }

    fn size(&self) -> Result<(u32, u32), Refusal> {
        let Some(size) = self.size.as_deref().filter(|size| *size != "auto") else {
            return Ok((DEFAULT_EDGE, DEFAULT_EDGE));
        };
        let tier = [("1K", 1024), ("2K", 2048), ("4K", 4096)].into_iter().find(|(name, _)| *name == size);
        if let Some((_, edge)) = tier {
            return Ok((edge.min(MAX_EDGE), edge.min(MAX_EDGE)));
        }
        let edges = size.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        let drawable = |(width, height): &(u32, u32)| [width, height].iter().all(|e| (1..=MAX_EDGE).contains(*e));
        edges.filter(drawable).ok_or_else(|| Refusal::Invalid {
            param: Some("size".to_owned()),
            message: format!("Invalid size '{size}': expected <width>x<height>, each at most {MAX_EDGE}."),
        })
    }

    fn count(&self) -> Result<u32, Refusal> {
        let count = self.n.unwrap_or(1.0);
        if (1.0..=MAX_IMAGES).contains(&count) {
            return Ok(count as u32);
        }
        Err(Refusal::Invalid { param: Some("n".to_owned()), message: "Invalid 'n': expected 1 to 10.".to_owned() })
    }
}

/// Generates images for a prompt. Always answers with `b64_json`, never with links.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    body: Bytes,
) -> Result<HttpResponse, Refusal> {
    provider.record_request(&request, &body);
    let body = ImageBody::parse(&body)?;
    let id = body.model.as_deref().ok_or(Refusal::Missing("model"))?;
    let prompt = body.prompt.as_deref().filter(|prompt| !prompt.is_empty()).ok_or(Refusal::Missing("prompt"))?;
    let settings = provider.settings();
    let model = settings.model(id).ok_or_else(|| Refusal::UnknownModel(id.to_owned()))?;
    if !model.outputs.contains(Modality::Image) {
        let message = format!("The model '{id}' does not generate images.");
        return Err(Refusal::Invalid { param: Some("model".to_owned()), message });
    }
    let (count, size) = (body.count()?, body.size()?);
    let active = provider.admit(&settings, id)?;
    let tokens = count.saturating_mul(IMAGE_TOKENS);
    send_json(active, tokens, answer(prompt, count, size).to_string()).await
}

fn answer(prompt: &str, count: u32, (width, height): (u32, u32)) -> Value {
    let image = |position| json!({ "b64_json": draw(prompt, position, width, height), "revised_prompt": prompt });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        let size = |size: &str| {
            let body = ImageBody { model: None, prompt: None, n: None, size: Some(size.to_owned()) };
            body.size().ok()
        };
        assert_eq!(size("640x480"), Some((640, 480)));
        assert_eq!(size("auto"), Some((256, 256)));
        assert_eq!(size("1K"), Some((1024, 1024)));
        for bad in ["0x10", "9000x10", "big", "10x", "10x10x10"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }
}

//! Pictures: POST /v1/images/generations, and the pattern that a prompt becomes.

use std::io;

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Bytes, Data},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use pointsman_actors::domain::Modality;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::IMAGE_TOKENS,
    chat,
    png::{self, Band, Colour},
    provider::Provider,
    refusal::Refusal,
    words,
};

/// Edge of a picture when no size is asked for, in pixels.
const USUAL_EDGE: u32 = 256;

/// The longest edge it draws. A picture of this size takes a few milliseconds.
const LONGEST_EDGE: u32 = 2048;

/// The most pictures of one request.
const MOST_IMAGES: f64 = 10.0;

/// Cells along the edge of a pattern.
const CELLS: u32 = 8;

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
            return Ok((USUAL_EDGE, USUAL_EDGE));
        };
        let tier = [("1K", 1024), ("2K", 2048), ("4K", 4096)].into_iter().find(|(name, _)| *name == size);
        if let Some((_, edge)) = tier {
            return Ok((edge.min(LONGEST_EDGE), edge.min(LONGEST_EDGE)));
        }
        let edges = size.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        let drawable = |(width, height): &(u32, u32)| [width, height].iter().all(|e| (1..=LONGEST_EDGE).contains(*e));
        edges.filter(drawable).ok_or_else(|| Refusal::Invalid {
            param: Some("size".to_owned()),
            message: format!("Invalid size '{size}': expected <width>x<height>, each at most {LONGEST_EDGE}."),
        })
    }

    fn count(&self) -> Result<u32, Refusal> {
        let count = self.n.unwrap_or(1.0);
        if (1.0..=MOST_IMAGES).contains(&count) {
            return Ok(count as u32);
        }
        Err(Refusal::Invalid { param: Some("n".to_owned()), message: "Invalid 'n': expected 1 to 10.".to_owned() })
    }
}

/// Draws what a prompt asks for. Always answers with `b64_json`: the addresses that real providers give
/// for a while are a burden here, and whoever promises one must make it from bytes.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    body: Bytes,
) -> Result<HttpResponse, Refusal> {
    provider.saw(&request, &body);
    let body = ImageBody::parse(&body)?;
    let id = body.model.as_deref().ok_or(Refusal::Missing("model"))?;
    let prompt = body.prompt.as_deref().filter(|prompt| !prompt.is_empty()).ok_or(Refusal::Missing("prompt"))?;
    let character = provider.character();
    let model = character.model(id).ok_or_else(|| Refusal::UnknownModel(id.to_owned()))?;
    if !model.outputs.contains(Modality::Image) {
        let message = format!("The model '{id}' does not generate images.");
        return Err(Refusal::Invalid { param: Some("model".to_owned()), message });
    }
    let (count, size) = (body.count()?, body.size()?);
    let turn = provider.admit(&character, id)?;
    let tokens = count.saturating_mul(IMAGE_TOKENS);
    chat::tell_whole(turn, tokens, answer(prompt, count, size).to_string()).await
}

fn answer(prompt: &str, count: u32, (width, height): (u32, u32)) -> Value {
    let image = |position| json!({ "b64_json": draw(prompt, position, width, height), "revised_prompt": prompt });
    let (input, output) = (words::tokens(prompt), count.saturating_mul(IMAGE_TOKENS));
    json!({
        "created": chat::unix_seconds(),
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

/// A PNG in base64 whose pattern and colours depend on the prompt and the picture's position.
pub(super) fn draw(prompt: &str, position: u32, width: u32, height: u32) -> String {
    BASE64.encode(pattern(prompt, position, width, height).unwrap_or_default())
}

/// A symmetric pattern of cells in two colours on white, from a hash of the prompt.
fn pattern(prompt: &str, position: u32, width: u32, height: u32) -> io::Result<Vec<u8>> {
    let hash = hash(prompt, position);
    let [red, green, blue, ..] = hash.to_le_bytes();
    let colour: Colour = [red / 2 + 32, green / 2 + 32, blue / 2 + 32];
    let palette = [[255; 3], colour, colour.map(|part| 255 - part / 2)];
    let cell = |column: u32, row: u32| {
        // The right half mirrors the left: the eye takes symmetry for a figure.
        let bit = row * CELLS / 2 + column.min(CELLS - 1 - column);
        match hash >> (bit + 16) & 3 {
            3 => 2,
            2 => 1,
            _ => 0,
        }
    };
    // Edges need not be multiples of the cells: a cell ends where its share of the edge ends.
    let bands = (0..CELLS).map(|row| Band {
        height: height * (row + 1) / CELLS - height * row / CELLS,
        row: (0..width).map(|x| cell(x * CELLS / width.max(1), row)).collect(),
    });
    png::encode(width, &palette, &bands.collect::<Vec<_>>())
}

/// FNV-1a with a last mix, so that prompts which differ at the end differ in all bits.
fn hash(prompt: &str, position: u32) -> u64 {
    let bytes = prompt.bytes().chain(position.to_le_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash ^ hash >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_depends_on_prompt_position_and_size_alone() {
        assert_eq!(draw("a fox", 0, 64, 64), draw("a fox", 0, 64, 64));
        assert_ne!(draw("a fox", 0, 64, 64), draw("a fox", 1, 64, 64));
        assert_ne!(draw("a fox", 0, 64, 64), draw("a crow", 0, 64, 64));
        assert!(pattern("a fox", 0, 2048, 2048).unwrap().len() < 40_000, "a large picture stays small on the wire");
    }

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

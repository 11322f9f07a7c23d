//! The fields that only an image request has.

use pointsman_domain::{Invalid, listed_names};

use super::{fault, fields::Field, json, json_type::JsonType};
use crate::{
    json::Raw,
    neutral::{Path, shown},
};

/// Longest description of an image, characters.
const MAX_PROMPT_CHARS: usize = 32_000;
/// Most images to start from.
const MAX_REFERENCES: usize = 32;
/// Most digits of a width or height.
const MAX_SIZE_DIGITS: usize = 5;
/// Sizes by name.
const TIERS: [&str; 4] = ["auto", "1K", "2K", "4K"];

pointsman_domain::named! {
    /// How the images are to come back.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum ImageFormat {
        /// As bytes in the answer.
        #[default]
        Base64 = "b64_json",
        /// As an address to fetch them from.
        Url = "url",
    }
}

/// What they said.
#[derive(Default)]
pub(super) struct ImageFields<'a> {
    pub(super) prompt: Option<Raw<'a>>,
    /// Bytes of the prompt, escapes resolved.
    pub(super) prompt_bytes: usize,
    pub(super) size: Option<Raw<'a>>,
    pub(super) format: ImageFormat,
    pub(super) references: Vec<Raw<'a>>,
    pub(super) aspect_ratio: Option<Raw<'a>>,
    pub(super) resolution: Option<Raw<'a>>,
}

impl<'a> ImageFields<'a> {
    /// Reads one of them; every other field is left alone.
    pub(super) fn read(&mut self, field: Field, raw: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        match field {
            Field::Prompt => self.prompt(raw, path)?,
            Field::Size => self.size = Some(size(raw, path)?),
            Field::ImageFormat => {
                let position = json::choice(raw, path, &["b64_json", "url"])?;
                self.format = if position == 0 { ImageFormat::Base64 } else { ImageFormat::Url };
            }
            Field::InputReferences => self.references = references(raw, path)?,
            Field::AspectRatio => {
                json::text(raw, path)?;
                self.aspect_ratio = Some(raw);
            }
            Field::Resolution => {
                json::text(raw, path)?;
                self.resolution = Some(raw);
            }
            _ => {}
        }
        Ok(())
    }

    fn prompt(&mut self, raw: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let prompt = json::text_within(raw, path, MAX_PROMPT_CHARS)?;
        if prompt.is_empty() {
            return Err(fault::refused(path, format!("'{path}' must not be empty.")));
        }
        self.prompt_bytes = prompt.len();
        self.prompt = Some(raw);
        Ok(())
    }
}

fn size<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Raw<'a>, Invalid> {
    let size = json::text(raw, path)?;
    let side = |digits: &str| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        plain && (1..=MAX_SIZE_DIGITS).contains(&digits.len()) && !digits.starts_with('0')
    };
    let measured = size.split_once('x').is_some_and(|(width, height)| side(width) && side(height));
    if measured || TIERS.contains(&&*size) {
        return Ok(raw);
    }
    let (size, listed) = (shown(&size), listed_names(&size, TIERS));
    let message =
        format!("Unknown value '{size}' in '{path}'. Allowed: <width>x<height>, such as 1024x1024, or {listed}.");
    Err(fault::refused(path, message))
}

/// Images to start from: addresses, or objects that hold one.
fn references<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Vec<Raw<'a>>, Invalid> {
    let references = json::elements(raw, path, MAX_REFERENCES)?;
    for (position, raw) in references.iter().enumerate() {
        let kind = JsonType::of(*raw);
        if !matches!(kind, JsonType::Text | JsonType::Object) {
            return Err(fault::wrong_type(&path.item(position), "a string or an object", kind));
        }
    }
    Ok(references)
}

//! Estimate of the prompt tokens without a tokenizer.
//!
//! Four bytes per token, a constant for each message and a configured number for each image. Bytes work similarly well
//! for all languages and for code. The estimate is rather too high than too low.

/// UTF-8 bytes that make one token.
const BYTES_PER_TOKEN: usize = 4;
/// Tokens of the frame around each message.
const TOKENS_PER_MESSAGE: usize = 4;

/// Counts of a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PromptSize {
    /// Bytes of text, names and tool schemas, escapes resolved.
    pub(super) bytes: usize,
    /// Messages.
    pub(super) messages: usize,
    /// Images.
    pub(super) images: usize,
}

impl PromptSize {
    /// The estimate.
    pub(super) fn tokens(self, tokens_per_image: u32) -> u32 {
        let images = self.images.saturating_mul(tokens_per_image as usize);
        let frames = self.messages.saturating_mul(TOKENS_PER_MESSAGE);
        let tokens = self.bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(frames).saturating_add(images);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_up_and_frames_and_images_add_to_them() {
        assert_eq!(PromptSize::default().tokens(1000), 0);
        assert_eq!(PromptSize { bytes: 1, messages: 1, images: 0 }.tokens(1000), 5);
        assert_eq!(PromptSize { bytes: 8, messages: 2, images: 3 }.tokens(1000), 3010);
        assert_eq!(PromptSize { bytes: 0, messages: 0, images: usize::MAX }.tokens(1000), u32::MAX);
    }
}

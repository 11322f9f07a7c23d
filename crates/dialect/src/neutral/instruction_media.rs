//! Images, files, sound and videos in system and developer messages.
//!
//! Other APIs take nothing but texts there. A message of the user behind the instructions shows the media to the model.

use super::{
    conversation::{Content, Part, Role, Turn},
    unsupported_fields::UnsupportedFields,
};

/// Moves such media into a message of the user behind each run of system messages. What follows the run changes nothing, so
/// a prompt stays a prefix of the next one.
pub(super) fn moved_to_user<'a>(turns: Vec<Turn<'a>>, unsupported: &mut UnsupportedFields) -> Vec<Turn<'a>> {
    let has_media = |turn: &Turn<'_>| turn.role == Role::System && turn.parts.iter().any(|part| kind(part).is_some());
    if !turns.iter().any(has_media) {
        return turns;
    }
    let mut moved = Vec::with_capacity(turns.len() + 1);
    let mut media = Vec::new();
    for mut turn in turns {
        if turn.role != Role::System {
            moved.extend(user_turn(&mut media));
        } else if has_media(&turn) {
            for part in std::mem::take(&mut turn.parts) {
                match kind(&part) {
                    Some(kind) => {
                        unsupported.emulate(&format!("messages[].content[].{kind}"));
                        media.push(part);
                    }
                    None => turn.parts.push(part),
                }
            }
        }
        moved.push(turn);
    }
    moved.extend(user_turn(&mut media));
    moved
}

/// A turn of the user with these parts, unless there are none.
fn user_turn<'a>(media: &mut Vec<Part<'a>>) -> Option<Turn<'a>> {
    let parts = std::mem::take(media);
    (!parts.is_empty()).then(|| Turn::new(Role::User, parts))
}

/// The type of the part in chat, if it holds media.
fn kind(part: &Part<'_>) -> Option<&'static str> {
    Some(match &part.content {
        Content::Image { .. } => "image_url",
        Content::Audio { .. } => "input_audio",
        Content::File { .. } => "file",
        Content::Video { .. } => "video_url",
        _ => return None,
    })
}

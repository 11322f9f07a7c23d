//! Cache points: a block of its own behind what the client marked.

use bytes::{BufMut as _, BytesMut};

use crate::{
    json::Raw,
    neutral::{AlternatingTurn, Content, Part, Tool, UnsupportedFields, name_of_cache_mark},
};

/// Most cache points of a request.
const MAX_POINTS: usize = 4;

/// Writes the last cache points of a request; earlier ones than fit are dropped.
#[derive(Debug)]
pub(super) struct CachePoints {
    /// Whether the model knows them.
    known: bool,
    /// How many are still to be dropped.
    surplus: usize,
}

impl CachePoints {
    /// Counts the marks of everything that is written: tools, then `system`, then messages.
    pub(super) fn new(
        known: bool,
        tools: &[Tool<'_>],
        system: &[Part<'_>],
        turns: &[AlternatingTurn<'_>],
    ) -> CachePoints {
        let tools = tools.iter().filter(|tool| tool.cache_control.is_some()).count();
        let parts = system.iter().chain(turns.iter().flat_map(|turn| &turn.parts));
        let parts = parts.filter(|part| breakpoint_of(part).is_some()).count();
        CachePoints { known, surplus: (tools + parts).saturating_sub(MAX_POINTS) }
    }

    /// Appends `,{"cachePoint":…}`, unless there is no mark or too many follow. `place`: what was marked.
    pub(super) fn push(
        &mut self,
        breakpoint: Option<Raw<'_>>,
        place: &str,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) {
        let Some(breakpoint) = breakpoint else { return };
        let member = |name: &[u8]| breakpoint.member(name).and_then(Raw::text);
        let name = name_of_cache_mark(breakpoint);
        if !self.known || self.surplus > 0 {
            self.surplus = self.surplus.saturating_sub(1);
            return unsupported.drop(&format!("{place}.{name}"));
        }
        if name != "cache_control" {
            unsupported.emulate(&format!("{place}.{name}"));
        }
        out.put_slice(b",{\"cachePoint\":{\"type\":\"default\"");
        match member(b"ttl").as_deref() {
            None => {}
            Some("5m") => out.put_slice(b",\"ttl\":\"5m\""),
            Some(_) => out.put_slice(b",\"ttl\":\"1h\""),
        }
        out.put_slice(b"}}");
    }
}

/// The mark of a part, or of one within a result: a point can only stand behind the whole result.
pub(super) fn breakpoint_of<'a>(part: &Part<'a>) -> Option<Raw<'a>> {
    let within = match &part.content {
        Content::ToolResult { parts, .. } => parts.iter().rev().find_map(|part| part.cache_control),
        _ => None,
    };
    part.cache_control.or(within)
}

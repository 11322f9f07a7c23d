//! Cache breakpoints: `cache_control` on the block that the client marked.

use bytes::{BufMut as _, BytesMut};

use super::content::is_sendable;
use crate::{
    json::{Raw, push_member},
    neutral::{AlternatingTurn, Content, Part, Tool, UnsupportedFields, name_of_cache_mark},
};

/// Most breakpoints of a request.
const MAX_BREAKPOINTS: usize = 4;

/// Writes the last breakpoints of a request; earlier ones than fit are dropped.
#[derive(Debug)]
pub(super) struct CacheBreakpoints {
    /// How many are still to be dropped.
    surplus: usize,
}

impl CacheBreakpoints {
    /// Counts the breakpoints of everything that is written: tools, then `system`, then messages.
    pub(super) fn new(
        tools: &[&Tool<'_>],
        system: &[Part<'_>],
        turns: &[AlternatingTurn<'_>],
        at_top: bool,
    ) -> CacheBreakpoints {
        let tools = tools.iter().filter(|tool| tool.cache_control.is_some()).count();
        let parts = system.iter().chain(turns.iter().flat_map(|turn| &turn.parts));
        let total = tools + parts.map(breakpoints).sum::<usize>() + usize::from(at_top);
        CacheBreakpoints { surplus: total.saturating_sub(MAX_BREAKPOINTS) }
    }

    /// Appends the breakpoint as a member, unless there is none or too many follow.
    pub(super) fn push(
        &mut self,
        breakpoint: Option<Raw<'_>>,
        place: &str,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) {
        let Some(breakpoint) = breakpoint else { return };
        if self.surplus > 0 {
            self.surplus -= 1;
            unsupported.drop(&format!("{place}.{}", name_of_cache_mark(breakpoint)));
            return;
        }
        let member = |name: &[u8]| breakpoint.member(name).and_then(Raw::text);
        let ttl = member(b"ttl");
        let is_native = member(b"type").as_deref() == Some("ephemeral");
        if is_native && ttl.as_deref().is_none_or(|ttl| matches!(ttl, "5m" | "1h")) {
            return push_member(out, b"cache_control", breakpoint.bytes());
        }
        unsupported.emulate(&format!("{place}.{}", name_of_cache_mark(breakpoint)));
        push_member(out, b"cache_control", b"{\"type\":\"ephemeral\"");
        match ttl.as_deref() {
            Some("5m") => push_member(out, b"ttl", b"\"5m\""),
            Some(_) => push_member(out, b"ttl", b"\"1h\""),
            None => {}
        }
        out.put_u8(b'}');
    }
}

/// The breakpoints of a part that is written, those within a result included.
fn breakpoints(part: &Part<'_>) -> usize {
    let within = match &part.content {
        Content::ToolResult { parts, .. } => parts.iter().map(breakpoints).sum(),
        _ => 0,
    };
    within + usize::from(part.cache_control.is_some() && is_sendable(&part.content))
}

//! What providers of one API differ in: members that they do not take, and those that they want back.

use serde::{Deserialize, Serialize};

crate::named! {
    /// A member that the gateway adds to bodies though the client did not send it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AddedMember {
        /// `stream_options`, which asks for the usage of a stream.
        StreamOptions = "stream_options",
        /// `store`, which asks the Responses API to keep nothing.
        Store = "store",
        /// `include`, which asks the Responses API for reasoning that can be sent back.
        Include = "include",
        /// `reasoning.summary`, which asks the Responses API for reasoning that can be read.
        ReasoningSummary = "reasoning.summary",
    }
}

/// A set of such members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AddedMembers(u8);

impl AddedMembers {
    /// The set with one more.
    #[must_use]
    pub const fn with(self, one: AddedMember) -> AddedMembers {
        AddedMembers(self.0 | (1 << one as u8))
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: AddedMembers) -> AddedMembers {
        AddedMembers(self.0 | other.0)
    }

    /// Whether the member is in the set.
    #[must_use]
    pub const fn has(self, one: AddedMember) -> bool {
        self.0 & (1 << one as u8) != 0
    }

    /// The set as bits: for records.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these bits.
    pub const fn of_bits(bits: u8) -> AddedMembers {
        AddedMembers(bits)
    }
}

/// The member of a message in which a provider of chats takes back readable reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum ReasoningHistory {
    /// Nothing is known: a client's own members pass, but for those that [`Endpoint::wants_reasoning_effort`] excludes.
    ///
    /// [`Endpoint::wants_reasoning_effort`]: super::Endpoint::wants_reasoning_effort
    #[default]
    Unknown,
    /// `reasoning_content`
    Content,
    /// `reasoning`
    Reasoning,
    /// `reasoning_content` and `reasoning`: it reads one of them, and ignores the other.
    Both,
    /// `reasoning_details`
    Details,
    /// It takes none.
    Nothing,
    /// `reasoning_content`, and it refuses an answer without it. Found by such a refusal, never configured.
    Required,
}

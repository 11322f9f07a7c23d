/// A state of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    /// Requests pass.
    Closed,
    /// Nothing passes.
    Open,
    /// One request may probe it.
    HalfOpen,
    /// It cools after a 429.
    Cooldown,
}

impl Circuit {
    /// All of them, in the order messages name them.
    pub const ALL: [Circuit; 4] = [Circuit::Closed, Circuit::Open, Circuit::HalfOpen, Circuit::Cooldown];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Circuit::Closed => "closed",
            Circuit::Open => "open",
            Circuit::HalfOpen => "half_open",
            Circuit::Cooldown => "cooldown",
        }
    }
}

//! In which object of the body a field stands.

use pointsman_domain::Source;

use crate::neutral::Path;

/// Which object a field stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldLocation {
    /// The body itself.
    TopLevel,
    /// The object `extra_body`, whose members count as the body's where the body has none of that name.
    ExtraBody,
}

impl FieldLocation {
    pub(super) const EXTRA_BODY: Path<'static> = Path::Field("extra_body");

    /// The path of a field.
    pub(super) fn path(self, name: &str) -> Path<'_> {
        match self {
            FieldLocation::TopLevel => Path::Field(name),
            FieldLocation::ExtraBody => Path::Member(&Self::EXTRA_BODY, name),
        }
    }

    /// Where a routing parameter that stands here came from.
    pub(super) fn source(self) -> Source {
        match self {
            FieldLocation::TopLevel => Source::TopLevel,
            FieldLocation::ExtraBody => Source::ExtraBody,
        }
    }
}

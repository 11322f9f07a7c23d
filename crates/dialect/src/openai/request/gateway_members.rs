//! Members that are for the gateway alone, whatever the API of the client: no upstream gets them.

use super::{
    fields::{Field, Forwarding},
    request_kind::RequestKind,
    routing::RoutingField,
};

/// Whether a member at the top of a chat body is.
pub(crate) fn is_for_gateway(name: &str) -> bool {
    Field::named(RequestKind::Chat, name).forwarding() == Forwarding::Consumed
}

/// Whether a member of `metadata` is, as a routing parameter.
pub(crate) fn is_routing_parameter(name: &str) -> bool {
    RoutingField::named(name).is_some()
}

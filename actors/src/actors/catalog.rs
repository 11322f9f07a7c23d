//! CatalogActor: the owner of model metadata.
//!
//! It holds the catalog of the running configuration. Decisions and pages read the same `Arc` from the
//! configuration they work under, so that nothing ever mixes two versions; the actor answers whoever wants to know
//! which version is in force.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message, MessageResult};

use crate::domain::Catalog;

/// Asks for the catalog in force; also the actor's sign of life.
#[derive(Message)]
#[rtype(result = "Arc<Catalog>")]
pub struct CurrentCatalog;

/// Puts another catalog in force. Sent when a new configuration was taken over; no reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ReplaceCatalog(pub Arc<Catalog>);

/// The actor. Runs on the control arbiter.
pub struct CatalogActor {
    catalog: Arc<Catalog>,
}

impl CatalogActor {
    /// The owner of `catalog`.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>) -> CatalogActor {
        CatalogActor { catalog }
    }
}

impl Actor for CatalogActor {
    type Context = Context<Self>;
}

impl Handler<CurrentCatalog> for CatalogActor {
    type Result = MessageResult<CurrentCatalog>;

    fn handle(&mut self, _: CurrentCatalog, _: &mut Context<Self>) -> Self::Result {
        MessageResult(Arc::clone(&self.catalog))
    }
}

impl Handler<ReplaceCatalog> for CatalogActor {
    type Result = ();

    fn handle(&mut self, ReplaceCatalog(catalog): ReplaceCatalog, _: &mut Context<Self>) {
        self.catalog = catalog;
    }
}

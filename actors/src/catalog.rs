//! CatalogActor: the owner of model metadata.
//!
//! It holds the catalog of the active configuration. Decisions and API pages read the same `Arc` from their own
//! configuration, so no request mixes two versions. The actor answers which version is active.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message, MessageResult};
use pointsman_domain::Catalog;

/// Asks for the active catalog. Also the liveness check of the actor.
#[derive(Message)]
#[rtype(result = "Arc<Catalog>")]
pub struct CurrentCatalog;

/// Replaces the active catalog. Sent when a new configuration becomes active. No reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ReplaceCatalog(pub Arc<Catalog>);

/// The actor. Runs on the control arbiter.
pub struct CatalogActor {
    catalog: Arc<Catalog>,
}

impl CatalogActor {
    /// The owner of `catalog`.
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

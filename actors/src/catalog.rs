//! CatalogActor: the owner of model metadata.
//!
//! It holds the catalog of the running configuration and is the only one to replace it: a new one goes
//! to [`crate::provider_health::ProviderHealth`], which publishes it together with matching statistics,
//! so that no decision and no answer ever mixes two versions. Readers use the published snapshot.

use std::sync::Arc;

use actix::{Actor, Addr, Context, Handler, Message, MessageResult};

use crate::{
    domain::{Catalog, RoutingPolicy},
    provider_health::{AdoptCatalog, ProviderHealth},
};

/// Puts another catalog in force. Sent at start and on reload; answers the version now in force.
#[derive(Message)]
#[rtype(result = "u64")]
pub struct ReplaceCatalog {
    /// The new catalog.
    pub catalog: Arc<Catalog>,
    /// The policy that came with it.
    pub policy: Arc<RoutingPolicy>,
}

/// Asks for the catalog in force; also the actor's sign of life.
#[derive(Message)]
#[rtype(result = "Arc<Catalog>")]
pub struct CurrentCatalog;

/// The actor. Runs on the control arbiter.
pub struct CatalogActor {
    catalog: Arc<Catalog>,
    health: Addr<ProviderHealth>,
}

impl CatalogActor {
    /// The owner of `catalog`, which `health` already knows.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>, health: Addr<ProviderHealth>) -> CatalogActor {
        CatalogActor { catalog, health }
    }
}

impl Actor for CatalogActor {
    type Context = Context<Self>;
}

impl Handler<ReplaceCatalog> for CatalogActor {
    type Result = u64;

    fn handle(&mut self, message: ReplaceCatalog, _: &mut Context<Self>) -> u64 {
        self.catalog = Arc::clone(&message.catalog);
        self.health.do_send(AdoptCatalog { catalog: message.catalog, policy: message.policy });
        self.catalog.version
    }
}

impl Handler<CurrentCatalog> for CatalogActor {
    type Result = MessageResult<CurrentCatalog>;

    fn handle(&mut self, _: CurrentCatalog, _: &mut Context<Self>) -> Self::Result {
        MessageResult(Arc::clone(&self.catalog))
    }
}

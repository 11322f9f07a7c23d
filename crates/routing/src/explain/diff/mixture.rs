//! A configuration between two: some of the changes applied, the others not.

use std::sync::Arc;

use pointsman_domain::{Alias, Catalog, Endpoint, EndpointId, Model, ParameterNames, Provider};

use super::{
    changes::{Change, Kind, find_model, has_provider},
    side::{Side, translated},
};

/// `before` with those of the changes whose bit is set. `None` if these parts of two catalogs do not fit together.
pub(super) fn mixture(before: &Side, after: &Side, changes: &[Change], applied: u64) -> Option<Side> {
    let is_applied = |kind: &Kind| {
        changes.iter().take(64).enumerate().any(|(bit, change)| applied >> bit & 1 == 1 && change.kind == *kind)
    };
    let mut policy = (*before.policy).clone();
    for (_, change) in changes.iter().take(64).enumerate().filter(|(bit, _)| applied >> bit & 1 == 1) {
        if let Kind::Policy(key) = change.kind {
            (key.take)(&mut policy, &after.policy);
        }
    }
    let is_of_catalog = |change: &Change| !matches!(change.kind, Kind::Policy(_) | Kind::Objective);
    let catalog = match changes.iter().any(is_of_catalog) {
        true => {
            Arc::new(Mixture { before: &before.catalog, after: &after.catalog, is_applied: &is_applied }.catalog()?)
        }
        false => Arc::clone(&after.catalog),
    };
    let objective = if is_applied(&Kind::Objective) { after.objective } else { before.objective };
    Some(Side { catalog, policy: Arc::new(policy), objective })
}

struct Mixture<'c> {
    before: &'c Catalog,
    after: &'c Catalog,
    is_applied: &'c dyn Fn(&Kind) -> bool,
}

impl<'c> Mixture<'c> {
    fn side(&self, kind: &Kind) -> &'c Catalog {
        if (self.is_applied)(kind) { self.after } else { self.before }
    }

    fn catalog(&self) -> Option<Catalog> {
        let providers = self.providers();
        let mut parameters = self.after.parameters.clone();
        let (mut models, mut endpoints) = (Vec::new(), Vec::new());
        for id in names(self.before, self.after, |catalog| catalog.models.iter().map(|model| model.id.as_str())) {
            let side = self.side(&Kind::Model(id.to_owned()));
            let Some(model) = find_model(side, id) else { continue };
            let first = endpoints.len() as u32;
            for (catalog, endpoint) in self.endpoints_of(id, side) {
                endpoints.extend(self.endpoint(catalog, endpoint, models.len() as u32, &providers, &mut parameters));
            }
            let own: Vec<u32> = (first..endpoints.len() as u32).collect();
            if !own.is_empty() {
                models.push(Model { endpoints: own, ..model.clone() });
            } else {
                endpoints.truncate(first as usize);
            }
        }
        let synonyms = self.after.synonyms();
        Catalog::new(0, providers, models, endpoints, self.aliases(), &synonyms, parameters).ok()
    }

    /// Endpoints of a model: those of the chosen side, and those at providers that only one side has.
    fn endpoints_of(&self, model: &str, side: &'c Catalog) -> Vec<(&'c Catalog, &'c Endpoint)> {
        let of = |catalog: &'c Catalog, with_common: bool| {
            let own = find_model(catalog, model).into_iter().flat_map(|model| catalog.endpoints_of(model));
            let is_taken = move |endpoint: &Endpoint| {
                let slug = catalog.provider_of(endpoint).map_or("", |provider| provider.slug.as_str());
                let is_common = has_provider(self.before, slug) && has_provider(self.after, slug);
                !is_common || with_common
            };
            own.filter(move |(_, endpoint)| is_taken(endpoint)).map(move |(_, endpoint)| (catalog, endpoint))
        };
        let is_after = std::ptr::eq(side, self.after);
        of(self.before, !is_after).chain(of(self.after, is_after)).collect()
    }

    fn providers(&self) -> Vec<Provider> {
        let slugs = names(self.before, self.after, |catalog| catalog.providers.iter().map(|it| it.slug.as_str()));
        let provider = |slug: &str| {
            let side = self.side(&Kind::Provider(slug.to_owned()));
            side.providers.iter().find(|provider| provider.slug.as_str() == slug).cloned()
        };
        slugs.into_iter().filter_map(provider).collect()
    }

    fn aliases(&self) -> Vec<Alias> {
        let ids = names(self.before, self.after, |catalog| catalog.aliases.iter().map(|alias| alias.id.as_str()));
        let alias =
            |id: &str| self.side(&Kind::Alias(id.to_owned())).aliases.iter().find(|alias| alias.id == id).cloned();
        ids.into_iter().filter_map(alias).collect()
    }

    fn endpoint(
        &self,
        side: &Catalog,
        endpoint: &Endpoint,
        model: u32,
        providers: &[Provider],
        parameters: &mut ParameterNames,
    ) -> Option<Endpoint> {
        let slug = side.provider_of(endpoint)?.slug.as_str();
        let provider = providers.iter().position(|provider| provider.slug.as_str() == slug)? as u32;
        for name in side.parameters.names(endpoint.parameters) {
            parameters.intern(name).ok()?;
        }
        let priced = self.side(&Kind::Prices(slug.to_owned()));
        let pricing = priced_at(priced, endpoint.id).unwrap_or(endpoint).pricing.clone();
        let own = translated(endpoint.parameters, &side.parameters, parameters);
        Some(Endpoint { model, provider, pricing, parameters: own, ..endpoint.clone() })
    }
}

fn priced_at(catalog: &Catalog, id: EndpointId) -> Option<&Endpoint> {
    catalog.endpoints.iter().find(|endpoint| endpoint.id == id)
}

/// Names of both catalogs, each once, those of the first before the others.
fn names<'c, I: Iterator<Item = &'c str>>(
    before: &'c Catalog,
    after: &'c Catalog,
    of: impl Fn(&'c Catalog) -> I,
) -> Vec<&'c str> {
    let mut names: Vec<&str> = of(before).collect();
    let new: Vec<&str> = of(after).filter(|name| !names.contains(name)).collect();
    names.extend(new);
    names
}

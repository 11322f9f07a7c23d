//! What a client may ask for by one name: a model as its served endpoints make it, or an alias as the
//! models it may choose make it.
//!
//! An offer is a borrowed view of one catalog version. It is neither the wire shape
//! ([`super::model_entry`]) nor the choice of which offers a list shows ([`super::model_query`]).

use chrono::NaiveDate;
use pointsman_actors::domain::{
    Alias, Catalog, DefaultParameters, Endpoint, Modalities, Modality, Model, ModelPattern, ParameterSet, Pricing,
    Provider,
};

/// One name in the catalog.
#[derive(Debug, Clone)]
pub(crate) struct Offer<'a> {
    pub(crate) id: &'a str,
    pub(crate) canonical_slug: &'a str,
    pub(crate) name: &'a str,
    pub(crate) owner: &'a str,
    /// Unix time.
    pub(crate) created: i64,
    pub(crate) description: &'a str,
    pub(crate) input: Modalities,
    pub(crate) output: Modalities,
    pub(crate) tokenizer: &'a str,
    pub(crate) instruct_type: Option<&'a str>,
    /// The largest window among its endpoints.
    pub(crate) context_length: u32,
    /// What at least one of its endpoints honours.
    pub(crate) parameters: ParameterSet,
    /// Its preferred endpoint; `None` for an alias, which has none before a request is there.
    pub(crate) preferred: Option<&'a Endpoint>,
    pub(crate) default_parameters: Option<DefaultParameters>,
    pub(crate) expiration_date: Option<NaiveDate>,
    pub(crate) hugging_face_id: Option<&'a str>,
    pub(crate) knowledge_cutoff: Option<&'a str>,
    /// Positions of the endpoints that can be called.
    pub(crate) endpoints: Vec<u32>,
}

/// Which names of a catalog are on offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Models alone.
    Models,
    /// Models, then aliases.
    ModelsAndAliases,
}

impl<'a> Offer<'a> {
    /// Everything on offer on `today`, in configuration order.
    pub(crate) fn all(catalog: &'a Catalog, today: NaiveDate, names: Names) -> Vec<Offer<'a>> {
        let mut offers: Vec<Offer<'a>> =
            catalog.models.iter().filter_map(|model| Offer::of_model(catalog, model, today)).collect();
        if names == Names::ModelsAndAliases {
            let aliases: Vec<_> =
                catalog.aliases.iter().filter_map(|alias| Offer::of_alias(catalog, alias, &offers)).collect();
            offers.extend(aliases);
        }
        offers
    }

    /// The offer of a model; `None` when it is retired or no endpoint of it can be called.
    pub(crate) fn of_model(catalog: &'a Catalog, model: &'a Model, today: NaiveDate) -> Option<Offer<'a>> {
        if model.expiration_date.is_some_and(|gone| gone <= today) {
            return None;
        }
        let served: Vec<(u32, &Endpoint)> = served_endpoints(catalog, model).collect();
        let &(_, preferred) = served.first()?;
        let (context_length, parameters) = abilities(served.iter().map(|(_, endpoint)| *endpoint));
        Some(Offer {
            id: model.id.as_str(),
            canonical_slug: &model.canonical_slug,
            name: &model.name,
            owner: model.id.namespace(),
            created: model.created,
            description: &model.description,
            input: model.architecture.input,
            output: model.architecture.output,
            tokenizer: &model.architecture.tokenizer,
            instruct_type: model.architecture.instruct_type.as_deref(),
            context_length,
            parameters,
            preferred: Some(preferred),
            default_parameters: model.default_parameters,
            expiration_date: model.expiration_date,
            hugging_face_id: model.hugging_face_id.as_deref(),
            knowledge_cutoff: model.knowledge_cutoff.as_deref(),
            endpoints: served.iter().map(|(position, _)| *position).collect(),
        })
    }

    /// The offer of an alias that stands for a choice among `models`; `None` when there is nothing to choose.
    ///
    /// It can do what any of its endpoints can; it is as old as the oldest of its models.
    fn of_alias(catalog: &'a Catalog, alias: &'a Alias, models: &[Offer<'a>]) -> Option<Offer<'a>> {
        let choices: Vec<(&Offer<'a>, u32, &Endpoint)> = models
            .iter()
            .filter(|model| model.is_open_to(alias))
            .flat_map(|model| model.endpoints.iter().map(move |&position| (model, position)))
            .filter_map(|(model, position)| Some((model, position, catalog.endpoint(position)?)))
            .filter(|(_, _, endpoint)| !alias.free_only || endpoint.pricing.is_free())
            .collect();
        let (context_length, parameters) = abilities(choices.iter().map(|(_, _, endpoint)| *endpoint));
        Some(Offer {
            id: &alias.id,
            canonical_slug: &alias.id,
            name: &alias.id,
            owner: alias.id.split_once('/').map_or(alias.id.as_str(), |(prefix, _)| prefix),
            created: choices.iter().map(|(model, ..)| model.created).min()?,
            description: &alias.description,
            input: choices.iter().flat_map(|(model, ..)| model.input.iter()).collect(),
            output: choices.iter().flat_map(|(model, ..)| model.output.iter()).collect(),
            tokenizer: "Router",
            instruct_type: None,
            context_length,
            parameters,
            preferred: None,
            default_parameters: None,
            expiration_date: None,
            hugging_face_id: None,
            knowledge_cutoff: None,
            endpoints: choices.iter().map(|(_, position, _)| *position).collect(),
        })
    }

    /// Whether the lists of `alias` admit this model, and it can chat.
    fn is_open_to(&self, alias: &Alias) -> bool {
        let matches = |pattern: &ModelPattern| pattern.matches(self.id, self.canonical_slug);
        self.output.contains(Modality::Text)
            && (alias.allowed.is_empty() || alias.allowed.iter().any(matches))
            && !alias.blocked.iter().any(matches)
    }

    /// The prices of the preferred endpoint.
    pub(crate) fn pricing(&self) -> Option<&'a Pricing> {
        self.preferred.map(|endpoint| &*endpoint.pricing)
    }
}

/// The largest window among endpoints, and everything that some of them honours.
fn abilities<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> (u32, ParameterSet) {
    endpoints.fold((0, ParameterSet::default()), |(window, parameters), endpoint| {
        (window.max(endpoint.limits.context_length), parameters.union(endpoint.parameters))
    })
}

/// The endpoints of a model that can be called, preferred first.
fn served_endpoints<'a>(catalog: &'a Catalog, model: &'a Model) -> impl Iterator<Item = (u32, &'a Endpoint)> {
    catalog
        .endpoints_of(model)
        .filter(|(_, endpoint)| !endpoint.disabled && catalog.provider_of(endpoint).is_some_and(Provider::is_on))
}

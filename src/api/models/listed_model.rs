//! Entry of the model lists: a model with the properties of its enabled endpoints, or an alias with those of the models it
//! can choose.
//!
//! A listed model borrows from one catalog version. [`super::model_entry`] gives its JSON, [`super::model_query`] the
//! filters of a list.

use chrono::NaiveDate;
use pointsman_domain::{
    Alias, Catalog, DefaultParameters, Endpoint, Modalities, Modality, Model, ModelPattern, ParameterSet, Pricing,
    Provider,
};

/// A model or alias that a request can name.
#[derive(Debug, Clone)]
pub(crate) struct ListedModel<'a> {
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
    /// Largest context window of the endpoints, in tokens.
    pub(crate) context_length: u32,
    /// Parameters that at least one endpoint supports.
    pub(crate) parameters: ParameterSet,
    /// The first enabled endpoint; `None` for an alias.
    pub(crate) preferred: Option<&'a Endpoint>,
    pub(crate) default_parameters: Option<DefaultParameters>,
    pub(crate) expiration_date: Option<NaiveDate>,
    pub(crate) hugging_face_id: Option<&'a str>,
    pub(crate) knowledge_cutoff: Option<&'a str>,
    /// Positions of the enabled endpoints.
    pub(crate) endpoints: Vec<u32>,
}

/// The kinds of entries in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListedKinds {
    /// Models only.
    Models,
    /// Models, then aliases.
    ModelsAndAliases,
}

impl<'a> ListedModel<'a> {
    /// All entries that are available on `today`, in configuration order.
    pub(crate) fn all(catalog: &'a Catalog, today: NaiveDate, kinds: ListedKinds) -> Vec<ListedModel<'a>> {
        let mut listed: Vec<ListedModel<'a>> =
            catalog.models.iter().filter_map(|model| ListedModel::of_model(catalog, model, today)).collect();
        if kinds == ListedKinds::ModelsAndAliases {
            let aliases: Vec<_> =
                catalog.aliases.iter().filter_map(|alias| ListedModel::of_alias(catalog, alias, &listed)).collect();
            listed.extend(aliases);
        }
        listed
    }

    /// The entry of a model; `None` if the model is retired or has no enabled endpoint.
    pub(crate) fn of_model(catalog: &'a Catalog, model: &'a Model, today: NaiveDate) -> Option<ListedModel<'a>> {
        if model.expiration_date.is_some_and(|date| date <= today) {
            return None;
        }
        let enabled: Vec<(u32, &Endpoint)> = enabled_endpoints(catalog, model).collect();
        let &(_, preferred) = enabled.first()?;
        let (context_length, parameters) = capabilities(enabled.iter().map(|(_, endpoint)| *endpoint));
        Some(ListedModel {
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
            endpoints: enabled.iter().map(|(position, _)| *position).collect(),
        })
    }

    /// The entry of an alias that chooses among `models`; `None` if it can choose none. Modalities and parameters are the
    /// union over its endpoints, `created` is that of its oldest model.
    fn of_alias(catalog: &'a Catalog, alias: &'a Alias, models: &[ListedModel<'a>]) -> Option<ListedModel<'a>> {
        let choices: Vec<(&ListedModel<'a>, u32, &Endpoint)> = models
            .iter()
            .filter(|model| model.is_choice_of(alias, catalog))
            .flat_map(|model| model.endpoints.iter().map(move |&position| (model, position)))
            .filter_map(|(model, position)| Some((model, position, catalog.endpoint(position)?)))
            .filter(|(_, _, endpoint)| !alias.free_only || endpoint.is_free())
            .collect();
        let (context_length, parameters) = capabilities(choices.iter().map(|(_, _, endpoint)| *endpoint));
        Some(ListedModel {
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

    /// Whether `alias` can choose this model: its ladder or its lists admit the model, and the model generates text.
    fn is_choice_of(&self, alias: &Alias, catalog: &Catalog) -> bool {
        let matches = |pattern: &ModelPattern| pattern.matches(self.id, self.canonical_slug);
        let ladder = alias.split.as_ref().map_or(&[][..], |split| &split.ladder);
        if !ladder.is_empty() && ladder.iter().all(|name| catalog.knows(name, false)) {
            return ladder.iter().any(|name| name == self.id || name == self.canonical_slug);
        }
        self.output.contains(Modality::Text)
            && (alias.allowed.is_empty() || alias.allowed.iter().any(matches))
            && !alias.blocked.iter().any(matches)
    }

    /// The prices of the preferred endpoint, if known.
    pub(crate) fn pricing(&self) -> Option<&'a Pricing> {
        self.preferred.and_then(|endpoint| endpoint.pricing.as_deref())
    }
}

/// The largest context window of the endpoints, and the union of their parameters.
fn capabilities<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> (u32, ParameterSet) {
    endpoints.fold((0, ParameterSet::default()), |(window, parameters), endpoint| {
        (window.max(endpoint.limits.context_length), parameters.union(endpoint.parameters))
    })
}

/// The enabled endpoints of a model, preferred first.
fn enabled_endpoints<'a>(catalog: &'a Catalog, model: &'a Model) -> impl Iterator<Item = (u32, &'a Endpoint)> {
    catalog
        .endpoints_of(model)
        .filter(|(_, endpoint)| !endpoint.disabled && catalog.provider_of(endpoint).is_some_and(Provider::is_on))
}

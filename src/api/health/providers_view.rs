//! JSON of the provider list.

use pointsman_domain::{Catalog, Provider};
use serde::Serialize;

view! {
    /// The list of enabled providers.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct ProvidersBody<'a> {
        /// The list, in configuration order.
        pub(crate) fn new(catalog: &'a Catalog) {
            let on = catalog.providers.iter().filter(|provider| provider.is_on());
        }

        /// The enabled providers, in the order of the configuration.
        data: Vec<ProviderEntry<'a>> = on.map(ProviderEntry::new).collect(),
    }
}

view! {
    struct ProviderEntry<'a> {
        fn new(provider: &'a Provider) {}

        /// Display name of the provider.
        name: &'a str = &provider.name,
        /// Slug of the provider: its name in the configuration, in requests and in filters.
        slug: &'a str = provider.slug.as_str(),
        /// Address of the privacy policy; `null` if not configured.
        privacy_policy_url: Option<&'a str> = provider.privacy_policy_url.as_deref(),
        /// Address of the terms of service; `null` if not configured.
        terms_of_service_url: Option<&'a str> = provider.terms_of_service_url.as_deref(),
        /// Address of the provider's own page on its state; `null` if not configured.
        status_page_url: Option<&'a str> = provider.status_page_url.as_deref(),
        /// Country code; `null` if not configured.
        headquarters: Option<&'a str> = provider.headquarters.as_deref(),
        /// Country codes; `null` if not configured.
        datacenters: Option<&'a [String]> =
            Some(provider.datacenters.as_slice()).filter(|countries| !countries.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::api::samples::catalog;

    #[test]
    fn the_providers_that_are_on_are_listed_with_every_key() {
        let catalog = catalog();
        let body = serde_json::to_string_pretty(&ProvidersBody::new(&catalog)).unwrap();
        expect![[r#"
            {
              "data": [
                {
                  "name": "Acme",
                  "slug": "acme",
                  "privacy_policy_url": "https://acme.example/privacy",
                  "terms_of_service_url": null,
                  "status_page_url": null,
                  "headquarters": "DE",
                  "datacenters": [
                    "DE",
                    "FR"
                  ]
                },
                {
                  "name": "Beta Cloud",
                  "slug": "beta",
                  "privacy_policy_url": null,
                  "terms_of_service_url": null,
                  "status_page_url": null,
                  "headquarters": null,
                  "datacenters": null
                }
              ]
            }"#]]
        .assert_eq(&body);
    }
}

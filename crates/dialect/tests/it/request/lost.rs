//! Required parameters that an endpoint would not get, told by the model that it serves.

use pointsman_dialect::lost_parameters;
use pointsman_domain::{Catalog, Dialect, Endpoint, EndpointId, Model, ParameterNames, Provider, ProviderSlug, Target};

use super::world::{body, read};

/// One model at an endpoint of each of these dialects, under these names.
fn catalog(endpoints: &[(Dialect, &str)]) -> Catalog {
    let id = |upstream: &str| EndpointId::new("acme/a", "acme", upstream);
    let endpoint = |(dialect, upstream): &(Dialect, &str)| Endpoint {
        dialect: *dialect,
        variant: (*upstream).to_owned(),
        forwards_unknown_fields: upstream.contains("forwards"),
        ..Endpoint::with_defaults(id(upstream), 0, 0, upstream)
    };
    let model = Model::with_defaults("acme/a".parse().unwrap(), (0..endpoints.len() as u32).collect());
    let provider = Provider::with_defaults(ProviderSlug::new("acme").unwrap());
    let endpoints = endpoints.iter().map(endpoint).collect();
    Catalog::new(1, vec![provider], vec![model], endpoints, Vec::new(), &[], ParameterNames::published()).unwrap()
}

/// What is lost where.
fn lost(endpoints: &[(Dialect, &str)], fields: &str, target: Target) -> Vec<String> {
    let catalog = catalog(endpoints);
    let lost = lost_parameters(&read(body(fields)), &catalog, &[target]);
    let upstream = |id| catalog.endpoints.iter().find(|endpoint| endpoint.id == id).unwrap().upstream_model.to_string();
    lost.iter().map(|lost| format!("{}: {}", upstream(lost.endpoint), lost.name)).collect()
}

#[test]
fn the_verdict_is_about_the_model_of_the_endpoint() {
    let endpoints = [
        (Dialect::Converse, "anthropic.claude-opus-4-1-v1:0"),
        (Dialect::Converse, "amazon.nova-pro-v1:0"),
        (Dialect::Anthropic, "claude-opus-4-1"),
        (Dialect::Anthropic, "claude-opus-5"),
        (Dialect::OpenAi, "gpt"),
    ];
    let fields = r#","top_k":40,"provider":{"require_parameters":true}"#;
    let expected = ["amazon.nova-pro-v1:0: top_k", "claude-opus-5: top_k"];
    for target in [Target::Model(0), Target::Alias(0)] {
        assert_eq!(lost(&endpoints, fields, target), expected);
    }
    assert!(lost(&endpoints, fields, Target::Model(1)).is_empty(), "of the targets alone");
    assert!(lost(&endpoints, r#","top_k":40"#, Target::Model(0)).is_empty(), "without the requirement");
}

#[test]
fn an_unknown_field_is_lost_where_it_is_not_forwarded() {
    let endpoints = [(Dialect::OpenAi, "forwards"), (Dialect::OpenAi, "drops")];
    let fields = r#","luck":7,"provider":{"require_parameters":true}"#;
    assert_eq!(lost(&endpoints, fields, Target::Model(0)), ["drops: luck"]);
}

//! A small catalog, and the shortest ways to read a body and to write it for an endpoint.

use bytes::Bytes;
use pointsman_dialect::{ChatPurpose, ChatRequest, ImageRequest, OutgoingBody, RequestLimits};
use pointsman_domain::{
    Catalog, DefaultParameters, Endpoint, EndpointId, Invalid, Modalities, Modality, Model, ParameterNames,
    ParameterSet, Provider, ProviderSlug,
};

/// One model with one endpoint each, told apart by what the endpoint can do.
pub(crate) fn catalog() -> Catalog {
    let mut parameters = ParameterNames::published();
    let text = Modalities::TEXT;
    let image = Modalities::NONE.with(Modality::Image);
    let common = &["max_tokens", "temperature", "top_p", "stop", "seed"][..];
    let all = &["tools", "tool_choice", "reasoning", "response_format", "structured_outputs", "top_k", "n"][..];
    let mut build = Build { models: Vec::new(), endpoints: Vec::new(), parameters: &mut parameters };
    build.add("acme/able", text.with(Modality::Image), text, &[common, all].concat(), |_, _| {});
    build.add("acme/plain", text, text, common, |_, endpoint| {
        endpoint.knows_developer_role = false;
        endpoint.forwards_unknown_fields = false;
    });
    build.add("acme/newer", text, text, &[common, &["structured_outputs"]].concat(), |_, endpoint| {
        endpoint.wants_max_completion_tokens = true;
    });
    build.add("acme/thinks", text, text, &[common, &["reasoning_effort"]].concat(), |_, _| {});
    build.add("acme/effort", text, text, &[common, &["reasoning"]].concat(), |_, endpoint| {
        endpoint.wants_reasoning_effort = true;
    });
    build.add("acme/tuned", text, text, common, |model, _| {
        model.default_parameters = Some(DefaultParameters {
            temperature: Some(0.7),
            top_p: Some(1.0),
            repetition_penalty: Some(1.05),
            frequency_penalty: Some(0.5),
            ..DefaultParameters::default()
        });
    });
    build.add("acme/paint", text, image, &["response_format", "seed"], |model, _| {
        model.image_sizes = vec!["512x512".to_owned(), "1024x1024".to_owned()];
    });
    build.add("acme/draw", text, image.with(Modality::Text), common, |_, endpoint| {
        endpoint.images_through_chat = true;
    });
    build.add("acme/vectors", text, Modalities::NONE.with(Modality::Embeddings), &[], |_, _| {});
    let (models, endpoints) = (build.models, build.endpoints);
    Catalog::new(1, vec![provider()], models, endpoints, Vec::new(), &[], parameters).unwrap()
}

struct Build<'p> {
    models: Vec<Model>,
    endpoints: Vec<Endpoint>,
    parameters: &'p mut ParameterNames,
}

impl Build<'_> {
    fn add(
        &mut self,
        id: &str,
        input: Modalities,
        output: Modalities,
        listed: &[&str],
        change: impl FnOnce(&mut Model, &mut Endpoint),
    ) {
        let position = u32::try_from(self.models.len()).unwrap();
        let listed = listed.iter().map(|name| self.parameters.intern(name).unwrap());
        let parameters = listed.fold(ParameterSet::default(), ParameterSet::union);
        let mut model = model(id, position, input, output);
        let mut endpoint = endpoint(id, position, parameters);
        change(&mut model, &mut endpoint);
        self.models.push(model);
        self.endpoints.push(endpoint);
    }
}

fn provider() -> Provider {
    let acme = Provider::with_defaults(ProviderSlug::new("acme").unwrap());
    Provider { name: "Acme".into(), zero_data_retention: true, ..acme }
}

fn model(id: &str, position: u32, input: Modalities, output: Modalities) -> Model {
    let mut model = Model::with_defaults(id.parse().unwrap(), vec![position]);
    (model.architecture.input, model.architecture.output) = (input, output);
    model
}

fn endpoint(id: &str, position: u32, parameters: ParameterSet) -> Endpoint {
    let upstream_model = id.replace("acme/", "up-");
    Endpoint { parameters, ..Endpoint::with_defaults(EndpointId::new(id, "acme", ""), position, 0, &upstream_model) }
}

pub(crate) fn model_named<'c>(catalog: &'c Catalog, id: &str) -> &'c Model {
    catalog.models.iter().find(|model| model.id.as_str() == id).unwrap()
}

pub(crate) fn endpoint_of<'c>(catalog: &'c Catalog, id: &str) -> &'c Endpoint {
    catalog.endpoints_of(model_named(catalog, id)).next().unwrap().1
}

/// A whole chat body around `fields`, which may begin with a comma.
pub(crate) fn body(fields: &str) -> String {
    format!(r#"{{"model":"acme/able","messages":[{{"role":"user","content":"Hi"}}]{fields}}}"#)
}

/// A whole chat body with these messages.
pub(crate) fn talk(messages: &str) -> String {
    format!(r#"{{"model":"acme/able","messages":[{messages}]}}"#)
}

pub(crate) fn parse(body: impl AsRef<[u8]>) -> Result<Box<ChatRequest>, Invalid> {
    ChatRequest::parse(Bytes::copy_from_slice(body.as_ref()), ChatPurpose::Chat, &RequestLimits::default())
}

pub(crate) fn read(body: impl AsRef<[u8]>) -> Box<ChatRequest> {
    let text = String::from_utf8_lossy(body.as_ref()).into_owned();
    parse(body).unwrap_or_else(|invalid| panic!("refused: {invalid:?}\n{text}"))
}

pub(crate) fn preview(body: &str) -> Result<Box<ChatRequest>, Invalid> {
    ChatRequest::parse(Bytes::copy_from_slice(body.as_bytes()), ChatPurpose::Preview, &RequestLimits::default())
}

pub(crate) fn read_image(body: &str) -> Result<ImageRequest, Invalid> {
    ImageRequest::parse(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default())
}

/// What the endpoint of `id` is sent for a chat body.
pub(crate) fn sent(id: &str, body: &str) -> OutgoingBody {
    let catalog = catalog();
    read(body).upstream_body(&catalog, endpoint_of(&catalog, id))
}

/// The body as text, and under it the names of what was dropped.
pub(crate) fn shown(outgoing: &OutgoingBody) -> String {
    let text = String::from_utf8(outgoing.bytes.to_vec()).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).expect("an upstream is sent JSON");
    if outgoing.dropped.is_empty() { text } else { format!("{text}\ndropped: {}", outgoing.dropped.join(", ")) }
}

//! One model at an endpoint of each dialect, and clients of each API.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use pointsman_dialect::{
    AnswerContext, ChatPurpose, ChatRequest, ClientReader, ClientRequest, OutgoingBody, ProviderState, RequestLimits,
    StateKey, chat_body,
};
use pointsman_domain::{
    Catalog, Dialect, Endpoint, EndpointId, GenerationId, Model, ModelId, ParameterNames, Provider, ProviderSlug,
};

static KEY: StateKey = StateKey::new([7; 32]);

/// One endpoint of each dialect, in the order of [`Dialect::ALL`].
pub(crate) fn catalog() -> Catalog {
    catalog_of(|_| "m")
}

/// The same, with the model that the provider of each dialect serves.
pub(crate) fn catalog_of(model: impl Fn(Dialect) -> &'static str) -> Catalog {
    catalog_taking([].into_iter(), model)
}

/// The same, whose endpoints list these parameters too.
pub(crate) fn catalog_taking<'a>(
    more: impl Iterator<Item = &'a str>,
    model: impl Fn(Dialect) -> &'static str,
) -> Catalog {
    let id: ModelId = "acme/m".parse().unwrap();
    let mut parameters = ParameterNames::published();
    // What an endpoint does not list is dropped and named before any dialect sees it.
    let names = include_str!("chat_members.txt").lines().filter(|line| !line.starts_with('#'));
    let listed =
        names.chain(["structured_outputs", "reasoning"]).chain(more).filter_map(|name| parameters.intern(name).ok());
    let listed = listed.reduce(|all, one| all.union(one)).unwrap();
    let endpoints: Vec<Endpoint> = Dialect::ALL
        .into_iter()
        .map(|dialect| Endpoint {
            dialect,
            parameters: listed,
            ..Endpoint::with_defaults(EndpointId::new("acme/m", "acme", dialect.as_str()), 0, 0, model(dialect))
        })
        .collect();
    let model = Model::with_defaults(id, (0..endpoints.len() as u32).collect());
    let provider = Provider::with_defaults(ProviderSlug::new("acme").unwrap());
    Catalog::new(1, vec![provider], vec![model], endpoints, Vec::new(), &[], parameters).unwrap()
}

pub(crate) fn context() -> AnswerContext {
    AnswerContext {
        generation: GenerationId::new(1_763_629_500, [1, 2, 3]),
        created: 1_763_629_500,
        model: Arc::from("acme/m"),
        provider_name: Arc::from("Acme"),
        fingerprint: Arc::from("fp"),
        pricing: None,
        prompt_tokens: 12,
        images: 0,
        exclude_reasoning: false,
        legacy_functions: false,
        service: Default::default(),
        told: Default::default(),
        clock: || 1_763_629_503,
    }
}

/// What an endpoint is sent for this chat body.
pub(crate) fn sent(catalog: &Catalog, dialect: Dialect, body: &str) -> OutgoingBody {
    sent_of(catalog, dialect, &of_chat(body))
}

/// The request of a client of chat.
pub(crate) fn of_chat(body: &str) -> Box<ChatRequest> {
    ChatRequest::parse(Bytes::copy_from_slice(body.as_bytes()), ChatPurpose::Chat, &RequestLimits::default()).unwrap()
}

/// The request of a client of Messages.
pub(crate) fn of_messages(body: &impl ToString) -> Box<ChatRequest> {
    reader().messages(Bytes::from(body.to_string()), None, &Vec::new()).unwrap()
}

/// The request of a client of Responses. Tools that run at the provider are left out.
pub(crate) fn of_responses(body: &impl ToString) -> Box<ChatRequest> {
    reader().responses(Bytes::from(body.to_string()), || ProviderState::Refused, true).unwrap()
}

/// The request of a client of completions of texts.
pub(crate) fn of_completion(body: &impl ToString) -> Box<ChatRequest> {
    reader().completion(Bytes::from(body.to_string())).unwrap()
}

/// The request of a client of chat that may be in the form of Responses.
pub(crate) fn of_agent(body: &impl ToString) -> Box<ChatRequest> {
    reader().chat_or_items(Bytes::from(body.to_string())).unwrap()
}

fn reader() -> ClientReader<'static> {
    static LIMITS: LazyLock<RequestLimits> = LazyLock::new(RequestLimits::default);
    ClientReader { state_key: &KEY, purpose: ChatPurpose::Chat, limits: &LIMITS }
}

/// What an endpoint is sent for this request.
pub(crate) fn sent_of(catalog: &Catalog, dialect: Dialect, chat: &ChatRequest) -> OutgoingBody {
    let endpoint = catalog.endpoints.iter().find(|endpoint| endpoint.dialect == dialect).unwrap();
    chat_body(chat, catalog, endpoint, None).unwrap()
}

/// Clients of each API; that of chat has no request of its own.
pub(crate) fn clients() -> [(&'static str, Option<ClientRequest>); 3] {
    let message = r#"{"model":"acme/m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#;
    let response = r#"{"model":"acme/m","input":"Hi"}"#;
    let client = |chat: Box<ChatRequest>| chat.client.map(Arc::unwrap_or_clone);
    [("chat", None), ("messages", client(of_messages(&message))), ("responses", client(of_responses(&response)))]
}

//! `GET /`: what this is and where to go, for a person as HTML and for a program as JSON. Agents ask for it before they call the
//! gateway, and read anything but a 2xx as "down".
//!
//! Needs no key and says nothing of the configuration.

use std::{collections::BTreeMap, sync::LazyLock};

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderValue},
};
use serde::Serialize;

use crate::{
    api::{
        answer::uncached,
        openapi::{self, Document, page},
    },
    state::gateway::Worker,
};

/// A link of the page: its name in JSON, where it leads, and what is there.
type Link = (&'static str, &'static str, &'static str);

const SHARED_LINKS: [Link; 3] = [
    ("docs", "docs", "all paths of this address, to read"),
    ("openapi", "openapi.json", "the same for programs"),
    ("health", "health", "state of the gateway"),
];
const INFERENCE_LINKS: [Link; 1] = [("models", "api/v1/models", "models that can be called")];
const ADMIN_LINKS: [Link; 1] = [("console", "console/", "pages for administrators, unless they are switched off")];

const INFERENCE_TEXT: &str = "A gateway to language models. Clients of the OpenAI API get the base address of this page with \
                              /api/v1 behind it, clients of the Anthropic API the one with /api; both need a key. \
                              Administration and the console have a listener of their own (admin.bind).";
const ADMIN_TEXT: &str = "The listener for administration of a gateway to language models. Every call needs a key with the \
                          scope admin. Models are called at the other listener (server.bind).";

static INFERENCE: LazyLock<FrontPage> = LazyLock::new(|| FrontPage::new(INFERENCE_TEXT, &INFERENCE_LINKS));
static ADMIN: LazyLock<FrontPage> = LazyLock::new(|| FrontPage::new(ADMIN_TEXT, &ADMIN_LINKS));

/// The page in both forms, as they are sent.
struct FrontPage {
    html: String,
    json: FrontPageBody,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct FrontPageBody {
    /// What this address is.
    description: &'static str,
    /// Where to go, relative to this page.
    links: BTreeMap<&'static str, &'static str>,
    /// Always `Pointsman`.
    name: &'static str,
}

impl FrontPage {
    fn new(text: &'static str, links: &[Link]) -> FrontPage {
        let links = || links.iter().chain(&SHARED_LINKS);
        let addresses = links().map(|(name, to, _)| (*name, *to)).collect();
        let content = maud::html! {
            p.lead { (text) }
            ul { @for (_, to, what) in links() { li { a href=(to) { (to) } ": " (what) } } }
        };
        let html = page::frame("Pointsman", content);
        FrontPage { html, json: FrontPageBody { description: text, links: addresses, name: "Pointsman" } }
    }
}

/// Shows the page of the listener. A browser at the admin listener is sent on to the console, if it is on.
pub(crate) async fn show(request: HttpRequest) -> HttpResponse {
    let document = openapi::described(&request);
    let page: &'static FrontPage = match document {
        Document::Inference => &INFERENCE,
        Document::Admin => &ADMIN,
    };
    let accepted = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let has_console = || Worker::of(&request).is_some_and(|worker| worker.setup.config.console.enabled);
    let mut answer = match accepted.is_some_and(|accepted| accepted.contains("text/html")) {
        true if document == Document::Admin && has_console() => {
            HttpResponse::SeeOther().insert_header((header::LOCATION, "console/")).finish()
        }
        true => openapi::page_answer(&page.html),
        false => uncached(&page.json),
    };
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

//! The console: HTML pages for administrators on the admin listener, below `/console/`.
//!
//! The pages show what the JSON API shows, from the same view structs of [`crate::api`], and what their forms change goes
//! through the functions of its calls. They work without scripts; `console.js` adds keys, time zones and live parts. Every link is relative, so that
//! a proxy may put any prefix before `/console/`.
//!
//! A request passes [`headers`] (security headers), then [`middleware`] (session, origin of forms, error pages), then one page.

pub(crate) mod headers;

mod about;
mod answer;
mod assets;
mod audit;
mod breakers;
#[expect(clippy::disallowed_methods, reason = "lengths of bars")]
mod budget;
mod calibration;
mod chart;
mod configuration;
mod decision;
mod decisions;
mod first_steps;
mod form;
mod format;
mod holders;
mod in_file;
mod job;
mod keys;
mod last_hour;
mod layout;
mod ledger;
mod login;
mod measured;
mod middleware;
mod models;
mod overview;
mod playground;
mod prices;
mod providers;
mod quality;
mod refused;
mod regret;
mod session;
mod shadows;
#[expect(clippy::disallowed_methods, reason = "heights of bars")]
mod spend;
mod svg;
mod targets;
#[expect(clippy::disallowed_methods, reason = "heights of bars")]
mod timeline;
mod visit;
mod visitor;
mod what_if;
mod words;

use std::sync::Arc;

use actix_web::{Resource, Scope, dev::HttpServiceFactory, middleware::from_fn, web};

use crate::{
    access::issued::HolderKind,
    base::{
        error::ApiError,
        resources::{call, page, page_and_call, read},
    },
};
use pointsman_base::secret::Secret;
use session::Sessions;

/// What the pages of one listener share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Console {
    sessions: Arc<Sessions>,
    transport: Transport,
}

/// Transport of the listener, which decides about the cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

impl Console {
    pub(crate) fn new(transport: Transport) -> Console {
        Console { sessions: Arc::default(), transport }
    }

    /// Path and query of the page that logs in once with the key of this SHA-256.
    pub(crate) fn login_link(&self, key: [u8; 32]) -> Secret {
        Secret::new(format!("/console/login?once={}", self.sessions.offer_once(key)))
    }

    /// All paths of the console.
    pub(crate) fn scope(&self) -> impl HttpServiceFactory + 'static + use<> {
        let pages = pages().into_iter().fold(web::scope(""), Scope::service);
        let pages = pages.default_service(web::to(async || Err::<String, _>(ApiError::no_such("page"))));
        web::scope("/console")
            .app_data(web::Data::new(self.clone()))
            .service(web::resource("").route(read().to(async || answer::redirect("console/"))))
            .service(page("/assets/{hash}/{name}").route(read().to(assets::show)))
            .service(page_and_call("/login").route(read().to(login::show)).route(web::post().to(login::submit)))
            .service(pages.wrap(from_fn(middleware::session)))
            .wrap(from_fn(middleware::forms))
    }
}

/// The pages behind the login.
fn pages() -> Vec<Resource> {
    let too_large = |_, _: &_| ApiError::body_too_large(playground::MOST_BYTES).into();
    let forms = web::FormConfig::default().limit(playground::MOST_BYTES).error_handler(too_large);
    let mut pages = vec![
        page("/").route(read().to(overview::show)),
        call("/samples").route(web::post().to(first_steps::send)),
        page("/providers").route(read().to(providers::show)),
        page("/refused").route(read().to(refused::show)),
        page("/decisions").route(read().to(decisions::show)),
        page("/decisions.csv").route(read().to(decisions::csv)),
        page("/decisions/{id}").route(read().to(decision::show)),
        page("/models").route(read().to(models::show)),
        page("/prices").route(read().to(prices::show)),
        page_and_call("/try")
            .app_data(forms.clone())
            .route(read().to(playground::show))
            .route(web::post().to(playground::preview)),
        call("/try/send").app_data(forms.clone()).route(web::post().to(playground::send)),
        page("/calibration").route(read().to(calibration::show)),
        page("/targets").route(read().to(targets::show)),
        page("/shadows").route(read().to(shadows::show)),
        page_and_call("/regret").route(read().to(regret::show)).route(web::post().to(regret::review)),
        page_and_call("/what-if")
            .app_data(forms)
            .route(read().to(what_if::show))
            .route(web::post().to(what_if::compare)),
        page("/spend").route(read().to(spend::show)),
        page("/spend.csv").route(read().to(spend::csv)),
        page("/activity").route(read().to(spend::moved)),
        page("/config").route(read().to(configuration::show)),
        call("/config/reload").route(web::post().to(configuration::reload)),
        page("/about").route(read().to(about::show)),
        page("/licenses").route(read().to(about::licenses)),
        page("/audit").route(read().to(audit::show)),
        page("/ledger").route(read().to(ledger::show)),
        call("/ledger/verify").route(web::post().to(ledger::verify)),
        page("/accounts").route(read().to(holders::show)),
        call("/logout").route(web::post().to(login::end)),
    ];
    pages.extend(key_pages());
    pages.extend([HolderKind::Account, HolderKind::Team].into_iter().flat_map(holder_pages));
    pages
}

fn key_pages() -> Vec<Resource> {
    use keys::{actions, edit};
    vec![
        page("/keys").route(read().to(keys::show)),
        page_and_call("/new/key").route(read().to(edit::new)).route(web::post().to(edit::create)),
        page("/keys/{name}").route(read().to(keys::show_one)),
        page_and_call("/keys/{name}/change").route(read().to(edit::change)).route(web::post().to(edit::submit)),
        page_and_call("/keys/{name}/disable")
            .route(read().to(actions::ask_disable))
            .route(web::post().to(actions::disable)),
        call("/keys/{name}/enable").route(web::post().to(actions::enable)),
        page_and_call("/keys/{name}/rotate")
            .route(read().to(actions::ask_rotate))
            .route(web::post().to(actions::rotate)),
        page_and_call("/keys/{name}/delete")
            .route(read().to(actions::ask_delete))
            .route(web::post().to(actions::delete)),
    ]
}

fn holder_pages(kind: HolderKind) -> [Resource; 5] {
    let (word, one) = (kind.word(), format!("/{}/{{name}}", kind.plural()));
    [
        page_and_call(&format!("/new/{word}"))
            .route(read().to(move |visit| holders::new(kind, visit)))
            .route(web::post().to(move |visit, entered| holders::set(kind, None, visit, entered))),
        page_and_call(&one)
            .route(read().to(move |visit, name| holders::change(kind, visit, name)))
            .route(web::post().to(move |visit, name, entered| holders::set(kind, Some(name), visit, entered))),
        page_and_call(&format!("{one}/disable"))
            .route(read().to(move |visit, name| holders::ask_disable(kind, visit, name)))
            .route(web::post().to(move |visit, name, entered| holders::switched(kind, false, visit, name, entered))),
        call(&format!("{one}/enable"))
            .route(web::post().to(move |visit, name, entered| holders::switched(kind, true, visit, name, entered))),
        page_and_call(&format!("{one}/delete"))
            .route(read().to(move |visit, name| holders::ask(kind, visit, name)))
            .route(web::post().to(move |visit, name, entered| holders::delete(kind, visit, name, entered))),
    ]
}

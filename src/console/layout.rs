//! The frame of every page: head, navigation, footer.

use actix_web::{HttpMessage as _, HttpRequest};
use maud::{DOCTYPE, Markup, Render, html};

use super::{assets, visitor::Visitor};
use crate::{api::openapi::page::mark, base::build};

pointsman_domain::named! {
    /// The pages of the navigation with their labels.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
    pub(super) enum Nav {
        Overview = "Overview",
        Decisions = "Decisions",
        Spend = "Spend",
        Providers = "Providers",
        Models = "Models",
        Keys = "Keys",
        Accounts = "Accounts",
        Playground = "Playground",
        Calibration = "Calibration",
        Targets = "Targets",
        WhatIf = "What if",
        Shadows = "Shadows",
        Regret = "Regret",
        Audit = "Audit",
        Ledger = "Ledger",
        Configuration = "Configuration",
        About = "About",
    }
}

impl Nav {
    /// Path below `/console/`, and the key that follows `g`.
    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Nav::Overview => ("./", "o"),
            Nav::Decisions => ("decisions", "d"),
            Nav::Spend => ("spend", "v"),
            Nav::Providers => ("providers", "p"),
            Nav::Models => ("models", "m"),
            Nav::Keys => ("keys", "k"),
            Nav::Accounts => ("accounts", "n"),
            Nav::Playground => ("try", "s"),
            Nav::Calibration => ("calibration", "c"),
            Nav::Targets => ("targets", "t"),
            Nav::WhatIf => ("what-if", "w"),
            Nav::Shadows => ("shadows", "h"),
            Nav::Regret => ("regret", "r"),
            Nav::Audit => ("audit", "u"),
            Nav::Ledger => ("ledger", "l"),
            Nav::Configuration => ("config", "f"),
            Nav::About => ("about", "a"),
        }
    }

    /// Whether it stands in the list that `More` opens.
    fn is_further(self) -> bool {
        self >= Nav::Calibration
    }
}

/// A table that scrolls by itself. Its caption is for those who do not see it.
pub(super) fn data_table(caption: impl Render, head: Markup, rows: Markup) -> Markup {
    html! {
        div.scroll.hide-caption tabindex="0" {
            table { caption { (caption) } thead { tr { (head) } } tbody { (rows) } }
        }
    }
}

/// What a page needs to know about its request.
pub(super) struct Frame {
    /// Relative path to `/console/`: empty, or some `../`.
    pub(super) root: String,
    visitor: Option<Visitor>,
}

impl Frame {
    pub(super) fn of(request: &HttpRequest) -> Frame {
        let below = request.path().strip_prefix("/console/").unwrap_or_default();
        let root = "../".repeat(below.matches('/').count());
        Frame { root, visitor: request.extensions().get::<Visitor>().cloned() }
    }

    /// The hidden field of every form.
    pub(super) fn token(&self) -> Markup {
        html! {
            @if let Some(visitor) = &self.visitor {
                input type="hidden" name="token" value=(visitor.form_token);
            }
        }
    }

    /// A whole page. Without a visitor it has no navigation.
    pub(super) fn page(&self, title: &str, here: Option<Nav>, content: Markup) -> Markup {
        let assets = format!("{}assets/{}/", self.root, *assets::HASH);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · Pointsman" }
                    link rel="icon" href={ (assets) "icon.svg" } type="image/svg+xml";
                    link rel="stylesheet" href={ (assets) "console.css" };
                    // Not deferred: it sets the theme before the page is drawn.
                    script src={ (assets) "console.js" } {}
                }
                body data-root=(self.root) {
                    a.skip href="#content" { "Skip to content" }
                    (self.header(here))
                    main #content tabindex="-1" {
                        p #stale .alert role="status" hidden {}
                        (content)
                    }
                    (self.footer())
                }
            }
        }
    }

    fn header(&self, here: Option<Nav>) -> Markup {
        html! {
            header.top {
                a.brand href={ (self.root) "./" } { (mark()) span { "Pointsman" } }
                @if self.visitor.is_some() {
                    @let further = here.filter(|here| here.is_further());
                    nav aria-label="Pages" {
                        ul {
                            @for nav in Nav::ALL.into_iter().filter(|nav| !nav.is_further()) { (self.link(nav, here)) }
                            li {
                                button.more type="button" popovertarget="further" aria-current=[further.map(|_| "true")] {
                                    (further.map_or("More", |nav| nav.as_str())) " ▾"
                                }
                            }
                        }
                        ul #further popover {
                            @for nav in Nav::ALL.into_iter().filter(|nav| nav.is_further()) { (self.link(nav, here)) }
                        }
                    }
                }
                div.tools {
                    button.ghost type="button" data-zone hidden title="Switch between UTC and the zone of this browser" { "UTC" }
                    button.ghost type="button" data-theme-switch hidden title="Switch between light and dark" { "Theme" }
                    @if let Some(visitor) = &self.visitor {
                        form method="post" action={ (self.root) "logout" } {
                            (self.token())
                            button.ghost type="submit" title={ "Logged in with the key " (visitor.caller.key.name) } { "Log out" }
                        }
                    }
                }
            }
        }
    }

    fn link(&self, nav: Nav, here: Option<Nav>) -> Markup {
        let (path, key) = nav.place();
        html! {
            li {
                a href={ (self.root) (path) } title={ "Keys: g " (key) } data-go=(key)
                    aria-current=[(here == Some(nav)).then_some("page")] { (nav.as_str()) }
            }
        }
    }

    fn footer(&self) -> Markup {
        html! {
            footer {
                span { "Pointsman " (build::VERSION) " · " a href={ (self.root) "../docs" } { "API" } }
                @if self.visitor.is_some() {
                    span.muted { "Press " kbd { "?" } " for keys" }
                }
            }
            dialog #keys aria-labelledby="keys-title" {
                h2 #keys-title { "Keys" }
                dl.keys {
                    @for nav in Nav::ALL {
                        dt { kbd { "g" } " " kbd { (nav.place().1) } } dd { (nav.as_str()) }
                    }
                    dt { kbd { "/" } } dd { "First filter of the page" }
                    dt { kbd { "j" } " " kbd { "k" } } dd { "Next and previous row" }
                    dt { kbd { "Enter" } } dd { "Open the row" }
                    dt { kbd { "Esc" } } dd { "Close" }
                }
                form method="dialog" { button type="submit" { "Close" } }
            }
        }
    }
}

/// The line with the JSON call of the same content.
pub(super) fn api_line(path: &str) -> Markup {
    html! {
        p.api {
            "The same as JSON: " code { "GET " (path) } " "
            button.link type="button" hidden
                data-copy={ "curl -H \"Authorization: Bearer $POINTSMAN_ADMIN_KEY\" \"$POINTSMAN_ADMIN_URL" (path) "\"" } { "Copy as curl" }
        }
    }
}

//! The configuration in force, key by key, what waits for a restart, the last reload, and what differs between two versions.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    answer,
    decisions::Filters,
    form::{Entered, select},
    format,
    layout::{Nav, api_line, data_table},
    visit::Visit,
};
use crate::{
    api::admin::{
        config::{self, ConfigBody, PendingBody, PreviewBody, ReloadBody},
        config_values::{ConfigQuery, ConfigValuesBody, DifferenceBody, VersionBody},
    },
    base::error::ApiError,
};

/// Keys shown at once.
const MOST_KEYS: usize = 200;
/// Which keys are shown first.
const SET: &str = "set";
/// Which keys can be chosen: the word in the address, and what it is called.
const SOURCES: [(&str, &str); 5] = [
    (SET, "set in the file or a variable"),
    ("variable", "set in a variable"),
    ("default", "defaults"),
    ("built_in", "of the built-in catalogue"),
    ("all", "all"),
];

/// Shows the state of the configuration, and the keys and the comparison that the address asks for.
///
/// # Errors
/// 404 for a version that is not kept.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let filters = Filters::parse(visit.query());
    let version = |name: &str| filters.get(name).and_then(|version| version.parse().ok());
    let query = ConfigQuery {
        part: filters.get("q").map(str::to_owned),
        source: Some(filters.get("source").unwrap_or(SET).to_owned()),
        from: version("from"),
        to: version("to"),
    };
    let values = ConfigValuesBody::new(worker, &query)?;
    let (body, on_disk) = (ConfigBody::now(worker), PreviewBody::now(worker).await);
    let notes = worker.setup.config.start_up_notes();
    let warnings = worker.setup.config.warnings();
    let content = html! {
        h1 { "Configuration" }
        (facts(&body))
        (on_disk_now(&on_disk))
        form method="post" action="config/reload" {
            (frame.token())
            button.primary type="submit" { "Read the file again" }
        }
        @if let Some(reload) = &body.last_reload { (last(reload)) }
        (keys(&values, &filters))
        (versions(&values))
        @if !warnings.is_empty() {
            h2 { "Warnings" }
            ul.plain { @for warning in warnings { li { (warning) } } }
        }
        @if !notes.is_empty() {
            h2 { "Notes" }
            ul.plain { @for note in notes { li { (note) } } }
        }
        p.muted {
            "The console does not edit the configuration. " code { "pointsman config show --effective" }
            " prints what the file on disk says with all defaults."
        }
        (api_line("/api/v1/admin/status"))
        (api_line("/api/v1/admin/reload/preview"))
        (api_line("/api/v1/admin/config"))
    };
    Ok(answer::page(frame.page("Configuration", Some(Nav::Configuration), content)))
}

/// What the next reload would change, and what waits for a restart.
fn on_disk_now(preview: &PreviewBody) -> Markup {
    html! {
        h2 { "On disk" }
        @match preview.result {
            "refused" => {
                p { span.tag.bad { "would be refused" } " The configuration in force stays until this is corrected:" }
                pre tabindex="0" { @for fault in &preview.faults { (fault) "\n" } }
            },
            "unchanged" if preview.restart_pending.is_empty() => p.muted { "The same as in force." },
            "unchanged" => {
                p { "A reload would change nothing: what differs waits for a restart." }
                @if !preview.changes.is_empty() { (changes(preview)) }
            },
            _ if preview.changes.is_empty() => p { "Differs from what is in force in the order of a list, or in the content of a file or variable that a key names." },
            _ => {
                p { "Differs from what is in force. Secrets are in variables and files, of which only the names are compared here." }
                (changes(preview))
            },
        }
        (pending(&preview.restart_pending))
    }
}

fn changes(preview: &PreviewBody) -> Markup {
    html! {
        (data_table("Keys that are set otherwise on disk than in force",
            html! { th scope="col" { "Key" } th scope="col" { "In force" } th scope="col" { "On disk" } th scope="col" { "Set in" } },
            html! {
                @for change in &preview.changes {
                    tr {
                        th scope="row" { code { (format::name(&change.key, 80)) } }
                        td { (value(change.in_force.as_deref())) } td { (value(change.on_disk.as_deref())) }
                        td { @if let Some(place) = &change.place { code { (format::name(place, 80)) } } @else { (format::none()) } }
                    }
                }
            }))
        @if preview.changes_total > preview.changes.len() { p.muted { "and " (preview.changes_total - preview.changes.len()) " more" } }
    }
}

fn value(text: Option<&str>) -> Markup {
    html! { @if let Some(text) = text { code.value { (format::name(text, 121)) } } @else { span.muted { "not set" } } }
}

fn facts(body: &ConfigBody) -> Markup {
    html! {
        dl.facts {
            dt { "Version in force" } dd { (body.version) }
            dt { "Source" } dd { code { (body.source) } }
            dt { "Loaded" } dd { (format::time(&body.loaded_at)) " " (format::zone()) }
            @if !body.files.is_empty() {
                dt { "Files it reads" } dd { @for (n, file) in body.files.iter().enumerate() { @if n > 0 { br; } code { (file.display()) } } }
            }
        }
    }
}

/// The keys that the address asks for, each with its value in force and where that comes from.
fn keys(body: &ConfigValuesBody, filters: &Filters) -> Markup {
    let (part, source) = (filters.get("q").unwrap_or_default(), filters.get("source").unwrap_or(SET));
    html! {
        h2 #keys { "Values in force " span.muted { (body.keys_found) " of " (body.keys_total) } }
        form.filters method="get" action="config#keys" role="search" {
            label { span { "Key has" } input type="search" name="q" value=(part) placeholder="limits." maxlength="200"; }
            (select("source", "Which", source, SOURCES))
            div.act { button.primary type="submit" { "Show" } }
        }
        @if body.keys.is_empty() {
            p.empty { @if filters.is_filtered() { "No key passes these filters." } @else { "Nothing is set: all keys have their defaults, or those of the built-in catalogue." } }
        } @else {
            (data_table("Keys with their values in force",
                html! { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "Comes from" } },
                html! {
                    @for key in body.keys.iter().take(MOST_KEYS) {
                        tr data-row {
                            th scope="row" { code { (format::name(&key.key, 80)) } }
                            td { (value(Some(&key.value))) }
                            td { @if let Some(place) = &key.place { code.value { (format::name(place, 400)) } } @else { span.muted { "default" } } }
                        }
                    }
                }))
            @if body.keys_found > MOST_KEYS { p.muted { "and " (body.keys_found - MOST_KEYS) " more: search by a part of the key" } }
        }
    }
}

/// What came into force since the start, and what differs between two versions.
fn versions(body: &ConfigValuesBody) -> Markup {
    html! {
        h2 #versions { "Versions since the start " span.muted { (body.versions.len()) } }
        @if let Some(difference) = &body.difference { (differences(difference)) }
        (data_table("Versions of the configuration, newest first",
            html! { th scope="col" { "Version" } th scope="col" { "In force since, " (format::zone()) } th scope="col" { "Because of" } th scope="col" { "Compare" } },
            html! { @for (n, version) in body.versions.iter().enumerate() { (version_row(version, body.versions.get(n + 1), body.version)) } }))
    }
}

fn version_row(version: &VersionBody, before: Option<&VersionBody>, in_force: u64) -> Markup {
    let comparison = |from: u64, to: u64| format!("config?from={from}&to={to}#versions");
    let before = before.filter(|before| before.is_kept && version.is_kept);
    html! {
        tr data-row {
            th scope="row" { (version.version) }
            td.t { (format::time(&version.at)) }
            td {
                @match version.cause {
                    None => "the start",
                    Some("admin") => a href="audit?action=reload" { "an administrator" },
                    Some("signal") => "a signal (SIGHUP)",
                    Some(_) => "a changed file",
                }
            }
            td {
                @if let Some(before) = before { a href=(comparison(before.version, version.version)) { "with version " (before.version) } }
                @if version.is_kept && version.version != in_force && before.is_some() { " · " }
                @if version.is_kept && version.version != in_force { a href=(comparison(version.version, in_force)) { "with what is in force" } }
            }
        }
    }
}

fn differences(difference: &DifferenceBody) -> Markup {
    let heads = [difference.from, difference.to].map(|version| format!("Version {version}"));
    html! {
        div.answer role="status" {
            @if difference.changes.is_empty() {
                p { "No key differs between the versions " (difference.from) " and " (difference.to) ": it was the order of a list, or the content of a file or variable that a key names." }
            } @else {
                (data_table("Keys that differ between two versions",
                    html! { th scope="col" { "Key" } @for head in &heads { th scope="col" { (head) } } },
                    html! {
                        @for change in &difference.changes {
                            tr { th scope="row" { code { (format::name(&change.key, 80)) } } td { (value(change.from.as_deref())) } td { (value(change.to.as_deref())) } }
                        }
                    }))
            }
        }
    }
}

fn last(reload: &ReloadBody) -> Markup {
    let tone = if reload.result == "refused" { "bad" } else { "good" };
    html! {
        h2 { "Last reload" }
        p { span.tag.(tone) { (reload.result) } " " span.muted { "by " (reload.cause) " at " (format::time(&reload.at)) } }
        @if !reload.faults.is_empty() {
            p { "The configuration in force is the one from before. What is wrong with the new one:" }
            pre tabindex="0" { @for fault in &reload.faults { (fault) "\n" } }
        }
        @if !reload.changes.is_empty() {
            p { "Changed keys: " @for (n, change) in reload.changes.iter().enumerate() { @if n > 0 { ", " } code { (change) } } }
        }
    }
}

fn pending(pending: &[PendingBody]) -> Markup {
    html! {
        @if !pending.is_empty() {
            h2 { "Waits for a restart" }
            (data_table("Keys whose new values take effect at a restart",
                html! { th scope="col" { "Key" } th scope="col" { "In force" } th scope="col" { "Wanted" } },
                html! { @for key in pending { tr { th scope="row" { code { (key.key) } } td { code { (key.in_force) } } td { code { (key.wanted) } } } } }))
        }
    }
}

/// Reads the configuration again, and shows what came of it.
///
/// # Errors
/// As `POST /admin/reload`, except that a refused configuration is shown on the page; 403 for a form of another session.
pub(super) async fn reload(visit: Visit, _: Entered) -> Result<HttpResponse, ApiError> {
    config::reload_by(&visit).await?;
    Ok(answer::redirect("../config"))
}

//! The configuration in force, what waits for a restart, and the last reload.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    answer,
    form::Entered,
    format,
    layout::{Nav, api_line, data_table},
    visit::Visit,
};
use crate::{
    api::admin::config::{self, ConfigBody, PendingBody, PreviewBody, ReloadBody, SettingBody},
    base::error::ApiError,
};

/// Shows the state of the configuration.
///
/// # Errors
/// None.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let (body, on_disk) = (ConfigBody::now(worker), PreviewBody::now(worker).await);
    let notes = worker.setup.config.start_up_notes();
    let warnings = worker.setup.config.warnings();
    let content = html! {
        h1 { "Configuration" }
        (facts(&body))
        (difference(&on_disk))
        form method="post" action="config/reload" {
            (frame.token())
            button.primary type="submit" { "Read the file again" }
        }
        @if let Some(reload) = &body.last_reload { (last(reload)) }
        (settings(&body))
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
            " prints all values in force with their sources, secrets as names of their variables."
        }
        (api_line("/api/v1/admin/status"))
        (api_line("/api/v1/admin/reload/preview"))
    };
    Ok(answer::page(frame.page("Configuration", Some(Nav::Configuration), content)))
}

/// What the next reload would change, and what waits for a restart.
fn difference(preview: &PreviewBody) -> Markup {
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
    let value = |text: &Option<String>| html! { @if let Some(text) = text { code { (format::name(text, 120)) } } @else { span.muted { "not set" } } };
    html! {
        (data_table("Keys that are set otherwise on disk than in force",
            html! { th scope="col" { "Key" } th scope="col" { "In force" } th scope="col" { "On disk" } th scope="col" { "Set in" } },
            html! {
                @for change in &preview.changes {
                    tr {
                        th scope="row" { code { (format::name(&change.key, 80)) } }
                        td { (value(&change.in_force)) } td { (value(&change.on_disk)) }
                        td { @if let Some(place) = &change.place { code { (format::name(place, 80)) } } @else { (format::none()) } }
                    }
                }
            }))
        @if preview.changes_total > preview.changes.len() { p.muted { "and " (preview.changes_total - preview.changes.len()) " more" } }
    }
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

/// Where each key is set that is not a default. The lines are those of the file as it was read.
fn settings(body: &ConfigBody) -> Markup {
    html! {
        h2 { "Set keys " span.muted { (body.settings_total) } }
        @if body.settings.is_empty() {
            p.empty { "Nothing is set: all keys have their defaults, or those of the built-in configuration." }
        } @else {
            details {
                summary { "Where each is set" }
                (data_table("Keys that the file or a variable sets, in the order of the file",
                    html! { th scope="col" { "Key" } th scope="col" { "Set in" } },
                    html! {
                        @for setting in &body.settings {
                            tr { th scope="row" { code { (format::name(&setting.key, 80)) } } td { code { (place(setting)) } } }
                        }
                    }))
                @if body.settings_total > body.settings.len() { p.muted { "and " (body.settings_total - body.settings.len()) " more" } }
            }
        }
    }
}

fn place(setting: &SettingBody) -> Markup {
    html! {
        @match (&setting.file, setting.line, &setting.variable) {
            (Some(file), Some(line), _) => { (format::name(file, 80)) ":" (line) }
            (_, _, Some(variable)) => (format::name(variable, 80)),
            _ => (format::none()),
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

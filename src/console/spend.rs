//! What was spent, by whom and on what, and why that changed: bars per day, a table with the dearest first, and the parts of the
//! change to the time before. Every number leads to the decisions behind it.

mod chart;
mod period;

use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};
use pointsman_base::clock;
use pointsman_dialect::percent::encoded;
use pointsman_domain::{Usd, shown_dollars};
use pointsman_ledger::activity::grouping::Dimension;

use self::period::{DAY_MS, Period, RANGES};
use super::{
    answer,
    decisions::Filters,
    form::select,
    format,
    layout::{Frame, Nav, api_line},
    visitor::Visitor,
};
use crate::{
    api::{
        generations::{
            activity::{
                self,
                explanation::{self, ChangeBody},
                view::{ActivityBody, Count, RowBody},
            },
            ledger_query::Listed,
        },
        number::Figure,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Most rows of the table. The sum is that of all.
const MOST_ROWS: usize = 200;
/// Parameters of the page that its calls do not have.
const OWN: [&str; 6] = ["by", "range", "from", "to", "since", "until"];

/// Shows what was spent, as the address asks.
///
/// # Errors
/// 429 and 503 as analyses. A bad parameter is shown on the page.
pub(super) async fn show(
    Visitor { caller, .. }: Visitor,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let frame = Frame::of(&request);
    let asked = Asked::read(request.query_string(), &worker);
    let page = |content: Markup| {
        let content = html! {
            h1 { "Spend" }
            (asked.form())
            (content)
            (api_line(&format!("/api/v1/admin/activity?{}", asked.rows())))
        };
        frame.page("Spend", Some(Nav::Spend), content)
    };
    let listed = Listed::Everybody(&worker);
    let read = async {
        let rows = activity::read(&worker, &caller, listed, &asked.rows()).await?;
        let bars = activity::read(&worker, &caller, listed, &asked.bars()).await?;
        // Of a time before which sums may be gone nothing is explained.
        let change = explanation::read(&worker, &caller, listed, &asked.common()).await.ok();
        Ok::<_, ApiError>((rows, bars, change))
    };
    match read.await {
        Ok((rows, bars, change)) => {
            let (rows, bars) = (rows.body(&worker), bars.body(&worker));
            Ok(answer::page(page(asked.content(&rows, &bars, change.as_ref()))))
        }
        Err(error) => answer::unlisted(error, &worker, "", page),
    }
}

/// The rows of the table as CSV.
///
/// # Errors
/// 400 for a bad parameter, 429 and 503 as analyses.
pub(super) async fn csv(
    Visitor { caller, .. }: Visitor,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let asked = Asked::read(request.query_string(), &worker);
    activity::respond_csv(&worker, &caller, Listed::Everybody(&worker), &asked.rows()).await
}

/// Leads from the address of the page that was here before.
pub(super) async fn moved(request: HttpRequest) -> HttpResponse {
    let query = Filters::parse(request.query_string()).query(|name| !["group", "since", "until"].contains(&name));
    answer::redirect(&format!("spend{query}"))
}

/// What the address asks for.
struct Asked {
    filters: Filters,
    /// What rows are told apart by: one dimension, or what the address has.
    by: String,
    period: Period,
}

impl Asked {
    fn read(query: &str, worker: &Worker) -> Asked {
        let filters = Filters::parse(query);
        let has_teams = !worker.setup.config.teams.is_empty() || !worker.shared.access.registry.teams().is_empty();
        let by = filters.get("by").unwrap_or(if has_teams { "team" } else { "key" }).to_owned();
        let period = Period::read(&filters, clock::unix_millis());
        Asked { filters, by, period }
    }

    /// The one dimension that rows are told apart by; `None` of several.
    fn dimension(&self) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dimension| dimension.as_str() == self.by)
    }

    /// The parameters that both calls have.
    fn common(&self) -> String {
        let Period { since, until, .. } = &self.period;
        let until = until.iter().map(|until| format!("&until={}", encoded(until))).collect::<String>();
        let kept = self.filters.query(|name| !OWN.contains(&name)).replacen('?', "&", 1);
        format!("since={}{until}{kept}", encoded(since))
    }

    fn rows(&self) -> String {
        format!("group_by={}&{}", encoded(&self.by), self.common())
    }

    /// The rows of the chart. Of a short time its bars are hours.
    fn bars(&self) -> String {
        let length = if self.period.is_short { "hour" } else { "day" };
        let by = self.dimension().map_or("model", Dimension::as_str);
        format!("group_by={by},{length}&{}", self.common())
    }

    /// The address of this page with other values of some parameters; an empty one is left out.
    fn with(&self, changes: &[(&str, &str)]) -> String {
        let kept = self.filters.query(|name| changes.iter().all(|(changed, _)| *changed != name));
        let changes = changes.iter().filter(|(_, value)| !value.is_empty());
        let changes: Vec<String> = changes.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let kept = kept.trim_start_matches('?');
        let all: Vec<&str> =
            [kept].into_iter().filter(|kept| !kept.is_empty()).chain(changes.iter().map(String::as_str)).collect();
        format!("spend?{}", all.join("&"))
    }

    fn form(&self) -> Markup {
        let given: Vec<(Dimension, &str)> = Dimension::ALL
            .into_iter()
            .filter_map(|dimension| Some((dimension, self.filters.get(dimension.as_str())?)))
            .collect();
        let Period { days: [first, last], range, .. } = &self.period;
        let chosen = period::minutes(&self.filters);
        let zones = period::zones(chosen);
        html! {
            nav.ranges aria-label="Time" {
                @for (word, name) in RANGES {
                    a.button href=(self.with(&[("range", word), ("from", ""), ("to", "")])) aria-current=[(range.as_deref() == Some(word)).then_some("true")] { (name) }
                }
            }
            form.filters method="get" action="spend" role="search" data-days {
                (select("by", "Group by", &self.by, Dimension::ALL.map(|dimension| (dimension.as_str(), dimension.as_str()))))
                @for (dimension, value) in &given {
                    label { span { (title(dimension.as_str())) } input name=(dimension.as_str()) value=(value) size="14" autocomplete="off"; }
                }
                label { span { "First day" } input type="date" name="from" value=(first); }
                label { span { "Last day" } input type="date" name="to" value=(last); }
                (select("tz_offset_minutes", "Days of", &chosen.to_string(), zones.iter().map(|(minutes, zone)| (minutes.as_str(), zone))))
                @if let Some(range) = range { input type="hidden" name="range" value=(range); }
                @if let Some(owner) = self.filters.get("owner") { input type="hidden" name="owner" value=(owner); }
                div.act {
                    button.primary type="submit" { "Show" }
                    @if !given.is_empty() { a.button href=(self.with(&Dimension::ALL.map(|dimension| (dimension.as_str(), "")))) { "All" } }
                }
            }
        }
    }

    fn content(&self, rows: &ActivityBody<'_>, bars: &ActivityBody<'_>, change: Option<&ChangeBody>) -> Markup {
        html! {
            (tiles(rows))
            @if let Some(change) = change { (explained(change)) }
            @if rows.data.is_empty() {
                p.empty { "No generation ended in this time." }
            } @else {
                (chart::bars(self.dimension().unwrap_or(Dimension::Model), bars, &self.all_decisions()))
                (self.table(rows))
            }
            p.muted {
                "From " (format::time(&rows.since)) " to " (format::time(&rows.until)) " " (format::zone()) ". Days begin at midnight "
                (period::zone(rows.tz_offset_minutes)) ". A cost without a known price is in no sum."
            }
        }
    }

    fn table(&self, body: &ActivityBody<'_>) -> Markup {
        let words = body.group_by.as_deref().unwrap_or_default();
        // Rows of days and hours are not compared one by one.
        let is_by_time = words.iter().any(|word| ["day", "hour"].contains(word));
        let total = body.totals.as_ref();
        let is_compared =
            !is_by_time && total.is_some_and(|total| total.requests.before.is_some_and(|before| before > 0));
        html! {
            div.scroll.hide-caption tabindex="0" {
                table.spend {
                    caption { "Spend, dearest first" }
                    thead { tr {
                        @for word in words { th scope="col" { (title(word)) } }
                        th.r scope="col" data-sort { "Cost" } th.r scope="col" data-sort { "Share" }
                        @if is_compared { th.r scope="col" data-sort { "Before" } th.r scope="col" data-sort { "Change" } }
                        th.r scope="col" data-sort { "Requests" } th.r scope="col" data-sort { "Failed" } th.r scope="col" data-sort { "Tokens in" } th.r scope="col" data-sort { "Tokens out" }
                    } }
                    tbody {
                        @for row in body.data.iter().take(MOST_ROWS) { (self.row(body, row, words, is_compared)) }
                    }
                    @if let Some(total) = total {
                        tfoot { tr.sum {
                            th scope="row" colspan=(words.len().max(1)) { "All together" }
                            td.r { (format::sum(total.cost.value.0, total.unknown_costs.value)) } td.r {}
                            @if is_compared {
                                td.r { @if let Some(before) = total.cost.before { (format::money(Some(before.0))) } }
                                td.r { (changed(total.cost.value.0, total.cost.before.map(|before| before.0))) }
                            }
                            td.r { (format::count(total.requests.value)) } td.r { (format::count(total.failed.value)) }
                            td.r { (format::count(total.prompt_tokens.value)) } td.r { (format::count(total.completion_tokens.value)) }
                        } }
                    }
                }
            }
            p {
                @if body.data.len() > MOST_ROWS { span.muted { "and " (body.data.len() - MOST_ROWS) " more, which are part of the sum. " } }
                a href={ "spend.csv?" (self.filters.query(|_| true).trim_start_matches('?')) } { "Download as CSV" }
            }
        }
    }

    fn row(&self, body: &ActivityBody<'_>, row: &RowBody<'_>, words: &[&str], is_compared: bool) -> Markup {
        let leads = |more: &str, content: Markup| match self.decisions(body, row, more) {
            Some(address) => html! { a href=(address) { (content) } },
            None => content,
        };
        let before = row.cost_before.map(|before| before.0);
        html! {
            tr data-row {
                @for word in words { td { (self.name(row, word)) } }
                td.r { (leads("", format::sum(row.cost.0, row.unknown_costs))) }
                td.r { (format::share(row.share.map(Figure::value))) }
                @if is_compared {
                    td.r { (format::money(before)) }
                    td.r { (changed(row.cost.0, before)) }
                }
                td.r { (leads("", format::count(row.requests))) }
                td.r { @if row.failed > 0 { (leads("&status=failed", format::count(row.failed))) } @else { (format::count(row.failed)) } }
                td.r { (leads("", format::count(row.prompt_tokens))) }
                td.r { (leads("", format::count(row.completion_tokens))) }
            }
        }
    }

    /// The name of a row in one of its groups. It leads to what that was spent on.
    fn name(&self, row: &RowBody<'_>, word: &str) -> Markup {
        let Some(dimension) = Dimension::ALL.into_iter().find(|dimension| dimension.as_str() == word) else {
            return html! { @if word == "day" { (row.date.as_deref().unwrap_or_default()) } @else if let Some(start) = &row.start { (format::time(start)) } };
        };
        let next = if dimension == Dimension::Model { "key" } else { "model" };
        match row.name(dimension) {
            Some(name) => {
                let changes = [(dimension.as_str(), name), ("by", next)];
                html! { a href=(self.with(&changes)) title={ "By " (next) } { (format::name(name, 40)) } }
            }
            None => match (dimension, row.key_id.flatten(), row.owner) {
                (Dimension::Key, Some(id), _) | (Dimension::Account, _, Some(id)) => {
                    html! { span.muted title=(id) { "removed" } }
                }
                _ => html! { span.muted { "no " (word) } },
            },
        }
    }

    /// The decisions that pass the filters, of all times.
    fn all_decisions(&self) -> String {
        let query = self.filters.query(|name| Dimension::ALL.iter().any(|dimension| dimension.as_str() == name));
        format!("decisions{query}")
    }

    /// The decisions that a row counts; `None` where they have nothing in common that the list can be asked for.
    fn decisions(&self, body: &ActivityBody<'_>, row: &RowBody<'_>, more: &str) -> Option<String> {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for dimension in Dimension::ALL {
            let word = dimension.as_str();
            let is_group = body.group_by.as_deref().unwrap_or_default().contains(&word);
            match (is_group, self.filters.get(word)) {
                (true, _) => pairs.push((word, row.name(dimension)?.to_owned())),
                (false, Some(name)) => pairs.push((word, name.to_owned())),
                (false, None) => {}
            }
        }
        let (since, until) = match &row.start {
            None => (body.since.clone(), body.until.clone()),
            Some(start) => {
                let length =
                    if body.group_by.as_deref().unwrap_or_default().contains(&"hour") { DAY_MS / 24 } else { DAY_MS };
                let begins = chrono::DateTime::parse_from_rfc3339(start).ok()?.timestamp_millis();
                (start.clone(), (begins + length).to_string())
            }
        };
        pairs.extend([("since", since), ("until", until)]);
        let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        Some(format!("decisions?{}{more}", pairs.join("&")))
    }
}

/// The sums of all, with their changes.
fn tiles(body: &ActivityBody<'_>) -> Markup {
    let Some(totals) = &body.totals else { return Markup::default() };
    let count = |count: Count| {
        html! { (format::count(count.value)) @if let Some(before) = count.before { small.below { (against(ratio(count.value.into(), before.into()), before == 0, format::count(before))) } } }
    };
    html! {
        dl.tiles {
            div { dt { "Spent" } dd {
                (format::sum(totals.cost.value.0, totals.unknown_costs.value))
                @if let Some(before) = totals.cost.before { small.below { (against(changed(totals.cost.value.0, Some(before.0)), before.0.is_zero(), format::money(Some(before.0)))) } }
            } }
            div { dt { "Requests" } dd { (count(totals.requests)) } }
            div { dt { "Failed" } dd { (count(totals.failed)) } }
            div { dt { "Tokens in" } dd { (count(totals.prompt_tokens)) } }
            div { dt { "Tokens out" } dd { (count(totals.completion_tokens)) } }
        }
    }
}

/// A change, and what there was in the time before.
fn against(change: Markup, was_nothing: bool, before: Markup) -> Markup {
    html! { @if was_nothing { "none before" } @else { (change) " (before " (before) ")" } }
}

/// Why the cost changed.
fn explained(change: &ChangeBody) -> Markup {
    html! {
        @if change.requests_before == 0 && change.requests > 0 { p.muted { "Nothing was recorded in the time before, so there is nothing to compare." } }
        @else if change.requests_before > 0 { p.lead { (change.summary) } }
        @if change.requests_before > 0 && !change.parts.is_empty() {
            details {
                summary { "Explain this bill" }
                div.scroll tabindex="0" {
                    table.parts {
                        caption.visually-hidden { "Parts of the change, largest first" }
                        tbody {
                            @for part in &change.parts { tr { th scope="row" { (part.text) } td.r { (signed(part.change.0)) } } }
                        }
                        tfoot { tr.sum { th scope="row" { "Together" } td.r { @if let Some(all) = change.cost.change { (signed(all.0)) } } } }
                    }
                }
                p.muted {
                    "Compared with the time from " (format::time(&change.before.since)) " to " (format::time(&change.before.until))
                    " " (format::zone()) ": " (change.requests_before) " requests then, " (change.requests) " now. The parts add up exactly."
                    @if change.unknown_costs > 0 { " The costs of " (change.unknown_costs) " requests are not known, and in no part." }
                }
            }
        }
    }
}

/// An amount with its sign.
fn signed(amount: Usd) -> Markup {
    let text = shown_dollars(amount);
    let sign = if amount.femto() > 0 { "+" } else { "" };
    html! { data.num value=(amount) data-v=(amount) title={ "$" (amount) } { (sign) (text.replace('-', "−")) } }
}

/// The change from an amount to another in percent.
fn changed(now: Usd, before: Option<Usd>) -> Markup {
    before.map_or_else(format::none, |before| ratio(now.femto(), before.femto()))
}

fn ratio(now: i128, before: i128) -> Markup {
    let Some(per_mille) = now.saturating_sub(before).saturating_mul(1_000).checked_div(before) else {
        return html! { @if now > 0 { span.muted { "new" } } @else { (format::none()) } };
    };
    let (sign, size) = (if per_mille < 0 { "−" } else { "+" }, per_mille.unsigned_abs());
    html! { data.num value=(per_mille) data-v=(per_mille) { (sign) @if size < 100 { (size / 10) "." (size % 10) } @else { ((size + 5) / 10) } " %" } }
}

fn title(word: &str) -> String {
    word.chars().take(1).flat_map(char::to_uppercase).chain(word.chars().skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_sign_and_what_was_nothing_before_is_new() {
        let shown = |now, before| ratio(now, before).into_string();
        assert!(shown(131, 100).contains(">+31 %<"), "{}", shown(131, 100));
        assert!(shown(999, 1_000).contains(">−0.1 %<"), "{}", shown(999, 1_000));
        assert!(shown(5, 0).contains("new") && shown(0, 0).contains('–'));
    }
}

//! The time that the page is about: a preset, or days of one's own choosing. Days begin at midnight of the zone of the address.

use chrono::{DateTime, NaiveDate, NaiveTime};

use crate::console::decisions::Filters;

const MINUTE_MS: i64 = 60_000;
pub(super) const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// Times that can be chosen: the word in the address, and what it is called.
pub(super) const RANGES: [(&str, &str); 4] =
    [("today", "Today"), ("7d", "7 days"), ("30d", "30 days"), ("month", "This month")];
/// Local times less UTC that are not whole hours, in minutes.
const UNEVEN_OFFSETS: [i64; 12] = [-570, -210, 210, 270, 330, 345, 390, 525, 570, 630, 765, 825];

/// A stretch of time.
pub(super) struct Period {
    /// Unix milliseconds; what was entered if that is no date, for the call to refuse.
    pub(super) since: String,
    /// The same of its end; `None` for now.
    pub(super) until: Option<String>,
    /// Its first and its last day.
    pub(super) days: [String; 2],
    /// The word of a preset; `None` of chosen days.
    pub(super) range: Option<String>,
    /// Whether hours say more of it than days.
    pub(super) is_short: bool,
}

impl Period {
    /// The time that the parameters `range`, `from` and `to` name, the last day with it.
    pub(super) fn read(filters: &Filters, now_ms: i64) -> Period {
        let offset_ms = minutes(filters) * MINUTE_MS;
        let range = filters.get("range").unwrap_or("7d");
        let first = start(range, offset_ms, now_ms);
        let days = [date_of(first + offset_ms), date_of(now_ms + offset_ms)];
        let given = [filters.get("from"), filters.get("to")];
        // The form has the days of the preset filled in.
        if given.iter().zip(&days).all(|(given, day)| given.is_none_or(|given| given == day)) {
            let is_short = now_ms - first < DAY_MS + DAY_MS / 2;
            return Period { since: first.to_string(), until: None, days, range: Some(range.to_owned()), is_short };
        }
        let [_, today] = days;
        let [from, to] = given;
        let last = to.map_or(today, str::to_owned);
        let days = [from.map_or_else(|| last.clone(), str::to_owned), last];
        let [begins, ends] = days.each_ref().map(|day| midnight(day).map(|midnight| midnight - offset_ms));
        let ends = ends.map(|last| last + DAY_MS);
        let is_short = begins.zip(ends).is_some_and(|(begins, ends)| ends - begins < DAY_MS + DAY_MS / 2);
        let text = |time: Option<i64>, day: &str| time.map_or_else(|| day.to_owned(), |time| time.to_string());
        let until = ends.is_none_or(|ends| ends <= now_ms).then(|| text(ends, &days[1]));
        Period { since: text(begins, &days[0]), until, days, range: None, is_short }
    }
}

/// Local time less UTC in minutes, as the address has it.
pub(super) fn minutes(filters: &Filters) -> i64 {
    let asked = filters.get("tz_offset_minutes").and_then(|minutes| minutes.parse().ok());
    asked.filter(|minutes| (-720..=840).contains(minutes)).unwrap_or(0)
}

/// The zones to choose from, `chosen` among them: minutes and name.
pub(super) fn zones(chosen: i64) -> Vec<(String, String)> {
    let whole = (-12..=14).map(|hours| hours * 60);
    let mut all: Vec<i64> = whole.chain(UNEVEN_OFFSETS).chain([chosen]).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|minutes| (minutes.to_string(), zone(minutes))).collect()
}

/// The name of a zone.
pub(super) fn zone(minutes: i64) -> String {
    let (sign, size) = (if minutes < 0 { "−" } else { "+" }, minutes.unsigned_abs());
    if minutes == 0 { "UTC".to_owned() } else { format!("UTC{sign}{}:{:02}", size / 60, size % 60) }
}

/// Beginning of one of [`RANGES`]; of another word that of seven days.
fn start(range: &str, offset_ms: i64, now_ms: i64) -> i64 {
    let local = now_ms + offset_ms;
    let midnight = |days_ago: i64| local - local.rem_euclid(DAY_MS) - days_ago * DAY_MS - offset_ms;
    match range {
        "today" => midnight(0),
        "30d" => midnight(29),
        "month" => midnight(date_of(local).get(8..).and_then(|day| day.parse::<i64>().ok()).unwrap_or(1) - 1),
        _ => midnight(6),
    }
}

fn date_of(local_ms: i64) -> String {
    DateTime::from_timestamp_millis(local_ms).unwrap_or_default().format("%Y-%m-%d").to_string()
}

fn midnight(date: &str) -> Option<i64> {
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    Some(date.and_time(NaiveTime::MIN).and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23T06:07:00Z.
    const NOW: i64 = 1_795_414_020_000;

    fn read(query: &str) -> Period {
        Period::read(&Filters::parse(query), NOW)
    }

    /// Beginning and end of a period as dates.
    #[track_caller]
    fn check(query: &str, since: &str, until: Option<&str>) {
        let period = read(query);
        let shown =
            |ms: &String| DateTime::from_timestamp_millis(ms.parse().unwrap()).unwrap().format("%FT%RZ").to_string();
        assert_eq!((&*shown(&period.since), period.until.as_ref().map(shown).as_deref()), (since, until), "{query}");
    }

    #[test]
    fn a_preset_begins_at_local_midnight() {
        check("range=today", "2026-11-23T00:00Z", None);
        check("range=today&tz_offset_minutes=-480", "2026-11-22T08:00Z", None);
        check("tz_offset_minutes=330", "2026-11-16T18:30Z", None);
        check("range=30d", "2026-10-25T00:00Z", None);
        check("range=month&tz_offset_minutes=60", "2026-10-31T23:00Z", None);
    }

    #[test]
    fn chosen_days_are_whole_days_of_the_zone_and_none_ends_after_now() {
        check("from=2026-11-01&to=2026-11-02", "2026-11-01T00:00Z", Some("2026-11-03T00:00Z"));
        let indian = "from=2026-11-01&to=2026-11-02&tz_offset_minutes=330";
        check(indian, "2026-10-31T18:30Z", Some("2026-11-02T18:30Z"));
        check("from=2026-11-01", "2026-11-01T00:00Z", None);
        check("to=2026-11-02", "2026-11-02T00:00Z", Some("2026-11-03T00:00Z"));
        assert!(read("to=2026-11-02").is_short && !read("from=2026-11-01").is_short);
        let odd = read("from=yesterday");
        assert_eq!((&*odd.since, odd.range), ("yesterday", None), "the call says what is wrong with it");
    }

    #[test]
    fn the_days_of_a_preset_in_the_form_are_still_the_preset() {
        let week = read("range=7d");
        assert_eq!(week.days, ["2026-11-17", "2026-11-23"]);
        let sent = read("range=7d&from=2026-11-17&to=2026-11-23");
        assert_eq!((sent.range, sent.since), (week.range, week.since));
        assert_eq!(read("range=7d&from=2026-11-16&to=2026-11-23").range, None);
    }

    #[test]
    fn zones_have_names_and_that_of_the_address_is_one_of_them() {
        assert_eq!([0, 330, -210].map(zone), ["UTC", "UTC+5:30", "UTC−3:30"]);
        assert!(zones(15).contains(&("15".to_owned(), "UTC+0:15".to_owned())));
    }
}

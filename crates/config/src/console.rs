//! The web console: `[console]`.

use std::sync::Arc;

use super::section::Section;

/// What a link to a trace is made of, for messages.
const TRACE_URL_SHAPE: &str = "a URL such as \"https://tempo.example.com/trace/{trace_id}\"";

settings! {
    /// The web console below `/console/` on the admin listener. It shows what the API for administrators shows, to
    /// people who log in with a key of the scope `admin`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ConsoleConfig read(section) {
        /// Whether the console is served.
        pub enabled: bool = flag_or(true),
        /// Where a trace can be looked at, such as `https://tempo.example.com/trace/{trace_id}`. The page of a decision
        /// links to it with the id of the trace: that of the client's `traceparent`, or else the generation's own if
        /// its span was sent.
        pub trace_url: Option<TraceUrl> = with(TraceUrl::read) [absent = "none", allowed = "link with `{trace_id}`"],
    }
}

/// The address of a trace in a viewer, with a place for the id of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceUrl(Arc<str>);

impl TraceUrl {
    fn read(section: &Section<'_>, key: &'static str) -> Option<TraceUrl> {
        let text = section.text(key).filter(|text| !text.is_empty())?;
        TraceUrl::parse(text).map_err(|wrong| section.fault(key, wrong, TRACE_URL_SHAPE)).ok()
    }

    const PLACE: &'static str = "{trace_id}";

    fn parse(text: &str) -> Result<TraceUrl, &'static str> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        match rest {
            None => Err("is not a link"),
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '{', '?', '#']) => Err("has no host"),
            Some(_) if text.contains(|c: char| c.is_whitespace() || c.is_control()) => Err("has a space in it"),
            Some(rest) if !rest.contains(TraceUrl::PLACE) => Err("has no place for {trace_id}"),
            Some(_) => Ok(TraceUrl(text.into())),
        }
    }

    /// The address of the trace with this id.
    pub fn of(&self, trace_id: &str) -> String {
        self.0.replace(TraceUrl::PLACE, trace_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_trace_has_its_id_wherever_the_template_has_a_place() {
        let url = TraceUrl::parse("https://grafana.example.com/explore?left={trace_id}#{trace_id}").unwrap();
        assert_eq!(url.of("4bf9"), "https://grafana.example.com/explore?left=4bf9#4bf9");
    }

    #[test]
    fn what_leads_to_no_trace_is_refused() {
        for (text, wrong) in [
            ("javascript:alert({trace_id})", "is not a link"),
            ("tempo.example.com/{trace_id}", "is not a link"),
            ("https:///{trace_id}", "has no host"),
            ("https://{trace_id}", "has no host"),
            ("https://tempo.example.com/trace/", "has no place for {trace_id}"),
            ("https://tempo.example.com/trace {trace_id}", "has a space in it"),
        ] {
            assert_eq!(TraceUrl::parse(text), Err(wrong), "{text}");
        }
    }
}

//! `[traces]`: spans of generations for an OpenTelemetry collector.
//!
//! Of the standard variables of OpenTelemetry those are read here that say whether spans are sent, where to, which, and in
//! which batches. The exporter itself reads headers and compression, the resource its name and attributes.

use std::{path::PathBuf, time::Duration};

use super::{
    Surroundings,
    address::BaseUrl,
    credential,
    environment::Environment,
    quantity::{DAY, MILLISECOND, SECOND},
    section::Section,
};

/// Share of the generations that are kept although nothing is remarkable about them.
const DEFAULT_RATIO: f64 = 0.01;

/// Path below a base address to which spans are sent.
const SIGNAL_PATH: &str = "/v1/traces";

const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];

settings! {
    /// Traces for an OpenTelemetry collector: one span per generation with the attributes `gen_ai.*`, with a child per
    /// attempt. Off without an endpoint; never with prompts, answers, keys or texts of providers. See
    /// [TRACES.md](TRACES.md). All keys need a restart.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TracesConfig read(section, surroundings: &Surroundings<'_>) {
        /// Base address of the collector for OTLP over HTTP, usually at port 4318. Spans are posted to `/v1/traces`
        /// below it.
        pub collector "endpoint": Option<BaseUrl> =
            with(|section, key| collector(section, key, surroundings.environment))
            [absent = "`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`; without them traces are \
                 off", allowed = "URL; `\"\"` for no traces"],
        /// Trusted certificates of the collector in addition to those of the system.
        pub ca_file: Option<PathBuf> =
            with(|section, _| credential::ca_file(section, collector.is_some(), surroundings))
            [absent = "none", allowed = "path, relative to this file"],
        /// Share of the generations that are kept although nothing is remarkable about them. Kept anyway: what the
        /// client's `traceparent` marks as sampled, and what failed, fell back, was hedged or was slow.
        /// `OTEL_TRACES_SAMPLER` counts where this key is absent.
        pub sample_ratio: f64 = with(|section, key| ratio(section, key, surroundings.environment)) [default = "0.01"],
        /// A generation that took this long is kept.
        pub slow: Duration = duration_or(MILLISECOND..=DAY, 30 * SECOND),
        /// How spans are gathered.
        pub batches: SpanBatches => SpanBatches::read(surroundings.environment),
    }
}

/// How spans are gathered before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanBatches {
    /// Longest wait of a span for others.
    pub delay: Duration,
    /// Most generations that wait to be sent; further ones are dropped and counted.
    pub queue: usize,
    /// Most spans in one call, unless one generation has more.
    pub size: usize,
    /// Timeout of one call.
    pub timeout: Duration,
}

impl SpanBatches {
    fn read(environment: &Environment) -> SpanBatches {
        let number = |name| environment.get(name)?.trim().parse::<usize>().ok().filter(|number| *number > 0);
        let millis = |name| number(name).map(|ms| Duration::from_millis(ms as u64));
        SpanBatches {
            delay: millis("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(5 * SECOND),
            queue: number("OTEL_BSP_MAX_QUEUE_SIZE").map_or(2048, |most| most.min(1 << 20)),
            size: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE").map_or(512, |most| most.min(1 << 16)),
            timeout: TIMEOUTS.into_iter().find_map(millis).unwrap_or(10 * SECOND),
        }
    }
}

fn collector(section: &Section<'_>, key: &'static str, environment: &Environment) -> Option<BaseUrl> {
    let collector = match section.text(key) {
        Some("") => None,
        Some(text) => address(section, "endpoint", text, true),
        None => standard_collector(section, environment),
    };
    collector.filter(|_| !is_switched_off(environment))
}

fn ratio(section: &Section<'_>, key: &'static str, environment: &Environment) -> f64 {
    let ratio = section.number(key, 0.0..=1.0).or_else(|| standard_ratio(section, environment));
    ratio.unwrap_or(DEFAULT_RATIO)
}

/// The collector that the standard variables name. An empty variable counts as one that is not set.
fn standard_collector(section: &Section<'_>, environment: &Environment) -> Option<BaseUrl> {
    let set = |name: &'static str| Some((name, environment.get(name).filter(|text| !text.trim().is_empty())?));
    let (name, text) = set(TRACES_ENDPOINT).or_else(|| set(ENDPOINT))?;
    if is_switched_off(environment) {
        return None;
    }
    if let Some((variable, protocol)) = PROTOCOLS.iter().find_map(|name| set(name)).filter(|(_, it)| *it == "grpc") {
        let wrong = format!("{name} is set and {variable} is \"{protocol}\", which is not spoken here");
        let allowed = format!("{variable}=http/protobuf and the collector's address for it, usually at port 4318");
        section.fault("endpoint", wrong, allowed);
        return None;
    }
    address(section, name, text.trim(), name == ENDPOINT)
}

/// The address to post to. A base address is completed by the path for spans, unless it ends with it.
fn address(section: &Section<'_>, name: &str, text: &str, is_base: bool) -> Option<BaseUrl> {
    const ALLOWED: &str = "a URL such as \"http://127.0.0.1:4318\"; \"\" for no traces";
    let wrong = |fault: String| {
        let wrong = if name == "endpoint" { fault } else { format!("{name} {fault}") };
        section.fault("endpoint", wrong, ALLOWED);
    };
    let base = BaseUrl::parse(text).map_err(|fault| wrong(fault.to_string())).ok()?;
    if base.as_str().contains('?') {
        wrong("has a query".to_owned());
        return None;
    }
    if !is_base || base.as_str().ends_with(SIGNAL_PATH) {
        return Some(base);
    }
    BaseUrl::parse(&format!("{base}{SIGNAL_PATH}")).ok()
}

/// Whether a standard variable switches traces off.
fn is_switched_off(environment: &Environment) -> bool {
    let is = |name, word| environment.get(name).is_some_and(|text| text.trim().eq_ignore_ascii_case(word));
    is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none")
}

/// The share of the sampler that the standard variables name.
fn standard_ratio(section: &Section<'_>, environment: &Environment) -> Option<f64> {
    let sampler = environment.get("OTEL_TRACES_SAMPLER").filter(|text| !text.is_empty())?;
    match sampler.strip_prefix("parentbased_").unwrap_or(sampler) {
        "always_on" => Some(1.0),
        "always_off" => Some(0.0),
        "traceidratio" => {
            let ratio = environment.get("OTEL_TRACES_SAMPLER_ARG").unwrap_or("1").trim().parse().ok();
            let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
            if ratio.is_none() {
                section.fault("sample_ratio", "OTEL_TRACES_SAMPLER_ARG is not a share", "a number from 0 to 1");
            }
            ratio
        }
        _ => {
            let wrong = format!("OTEL_TRACES_SAMPLER is {sampler:?}, which is not known here");
            let allowed = "always_on, always_off, traceidratio, or one of them with parentbased_ before it";
            section.fault("sample_ratio", wrong, allowed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    fn read(text: &str, environment: &[(&str, &str)]) -> Result<TracesConfig, String> {
        let environment = environment.iter().copied().collect();
        let config = Config::parse(text, "config.toml", Path::new("."), &environment);
        config.map(|config| config.traces).map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    #[track_caller]
    fn check(text: &str, environment: &[(&str, &str)], collector: Option<&str>) {
        let read = read(text, environment).unwrap();
        assert_eq!(read.collector.as_ref().map(BaseUrl::as_str), collector, "{text} {environment:?}");
    }

    const EMPTY: &str = "[traces]";
    const WRITTEN: &str = "[traces]\nendpoint = \"http://127.0.0.1:4318\"";

    #[test]
    fn without_an_endpoint_traces_are_off() {
        check(EMPTY, &[], None);
        check(EMPTY, &[(ENDPOINT, "")], None);
        check("[traces]\nendpoint = \"\"", &[(ENDPOINT, "http://collector:4318")], None);
    }

    #[test]
    fn an_endpoint_is_a_base_address_but_in_the_variable_for_traces_alone() {
        let whole = Some("http://127.0.0.1:4318/v1/traces");
        check(WRITTEN, &[], whole);
        check("[traces]\nendpoint = \"http://127.0.0.1:4318/v1/traces\"", &[], whole);
        check(EMPTY, &[(ENDPOINT, "http://127.0.0.1:4318/")], whole);
        check(WRITTEN, &[(ENDPOINT, "http://elsewhere:4318")], whole);
        let both = [(ENDPOINT, "http://elsewhere:4318"), (TRACES_ENDPOINT, "http://127.0.0.1:4318/own/path")];
        check(EMPTY, &both, Some("http://127.0.0.1:4318/own/path"));
    }

    #[test]
    fn standard_variables_switch_traces_off() {
        check(WRITTEN, &[("OTEL_SDK_DISABLED", "True")], None);
        check(EMPTY, &[(ENDPOINT, "http://c:4318"), ("OTEL_TRACES_EXPORTER", "none")], None);
    }

    #[test]
    fn the_sampler_of_the_environment_counts_unless_the_file_says_otherwise() {
        let ratio = |text: &str, environment: &[(&str, &str)]| read(text, environment).map(|it| it.sample_ratio);
        let sampler = |name| ("OTEL_TRACES_SAMPLER", name);
        assert_eq!(ratio(EMPTY, &[]), Ok(0.01));
        assert_eq!(ratio(EMPTY, &[sampler("parentbased_always_on")]), Ok(1.0));
        assert_eq!(ratio(EMPTY, &[sampler("always_off")]), Ok(0.0));
        assert_eq!(ratio(EMPTY, &[sampler("traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")]), Ok(0.25));
        assert_eq!(ratio("[traces]\nsample_ratio = 0.5", &[sampler("always_off")]), Ok(0.5));
        assert!(ratio(EMPTY, &[sampler("jaeger_remote")]).unwrap_err().contains("OTEL_TRACES_SAMPLER"));
        let fault = ratio(EMPTY, &[sampler("traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")]).unwrap_err();
        assert!(fault.contains("OTEL_TRACES_SAMPLER_ARG"), "{fault}");
    }

    #[test]
    fn batches_follow_the_standard_variables() {
        let named = [
            ("OTEL_BSP_SCHEDULE_DELAY", "200"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "900"),
        ];
        let batches =
            SpanBatches { delay: Duration::from_millis(200), queue: 7, size: 3, timeout: Duration::from_millis(900) };
        assert_eq!(read(EMPTY, &named).unwrap().batches, batches);
        let odd = [("OTEL_BSP_MAX_QUEUE_SIZE", "0"), ("OTEL_BSP_SCHEDULE_DELAY", "soon")];
        assert_eq!(read(EMPTY, &odd).unwrap(), read(EMPTY, &[]).unwrap());
    }

    #[test]
    fn another_protocol_is_refused_with_the_port_to_use() {
        let fault = read(EMPTY, &[(ENDPOINT, "http://c:4317"), (PROTOCOLS[1], "grpc")]).unwrap_err();
        assert!(fault.contains("http/protobuf") && fault.contains("4318"), "{fault}");
        check(WRITTEN, &[(PROTOCOLS[1], "grpc")], Some("http://127.0.0.1:4318/v1/traces"));
        check(EMPTY, &[(PROTOCOLS[1], "grpc")], None);
    }

    #[test]
    fn an_address_that_is_none_is_a_fault_that_names_its_source() {
        assert!(read("[traces]\nendpoint = \"collector\"", &[]).unwrap_err().contains("traces.endpoint"));
        let fault = read(EMPTY, &[(ENDPOINT, "collector:4318")]).unwrap_err();
        assert!(fault.contains(ENDPOINT), "{fault}");
    }
}

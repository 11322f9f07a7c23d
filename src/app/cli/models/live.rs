//! `models --url`: how the endpoints of a running gateway do.

use std::fmt::Write as _;

use actix_web::http::Method;
use pointsman_config::Environment;
use serde_json::{Value, json};

use super::ModelsRequest;
use crate::app::cli::{
    Finished,
    columns::{cut, number, shown},
    gateway::GatewayArguments,
    refused, success,
};

/// Measurements of every endpoint.
const STATS: &str = "/api/v1/models/stats";

/// Lists the endpoints that the gateway may call.
pub(super) fn run(request: &ModelsRequest, environment: &Environment) -> Finished {
    let gateway = GatewayArguments::new(request.url.clone(), request.key_env.clone());
    let body = gateway.call((Method::GET, STATS), None, environment)?;
    let page = serde_json::from_slice::<Value>(&body).ok();
    let Some(rows) = page.as_ref().and_then(|page| page.get("data")).and_then(Value::as_array) else {
        return Err(refused("the answer of the gateway holds no list of endpoints"));
    };
    let rows: Vec<&Value> =
        rows.iter().filter(|row| request.wants(&shown(row, "/model"), &shown(row, "/provider_slug"))).collect();
    if request.json {
        return Ok(success(format!("{}\n", json!({ "data": rows }))));
    }
    Ok(success(if rows.is_empty() { "No model of the gateway matches.\n".to_owned() } else { table(&rows) }))
}

fn table(rows: &[&Value]) -> String {
    let mut text = format!(
        "{:<30} {:<12} {:<10} {:>7} {:>8} {:>8}\n",
        "MODEL", "PROVIDER", "STATE", "CALLS", "TTFT MS", "TOKENS/S"
    );
    for row in rows {
        let circuit = shown(row, "/circuit");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<30} {:<12} {:<10} {:>7} {:>8} {:>8}",
            cut(&shown(row, "/model"), 30),
            cut(&shown(row, "/provider_slug"), 12),
            if circuit == "closed" { shown(row, "/state") } else { circuit },
            shown(row, "/requests"),
            number(row, "/ttft_ms/p50", 1.0, 0),
            number(row, "/throughput_tps/p50", 1.0, 1)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_shows_an_open_circuit_instead_of_the_state_and_fits_80_columns() {
        let row = |model: &str, circuit: &str| {
            json!({"model": model, "provider_slug": "acme-of-the-far-east", "state": "degraded", "circuit": circuit,
                   "requests": 12, "ttft_ms": {"p50": 203.4}, "throughput_tps": {"p50": null}})
        };
        let rows = [row("meadow/small", "closed"), row("a/model-whose-name-is-longer-than-its-column", "half_open")];
        let text = table(&rows.iter().collect::<Vec<_>>());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        expect![[r#"
            MODEL                          PROVIDER     STATE        CALLS  TTFT MS TOKENS/S
            meadow/small                   acme-of-the… degraded        12      203        -
            a/model-whose-name-is-longer-… acme-of-the… half_open       12      203        -
        "#]]
        .assert_eq(&text);
    }
}

//! A late attempt is raced: who wins, what becomes of the other, and what it all costs, over real sockets.
//!
//! Provider `slow` is asked first, `quick` races it, `spare` is what is left. An endpoint nobody measured is late
//! after about 50 ms here; scripts answer when the test says so.

use std::time::{Duration, Instant};

use pointsman_domain::Usd;
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    hostile::{CHUNKED, chunk, delta, record_line, stream_of, text},
    patience::{PATIENCE, eventually},
    raw_client::RawClient,
    scripted::{Gate, Log, Script, Upstream},
    world::{Model, World, and, ask, completion, http},
};

/// How long the gateway may take to let a loser go.
const SOON: Duration = Duration::from_secs(5);

/// Hedging for `fastest`, as often as one likes.
const HEDGING: &str = "[routing]\nexploration = 0\nexpert.prior_ttft = \"20ms\"\nexpert.prior_time_per_token = \"10us\"\n\
                       [routing.hedge]\nobjectives = [\"fastest\"]\nbudget = 1.0\n";

/// Dollars per prompt and completion token.
const SLOW: [&str; 2] = ["0.000001", "0.000003"];
const QUICK: [&str; 2] = ["0.000002", "0.000005"];

/// The same, late only after some two seconds: what an upstream says at once is there by then.
fn patient() -> String {
    HEDGING.replace("expert.prior_ttft = \"20ms\"", "expert.prior_ttft = \"800ms\"")
}

/// A gateway in front of `acme/small` at `slow`, `quick` and `spare`.
struct Setting {
    gateway: TestGateway,
    slow: Upstream,
    quick: Upstream,
    spare: Upstream,
}

impl Setting {
    async fn new(slow: Script, quick: Script) -> Setting {
        Setting::with(HEDGING, [slow], [quick]).await
    }

    async fn with(
        config: &str,
        slow: impl IntoIterator<Item = Script>,
        quick: impl IntoIterator<Item = Script>,
    ) -> Setting {
        let (slow, quick) = (Upstream::start(slow), Upstream::start(quick));
        let spare = Upstream::start([Script::answering(http(200, &completion("spare")))]);
        let model = Model::new("acme/small")
            .at("slow", SLOW[0], SLOW[1])
            .at("quick", QUICK[0], QUICK[1])
            .at("spare", "0.00001", "0.00001");
        let world = World::default()
            .with(config)
            .provider("slow", slow.address())
            .provider("quick", quick.address())
            .provider("spare", spare.address())
            .model(&model);
        Setting { gateway: world.start().await, slow, quick, spare }
    }

    /// The generation of a reply, as the ledger tells it.
    async fn record(&self, reply: &Reply) -> Value {
        self.record_of(reply.header("x-generation-id").unwrap()).await
    }

    async fn record_of(&self, id: &str) -> Value {
        self.gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take()
    }

    async fn metric(&self, line: &str) -> bool {
        let metrics = self.gateway.get("/metrics").await.text();
        metrics.lines().any(|found| found == line)
    }

    /// Waits until an attempt there was read as a failure.
    async fn has_failed(&self, slug: &str) {
        let line = format!(
            "pointsman_upstream_attempts_total{{model=\"acme/small\",outcome=\"server\",provider=\"{slug}\"}} 1"
        );
        eventually(format!("{slug} fails"), async || self.metric(&line).await, |failed| *failed).await;
    }

    /// The score of `slow`, as a preview has it.
    async fn expected(&self) -> Value {
        let preview = self.gateway.post("/api/v1/route/preview", &json!({"model": "acme/small"})).await.expect(200);
        let candidates = preview["candidates"].as_array().unwrap().iter();
        candidates.into_iter().find(|candidate| candidate["provider_slug"] == "slow").unwrap()["score"].clone()
    }

    /// Has one call answered, and waits until the routing has heard of it.
    async fn measure(&self, body: &Value) {
        let unknown = self.expected().await;
        self.gateway.chat(body).await.expect(200);
        eventually("it is measured", async || self.expected().await, |expected| *expected != unknown).await;
    }

    async fn spent(&self) -> f64 {
        self.gateway.get("/api/v1/key").await.expect(200)["data"]["usage"].as_f64().unwrap()
    }
}

fn fastest(streamed: bool) -> Value {
    let order = json!({"order": ["slow", "quick", "spare"]});
    and(ask("acme/small"), json!({"objective": "fastest", "stream": streamed, "provider": order}))
}

/// What an upstream says to a call of that kind.
fn says(words: &str, streamed: bool) -> String {
    if streamed { stream_of(&crate::hostile::events(words)) } else { http(200, &completion(words)) }
}

/// What the client read.
fn heard(reply: &Reply) -> String {
    match reply.header("content-type") {
        Some("application/json") => {
            reply.json()["choices"][0]["message"]["content"].as_str().unwrap_or("nothing").to_owned()
        }
        _ => reply.content(),
    }
}

fn closed(log: &Log) -> bool {
    log.closed.len() == 1
}

fn asked(log: &Log) -> bool {
    log.requests.len() == 1
}

/// So many tokens at that price, as it is read from JSON.
fn dollars(parts: &[(u64, &str)]) -> f64 {
    let total: Usd = parts.iter().map(|(tokens, price)| price.parse::<Usd>().unwrap() * *tokens).sum();
    total.to_string().parse().unwrap()
}

fn column<'a>(record: &'a Value, name: &str) -> Vec<&'a Value> {
    record["route"]["attempts"].as_array().unwrap().iter().map(|attempt| &attempt[name]).collect()
}

/// What is said of the attempts.
fn ending(record: &Value) -> &str {
    record["route"]["decision_reason"].as_str().unwrap().rsplit(". ").next().unwrap()
}

/// Asks for answers while `during` plays its part.
async fn meanwhile<T>(asking: impl Future<Output = T>, during: impl Future<Output = ()>) -> T {
    futures_util::future::join(asking, during).await.0
}

#[actix_web::test]
async fn a_hedge_that_is_quicker_wins_and_the_late_one_is_closed_and_paid() {
    for streamed in [true, false] {
        let setting = Setting::new(Script::new().request(), Script::answering(says("quick", streamed))).await;
        let reply = setting.gateway.chat(&fastest(streamed)).await;
        assert_eq!(heard(&reply), "quick");
        assert!(setting.slow.eventually(SOON, closed).await, "the loser's connection was kept");

        let record = setting.record(&reply).await;
        assert_eq!(record_line(&record), "completed | lost_race, ok:200");
        let route = &record["route"];
        assert_eq!(column(&record, "reason"), ["first", "hedge"]);
        assert_eq!(route["hedged"], json!(true));
        assert_eq!(column(&record, "outcome"), ["lost_race", "completed"]);
        assert_eq!((&record["provider_name"], &route["decision_code"]), (&json!("Quick"), &json!("provider_fallback")));
        assert_eq!(reply.header("x-route-attempts"), Some("2"));
        assert_eq!(ending(&record), "2 attempts: the chosen endpoint was late and slower than the hedge at Quick.");

        let prompt = route["estimate"]["prompt_tokens"].as_u64().unwrap();
        let lost = dollars(&[(prompt, SLOW[0])]);
        let usage = &route["usage"];
        let told = usage["cost"].as_f64().unwrap();
        let (taken, given) = (usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap());
        assert_eq!(told, dollars(&[(taken, QUICK[0]), (given, QUICK[1])]));
        assert_eq!((&record["total_cost"], &route["total_cost"]), (&json!(told), &json!(told)));
        let whole = dollars(&[(taken, QUICK[0]), (given, QUICK[1]), (prompt, SLOW[0])]);
        assert_eq!((&route["hedge_cost"], &route["failed_cost"]), (&json!(lost), &json!(0)));
        assert_eq!(route["ledger_cost"], json!(whole));
        assert_eq!(column(&record, "cost"), [&json!(lost), &json!(told)]);
        assert_eq!(setting.spent().await, whole, "the key pays for both");

        for outcome in ["started", "won"] {
            let line = format!("pointsman_hedges_total{{outcome=\"{outcome}\"}} 1");
            assert!(setting.metric(&line).await, "{line}");
        }
        assert!(setting.metric(&format!("pointsman_hedge_cost_usd_total {lost}")).await);
        assert_eq!(setting.spare.connections(), 0);
    }
}

#[actix_web::test]
async fn a_hedge_that_is_slower_loses_and_is_closed() {
    for streamed in [true, false] {
        let gate = Gate::new();
        let slow = Script::new().request().wait(&gate).send(says("slow", streamed));
        let setting = Setting::new(slow, Script::new().request()).await;
        let body = fastest(streamed);
        let reply = meanwhile(setting.gateway.chat(&body), async {
            assert!(setting.quick.eventually(PATIENCE, asked).await, "nobody raced");
            gate.open();
        });
        let reply = reply.await;
        assert_eq!(heard(&reply), "slow");
        assert!(setting.quick.eventually(SOON, closed).await, "the loser's connection was kept");
        let record = setting.record(&reply).await;
        assert_eq!(record_line(&record), "completed | ok:200, lost_race");
        let prompt = record["route"]["estimate"]["prompt_tokens"].as_u64().unwrap();
        assert_eq!(record["route"]["hedge_cost"], json!(dollars(&[(prompt, QUICK[0])])));
        assert_eq!(record["provider_name"], "Slow");
        assert_eq!(ending(&record), "2 attempts: the chosen endpoint answered, the hedge at Quick was slower.");
        assert!(setting.metric("pointsman_hedges_total{outcome=\"lost\"} 1").await);
    }
}

#[actix_web::test]
async fn a_late_attempt_that_fails_leaves_the_hedge_running() {
    for streamed in [true, false] {
        let (fail, answer) = (Gate::new(), Gate::new());
        let slow = Script::new().request().wait(&fail).send(http(500, &json!({}))).fin();
        let quick = Script::new().request().wait(&answer).send(says("quick", streamed));
        let setting = Setting::new(slow, quick).await;
        let body = fastest(streamed);
        let reply = meanwhile(setting.gateway.chat(&body), async {
            assert!(setting.quick.eventually(PATIENCE, asked).await, "nobody raced");
            fail.open();
            setting.has_failed("slow").await;
            answer.open();
        });
        let reply = reply.await;
        assert_eq!(heard(&reply), "quick");
        let record = setting.record(&reply).await;
        assert_eq!(record_line(&record), "completed | server:500, ok:200");
        assert_eq!(record["route"]["ledger_cost"], record["total_cost"], "a 500 costs nothing");
        assert_eq!(setting.spare.connections(), 0, "nothing further was started");
    }
}

#[actix_web::test]
async fn a_hedge_that_fails_leaves_the_late_attempt_running() {
    for streamed in [true, false] {
        let answer = Gate::new();
        let slow = Script::new().request().wait(&answer).send(says("slow", streamed));
        let setting = Setting::new(slow, Script::new().request().send(http(500, &json!({}))).fin()).await;
        let body = fastest(streamed);
        let reply = meanwhile(setting.gateway.chat(&body), async {
            setting.has_failed("quick").await;
            answer.open();
        });
        let reply = reply.await;
        assert_eq!(heard(&reply), "slow");
        assert_eq!(record_line(&setting.record(&reply).await), "completed | ok:200, server:500");
        assert_eq!(setting.spare.connections(), 0, "nothing further was started");
        assert!(setting.metric("pointsman_hedges_total{outcome=\"failed\"} 1").await);
    }
}

#[actix_web::test]
async fn when_both_fail_the_walk_goes_on_and_a_hedge_counts_among_the_attempts() {
    let failing = |gate: &Gate| Script::new().request().wait(gate).send(http(500, &json!({}))).fin();
    for most in [3, 2] {
        let gate = Gate::new();
        let config = format!("{HEDGING}[routing.retry]\nmax_attempts = {most}\nlast_resort = 0\n");
        let setting = Setting::with(&config, [failing(&gate)], [failing(&gate)]).await;
        let body = fastest(false);
        let reply = meanwhile(setting.gateway.chat(&body), async {
            assert!(setting.quick.eventually(PATIENCE, asked).await, "nobody raced");
            gate.open();
        });
        let reply = reply.await;
        let record = setting.record(&reply).await;
        if most == 3 {
            assert_eq!(record_line(&record), "completed | server:500, server:500, ok:200");
            assert_eq!(column(&record, "reason"), ["first", "hedge", "fallback"]);
            assert_eq!(heard(&reply), "spare");
        } else {
            assert_eq!(record_line(&record), "failed | server:500, server:500");
            assert_eq!(ending(&record), "2 attempts, all failed: the chosen endpoint (500), Quick (500).");
            assert_eq!(reply.expect(502)["error"]["metadata"]["previous_errors"].as_array().unwrap().len(), 2);
            assert_eq!(setting.spare.connections(), 0);
        }
    }
}

#[actix_web::test]
async fn a_refusal_of_the_request_ends_the_race() {
    let gate = Gate::new();
    let slow = Script::new().request().wait(&gate).send(http(400, &json!({"error": {"message": "no"}}))).fin();
    let setting = Setting::new(slow, Script::new().request()).await;
    let body = fastest(true);
    let reply = meanwhile(setting.gateway.chat(&body), async {
        assert!(setting.quick.eventually(PATIENCE, asked).await, "nobody raced");
        gate.open();
    });
    let reply = reply.await;
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(setting.quick.eventually(SOON, closed).await);
    assert_eq!(record_line(&setting.record(&reply).await), "failed | bad_request:400, lost_race");
}

#[actix_web::test]
async fn an_empty_budget_waits_for_the_late_attempt() {
    let config = HEDGING.replace("budget = 1.0", "budget = 0.01");
    let late = Script::new().request().pause(Duration::from_millis(400)).send(says("slow", false));
    let quick = Script::answering(says("quick", false));
    let setting = Setting::with(&config, [Script::new().request(), late], [quick]).await;
    assert_eq!(heard(&setting.gateway.chat(&fastest(false)).await), "quick", "there is one token at the start");
    let reply = setting.gateway.chat(&fastest(false)).await;
    assert_eq!(heard(&reply), "slow");
    assert_eq!(record_line(&setting.record(&reply).await), "completed | ok:200");
    assert!(setting.metric("pointsman_attempts_withheld_total{budget=\"hedge\"} 1").await);
}

#[actix_web::test]
async fn a_client_that_leaves_during_a_race_drops_both() {
    let config = format!("{HEDGING}[stream]\nkeepalive = \"400ms\"\n");
    let setting = Setting::with(&config, [Script::new().request()], [Script::new().request()]).await;
    let mut client = RawClient::chat(&setting.gateway, &fastest(true)).await;
    client.until(": keep-alive\n\n").await;
    let id = client.generation();
    assert!(setting.quick.eventually(PATIENCE, asked).await, "nobody raced");
    client.hang_up();
    assert!(setting.slow.eventually(SOON, closed).await && setting.quick.eventually(SOON, closed).await);
    let record = setting.record_of(&id).await;
    assert_eq!(record_line(&record), "cancelled | cancelled, cancelled");
    let route = &record["route"];
    let prompt = route["estimate"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(route["failed_cost"], json!(dollars(&[(prompt, SLOW[0]), (prompt, QUICK[0])])));
    assert_eq!((&route["ledger_cost"], &record["total_cost"]), (&route["failed_cost"], &json!(0)));
    assert!(setting.metric("pointsman_hedges_total{outcome=\"cancelled\"} 1").await);
    for slug in ["slow", "quick"] {
        let health = setting.gateway.get(&format!("/api/v1/health/providers/{slug}")).await.expect(200);
        assert_eq!((&health["data"][0]["in_flight"], &health["data"][0]["circuit"]), (&json!(0), &json!("closed")));
    }
}

#[actix_web::test]
async fn a_client_that_leaves_a_plain_race_drops_both() {
    let setting = Setting::new(Script::new().request(), Script::new().request()).await;
    let client = RawClient::chat(&setting.gateway, &fastest(false)).await;
    assert!(setting.quick.eventually(PATIENCE, asked).await, "nobody raced");
    client.reset();
    assert!(setting.slow.eventually(SOON, closed).await && setting.quick.eventually(SOON, closed).await);
    assert!(setting.metric("pointsman_hedges_total{outcome=\"cancelled\"} 1").await);
}

/// A head, or a role without words, is no content: the race is on. What the loser said is thrown away.
#[actix_web::test]
async fn a_head_without_content_does_not_stop_a_hedge() {
    let role = delta(&json!({"role": "assistant", "content": ""}));
    let slow = Script::new().request().send(format!("{CHUNKED}{}", chunk(&role)));
    let setting = Setting::new(slow, Script::answering(says("quick", true))).await;
    let reply = setting.gateway.chat(&fastest(true)).await;
    assert_eq!(reply.content(), "quick");
    let roles = reply.events().iter().filter(|event| event["choices"][0]["delta"].get("role").is_some()).count();
    assert_eq!(roles, 1);
    assert_eq!(record_line(&setting.record(&reply).await), "completed | lost_race, ok:200");
}

/// Servers that send the head of a plain answer at once, and white space to keep the connection open, are raced like
/// those that send nothing; who has begun to answer is not.
#[actix_web::test]
async fn a_plain_head_and_padding_before_the_work_is_done_do_not_stop_a_hedge() {
    let head = CHUNKED.replace("text/event-stream", "application/json");
    let padding = Script::new().send(chunk(" \r\n\t")).pause(Duration::from_millis(10));
    for early in [Script::new().send(head.as_str()), Script::new().send(head.as_str()).repeat(padding)] {
        let setting = Setting::new(Script::new().request().then(&early), Script::answering(says("quick", false))).await;
        let reply = setting.gateway.chat(&fastest(false)).await;
        assert_eq!(heard(&reply), "quick");
        let record = setting.record(&reply).await;
        assert_eq!(record_line(&record), "completed | lost_race, ok:200");
        assert_eq!(record["route"]["attempts"][0]["first_token_ms"], Value::Null, "nothing of an answer came");
    }
    let answer = completion("slow").to_string();
    let (begin, rest) = answer.split_at(1);
    let begun = Script::new().request().send(format!("{head}{}{}", chunk(" \n"), chunk(begin)));
    let begun = begun.pause(Duration::from_millis(4000)).send(format!("{}0\r\n\r\n", chunk(rest)));
    let setting = Setting::with(&patient(), [begun], [Script::new().request()]).await;
    let reply = setting.gateway.chat(&fastest(false)).await;
    assert_eq!((heard(&reply).as_str(), setting.quick.connections()), ("slow", 0));
}

#[actix_web::test]
async fn a_model_that_thinks_out_of_sight_is_not_late_and_what_a_loser_thought_is_paid() {
    let thought = delta(&json!({"reasoning": "twelve bytes"}));
    let hidden = and(fastest(true), json!({"reasoning": {"exclude": true}}));

    let thinking = Script::new().request().send(format!("{CHUNKED}{}", chunk(&thought)));
    let rest = format!("{}0\r\n\r\n", chunk(&crate::hostile::events("slow")));
    let thinking = thinking.pause(Duration::from_millis(4000)).send(rest);
    let setting = Setting::with(&patient(), [thinking], [Script::new().request()]).await;
    let reply = setting.gateway.chat(&hidden).await;
    assert_eq!((reply.content().as_str(), setting.quick.connections()), ("slow", 0));

    let (think, answer) = (Gate::new(), Gate::new());
    let slow = Script::new().request().wait(&think).send(format!("{CHUNKED}{}", chunk(&thought))).open(&answer);
    let quick = Script::new().request().open(&think).wait(&answer).send(says("quick", true));
    let setting = Setting::new(slow, quick).await;
    let reply = setting.gateway.chat(&hidden).await;
    assert_eq!(reply.content(), "quick");
    let record = setting.record(&reply).await;
    let prompt = record["route"]["estimate"]["prompt_tokens"].as_u64().unwrap();
    let lost = dollars(&[(prompt, SLOW[0]), (3, SLOW[1])]);
    assert_eq!(record["route"]["hedge_cost"], json!(lost), "{}", record["route"]["attempts"]);
}

#[actix_web::test]
async fn nobody_is_raced_where_it_is_not_wanted() {
    let off = [
        ("another objective", json!({"objective": "balanced"})),
        ("no fallbacks", json!({"provider": {"order": ["slow"], "allow_fallbacks": false}})),
        ("one endpoint", json!({"provider": {"only": ["slow"]}})),
    ];
    let late =
        || Script::new().repeat(Script::new().request().pause(Duration::from_millis(300)).send(says("slow", false)));
    for (why, change) in off {
        let setting = Setting::new(late(), Script::answering(says("quick", false))).await;
        let reply = setting.gateway.chat(&and(fastest(false), change)).await;
        assert_eq!((heard(&reply).as_str(), setting.quick.connections()), ("slow", 0), "{why}");
        assert_eq!(setting.record(&reply).await["route"]["hedged"], json!(false), "{why}");
    }
    let config = HEDGING.replace("budget = 1.0", "budget = 0");
    let setting = Setting::with(&config, [late()], [Script::answering(says("quick", false))]).await;
    assert_eq!(heard(&setting.gateway.chat(&fastest(false)).await), "slow", "no budget");
}

/// Whatever the objective: what takes many times longer than ever before hangs, as likely as not. It is not ended, but
/// it is no longer waited for alone.
#[actix_web::test]
async fn a_plain_answer_that_is_overdue_is_raced_under_every_objective() {
    let overdue = "[routing]\nexploration = 0\n[timeouts]\nfirst_byte = \"600ms\"\n";
    for objective in ["cheapest", "reliable", "balanced", "fastest"] {
        let hangs = Script::new().request().send(says("known", false)).request();
        let setting = Setting::with(overdue, [hangs], [Script::answering(says("quick", false))]).await;
        let ask = and(fastest(false), json!({"objective": objective, "max_tokens": 4}));
        setting.measure(&ask).await;
        let begun = Instant::now();
        let reply = setting.gateway.chat(&ask).await;
        assert_eq!(heard(&reply), "quick", "{objective}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{objective}: {:?}", begun.elapsed());
        assert_eq!(record_line(&setting.record(&reply).await), "completed | lost_race, ok:200", "{objective}");
        assert!(setting.slow.eventually(SOON, closed).await, "{objective}: the loser is let go");
    }
}

/// Nothing shuts its circuit: the attempts that were taken away from it have not failed.
#[actix_web::test]
async fn an_endpoint_that_answers_nobody_is_shown_as_silent_until_it_answers() {
    let config = "[routing]\nexploration = 0\n[timeouts]\nfirst_byte = \"600ms\"\n[routing.breaker]\nbase = \"60s\"\n";
    let hangs = Script::new().request().send(says("known", false)).request();
    let back = Script::new().repeat(Script::new().request().send(says("back", false)));
    let setting = Setting::with(config, [hangs, back], [Script::answering(says("quick", false))]).await;
    let shown = async |slug: &str| {
        let page = setting.gateway.get(&format!("/api/v1/health/providers/{slug}")).await.expect(200);
        ["circuit", "silent", "state"].map(|name| page["data"][0][name].clone())
    };
    let ask = and(fastest(false), json!({"objective": "cheapest", "max_tokens": 4}));
    setting.measure(&ask).await;
    assert_eq!(shown("slow").await, [json!("closed"), json!(false), json!("healthy")]);

    assert_eq!(heard(&setting.gateway.chat(&ask).await), "quick");
    assert_eq!(shown("slow").await, [json!("closed"), json!(true), json!("degraded")]);
    assert_eq!(shown("quick").await[1], json!(false));
    assert!(setting.metric("pointsman_endpoint_silent{model=\"acme/small\",provider=\"slow\"} 1").await);
    assert!(setting.metric("pointsman_endpoint_silent{model=\"acme/small\",provider=\"quick\"} 0").await);

    let only = and(ask, json!({"provider": {"only": ["slow"]}}));
    assert_eq!(heard(&setting.gateway.chat(&only).await), "back");
    assert_eq!(shown("slow").await, [json!("closed"), json!(false), json!("healthy")]);
}

#[actix_web::test]
async fn an_answer_that_takes_long_wins_although_it_was_raced() {
    let overdue = "[routing]\nexploration = 0\n[timeouts]\nfirst_byte = \"600ms\"\n";
    let gate = Gate::new();
    let long = Script::new().request().send(says("known", false)).request().wait(&gate).send(says("long", false));
    let setting = Setting::with(overdue, [long], [Script::new().request().open(&gate)]).await;
    let ask = and(fastest(false), json!({"objective": "cheapest"}));
    setting.measure(&ask).await;
    let reply = setting.gateway.chat(&ask).await;
    assert_eq!((heard(&reply).as_str(), setting.quick.connections()), ("long", 1));
    assert_eq!(record_line(&setting.record(&reply).await), "completed | ok:200, lost_race");
}

/// A later entry of `models` waits until the first has failed, late or not.
#[actix_web::test]
async fn a_late_attempt_is_not_raced_by_another_model() {
    let slow = Upstream::start([Script::new().request().pause(Duration::from_millis(300)).send(says("slow", false))]);
    let other = Upstream::start([Script::answering(says("other", false))]);
    let gateway = World::default()
        .with(HEDGING)
        .provider("slow", slow.address())
        .provider("other", other.address())
        .model(&Model::new("acme/small").at("slow", "0", "0"))
        .model(&Model::new("acme/other").at("other", "0", "0"))
        .start()
        .await;
    let body = and(ask("acme/small"), json!({"objective": "fastest", "models": ["acme/other"]}));
    assert_eq!((heard(&gateway.chat(&body).await).as_str(), other.connections()), ("slow", 0));
}

/// Each image is paid for whole, wanted or not.
#[actix_web::test]
async fn images_are_not_raced() {
    let image = http(200, &json!({"created": 1, "data": [{"b64_json": "iVBORw0KGgo="}]}));
    let slow = Upstream::start([Script::new().request().pause(Duration::from_millis(1200)).send(image.clone())]);
    let quick = Upstream::start([Script::answering(image)]);
    let painter = Model::new("acme/paint").with("output_modalities = [\"image\"]");
    let gateway = World::default()
        .with(HEDGING)
        .provider("slow", slow.address())
        .provider("quick", quick.address())
        .model(&painter.at("slow", "0", "0").at("quick", "0", "0"))
        .start()
        .await;
    let order = json!({"order": ["slow", "quick"]});
    let body = json!({"model": "acme/paint", "prompt": "x", "objective": "fastest", "provider": order});
    gateway.post("/api/v1/images/generations", &body).await.expect(200);
    assert_eq!((slow.connections(), quick.connections()), (1, 0));
}

/// What was said is said: behind the first content nobody races, however long the upstream pauses.
#[actix_web::test]
async fn a_pause_behind_the_first_content_is_not_raced() {
    let rest = format!("{}0\r\n\r\n", chunk(&crate::hostile::events(" there")));
    let slow = Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("slow"))));
    let slow = slow.pause(Duration::from_millis(4000)).send(rest);
    let setting = Setting::with(&patient(), [slow], [Script::new().request()]).await;
    let reply = setting.gateway.chat(&fastest(true)).await;
    assert_eq!((reply.content().as_str(), setting.quick.connections()), ("slow there", 0));
}

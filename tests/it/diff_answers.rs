//! What `pointsman diff` answers, refuses and leaves out, on records of a gateway with scripted providers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    diff_command::{recorded, store, stored},
    estimate_command::many,
    folder::Folder,
    harness::{KEY, Reply, TestGateway, preamble},
    ledger_durable::environment,
    patience::eventually,
    process,
    scripted::Upstream,
    shadows::TRIES,
    world::{Model, World, and, ask, saying},
};

const VARIABLES: [(&str, &str); 2] = [("TEST_KEY", KEY), ("POINTSMAN__ROUTING__OBJECTIVE", "cheapest")];

/// Models at two providers, a dear one and a cheap one, whose calls are recorded.
struct Stage {
    folder: Folder,
    upstreams: [Upstream; 2],
    models: usize,
}

impl Stage {
    fn new(models: usize) -> Stage {
        Stage { folder: Folder::new(), upstreams: [saying("dear"), saying("cheap")], models }
    }

    fn data(&self) -> PathBuf {
        self.folder.at("data")
    }

    /// The configuration without aliases.
    fn world(&self) -> World {
        let [dear, cheap] = &self.upstreams;
        let world = World::new().provider("dear", dear.address()).provider("cheap", cheap.address());
        let model = |world: World, at: usize| {
            let price = |factor: usize| format!("0.0000{:02}", (at + 1) * factor);
            world.model(&Model::new(&format!("acme/m{at:02}")).at("dear", &price(4), &price(4)).at(
                "cheap",
                &price(1),
                &price(1),
            ))
        };
        (0..self.models).fold(world, model)
    }

    /// A gateway in this world that records.
    async fn gateway(&self, more: &str, variables: &[(&str, &str)]) -> TestGateway {
        let ledger = format!("[ledger]\ndata_dir = {:?}", self.data().to_str().unwrap());
        let world = self.world().with(more).with(&ledger).variable("POINTSMAN__ROUTING__OBJECTIVE", "cheapest");
        variables.iter().fold(world, |world, (name, value)| world.variable(name, value)).start().await
    }

    /// The command under this world with other settings: exit code, output and what it says.
    fn diff(&self, more: &str, arguments: &[&str]) -> (i32, String, String) {
        self.diff_of(&self.world().with(more), arguments)
    }

    fn diff_of(&self, world: &World, arguments: &[&str]) -> (i32, String, String) {
        self.run("diff", world, arguments)
    }

    fn run(&self, command: &str, world: &World, arguments: &[&str]) -> (i32, String, String) {
        self.folder.put("new.toml", &format!("{}{}", preamble(), world.toml()));
        let (config, data) = (self.folder.at("new.toml"), self.data());
        let named = [command, "--config", config.to_str().unwrap(), "--ledger", data.to_str().unwrap()];
        let all: Vec<&str> = named.into_iter().chain(arguments.iter().copied()).collect();
        let output = process::run(&all, &VARIABLES);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Waits until so many records are in the database.
    async fn recorded(&self, records: usize, more: &str) {
        let wanted = format!("\"self_tested\": {records},");
        let read = async || self.diff(more, &["--json"]);
        eventually("the records are in the database", read, |(_, out, _)| out.contains(&wanted)).await;
    }
}

fn parsed((code, out, said): &(i32, String, String)) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {code} {out} {said}"))
}

async fn calls(gateway: &TestGateway, model: &str, count: usize) {
    for n in 0..count {
        let chat = and(ask(model), json!({"session_id": format!("{model}-{n}"), "max_tokens": 5}));
        gateway.chat(&chat).await.expect(200);
    }
}

const CHAT: &str = "[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/m00\"]\n";

#[actix_web::test]
async fn where_nothing_can_be_said_there_is_no_figure_and_no_verdict_and_the_unmeasured_endpoint_is_named() {
    let stage = Stage::new(1);
    let gateway = stage.gateway(CHAT, &[]).await;
    calls(&gateway, "service/chat", 40).await;
    stage.recorded(40, CHAT).await;

    let new = stage.world().model(&Model::new("acme/new").at("cheap", "0.000001", "0.000001"));
    let new = new.with(&CHAT.replace("m00", "new"));
    let json = stage.diff_of(&new, &["--json"]);
    let report = parsed(&json);
    assert_eq!((json.0, &report["verdict"], &report["figures"]), (2, &json!("no_answer"), &json!([])), "{report:#}");
    assert_eq!(report["never_measured"], json!([{"endpoint": "acme/new at cheap", "decisions": 40}]));
    for (form, heading) in [(&[][..], "answerable"), (&["--markdown"][..], "### Routing: no answer")] {
        let (code, text, _) = stage.diff_of(&new, form);
        assert_eq!(code, 2, "{text}");
        for said in [heading, "0.0 % of the decisions are answered, and 90.0 % are needed", "[routing.explore]"] {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(text.contains("acme/new at cheap could serve 40 decisions"), "{text}");
    }
}

#[actix_web::test]
async fn a_configuration_that_serves_fewer_calls_is_not_praised_for_what_it_saves() {
    let stage = Stage::new(1);
    let gateway = stage.gateway(CHAT, &[]).await;
    calls(&gateway, "service/chat", 40).await;
    stage.recorded(40, CHAT).await;

    let none = format!("{CHAT}blocked_models = [\"acme/*\"]\n");
    let (code, text, said) = stage.diff(&none, &["--fail-if", "spend > +5%"]);
    assert_eq!(code, 2, "{text} {said}");
    assert!(text.contains("spend > +5%: unknown") && text.contains("limits of them are not judged"), "{text}");
    let (code, text, _) = stage.diff(&none, &["--fail-if", "failures > +0.2pp", "--fail-if", "total_p50 > +5%"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("failures > +0.2pp: broken   total_p50 > +5%: unknown"), "{text}");
}

#[actix_web::test]
async fn where_nothing_was_left_to_chance_only_the_choices_of_another_configuration_are_told() {
    let stage = Stage::new(1);
    let gateway = stage.gateway(CHAT, &[]).await;
    calls(&gateway, "service/chat", 40).await;
    stage.recorded(40, CHAT).await;
    let dear = stage.world().with(CHAT).toml().replace("[providers.cheap]", "[providers.cheap]\nenabled = false");
    let dear = World::default().with(&dear);
    let (code, text, said) = stage.run("estimate", &dear, &[]);
    assert!(code == 2 && text.contains("no choice was left to chance, so nothing was learned"), "{code} {text} {said}");
    assert_eq!(parsed(&stage.diff_of(&dear, &["--json"]))["changed"], 40);
}

#[actix_web::test]
async fn moves_that_are_not_listed_are_summed_and_uncertain_choices_are_left_out_on_request() {
    let stage = Stage::new(24);
    let auto = "[[aliases]]\nname = \"chat\"\n";
    let gateway = stage.gateway(auto, &[]).await;
    for model in 0..24 {
        calls(&gateway, &format!("acme/m{model:02}"), 2).await;
    }
    calls(&gateway, "service/chat", 40).await;
    stage.recorded(88, auto).await;

    let dear = stage.world().with(auto).toml().replace("[providers.cheap]", "[providers.cheap]\nenabled = false");
    let dear = World::default().with(&dear);
    let report = parsed(&stage.diff_of(&dear, &["--json"]));
    let sum = |of: &str| -> f64 {
        let listed = report["moves"].as_array().unwrap().iter().chain([&report["other_moves"]]);
        listed.map(|one| one[of].as_f64().unwrap()).sum()
    };
    assert_eq!(report["moves"].as_array().unwrap().len(), 20, "{report:#}");
    assert!(report["other_moves"]["moves"].as_u64().unwrap() >= 4, "{report:#}");
    let spend = &report["figures"][0];
    let change = spend["after"].as_f64().unwrap() - spend["before"].as_f64().unwrap();
    let answered = report["answerable"]["exact"].as_f64().unwrap() + report["answerable"]["partial"].as_f64().unwrap();
    assert!(sum("decisions") >= report["changed"].as_f64().unwrap() && report["changed"] != 0, "{report:#}");
    assert!((sum("cost_usd") * 1e3 / answered - change).abs() < 1e-9, "{} {change}", sum("cost_usd"));
    let (_, text, _) = stage.diff_of(&dear, &[]);
    assert!(text.contains(" other moves: "), "{text}");

    // Of 48 endpoints the records hold the figures of nine.
    let fastest = format!("{auto}objective = \"fastest\"\n");
    let of_alias = ["--where", "alias=service/chat", "--json"];
    let with = parsed(&stage.diff(&fastest, &of_alias));
    assert_eq!(with["answerable"]["partial"], 40, "{with:#}");
    assert!(with["verdict"] == "kept" && with["spend_bounds"][0].is_number(), "{with:#}");
    let without = stage.diff(&fastest, &["--where", "alias=service/chat", "--json", "--exact-only"]);
    let report = parsed(&without);
    assert_eq!((without.0, &report["figures"], &report["answerable"]["partial"]), (2, &json!([]), &json!(40)));
    let (_, text, _) = stage.diff(&fastest, &["--where", "alias=service/chat", "--exact-only"]);
    assert!(text.contains("partial 100.0 % (left out)"), "{text}");
}

#[actix_web::test]
async fn the_report_says_which_records_and_which_files_it_is_about() {
    let stage = Stage::new(1);
    let gateway = stage.gateway(CHAT, &[]).await;
    calls(&gateway, "service/chat", 60).await;
    stage.recorded(60, CHAT).await;
    let report = parsed(&stage.diff(CHAT, &["--json", "--sample", "30"]));
    let (records, decisions) = (&report["records"], report["answerable"]["decisions"].as_u64().unwrap());
    assert_eq!((&records["sampled_from"], &records["exported"]), (&json!(60), &json!(null)), "{report:#}");
    assert!((10..60).contains(&decisions), "{decisions}");
    let (_, text, _) = stage.diff(CHAT, &["--sample", "30"]);
    assert!(text.contains(&format!("{decisions}, a sample of 60, from 20")), "{text}");

    let out = stage.folder.at("traffic.pmx");
    let arguments =
        ["ledger", "export", "--strip", "--data-dir", stage.data().to_str().unwrap(), "--out"].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain([out.to_str().unwrap()]).collect();
    let exported = process::run(&arguments, &[]);
    let said = String::from_utf8(exported.stdout).unwrap();
    stage.folder.put("old.toml", &format!("{}{}", preamble(), stage.world().with(CHAT).toml()));
    let old = stage.folder.at("old.toml");
    let of_export = ["--json", "--ledger", out.to_str().unwrap(), "--against", old.to_str().unwrap()];
    let named = |arguments: &[&str], new: &World| {
        stage.folder.put("new.toml", &format!("{}{}", preamble(), new.toml()));
        let config = stage.folder.at("new.toml");
        let all: Vec<&str> =
            ["diff", "--config", config.to_str().unwrap()].into_iter().chain(arguments.iter().copied()).collect();
        String::from_utf8(process::run(&all, &VARIABLES).stdout).unwrap()
    };
    let same = stage.world().with(CHAT);
    let report: Value = serde_json::from_str(&named(&of_export, &same)).unwrap();
    let exported = &report["records"]["exported"];
    assert_eq!((&exported["records"], &exported["drawn_from"]), (&json!(60), &json!(60)), "{report:#}");
    assert!(said.contains(exported["sha256"].as_str().unwrap()), "{said} {exported}");
    let digest = report["before_sha256"].as_str().unwrap();
    assert!(digest.len() == 64 && report["after_sha256"] == digest, "both files have the same text: {report:#}");
    assert!(!report["warnings"].to_string().contains("other prices"), "{report:#}");
    let text = named(&of_export[1..], &same);
    assert!(text.contains(digest.get(..12).unwrap()) && text.contains("60 of 60 records"), "{text}");
    // Prices went up since: what is compared is no longer what is paid.
    let dearer = stage.world().with(CHAT).toml().replace("0.000001", "0.000002");
    stage.folder.put("old.toml", &format!("{}{dearer}", preamble()));
    let report: Value = serde_json::from_str(&named(&of_export, &World::default().with(&dearer))).unwrap();
    let warnings = report["warnings"].to_string();
    assert!(
        warnings.contains("100.0 % of the spending before is at other prices than when it was recorded"),
        "{warnings}"
    );
}

#[actix_web::test]
async fn exact_answers_are_what_a_shadow_of_the_other_configuration_chose_while_the_first_one_served() {
    let stage = Stage::new(2);
    let weights = "\"routing.balanced\" = { latency = 0.9, cost = 0.1 }";
    let chat = "[[aliases]]\nname = \"chat\"\n";
    let more = format!("{chat}[[shadow]]\nname = \"other\"\n[shadow.overrides]\n{weights}\n");
    let noise = ("POINTSMAN__ROUTING__EXPLORATION", "0.5");
    let seeds = [("POINTSMAN__ROUTING__SEED", "7"), ("POINTSMAN__ROUTING__INSTANCE_ID", "1"), noise];
    let gateway = stage.gateway(&more, &seeds).await;
    // By the id of the decision: the choice that served, and that of the shadow.
    let mut chosen: BTreeMap<String, [String; 2]> = BTreeMap::new();
    for n in 0..200 {
        let body = and(ask("service/chat"), json!({"objective": "balanced", "session_id": n.to_string()}));
        let reply = gateway.chat(&body).await;
        reply.expect(200);
        let id = reply.header("x-generation-id").unwrap().to_owned();
        let shown = gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200);
        // A worker that is behind leaves a shadow out.
        let Some(shadow) = shown["shadows"].get(0) else { continue };
        let name =
            |of: &Value| format!("{} at {}", of["model"].as_str().unwrap(), of["provider_slug"].as_str().unwrap());
        chosen.insert(id, [name(&shown["candidates"][0]), name(&shadow["choice"])]);
    }
    assert!(chosen.len() > 200 / TRIES, "{} decisions", chosen.len());
    stage.recorded(200, chat).await;

    let other = format!("{chat}[routing.balanced]\nlatency = 0.9\ncost = 0.1\n");
    let config =
        World::default().with(&stage.world().with(&other).toml().replace("exploration = 0", "exploration = 0.5"));
    let report = parsed(&stage.diff_of(&config, &["--json", "--examples", "255"]));
    assert_eq!((&report["answerable"]["exact"], &report["self_tested"]), (&json!(200), &json!(200)), "{report:#}");
    let text = |of: &Value, member: &str| of[member].as_str().unwrap().to_owned();
    let moved: BTreeMap<String, [String; 2]> = report["examples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(one, "record"), [text(one, "from"), text(one, "to")]))
        .collect();
    assert!(!moved.is_empty() && moved.len() < 200, "{}", moved.len());
    for (id, [served, shadow]) in &chosen {
        match moved.get(id) {
            Some(choices) => assert_eq!(choices, &[served.clone(), shadow.clone()], "{id}"),
            None => assert_eq!(served, shadow, "{id}"),
        }
    }
}

/// The command that has a gateway compare its own records.
async fn remote(gateway: &TestGateway, config: &str, arguments: &[&'static str]) -> (i32, String, String) {
    let (url, config, arguments) = (gateway.admin().url(""), config.to_owned(), arguments.to_vec());
    let run = move || {
        let all = ["diff", "--config", &config, "--url", &url].into_iter().chain(arguments);
        let output = process::run(&all.collect::<Vec<_>>(), &[("POINTSMAN_ADMIN_KEY", BOSS)]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    actix_web::web::block(run).await.unwrap()
}

const BOSS: &str = "sk-boss-0123456789abcdef-0123";

/// A gateway with the records in `data`, whose administrator has the key [`BOSS`].
async fn administered(data: &Path) -> TestGateway {
    let mut environment = environment(data.to_str().unwrap());
    environment.retain(|(name, _)| name != "POINTSMAN__KEYS" && name != "TEST_KEY");
    environment.extend(
        [("BOSS", BOSS), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")].map(|(name, value)| (name.into(), value.into())),
    );
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    let keys = "[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]\n";
    TestGateway::start_with(keys, &environment).await
}

/// A call of its administrator below `/admin/diff`.
async fn asked(gateway: &TestGateway, method: Method, path: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {BOSS}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = body.map(|body| body.to_string().into_bytes());
    gateway.admin().call(method, &format!("/api/v1/admin/diff{path}"), &headers, body).await
}

#[actix_web::test]
async fn a_gateway_that_is_asked_gives_the_exit_codes_of_the_command_itself_and_compares_one_at_a_time() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let mut generations = many(&stored(&data), 150);
    folder.put("new.toml", "[routing.balanced]\ncost = 0\n");
    let config = folder.at("new.toml").display().to_string();

    store(&folder.at("whole"), &generations);
    let gateway = administered(&folder.at("whole")).await;
    let body = || Some(json!({"changes": {"routing.balanced.cost": 0}}));
    let begun = asked(&gateway, Method::POST, "", body()).await.expect(202);
    let second = asked(&gateway, Method::POST, "", body()).await.expect(409);
    assert!(second["error"]["message"].as_str().unwrap().contains("runs"), "{second}");
    let id = begun["data"]["id"].as_str().unwrap();
    asked(&gateway, Method::DELETE, &format!("/{id}"), None).await.expect(200);
    let limited = async || remote(&gateway, &config, &["--fail-if", "spend > -100%"]).await;
    let has_begun = |(_, _, said): &(i32, String, String)| !said.contains("runs");
    let (code, out, said) = eventually("the first one has ended", limited, has_begun).await;
    assert!(code == 1 && out.contains("spend > -100%: broken"), "{code} {out} {said}");

    let decision = Arc::make_mut(&mut Arc::make_mut(&mut generations[7]).decision);
    decision.candidates[0].score *= 1.0 + f64::EPSILON;
    store(&folder.at("changed"), &generations);
    let gateway = administered(&folder.at("changed")).await;
    let (code, out, said) = remote(&gateway, &config, &[]).await;
    assert!(code == 3 && out.is_empty() && said.contains("self test failed: 1 of 6000"), "{code} {out} {said}");
}

#[actix_web::test]
async fn a_gateway_without_records_on_disk_compares_nothing() {
    let keys = "[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]\n";
    let variables = [("BOSS", BOSS), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")];
    let gateway = TestGateway::start_with(keys, &variables).await;
    let refused = asked(&gateway, Method::POST, "", Some(json!({"config": ""}))).await.expect(404);
    assert!(refused["error"]["message"].as_str().unwrap().contains("ledger"), "{refused}");
}

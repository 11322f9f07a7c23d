//! The command line of the simulator.

use std::{error::Error, fmt::Write as _, io::Write as _, process::ExitCode};

use lexopt::prelude::*;
use pointsman_oracle::{
    one,
    request::Aim,
    rules::{Kind, policy},
    scenario::Scenario,
    table::{self, Plan},
};

const HELP: &str = "\
oracle table [options]                     regret of every rule in every scenario, and Pointsman's figures
oracle one <scenario> <objective> <seed>   one run over time; --rule names another rule than pointsman

  --seeds N         seeds per scenario (8)
  --from-seed S     the first of them (1000; seeds below 1000 are for tuning)
  --scenario X      only this scenario; may be repeated
  --objective Y     only this objective, or mixed; may be repeated
  --rule Z          only this rule; may be repeated
";

struct Options {
    words: Vec<String>,
    seeds: u64,
    from_seed: u64,
    scenarios: Vec<Scenario>,
    aims: Vec<Aim>,
    rules: Vec<Kind>,
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            // Somebody who closes the pipe early has read enough.
            _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            _ = writeln!(std::io::stderr(), "oracle: {error}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<String, Box<dyn Error>> {
    let options = options()?;
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    let mut text = String::new();
    match words.as_slice() {
        ["table"] => {
            let plan = options.plan();
            table::write(&plan, &table::run(&plan), &mut text)?;
        }
        ["one", of, aim, seed] => {
            let rule = options.rules.first().copied().unwrap_or(Kind::Pointsman);
            one::write(scenario(of)?, objective(aim)?, seed.parse()?, rule, &policy(), &mut text)?;
        }
        ["help"] => text.write_str(HELP)?,
        _ => return Err("say what to do".into()),
    }
    Ok(text)
}

impl Options {
    fn plan(&self) -> Plan {
        let or_all = |given: &[Scenario]| if given.is_empty() { Scenario::ALL.to_vec() } else { given.to_vec() };
        let all_rules = || Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Oracle | Kind::Random)).collect();
        Plan {
            scenarios: or_all(&self.scenarios),
            aims: if self.aims.is_empty() { Aim::ALL.to_vec() } else { self.aims.clone() },
            seeds: (self.from_seed..self.from_seed + self.seeds).collect(),
            rules: if self.rules.is_empty() { all_rules() } else { self.rules.clone() },
            policy: policy(),
        }
    }
}

fn options() -> Result<Options, Box<dyn Error>> {
    let (mut scenarios, mut aims, mut rules) = (Vec::new(), Vec::new(), Vec::new());
    let (mut words, mut seeds, mut from_seed) = (Vec::new(), 8, 1000);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seeds") => seeds = parser.value()?.parse()?,
            Long("from-seed") => from_seed = parser.value()?.parse()?,
            Long("scenario") => scenarios.push(scenario(&parser.value()?.string()?)?),
            Long("objective") => aims.push(objective(&parser.value()?.string()?)?),
            Long("rule") => rules.push(rule(&parser.value()?.string()?)?),
            Long("help") | Short('h') => words = vec!["help".to_owned()],
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Options { words, seeds, from_seed, scenarios, aims, rules })
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let names = || Scenario::ALL.map(Scenario::name).join(", ");
    Scenario::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| format!("scenarios are {}", names()))
}

fn objective(name: &str) -> Result<Aim, String> {
    let names = || Aim::ALL.map(Aim::name).join(", ");
    Aim::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| format!("objectives are {}", names()))
}

fn rule(name: &str) -> Result<Kind, String> {
    let names = || Kind::ALL.map(Kind::name).join(", ");
    Kind::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| format!("rules are {}", names()))
}

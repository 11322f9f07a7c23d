//! What stands on the command line.

use std::{error::Error, ffi::OsString, path::PathBuf};

use lexopt::prelude::*;
use pointsman_domain::Objective;
use pointsman_oracle::{
    HELD_OUT_SEEDS,
    request::Aim,
    rules::{Kind, policy},
    scenario::Scenario,
    sockets::Show,
    table::Plan,
    traffic::{Hour, Pace, Traffic},
};

/// Shown over sockets, unless others are named: late answers, none, no connections, queues, and two kinds of speed.
const OVER_SOCKETS: [Scenario; 5] =
    [Scenario::Slowdown, Scenario::Hang, Scenario::Refused, Scenario::Queueing, Scenario::Tokens];

/// Words and options, with the defaults of those that were not given.
pub struct Options {
    /// What to do, and with what.
    pub words: Vec<String>,
    /// What follows `guard`.
    pub guarded: Vec<OsString>,
    /// Tables for a page.
    pub markdown: bool,
    /// How many decisions to make again.
    pub decisions: usize,
    /// Real seconds of a run over sockets.
    pub seconds: f64,
    /// The first seed.
    pub from_seed: u64,
    /// Where the page with the figures is.
    pub into: Option<PathBuf>,
    /// The rules that were named.
    pub rules: Vec<Kind>,
    /// What each mechanism is worth, instead of the usual tables.
    pub ablation: bool,
    /// Logs for each matrix.
    pub runs: u64,
    /// Where tables of outcomes are.
    pub quality: Option<PathBuf>,
    /// Where the sets of questions are.
    pub data: Option<PathBuf>,
    /// Copies of RouteLLM and RouterArena.
    pub answers: [Option<PathBuf>; 2],
    hour: Option<Hour>,
    pace: Pace,
    seeds: u64,
    scenarios: Vec<Scenario>,
    aims: Vec<Aim>,
    pointsman: Option<PathBuf>,
}

impl Options {
    /// Reads the command line.
    pub fn read() -> Result<Options, Box<dyn Error>> {
        let mut options = Options {
            words: Vec::new(),
            guarded: Vec::new(),
            markdown: false,
            decisions: 10_000,
            seconds: 20.0,
            from_seed: HELD_OUT_SEEDS.start,
            into: None,
            rules: Vec::new(),
            seeds: 16,
            ablation: false,
            runs: 400,
            quality: None,
            data: None,
            answers: [None, None],
            hour: None,
            pace: Pace::Real,
            scenarios: Vec::new(),
            aims: Vec::new(),
            pointsman: None,
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Value(word) if word == "guard" => {
                    options.words.push(word.string()?);
                    options.guarded = parser.raw_args()?.collect();
                }
                Value(word) => options.words.push(word.string()?),
                argument => {
                    let name = name_of(argument)?;
                    options.option(&name, &mut parser)?;
                }
            }
        }
        Ok(options)
    }

    fn option(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), Box<dyn Error>> {
        match name {
            "seeds" => self.seeds = parser.value()?.parse()?,
            "from-seed" => self.from_seed = parser.value()?.parse()?,
            "scenario" => self.scenarios.push(scenario(&parser.value()?.string()?)?),
            "objective" => self.aims.push(objective(&parser.value()?.string()?)?),
            "rule" => self.rules.push(rule(&parser.value()?.string()?)?),
            "trace" => {
                let name = parser.value()?.string()?;
                self.hour = Some(Hour::named(&name).ok_or("traces are conv, code")?);
            }
            "compressed" => self.pace = Pace::Scenario,
            "ablation" => self.ablation = true,
            "markdown" => self.markdown = true,
            "decisions" => self.decisions = parser.value()?.parse()?,
            "seconds" => self.seconds = parser.value()?.parse()?,
            "pointsman" => self.pointsman = Some(parser.value()?.into()),
            "into" => self.into = Some(parser.value()?.into()),
            "runs" => self.runs = parser.value()?.parse()?,
            "data" => self.data = Some(parser.value()?.into()),
            "routellm" => self.answers[0] = Some(parser.value()?.into()),
            "routerarena" => self.answers[1] = Some(parser.value()?.into()),
            "quality" => self.quality = Some(parser.value()?.into()),
            "help" => self.words = vec!["help".to_owned()],
            other => return Err(format!("--{other} is not known").into()),
        }
        Ok(())
    }

    /// What is to be simulated.
    pub fn plan(&self) -> Plan {
        let all_rules = || Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Oracle | Kind::Random)).collect();
        Plan {
            scenarios: or(&self.scenarios, &Scenario::ALL),
            aims: or(&self.aims, &Aim::ALL),
            seeds: (self.from_seed..self.from_seed + self.seeds).collect(),
            traffic: self.traffic(),
            rules: if self.rules.is_empty() { all_rules() } else { self.rules.clone() },
            policy: policy(),
        }
    }

    /// Where requests come from.
    pub fn traffic(&self) -> Traffic {
        self.hour.map_or(Traffic::Poisson, |hour| Traffic::Trace(hour, self.pace))
    }

    /// What is to be run over sockets.
    pub fn show(&self) -> Result<Show, Box<dyn Error>> {
        if self.hour.is_some() {
            return Err("--trace is not for sockets".into());
        }
        let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("pointsman"));
        let pointsman = self.pointsman.clone().map_or_else(beside, Ok)?;
        if !pointsman.is_file() {
            let path = pointsman.display();
            return Err(format!("{path} is not there: build it with 'cargo build --release', or name it").into());
        }
        let objectives = self.aims.iter().map(|aim| single(*aim)).collect::<Result<Vec<Objective>, _>>()?;
        Ok(Show {
            scenarios: or(&self.scenarios, &OVER_SOCKETS),
            objectives: or(&objectives, &[Objective::Fastest]),
            seed: self.from_seed,
            seconds: self.seconds,
            pointsman,
        })
    }
}

fn or<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

/// The one objective of a run.
pub fn single(aim: Aim) -> Result<Objective, &'static str> {
    match aim {
        Aim::All(objective) => Ok(objective),
        Aim::Mixed => Err("over sockets a run has one objective"),
    }
}

/// The name of an option, without what distinguishes it from a word.
fn name_of(argument: lexopt::Arg<'_>) -> Result<String, lexopt::Error> {
    match argument {
        Long(name) => Ok(name.to_owned()),
        Short('h') => Ok("help".to_owned()),
        other => Err(other.unexpected()),
    }
}

/// The scenario of this name.
pub fn scenario(name: &str) -> Result<Scenario, String> {
    let names = || Scenario::ALL.map(Scenario::name).join(", ");
    Scenario::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| format!("scenarios are {}", names()))
}

/// The kind of run of this name.
pub fn objective(name: &str) -> Result<Aim, String> {
    let names = || Aim::ALL.map(Aim::name).join(", ");
    Aim::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| format!("objectives are {}", names()))
}

fn rule(name: &str) -> Result<Kind, String> {
    let known = || Kind::ALL.into_iter().chain(Kind::CRIPPLED);
    let names = || known().map(Kind::name).collect::<Vec<_>>().join(", ");
    known().find(|known| known.name() == name).ok_or_else(|| format!("rules are {}", names()))
}

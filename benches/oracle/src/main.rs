//! The command line of the simulator.

mod options;

use std::{
    error::Error,
    fmt::Write as _,
    io::{Read as _, Write as _},
    path::Path,
    process::ExitCode,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use pointsman_oracle::{
    ablation, compare, improvement, latency,
    measured::MeasuredSet,
    one,
    ope::{self, Matrix},
    plot, propensities,
    quality::{self, gains, questions::Questions, sources::Source},
    regret, replay, report,
    rules::{Kind, policy},
    sheet::Sheet,
    sheets, shift, shown,
    sockets::{self, Stage},
    sticky, table,
    world::World,
};

use pointsman_domain::Objective;

use options::{Options, objective, scenario};

/// What to do where the sets are not there: they are no part of the repository.
const NO_DATA: &str = "--data names a directory with sets that are made of public files, as docs/BENCHMARKS.md says";

/// What to do where the repositories with answers are not named.
const NO_ANSWERS: &str = "--routellm and --routerarena name copies of lm-sys/RouteLLM and RouteWorks/RouterArena; \
    docs/BENCHMARKS.md says of which commits";

const HELP: &str = "\
oracle table [options]                     regret of every rule in every scenario, and Pointsman's figures
oracle plot [options]                      the same as a picture (SVG)
oracle shown [options]                     every failure a caller was shown, of Pointsman and of the oracle
oracle one <scenario> <objective> <seed>   one run over time; --rule names another rule than pointsman
oracle replay [options]                    makes recorded decisions again and compares them bit for bit; --decisions N
oracle propensities [options]              computed probabilities of choices against seeds; --decisions N of each objective, --runs SEEDS
oracle improvement [options]               in how many runs an endpoint that became five times faster is still unused
oracle sockets [options]                   Pointsman's binary between real processes, and the rules beside it
oracle traces <directory> [options]        Pointsman on drawn requests and on two real hours, into SIMULATION.md there
oracle save [options]                      Pointsman's regret by scenario and seed, as lines to compare
oracle changes <before> <after>            what changed from one file of such lines to another, paired by seed
oracle ope [--quality DIRECTORY]           estimates from logged choices against known truths; --runs N (400)
oracle logs DIRECTORY [--quality DIRECTORY]   writes a log of each of these choices, for `oracle estimate`
oracle regret [options]                    the regret that a ledger tells against that of the clairvoyant
oracle shift [options]                     estimated times against worlds that were really run after traffic had moved
oracle quality --data DIRECTORY            routing by quality on real answers: class tables, spend pace, learning
oracle latency --data DIRECTORY            latency targets on measured calls, against a clairvoyant; --seeds N
oracle sticky --data DIRECTORY             cached blocks found by conversations of a real hour at four equal endpoints
oracle gains [--routellm DIR --routerarena DIR]   what two models gain by class and length, on packed figures or on copies of
                                           these repositories
oracle pack DIRECTORY --routellm DIR --routerarena DIR   packs these figures
oracle estimate <log>                      the estimators on a log: choice,p,reward,q0,…,pi0,…
oracle report <directory> [options]        writes the tables into SIMULATION.md there, and regret.svg

  --seeds N         seeds per scenario (16)
  --from-seed S     the first of them (5000; seeds below 1000 are for tuning)
  --trace conv|code arrivals and lengths of a real hour, as it happened, instead of drawn ones
  --compressed      that hour compressed or stretched to the rate of the scenario
  --ablation        table: what regret, failures and wasted attempts become without each mechanism
  --scenario X      only this scenario; may be repeated
  --objective Y     only this objective, or mixed; may be repeated
  --rule Z          only this rule; may be repeated
  --markdown        tables for a page
  --seconds N       real seconds of each run over sockets (20)
  --pointsman PATH  the binary (the one beside this program)
  --into DIRECTORY  writes the figures of the sockets into SIMULATION.md there
";

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
    let options = Options::read()?;
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    let mut text = String::new();
    match words.as_slice() {
        ["table"] => {
            let plan = options.plan();
            if options.ablation {
                print(&[ablation::run(&plan)], options.markdown, &mut text)?;
                return Ok(text);
            }
            print(&sheets::all(&plan, &table::run(&plan)), options.markdown, &mut text)?;
        }
        ["plot"] => {
            let plan = options.plan();
            plot::write(&plan, &table::run(&plan), &mut text)?;
        }
        ["replay"] => text = replay::run(&options.plan(), options.decisions)?.to_string() + "\n",
        ["propensities"] => {
            text = propensities::run(&options.plan(), options.decisions, options.runs).to_string();
        }
        ["save"] => text = compare::save(&options.plan()),
        ["changes", before, after] => {
            let sheet = compare::changes(&std::fs::read_to_string(before)?, &std::fs::read_to_string(after)?)?;
            print(&[sheet], options.markdown, &mut text)?;
        }
        ["improvement"] => {
            let plan = options.plan();
            let sheet = improvement::run(Objective::Fastest, &plan.seeds, &plan.policy);
            print(&[sheet], options.markdown, &mut text)?;
        }
        ["ope"] => {
            let matrices = matrices(options.quality.as_deref())?;
            let rare = ope::rare_sheet(&Matrix::invented(), options.runs);
            print(&[ope::sheet(&matrices, options.runs), rare], options.markdown, &mut text)?
        }
        ["logs", directory] => {
            for matrix in matrices(options.quality.as_deref())? {
                for (outcome, name) in [(0, "dollars"), (1, matrix.second)] {
                    let file = Path::new(directory).join(format!("{}-{name}.csv", matrix.name));
                    std::fs::write(file, matrix.table(outcome, options.from_seed))?;
                }
            }
        }
        ["regret"] => {
            let plan = options.plan();
            let sheet = regret::sheet(&plan.scenarios, &plan.aims, &plan.seeds, &plan.policy);
            print(&[sheet], options.markdown, &mut text)?;
        }
        ["shift"] => print(&[shift::sheet(&options.plan().seeds)], options.markdown, &mut text)?,
        ["quality"] => print(&quality::sheets(&sets(&options)?), options.markdown, &mut text)?,
        ["latency"] => {
            let plan = options.plan();
            print(&latency::sheets(&measured(&options)?, &plan.seeds, &plan.policy), options.markdown, &mut text)?;
        }
        ["sticky"] => {
            let trace = sticky::Trace::parse(&data(&options, "mooncake.csv.gz")?)?;
            print(&[sticky::sheet(&trace, &policy())?], options.markdown, &mut text)?;
        }
        ["gains"] => {
            let [routellm, routerarena] = match &options.answers {
                [None, None] => Source::packed()?,
                _ => repositories(&options)?,
            };
            print(&gains::sheets(routellm, &routerarena), options.markdown, &mut text)?;
        }
        ["pack", directory] => {
            for (source, file) in repositories(&options)?.iter().zip(["routellm.csv.gz", "routerarena.csv.gz"]) {
                let file = std::fs::File::create(Path::new(directory).join(file))?;
                let mut packed = GzEncoder::new(file, Compression::best());
                packed.write_all(source.table().as_bytes())?;
                packed.finish()?;
            }
        }
        ["estimate", log] => text = ope::of_table(&std::fs::read_to_string(log)?)?,
        ["shown"] => shown::write(&options.plan(), &mut text)?,
        ["traces", directory] => report::write_traces(&options.plan(), Path::new(directory))?,
        ["report", directory] => report::write(&options.plan(), Path::new(directory))?,
        ["one", of, aim, seed] => {
            let rule = options.rules.first().copied().unwrap_or(Kind::Pointsman);
            let world = World::with(options.traffic(), scenario(of)?, objective(aim)?, seed.parse()?);
            one::write(&world, rule, &policy(), &mut text)?;
        }
        ["sockets"] => over_sockets(&options, &mut text)?,
        // These two are how it starts itself.
        ["provider", of, aim, position] => {
            let (scenario, objective) = (scenario(of)?, options::single(objective(aim)?)?);
            let stage = Stage { scenario, objective, seed: options.from_seed, seconds: options.seconds };
            sockets::serve(&stage, position.parse()?)?;
        }
        ["guard"] => sockets::guard(&options.guarded)?,
        ["help"] => text.write_str(HELP)?,
        _ => return Err("say what to do".into()),
    }
    Ok(text)
}

/// The answers of both repositories, from copies of them.
fn repositories(options: &Options) -> Result<[Source; 2], Box<dyn Error>> {
    let [Some(routellm), Some(routerarena)] = &options.answers else { return Err(NO_ANSWERS.into()) };
    Ok([Source::routellm(routellm)?, Source::routerarena(routerarena)?])
}

/// The invented one, and those of a directory with tables of outcomes, as `NAME.csv.gz`.
fn matrices(directory: Option<&Path>) -> Result<Vec<Matrix>, Box<dyn Error>> {
    /// Models of a table that are compared: fewer where there are many, so that each is logged often enough.
    const TABLES: [(&str, usize); 3] = [("paretobandit", 4), ("routerbench", 8), ("bfcl", 8)];
    let mut matrices = vec![Matrix::invented()];
    for (name, most) in TABLES.into_iter().filter(|_| directory.is_some()) {
        let path = directory.unwrap_or(Path::new(".")).join(format!("{name}.csv.gz"));
        matrices.push(Matrix::parse(name, &unpacked(&path)?, most)?);
    }
    Ok(matrices)
}

/// The sets by which quality is judged.
fn sets(options: &Options) -> Result<Vec<Questions>, Box<dyn Error>> {
    let read = |(name, file, models): (&str, &str, &str)| {
        let table = data(options, file)?;
        let models: Vec<&str> = models.split_whitespace().collect();
        Ok(Questions::parse(name, &table, &models)?)
    };
    quality::SETS.into_iter().map(read).collect()
}

/// The sets by which latency targets are judged.
fn measured(options: &Options) -> Result<Vec<MeasuredSet>, Box<dyn Error>> {
    let mut sets = MeasuredSet::of_llmperf(&data(options, "llmperf.csv.gz")?)?;
    sets.extend(MeasuredSet::of_computesdk(&data(options, "computesdk.csv.gz")?)?);
    Ok(sets)
}

/// A file of the directory with data.
fn data(options: &Options, file: &str) -> Result<String, String> {
    let directory = options.data.as_ref().ok_or_else(|| format!("{file} is needed: {NO_DATA}"))?;
    let path = directory.join(file);
    unpacked(&path).map_err(|error| format!("{}: {error}. {NO_DATA}", path.display()))
}

fn unpacked(path: &Path) -> std::io::Result<String> {
    let mut table = String::new();
    GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut table)?;
    Ok(table)
}

fn print(sheets: &[Sheet], markdown: bool, text: &mut String) -> std::fmt::Result {
    sheets.iter().try_for_each(|sheet| if markdown { sheet.markdown(text) } else { sheet.text(text) })
}

fn over_sockets(options: &Options, text: &mut String) -> Result<(), Box<dyn Error>> {
    let progress = &mut |what: &str| _ = writeln!(std::io::stderr(), "{what}");
    let outcome = sockets::run(&options.show()?, progress)?;
    print(&outcome.sheets, options.markdown || options.into.is_some(), text)?;
    text.push_str(&outcome.verdict());
    if let Some(directory) = &options.into {
        report::put(directory, "sockets", text)?;
    }
    if outcome.is_good() { Ok(()) } else { Err(format!("not as it must be\n\n{text}").into()) }
}

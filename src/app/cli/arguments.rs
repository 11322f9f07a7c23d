//! The command line arguments for clap, and the help texts.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::{
    alerts::AlertsRequest,
    audit::AuditRequest,
    catalog::CatalogRequest,
    check::CheckRequest,
    config_argument::ConfigArgument,
    connect::ConnectRequest,
    diff::{DiffCommand, EstimateCommand},
    doctor::DoctorRequest,
    explain::{ExplainRequest, PreviewRequest},
    health::HealthRequest,
    holders::{AccountsRequest, TeamsRequest},
    init::InitRequest,
    keys::KeysRequest,
    ledger::LedgerCommand,
    logs::LogsRequest,
    models::ModelsRequest,
    promote::PromoteRequest,
    quality::QualityRequest,
    regret::RegretCommand,
    reload::ReloadRequest,
    replay::ReplayRequest,
    spend::SpendRequest,
};
use crate::base::build;

const DIFF_EXIT_CODES: &str = "\
EXIT CODES
  0   every limit is kept, or there is none
  1   a limit is broken
  2   no answer: no records, keys that records cannot answer, too few decisions, or a faulty configuration
  3   the self test failed: a decision does not come out of its record as it was made
  64  wrong use";

const ESTIMATE_EXIT_CODES: &str = "\
EXIT CODES
  0   every figure but acceptance has an estimate or a bound
  2   a figure is refused, no records, keys that records cannot answer, or a faulty configuration
  3   the self test failed: a decision does not come out of its record as it was made
  64  wrong use";

const REGRET_EXIT_CODES: &str = "\
EXIT CODES
  0   there are figures for the alias and objective with most requests
  2   they are refused, no records, or a faulty configuration
  3   the self test failed: a decision does not come out of its record as it was made
  64  wrong use";

const PROMOTE_EXIT_CODES: &str = "\
EXIT CODES
  0   it may be tried, and the lines are printed
  1   refused: the shadow changed, too little is known of it, a limit is exceeded, or no canary can do what
      it does
  2   wrong use, no such shadow, or the gateway refuses the call
  4   the gateway cannot be reached";

const FIRST_STEPS: &str = "\
FIRST STEPS
  Without any account, against the simulated providers that Pointsman starts itself:

    POINTSMAN__SIMULATION__MODE=on pointsman

    curl http://127.0.0.1:8080/api/v1/chat/completions \\
      -H 'Authorization: Bearer sk-pointsman-development' \\
      -H 'Content-Type: application/json' \\
      -d '{\"model\": \"service/auto\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'

  With a provider: set its variable, such as OPENAI_API_KEY, and start again. Any OpenAI or OpenRouter
  client works with the base address http://127.0.0.1:8080/api/v1.

ENVIRONMENT
  <PROVIDER>_API_KEY        a provider's key, under the name its api_key_env gives; setting it switches the
                            provider on. 'pointsman check' lists the names.
  POINTSMAN__SECTION__KEY   overrides a key of the configuration, for example POINTSMAN__SERVER__BIND or
                            POINTSMAN__PROVIDERS__OLLAMA__ENABLED; the value is TOML, or plain text
  POINTSMAN_URL             the gateway of 'explain', 'preview', 'logs', 'replay' and 'connect', unless --url
                            names one; POINTSMAN_API_KEY has the key
  POINTSMAN_ADMIN_URL       the admin address for 'spend', 'keys', 'accounts', 'teams', 'audit', 'alerts',
                            'reload', 'promote' and 'logs --all', unless --url or --config names a gateway;
                            POINTSMAN_ADMIN_KEY has the key, of the scope admin, for 'diff --url' and
                            'ledger --url' too
  RUST_LOG                  the log filter, such as debug or pointsman=debug; default: info

EXIT CODES
  0  success: stopped in order, the configuration is valid, the replayed decision is identical, or the ledger
     has no fault
  1  a finding: a check of 'doctor' failed, the gateway is not ready, the replayed decision differs, the
     ledger has a fault or records that cannot be read, prices differ from a list ('catalog'), scores differ
     from a file ('quality'), a receiver does not take a test ('alerts'), or a shadow may not be tried
     ('promote')
  2  the command line or the configuration is invalid (every fault is printed), the record cannot be read, or
     'ledger' finds its directory in use or without a ledger
  3  the gateway cannot start: an address cannot be listened on, or the directory of the ledger is in use or
     cannot be written
  4  the gateway cannot be reached: 'health', 'reload', 'promote', 'alerts', 'explain', 'preview', 'replay',
     'spend', 'keys --url', 'ledger --url', 'models --url'; or the price list of 'catalog --from'
  'diff', 'estimate' and 'regret' have codes of their own: see 'pointsman diff --help'

docs/CONFIG.md in the repository describes every key; 'pointsman config show' prints the values in force.
";

/// Routes language-model requests: one OpenAI-compatible address, many providers, live and explained choices
#[derive(Debug, Parser)]
#[command(name = "pointsman", version, long_version = build::LONG_VERSION, after_help = FIRST_STEPS)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) config: ConfigArgument,
    #[command(subcommand)]
    pub(super) command: Option<Subcommands>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Subcommands {
    /// Start the server; the default without a command
    Serve(ConfigArgument),
    /// Write a first configuration: the providers whose keys are in the environment, and a new key
    Init(InitRequest),
    /// Write the settings with which an agent calls a gateway, or take them out again
    Connect(ConnectRequest),
    /// Check the configuration and print a summary; starts nothing
    Check(CheckRequest),
    /// Check configuration, clock, data directory and every provider; free without --spend
    Doctor(DoctorRequest),
    /// Show the configuration
    #[command(subcommand, arg_required_else_help = true)]
    Config(ConfigCommand),
    /// List models, the providers that serve them, and prices; with --url as a gateway measures them
    Models(ModelsRequest),
    /// Compare prices, limits and retirements with a price list
    #[command(arg_required_else_help = true)]
    Catalog(CatalogRequest),
    /// Turn a file with scores of models into lines for the configuration
    #[command(arg_required_else_help = true)]
    Quality(QualityRequest),
    /// Show why a request went where it went
    Explain(ExplainRequest),
    /// Show where a request would go and why, without sending it to a provider
    Preview(PreviewRequest),
    /// Show the generations of a running gateway as lines
    Logs(LogsRequest),
    /// Show what was spent, by team, key, model, day and the like, and why that changed
    Spend(Box<SpendRequest>),
    /// Ask a gateway whether it can take requests
    Health(HealthRequest),
    /// Have a running gateway read its configuration again
    Reload(ReloadRequest),
    /// Ask whether a shadow may be tried on a share of the requests
    #[command(after_help = PROMOTE_EXIT_CODES)]
    Promote(PromoteRequest),
    /// Test the receivers of alerts of a running gateway
    Alerts(AlertsRequest),
    /// Generate a key, and print the lines for the configuration
    Keygen {
        /// Label of the new key in logs and records
        #[arg(long, default_value = "my-key")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Issue, list, rotate, disable and revoke keys
    Keys(KeysRequest),
    /// List accounts with their budgets, set them up, change and remove them
    Accounts(AccountsRequest),
    /// List teams with their budgets, set them up, change and remove them
    Teams(TeamsRequest),
    /// Show what administrators changed, newest first
    Audit(AuditRequest),
    /// Show what another configuration would have chosen for recorded traffic, and what that costs
    #[command(after_help = DIFF_EXIT_CODES)]
    Diff(DiffCommand),
    /// Say what another configuration would have brought, from choices that chance made, or why not
    #[command(after_help = ESTIMATE_EXIT_CODES)]
    Estimate(EstimateCommand),
    /// Show what exploration, restrictions and ignorance cost, and how good one endpoint alone is
    #[command(after_help = REGRET_EXIT_CODES)]
    Regret(RegretCommand),
    /// Repeat a recorded routing decision, and print 'identical' or the differences
    Replay(ReplayRequest),
    /// Export, verify or compact the ledger on disk
    #[command(subcommand, arg_required_else_help = true)]
    Ledger(LedgerCommand),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print the completions for a shell; it completes names of models and providers too
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page
    Man,
    /// Print the licences of the code and data in this program
    Licenses,
    /// Print the version
    #[command(hide = true)]
    Version,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print every key as TOML, with its value and where that comes from
    Show {
        #[command(flatten)]
        config: ConfigArgument,
        /// File, environment, built-in catalogue and defaults together; this is the default
        #[arg(long, conflicts_with = "defaults")]
        effective: bool,
        /// The defaults and the built-in catalogue alone
        #[arg(long, conflicts_with = "config")]
        defaults: bool,
        /// Print JSON: the values without their places
        #[arg(long)]
        json: bool,
    },
}

impl Subcommands {
    /// The configuration that the command reads; `None` where it reads none.
    pub(super) fn config(&mut self) -> Option<&mut Option<PathBuf>> {
        Some(match self {
            Subcommands::Serve(argument) => &mut argument.config,
            Subcommands::Config(ConfigCommand::Show { config, defaults: false, .. }) => &mut config.config,
            Subcommands::Check(request) => &mut request.config,
            Subcommands::Doctor(request) => &mut request.config,
            Subcommands::Diff(command) => &mut command.records.config,
            Subcommands::Estimate(command) => &mut command.records.config,
            Subcommands::Regret(command) => &mut command.records.config,
            Subcommands::Models(request) => &mut request.config,
            Subcommands::Catalog(request) => request.config_mut(),
            Subcommands::Quality(request) => request.config_mut(),
            Subcommands::Explain(request) => &mut request.gateway.config,
            Subcommands::Preview(request) => &mut request.gateway.config,
            Subcommands::Logs(request) => &mut request.gateway.config,
            Subcommands::Health(request) => &mut request.gateway.config,
            Subcommands::Keys(request) => &mut request.place.config,
            Subcommands::Accounts(request) => &mut request.place.config,
            Subcommands::Teams(request) => &mut request.place.config,
            Subcommands::Audit(request) => &mut request.place.config,
            Subcommands::Ledger(command) => command.config_mut(),
            _ => return None,
        })
    }
}

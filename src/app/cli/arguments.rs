//! The arguments as clap reads them, and what the help says.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::replay::ReplayOrder;

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
  RUST_LOG                  what is logged, such as debug or pointsman=debug; default: info

EXIT CODES
  0  stopped in order, the check found nothing wrong, or the decision came out identical
  1  the decision came out differently
  2  the command line or the configuration is wrong, every fault is printed; or there is no such record
  3  the address cannot be listened on

docs/CONFIG.md in the repository describes every key; 'pointsman config show' prints what holds.
";

/// Routes language-model requests: one OpenAI-compatible address, many providers, live and explained choices
#[derive(Debug, Parser)]
#[command(name = "pointsman", version, after_help = FIRST_STEPS)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) config: ConfigArgument,
    #[command(subcommand)]
    pub(super) command: Option<Subcommands>,
}

/// Which configuration is read.
#[derive(Debug, Default, Args)]
pub(super) struct ConfigArgument {
    /// Configuration to read; default: ./config.toml if it exists, else the built-in one
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Subcommands {
    /// Start the server; the same as no command
    Serve(ConfigArgument),
    /// Check the configuration and say what it comes to; binds nothing
    Check(ConfigArgument),
    /// Show the configuration
    #[command(subcommand, arg_required_else_help = true)]
    Config(ConfigCommand),
    /// Make a key for a caller, with the lines to put in the configuration
    Keygen {
        /// Label of the new key in logs and records
        #[arg(long, default_value = "my-key")]
        name: String,
    },
    /// Make a recorded routing decision again, and say 'identical' or what came out differently
    Replay(ReplayArguments),
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
        /// File, environment, built-in catalogue and defaults together; so without any option
        #[arg(long, conflicts_with = "defaults")]
        effective: bool,
        /// The defaults and the built-in catalogue alone
        #[arg(long, conflicts_with = "config")]
        defaults: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// Id of the generation whose decision it was; not needed with --file
    generation: Option<String>,
    /// The gateway that holds the record; default: http://127.0.0.1:8080
    #[arg(long)]
    url: Option<String>,
    /// The variable with a key that may read the record; default: POINTSMAN_API_KEY
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// A saved page of /api/v1/route/replay instead of a gateway
    #[arg(long)]
    file: Option<PathBuf>,
}

impl From<ReplayArguments> for ReplayOrder {
    fn from(arguments: ReplayArguments) -> ReplayOrder {
        let ReplayArguments { generation, url, key_env, file } = arguments;
        ReplayOrder { generation, url, key_env, file }
    }
}

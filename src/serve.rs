//! The life of the process: greet, serve, drain on a signal, leave.

use std::io::Write as _;

use pointsman_actors::domain::Catalog;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use crate::{
    config::{AuthMode, Config, DEVELOPMENT_KEY},
    server::{Server, StartError},
};

/// Serves until SIGTERM or SIGINT, then drains; a second signal stops at once.
///
/// # Errors
/// When the gateway cannot start, or its listener breaks.
pub async fn serve(config: Config) -> Result<(), StartError> {
    let (notes, drain_notice) = (config.start_up_notes().to_vec(), config.server.drain_notice);
    let greeting_config = config.clone();
    // Listened for before anybody is told that we are here: who stops us then must not kill us.
    let mut signals = Signals::listen();
    let server = Server::bind(config).await?;
    greet(&greeting_config, &server, &notes);
    let (address, handle, gateway) = (server.address(), server.handle(), server.gateway().clone());
    let (urge, urged) = oneshot::channel();
    actix_rt::spawn(async move {
        signals.next().await;
        log::info!("stopping: draining");
        gateway.begin_drain();
        let second = async {
            signals.next().await;
            log::info!("stopping at once");
            // The other end is gone only when the server has stopped already.
            let _ = urge.send(());
        };
        let graceful = async {
            actix_rt::time::sleep(drain_notice).await;
            handle.stop(true).await;
        };
        tokio::join!(graceful, second);
    });
    // A stop that waits for running requests cannot be hastened: it is left where it is.
    tokio::select! {
        served = server.run() => served.map_err(|error| StartError::Bind(address, error)),
        Ok(()) = urged => Ok(()),
    }
}

/// SIGTERM and SIGINT, from one moment on.
struct Signals(Option<(Signal, Signal)>);

impl Signals {
    fn listen() -> Signals {
        let listening = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
        Signals(listening.inspect_err(|error| log::error!("signals do not stop this process in order: {error}")).ok())
    }

    /// The next of them, also one that came while nobody asked.
    async fn next(&mut self) {
        let Some((terminate, interrupt)) = &mut self.0 else { return std::future::pending().await };
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    }
}

/// Tells on stdout what a stranger needs for a first call. A closed stdout is not a reason to stop.
fn greet(config: &Config, server: &Server, notes: &[String]) {
    let text = greeting(config, &server.address().to_string(), notes);
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn greeting(config: &Config, address: &str, notes: &[String]) -> String {
    use std::fmt::Write as _;

    let catalog = config.catalog(1);
    let mut text = String::new();
    let base = format!("http://{address}/api/v1");
    let key = usable_key(config);
    let _ = writeln!(text, "Pointsman {} is listening.\n", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "  Base address  {base}");
    let _ = writeln!(text, "  Key           {}", key.as_deref().unwrap_or("one of yours, from [[keys]]"));
    let _ = writeln!(text, "  Models        {}", models(&catalog));
    for provider in &catalog.providers {
        let state = match &provider.state {
            pointsman_actors::domain::ProviderState::On if provider.simulated => "on (simulated)".to_owned(),
            pointsman_actors::domain::ProviderState::On => "on".to_owned(),
            pointsman_actors::domain::ProviderState::Off(why) => format!("off: {why}"),
        };
        let _ = writeln!(text, "  Provider      {}: {state}", provider.slug);
    }
    for note in notes {
        let _ = writeln!(text, "  Note          {note}");
    }
    let header = match (config.auth.mode, key) {
        (AuthMode::None, _) => String::new(),
        (_, Some(key)) => format!(" -H 'Authorization: Bearer {key}'"),
        (_, None) => " -H \"Authorization: Bearer $KEY\"".to_owned(),
    };
    let model = catalog.aliases.first().map_or("service/auto", |alias| alias.id.as_str());
    let _ = writeln!(
        text,
        "\nTry it:\n  curl {base}/chat/completions{header} -H 'Content-Type: application/json' \\\n    \
         -d '{{\"model\": \"{model}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Which way?\"}}]}}'\n"
    );
    text
}

fn usable_key(config: &Config) -> Option<String> {
    match config.auth.mode {
        AuthMode::None => Some("none needed".to_owned()),
        AuthMode::Keys if config.auth.development_key_enabled => Some(DEVELOPMENT_KEY.to_owned()),
        AuthMode::Keys => None,
    }
}

fn models(catalog: &Catalog) -> String {
    let aliases = catalog.aliases.iter().map(|alias| alias.id.as_str());
    let served = catalog.models.iter().filter(|model| catalog.is_served(model)).map(|model| model.id.as_str());
    aliases.chain(served).collect::<Vec<_>>().join(", ")
}

//! The reader of the configuration: any text is a configuration, from which a catalog and a policy can be made, or
//! faults that each say where, what and what would be allowed.

use std::path::Path;

use pointsman_config::{Config, Environment};

/// See the module.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Config::parse(&text, "f", Path::new("/nowhere"), &Environment::default()) {
        Ok(config) => {
            let catalog = config.catalog(1);
            assert!(catalog.endpoints.iter().all(|endpoint| (endpoint.provider as usize) < catalog.providers.len()));
            let _ = config.routing_policy(1);
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in faults {
                assert!(!fault.key.is_empty() && !fault.wrong.is_empty() && !fault.allowed.is_empty(), "{fault:?}");
            }
        }
    }
}

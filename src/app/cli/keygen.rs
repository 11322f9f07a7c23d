//! `keygen`: generates a key for a caller.

use crate::config::{digest_of, to_hex};

/// A newly generated key.
pub struct NewKey(String);

impl NewKey {
    /// 256 random bits from the system's generator.
    #[must_use]
    pub fn random() -> NewKey {
        NewKey::from_bits(rand::random())
    }

    /// The key with these bits: `sk-pointsman-v1-` and 64 hexadecimal digits.
    #[must_use]
    pub fn from_bits(bits: [u8; 32]) -> NewKey {
        NewKey(format!("sk-pointsman-v1-{}", to_hex(&bits)))
    }

    /// Output of `keygen`: the key, and the configuration lines that accept it.
    #[must_use]
    pub fn report(&self, name: &str) -> String {
        let NewKey(key) = self;
        let name = toml::Value::String(name.to_owned());
        let sha256 = to_hex(&digest_of(key));
        format!(
            "The new key. It is shown only once and not stored:\n\n  {key}\n\n\
             Add these lines to the configuration. They hold only the SHA-256 of the key:\n\n\
             [[keys]]\nname = {name}\nsha256 = \"{sha256}\"\nscopes = [\"inference\", \"read\"]\n"
        )
    }
}

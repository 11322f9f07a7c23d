//! Making a key for a caller.

use crate::config::{digest_of, to_hex};

/// A key that nobody knows yet.
pub struct NewKey(String);

impl NewKey {
    /// 256 random bits from the system's generator.
    #[must_use]
    pub fn random() -> NewKey {
        NewKey::from_bits(rand::random())
    }

    /// The key made of these bits: `sk-pointsman-v1-` and 64 hexadecimal digits.
    #[must_use]
    pub fn from_bits(bits: [u8; 32]) -> NewKey {
        NewKey(format!("sk-pointsman-v1-{}", to_hex(&bits)))
    }

    /// What `keygen` prints: the key, this once, and the lines that let it in.
    #[must_use]
    pub fn report(&self, name: &str) -> String {
        let NewKey(key) = self;
        let name = toml::Value::String(name.to_owned());
        let sha256 = to_hex(&digest_of(key));
        format!(
            "The new key. It is shown this once and kept nowhere:\n\n  {key}\n\n\
             These lines in the configuration let it in. They hold its SHA-256, which gives nothing away:\n\n\
             [[keys]]\nname = {name}\nsha256 = \"{sha256}\"\nscopes = [\"inference\", \"read\"]\n"
        )
    }
}

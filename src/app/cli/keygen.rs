//! `keygen`: generates a key for a caller.

use pointsman_config::digest_of;

/// A newly generated key.
pub struct NewKey(String);

impl NewKey {
    /// 256 random bits from the system's generator.
    pub fn random() -> NewKey {
        NewKey::from_bits(rand::random())
    }

    /// The key with these bits: `sk-pointsman-v1-` and 64 hexadecimal digits.
    pub fn from_bits(bits: [u8; 32]) -> NewKey {
        NewKey(format!("sk-pointsman-v1-{}", hex::encode(bits)))
    }

    /// The key itself, to be shown once.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The configuration lines that accept the key. They hold only its SHA-256.
    pub fn configuration(&self, name: &str) -> String {
        let name = toml::Value::String(name.to_owned());
        let sha256 = hex::encode(digest_of(&self.0));
        format!("[[keys]]\nname = {name}\nsha256 = \"{sha256}\"\nscopes = [\"inference\", \"read\"]\n")
    }

    /// Output of `keygen --json`.
    pub fn json(&self, name: &str) -> String {
        let (key, sha256) = (&self.0, hex::encode(digest_of(&self.0)));
        let configuration = self.configuration(name);
        let page = serde_json::json!({ "name": name, "key": key, "sha256": sha256, "configuration": configuration });
        format!("{page:#}\n")
    }

    /// Output of `keygen`: the key, and the configuration lines that accept it.
    pub fn report(&self, name: &str) -> String {
        format!(
            "The new key. It is shown only once and not stored:\n\n  {}\n\n\
             Add these lines to the configuration. They hold only the SHA-256 of the key:\n\n{}",
            self.0,
            self.configuration(name)
        )
    }
}

//! Signs calls with the keys of an AWS account (Signature Version 4).

use std::{fmt, time::SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use aws_smithy_runtime_api::client::identity::Identity;
use pointsman_base::secret::Secret;
use serde::Deserialize;

/// The keys of an account, and what they sign for.
#[derive(Clone)]
pub struct Signer {
    identity: Identity,
    region: String,
    service: &'static str,
    /// What must be shown nowhere.
    secrets: Vec<Secret>,
}

/// Keys in the form that `aws configure export-credentials` prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Keys {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("region", &self.region).field("service", &self.service).finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer for calls to `host` in `region`. `keys` is JSON with `AccessKeyId`, `SecretAccessKey` and perhaps
    /// `SessionToken`.
    ///
    /// # Errors
    /// A sentence about the fault, without the keys.
    pub fn new(keys: &Secret, host: &str, region: &str) -> Result<Signer, String> {
        let keys: Keys = serde_json::from_str(keys.expose())
            .map_err(|_| "the key is not JSON with AccessKeyId and SecretAccessKey".to_owned())?;
        let secrets = [Some(&keys.secret_access_key), keys.session_token.as_ref()];
        let secrets = secrets.into_iter().flatten().map(|secret| Secret::new(secret.clone())).collect();
        let credentials =
            Credentials::new(keys.access_key_id, keys.secret_access_key, keys.session_token, None, "configuration");
        let service = if host.starts_with("bedrock-mantle.") { "bedrock-mantle" } else { "bedrock" };
        Ok(Signer { identity: credentials.into(), region: region.to_owned(), service, secrets })
    }

    /// Whether it signs for the part of Bedrock with the API of OpenAI and Anthropic.
    pub(super) fn is_mantle(&self) -> bool {
        self.service == "bedrock-mantle"
    }

    /// What must be shown nowhere.
    pub(super) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// The headers that sign a POST at this time. `address`: with scheme and authority, as the request line has it.
    ///
    /// # Errors
    /// When a key holds a character that no header may hold.
    pub fn sign(
        &self,
        address: &str,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Vec<(&'static str, String)>, &'static str> {
        self.sign_call(("POST", address), body, now)
    }

    /// The same for a read.
    ///
    /// # Errors
    /// As [`Signer::sign`].
    pub(super) fn sign_read(
        &self,
        address: &str,
        now: SystemTime,
    ) -> Result<Vec<(&'static str, String)>, &'static str> {
        self.sign_call(("GET", address), &[], now)
    }

    fn sign_call(
        &self,
        (method, address): (&str, &str),
        body: &[u8],
        now: SystemTime,
    ) -> Result<Vec<(&'static str, String)>, &'static str> {
        const FAULT: &str = "the call cannot be signed";
        let params = v4::SigningParams::builder()
            .identity(&self.identity)
            .region(&self.region)
            .name(self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|_| FAULT)?;
        let request = SignableRequest::new(method, address, std::iter::empty(), SignableBody::Bytes(body));
        let signed = sign(request.map_err(|_| FAULT)?, &params.into()).map_err(|_| FAULT)?;
        let (instructions, _) = signed.into_parts();
        let names = ["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"];
        let known = |name: &str| names.into_iter().find(|known| *known == name);
        Ok(instructions.headers().filter_map(|(name, value)| Some((known(name)?, value.to_owned()))).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const KEYS: &str = r#"{"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}"#;

    fn signed(keys: &str, host: &str, path: &str) -> Vec<(&'static str, String)> {
        let signer = Signer::new(&Secret::new(keys.to_owned()), host, "us-east-1").unwrap();
        // 2026-11-24T00:00:00Z
        let now = UNIX_EPOCH + Duration::from_secs(1_795_478_400);
        signer.sign(&format!("https://{host}{path}"), b"{\"messages\":[]}", now).unwrap()
    }

    #[test]
    fn an_escaped_name_of_a_model_is_escaped_once_more_in_what_is_signed() {
        let host = "bedrock-runtime.us-east-1.amazonaws.com";
        let headers = signed(KEYS, host, "/model/us.anthropic.claude-x-v1%3A0/converse");
        let value = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("x-amz-date"), Some("20261124T000000Z"));
        // As botocore signs the same call.
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261124/us-east-1/bedrock/aws4_request, \
                        SignedHeaders=host;x-amz-date, \
                        Signature=1038f764260a74cf528d53164a3cae37d32baf778c654e23e4e44316f15a8dea";
        assert_eq!(value("authorization"), Some(expected));
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn temporary_keys_are_sent_with_their_token_and_mantle_is_a_service_of_its_own() {
        let keys = r#"{"AccessKeyId":"A","SecretAccessKey":"s","SessionToken":"token-5ec2e7"}"#;
        let headers = signed(keys, "bedrock-mantle.us-east-1.api.aws", "/anthropic/v1/messages");
        assert!(headers.contains(&("x-amz-security-token", "token-5ec2e7".to_owned())));
        let (_, authorization) = headers.iter().find(|(name, _)| *name == "authorization").unwrap();
        assert!(authorization.contains("/us-east-1/bedrock-mantle/aws4_request"), "{authorization}");
        assert!(authorization.contains("x-amz-security-token"), "{authorization}");
    }

    #[test]
    fn keys_of_another_form_are_refused_and_no_output_holds_them() {
        for text in ["AKID-hidden", r#"{"AccessKeyId":"hidden"}"#] {
            let why = Signer::new(&Secret::new(text.to_owned()), "h", "r").unwrap_err();
            assert!(why.contains("SecretAccessKey") && !why.contains("hidden"), "{why}");
        }
        let signer = Signer::new(&Secret::new(KEYS.to_owned()), "h", "r").unwrap();
        assert!(!format!("{signer:?}").contains("wJalr"));
    }
}

//! How a program connects to Perseid, and how a test moves its clock.

use std::env;
use std::error::Error;

use azure_core::credentials::Secret;
use azure_core::hmac::hmac_sha256;
use azure_core::time::{OffsetDateTime, to_rfc7231};
use azure_data_cosmos::{AccountEndpoint, AccountReference, CosmosClient, RoutingStrategy};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Where the server is, and its key.
pub struct Server {
    endpoint: String,
    key: String,
}

impl Server {
    pub fn from_environment() -> Outcome<Self> {
        let endpoint = env::var("PERSEID_ENDPOINT")?;
        let key = env::var("PERSEID_KEY")?;
        Ok(Self { endpoint, key })
    }

    pub async fn connect(&self) -> Outcome<CosmosClient> {
        let endpoint: AccountEndpoint = self.endpoint.parse()?;
        let key = Secret::from(self.key.clone());
        let account = AccountReference::with_authentication_key(endpoint, key);
        let region = RoutingStrategy::ProximityTo("South Central US".into());
        Ok(CosmosClient::builder().build(account, region).await?)
    }

    /// Stops the clock of a server that runs with `--test-clock`.
    pub async fn freeze_clock(&self) -> Outcome<()> {
        self.move_clock("freeze", String::new()).await
    }

    /// Lets the clock run on.
    pub async fn resume_clock(&self) -> Outcome<()> {
        self.move_clock("resume", String::new()).await
    }

    pub async fn advance_clock(&self, seconds: u32) -> Outcome<()> {
        self.move_clock("advance", format!("{{\"seconds\": {seconds}}}"))
            .await
    }

    async fn move_clock(&self, action: &str, body: String) -> Outcome<()> {
        let link = format!("_perseid/clock/{action}");
        let date = to_rfc7231(&OffsetDateTime::now_utc());
        let signed = format!("post\n_perseid\n{link}\n{}\n\n", date.to_lowercase());
        let signature = hmac_sha256(&signed, &Secret::from(self.key.clone()))?;
        let authorization = format!("type=master&ver=1.0&sig={signature}")
            .replace('=', "%3D")
            .replace('&', "%26")
            .replace('+', "%2B")
            .replace('/', "%2F");
        reqwest::Client::new()
            .post(format!("{}/{link}", self.endpoint.trim_end_matches('/')))
            .header("authorization", authorization)
            .header("x-ms-date", date)
            .body(body)
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    }
}

/// Trusts the certificate in `PERSEID_CERT` and no other. Called before any thread starts.
pub fn trust_certificate() {
    if let Ok(certificate) = env::var("PERSEID_CERT") {
        // SAFETY: no other thread reads the environment yet.
        unsafe { env::set_var("SSL_CERT_FILE", certificate) };
    }
}

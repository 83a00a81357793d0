//! Tests a Perseid server with the official Rust client; prints a line for each check.
//!
//! PERSEID_ENDPOINT and PERSEID_KEY say where the server is, PERSEID_CERT which certificate to
//! trust. The server runs with `--test-clock`.

mod checks;
mod connection;
mod expiry;
mod feeds;
mod items;

use std::process::ExitCode;

use checks::Checks;
use connection::{Outcome, Server, trust_certificate};

const DATABASE: &str = "rust-client";

async fn run(checks: &mut Checks) -> Outcome<()> {
    let server = Server::from_environment()?;
    let client = server.connect().await?;
    client.create_database(DATABASE, None).await?;
    let database = client.database_client(DATABASE);
    if let Err(error) = items::run(&database, checks).await {
        checks.error("items", error.as_ref());
    }
    if let Err(error) = feeds::run(&database, checks).await {
        checks.error("feeds", error.as_ref());
    }
    if let Err(error) = expiry::run(&server, &database, checks).await {
        checks.error("time to live", error.as_ref());
    }
    database.delete(None).await?;
    Ok(())
}

fn main() -> ExitCode {
    trust_certificate();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut checks = Checks::default();
    if let Err(error) = runtime.block_on(run(&mut checks)) {
        checks.error("the program", error.as_ref());
    }
    if checks.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

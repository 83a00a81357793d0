use std::error::Error;

use azure_core::credentials::Secret;
use azure_data_cosmos::models::{ContainerProperties, TimeToLive};
use azure_data_cosmos::{
    AccountEndpoint, AccountReference, CosmosClient, FeedScope, Query, RoutingStrategy,
};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

const ENDPOINT: &str = "http://127.0.0.1:8081/";
const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

#[derive(Deserialize, Serialize)]
struct Session {
    id: String,
    user: String,
    cart: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")] // the container's default applies then
    ttl: Option<i32>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint: AccountEndpoint = ENDPOINT.parse()?;
    let account = AccountReference::with_authentication_key(endpoint, Secret::from(KEY));
    let region = RoutingStrategy::ProximityTo("South Central US".into());
    let client = CosmosClient::builder().build(account, region).await?;
    match client.create_database("shop", None).await {
        Err(error) if !error.status().is_conflict() => return Err(error.into()),
        _ => {} // created, or it exists already
    }
    let database = client.database_client("shop");

    // Items expire an hour after their last write, unless they have their own ttl.
    let hour = TimeToLive::Seconds(3600);
    let properties = ContainerProperties::new("sessions", "/user".into()).with_default_ttl(hour);
    match database.create_container(properties, None).await {
        Err(error) if !error.status().is_conflict() => return Err(error.into()),
        _ => {}
    }
    let sessions = database.container_client("sessions", None).await?;

    for (id, cart, ttl) in [
        ("s1", vec!["telescope".into()], None),
        ("s2", vec![], Some(60)),
    ] {
        let session = Session {
            id: id.into(),
            user: "ada".into(),
            cart,
            ttl,
        };
        sessions.upsert_item("ada", id, session, None).await?;
    }

    let session: Session = sessions.read_item("ada", "s1", None).await?.into_model()?;
    println!("{}: {}", session.id, session.cart.join(", "));

    let query = Query::from("SELECT * FROM c WHERE c.user = 'ada'");
    let mut rows = sessions
        .query_items::<Session>(query, FeedScope::partition("ada"), None)
        .await?;
    while let Some(each) = rows.try_next().await? {
        println!(
            "{} expires after {} seconds",
            each.id,
            each.ttl.unwrap_or(3600)
        );
    }
    Ok(())
}

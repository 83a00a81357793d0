//! Time to live: of the container (off, on without a default, on with one) and of its items.

use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::models::{ContainerProperties, TimeToLive};
use serde::{Deserialize, Serialize};

use crate::checks::Checks;
use crate::connection::{Outcome, Server};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Session {
    id: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<i32>,
}

fn session(id: &str, ttl: Option<i32>) -> Session {
    Session {
        id: id.into(),
        user: "ada".into(),
        ttl,
    }
}

async fn container(
    database: &DatabaseClient,
    id: &'static str,
    ttl: TimeToLive,
) -> Outcome<ContainerClient> {
    let properties = ContainerProperties::new(id, "/user".into()).with_default_ttl(ttl);
    database.create_container(properties, None).await?;
    Ok(database.container_client(id, None).await?)
}

async fn create(sessions: &ContainerClient, id: &str, ttl: Option<i32>) -> Outcome<()> {
    sessions
        .create_item("ada", id, session(id, ttl), None)
        .await?;
    Ok(())
}

async fn exists(sessions: &ContainerClient, id: &str) -> Outcome<bool> {
    match sessions.read_item("ada", id, None).await {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub async fn run(server: &Server, database: &DatabaseClient, checks: &mut Checks) -> Outcome<()> {
    server.freeze_clock().await?;
    off(server, database, checks).await?;
    without_default(server, database, checks).await?;
    with_default(server, database, checks).await?;
    change(server, database, checks).await?;
    server.resume_clock().await
}

/// TTL is off: the item's `ttl` is ignored.
async fn off(server: &Server, database: &DatabaseClient, checks: &mut Checks) -> Outcome<()> {
    let sessions = container(database, "off", TimeToLive::Forever).await?;
    let read = sessions.read(None).await?.into_model()?;
    checks.equal(
        "a container without a default has TTL off",
        read.default_ttl,
        TimeToLive::Forever,
    );
    create(&sessions, "a", Some(10)).await?;
    server.advance_clock(100).await?;
    checks.is(
        "with TTL off no item expires",
        exists(&sessions, "a").await?,
    );
    Ok(())
}

/// TTL is on (-1): only items with a `ttl` of their own expire.
async fn without_default(
    server: &Server,
    database: &DatabaseClient,
    checks: &mut Checks,
) -> Outcome<()> {
    let sessions = container(database, "on", TimeToLive::NoDefault).await?;
    let read = sessions.read(None).await?.into_model()?;
    checks.equal("-1 is read back", read.default_ttl, TimeToLive::NoDefault);
    create(&sessions, "none", None).await?;
    create(&sessions, "never", Some(-1)).await?;
    create(&sessions, "soon", Some(20)).await?;
    server.advance_clock(19).await?;
    checks.is(
        "an item lives until its ttl is over",
        exists(&sessions, "soon").await?,
    );
    server.advance_clock(2).await?;
    checks.is(
        "an item with a ttl expires",
        !exists(&sessions, "soon").await?,
    );
    checks.is(
        "an item without one does not",
        exists(&sessions, "none").await?,
    );
    checks.is(
        "an item with -1 does not",
        exists(&sessions, "never").await?,
    );
    Ok(())
}

/// TTL is on with a default, which an item may override, extend, remove and disable.
async fn with_default(
    server: &Server,
    database: &DatabaseClient,
    checks: &mut Checks,
) -> Outcome<()> {
    let sessions = container(database, "default", TimeToLive::Seconds(60)).await?;
    let read = sessions.read(None).await?.into_model()?;
    checks.equal(
        "the default is read back",
        read.default_ttl,
        TimeToLive::Seconds(60),
    );
    create(&sessions, "default", None).await?;
    create(&sessions, "shorter", Some(10)).await?;
    create(&sessions, "longer", Some(600)).await?;
    create(&sessions, "disabled", Some(-1)).await?;
    create(&sessions, "extended", Some(10)).await?;
    create(&sessions, "removed", Some(10)).await?;
    server.advance_clock(8).await?;
    sessions
        .replace_item("ada", "extended", session("extended", Some(300)), None)
        .await?;
    sessions
        .replace_item("ada", "removed", session("removed", None), None)
        .await?;
    server.advance_clock(8).await?;
    checks.is(
        "a shorter ttl of the item overrides the default",
        !exists(&sessions, "shorter").await?,
    );
    checks.is(
        "a replaced item with a longer ttl lives on",
        exists(&sessions, "extended").await?,
    );
    checks.is(
        "without its own ttl an item has the default",
        exists(&sessions, "removed").await?,
    );
    server.advance_clock(45).await?;
    checks.is(
        "the default expires items",
        !exists(&sessions, "default").await?,
    );
    checks.is(
        "the default counts from the last write",
        exists(&sessions, "removed").await?,
    );
    checks.is(
        "a longer ttl overrides the default",
        exists(&sessions, "longer").await?,
    );
    server.advance_clock(10).await?;
    checks.is(
        "the replaced item expires by the default",
        !exists(&sessions, "removed").await?,
    );
    server.advance_clock(10_000).await?;
    checks.is("-1 keeps an item", exists(&sessions, "disabled").await?);
    checks.is(
        "every other item has expired",
        !exists(&sessions, "longer").await?,
    );
    Ok(())
}

/// The default is changed: it applies to the items that exist.
async fn change(server: &Server, database: &DatabaseClient, checks: &mut Checks) -> Outcome<()> {
    let sessions = container(database, "changed", TimeToLive::Forever).await?;
    create(&sessions, "a", None).await?;
    server.advance_clock(50).await?;
    let properties = sessions
        .read(None)
        .await?
        .into_model()?
        .with_default_ttl(TimeToLive::Seconds(100));
    sessions.replace(properties, None).await?;
    checks.is(
        "switched on, an item has the rest of its time",
        exists(&sessions, "a").await?,
    );
    server.advance_clock(51).await?;
    checks.is(
        "it expires by the new default",
        !exists(&sessions, "a").await?,
    );
    create(&sessions, "b", Some(10)).await?;
    let properties = sessions
        .read(None)
        .await?
        .into_model()?
        .with_default_ttl(TimeToLive::Forever);
    let replaced = sessions.replace(properties, None).await?.into_model()?;
    checks.equal(
        "TTL is switched off",
        replaced.default_ttl,
        TimeToLive::Forever,
    );
    server.advance_clock(1000).await?;
    checks.is(
        "then the ttl of an item is ignored",
        exists(&sessions, "b").await?,
    );
    Ok(())
}

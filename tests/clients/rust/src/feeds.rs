//! Queries with pages, over one range and several; the change feed; throughput.

use std::num::NonZeroU32;

use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::models::{ContainerProperties, ThroughputProperties};
use azure_data_cosmos::options::{
    ChangeFeedOptions, ChangeFeedStartFrom, CreateContainerOptions, MaxItemCountHint, QueryOptions,
};
use azure_data_cosmos::{FeedScope, Query};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::connection::Outcome;

const ITEMS: i64 = 60;

fn pages_of(count: u32) -> MaxItemCountHint {
    MaxItemCountHint::Limit(NonZeroU32::new(count).expect("not zero"))
}

pub async fn run(database: &DatabaseClient, checks: &mut Checks) -> Outcome<()> {
    for (id, throughput) in [("one", 400), ("several", 30_000)] {
        let properties = ContainerProperties::new(id, "/pk".into());
        let options = CreateContainerOptions::default()
            .with_throughput(ThroughputProperties::manual(throughput));
        database.create_container(properties, Some(options)).await?;
        let container = database.container_client(id, None).await?;
        for number in 0..ITEMS {
            let item =
                json!({"id": number.to_string(), "pk": format!("p{}", number % 7), "n": number});
            container
                .create_item(format!("p{}", number % 7), &number.to_string(), &item, None)
                .await?;
        }
        let ranges = container.read_feed_ranges(None).await?.len();
        checks.is(
            &format!("{id}: physical ranges"),
            (ranges > 1) == (id == "several"),
        );
        queries(id, &container, checks).await?;
        continuation(id, &container, checks).await?;
        changes(id, &container, checks).await?;
        offer(id, &container, throughput, checks).await?;
    }
    Ok(())
}

async fn numbers(
    container: &ContainerClient,
    query: Query,
    scope: FeedScope,
) -> Outcome<Vec<Value>> {
    let options = QueryOptions::default().with_max_item_count(pages_of(7));
    let rows = container
        .query_items::<Value>(query, scope, Some(options))
        .await?;
    Ok(rows.try_collect().await?)
}

async fn queries(id: &str, container: &ContainerClient, checks: &mut Checks) -> Outcome<()> {
    let all = Query::from("SELECT VALUE c.n FROM c");
    let mut found = numbers(container, all, FeedScope::full_container()).await?;
    found.sort_by_key(Value::as_i64);
    let expected: Vec<Value> = (0..ITEMS).map(Value::from).collect();
    checks.equal(
        &format!("{id}: every item in pages"),
        found,
        expected.clone(),
    );
    let filtered =
        Query::from("SELECT VALUE c.n FROM c WHERE c.n >= @least").with_parameter("@least", 50)?;
    let found = numbers(container, filtered, FeedScope::full_container()).await?;
    checks.equal(&format!("{id}: a parameter"), found.len(), 10);
    let of_key = Query::from("SELECT VALUE c.n FROM c");
    let found = numbers(container, of_key, FeedScope::partition("p3")).await?;
    checks.equal(&format!("{id}: one partition key"), found.len(), 9);
    let sorted = Query::from("SELECT VALUE c.n FROM c ORDER BY c.n DESC");
    match numbers(container, sorted, FeedScope::full_container()).await {
        Ok(found) => {
            let expected: Vec<Value> = expected.into_iter().rev().collect();
            checks.equal(&format!("{id}: ORDER BY"), found, expected);
        }
        Err(error) => checks.error(&format!("{id}: ORDER BY"), error.as_ref()),
    }
    Ok(())
}

async fn continuation(id: &str, container: &ContainerClient, checks: &mut Checks) -> Outcome<()> {
    let query = || Query::from("SELECT VALUE c.n FROM c");
    let options = QueryOptions::default().with_max_item_count(pages_of(10));
    let mut pages = container
        .query_items::<Value>(query(), FeedScope::full_container(), Some(options))
        .await?
        .into_pages();
    let mut found = pages.try_next().await?.ok_or("no page")?.into_items();
    let token = pages.to_continuation_token()?;
    let options = QueryOptions::default().with_continuation_token(token);
    let rest = container
        .query_items::<Value>(query(), FeedScope::full_container(), Some(options))
        .await?;
    found.extend(rest.try_collect::<Vec<Value>>().await?);
    found.sort_by_key(Value::as_i64);
    let expected: Vec<Value> = (0..ITEMS).map(Value::from).collect();
    checks.equal(
        &format!("{id}: a query is resumed by its token"),
        found,
        expected,
    );
    Ok(())
}

/// Reads pages until one is empty, which is how the feed says that there is nothing new.
async fn changes(id: &str, container: &ContainerClient, checks: &mut Checks) -> Outcome<()> {
    let options = ChangeFeedOptions::default().with_max_item_count(pages_of(20));
    let mut pages = container
        .query_change_feed::<Value>(
            FeedScope::full_container(),
            ChangeFeedStartFrom::Beginning,
            Some(options),
        )
        .await?;
    let mut found = Vec::new();
    let mut empty = 0;
    while empty < 8 {
        let Some(page) = pages.try_next().await? else {
            break;
        };
        empty = if page.items().is_empty() {
            empty + 1
        } else {
            0
        };
        found.extend(
            page.items()
                .iter()
                .filter_map(|each| each.current()?["n"].as_i64()),
        );
    }
    found.sort_unstable();
    checks.equal(
        &format!("{id}: the change feed"),
        found,
        (0..ITEMS).collect::<Vec<i64>>(),
    );
    let token = pages.to_continuation_token()?;
    let item = json!({"id": "new", "pk": "p1", "n": 1000});
    container.create_item("p1", "new", &item, None).await?;
    let options = ChangeFeedOptions::default().with_continuation_token(token);
    let mut pages = container
        .query_change_feed::<Value>(
            FeedScope::full_container(),
            ChangeFeedStartFrom::Beginning,
            Some(options),
        )
        .await?;
    let mut found = Vec::new();
    for _ in 0..8 {
        let Some(page) = pages.try_next().await? else {
            break;
        };
        found.extend(
            page.items()
                .iter()
                .filter_map(|each| each.current()?["n"].as_i64()),
        );
    }
    checks.equal(
        &format!("{id}: the change feed is resumed"),
        found,
        vec![1000],
    );
    Ok(())
}

async fn offer(
    id: &str,
    container: &ContainerClient,
    throughput: u64,
    checks: &mut Checks,
) -> Outcome<()> {
    let read = container
        .read_throughput(None)
        .await?
        .ok_or("no throughput")?;
    checks.equal(
        &format!("{id}: throughput"),
        read.throughput(),
        Some(throughput),
    );
    let replaced = container
        .begin_replace_throughput(ThroughputProperties::manual(throughput + 100), None)
        .await?
        .await?
        .into_model()?;
    checks.equal(
        &format!("{id}: new throughput"),
        replaced.throughput(),
        Some(throughput + 100),
    );
    Ok(())
}

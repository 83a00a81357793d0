//! Items: create, read, replace, upsert, delete, preconditions, batches.

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::options::{
    BatchOptions, ContentResponseOnWrite, ItemWriteOptions, OperationOptionsBuilder, Precondition,
};
use azure_data_cosmos::{TransactionalBatch, clients::DatabaseClient, models::ContainerProperties};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::connection::Outcome;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Order {
    id: String,
    customer: String,
    total: f64,
    count: u64,
    tags: Vec<String>,
    note: Option<String>,
}

fn order(id: &str) -> Order {
    Order {
        id: id.into(),
        customer: "contoso".into(),
        total: -12.25,
        count: u64::MAX,
        tags: vec!["é世😀".into(), String::new(), "x".repeat(300)],
        note: None,
    }
}

pub async fn run(database: &DatabaseClient, checks: &mut Checks) -> Outcome<()> {
    let properties = ContainerProperties::new("orders", "/customer".into());
    database.create_container(properties, None).await?;
    let orders = database.container_client("orders", None).await?;
    point_operations(&orders, checks).await?;
    preconditions(&orders, checks).await?;
    batch(&orders, checks).await
}

async fn point_operations(orders: &ContainerClient, checks: &mut Checks) -> Outcome<()> {
    let mut first = order("1");
    let created = orders.create_item("contoso", "1", &first, None).await?;
    checks.equal(
        "create answers 201",
        u16::from(created.status().status_code()),
        201,
    );
    checks.is("a charge", created.headers().request_charge().is_some());
    checks.is(
        "a session token",
        created.headers().session_token().is_some(),
    );
    let read: Order = orders.read_item("contoso", "1", None).await?.into_model()?;
    checks.equal("every value comes back as it was sent", &read, &first);
    match orders.create_item("contoso", "1", &first, None).await {
        Ok(_) => checks.is("an id that exists is refused", false),
        Err(error) => checks.is("an id that exists is refused", error.status().is_conflict()),
    }
    first.note = Some("changed".into());
    orders.replace_item("contoso", "1", &first, None).await?;
    let read: Order = orders.read_item("contoso", "1", None).await?.into_model()?;
    checks.equal("replace", &read, &first);
    let upserted = orders.upsert_item("contoso", "2", order("2"), None).await?;
    checks.equal(
        "upsert creates",
        u16::from(upserted.status().status_code()),
        201,
    );
    let upserted = orders.upsert_item("contoso", "2", order("2"), None).await?;
    checks.equal(
        "upsert replaces",
        u16::from(upserted.status().status_code()),
        200,
    );
    orders.delete_item("contoso", "2", None).await?;
    match orders.read_item("contoso", "2", None).await {
        Ok(_) => checks.is("delete", false),
        Err(error) => checks.is("delete", error.status().is_not_found()),
    }
    let deep =
        json!({"id": "deep", "customer": "contoso", "a": {"b": [[], {}, [1, -1, 1e300, null]]}});
    orders.create_item("contoso", "deep", &deep, None).await?;
    let read: Value = orders
        .read_item("contoso", "deep", None)
        .await?
        .into_model()?;
    checks.equal("nested values", &read["a"], &deep["a"]);
    Ok(())
}

async fn preconditions(orders: &ContainerClient, checks: &mut Checks) -> Outcome<()> {
    let read = orders.read_item("contoso", "1", None).await?;
    let etag = read.headers().etag().ok_or("a read has no etag")?.clone();
    let if_match = || {
        Some(ItemWriteOptions::default().with_precondition(Precondition::if_match(etag.clone())))
    };
    let replaced = orders
        .replace_item("contoso", "1", order("1"), if_match())
        .await?;
    checks.is(
        "a write with the current etag",
        replaced.headers().etag() != Some(&etag),
    );
    match orders
        .replace_item("contoso", "1", order("1"), if_match())
        .await
    {
        Ok(_) => checks.is("a write with an old etag is refused", false),
        Err(error) => {
            checks.is(
                "a write with an old etag is refused",
                error.status().is_precondition_failed(),
            );
        }
    }
    match orders.delete_item("contoso", "1", if_match()).await {
        Ok(_) => checks.is("a delete with an old etag is refused", false),
        Err(error) => {
            checks.is(
                "a delete with an old etag is refused",
                error.status().is_precondition_failed(),
            );
        }
    }
    Ok(())
}

async fn batch(orders: &ContainerClient, checks: &mut Checks) -> Outcome<()> {
    let operations = TransactionalBatch::new("contoso")
        .create_item(order("b1"))?
        .upsert_item(order("b2"), None)?
        .read_item("b1", None)
        .delete_item("b2", None);
    let with_bodies = OperationOptionsBuilder::new()
        .with_content_response_on_write(ContentResponseOnWrite::Enabled)
        .build();
    let options = BatchOptions::default().with_operation_options(with_bodies);
    let results = orders
        .execute_transactional_batch(operations, Some(options))
        .await?
        .into_model()?;
    let statuses: Vec<u16> = results
        .results()
        .iter()
        .map(|each| each.status_code())
        .collect();
    checks.equal("a batch", statuses, vec![201, 201, 200, 204]);
    let read: Option<Order> = results.results()[2].into_model()?;
    checks.equal("a read in a batch", read, Some(order("b1")));
    let operations = TransactionalBatch::new("contoso")
        .create_item(order("b3"))?
        .create_item(order("b1"))?;
    let results = orders
        .execute_transactional_batch(operations, None)
        .await?
        .into_model()?;
    let statuses: Vec<u16> = results
        .results()
        .iter()
        .map(|each| each.status_code())
        .collect();
    checks.equal("a batch that fails", statuses, vec![424, 409]);
    match orders.read_item("contoso", "b3", None).await {
        Ok(_) => checks.is("a batch that fails changes nothing", false),
        Err(error) => checks.is(
            "a batch that fails changes nothing",
            error.status().is_not_found(),
        ),
    }
    Ok(())
}

import { CosmosClient } from "@azure/cosmos";

const client = new CosmosClient({
  endpoint: "http://127.0.0.1:8081/",
  key: "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
});
const { database } = await client.databases.createIfNotExists({ id: "shop" });
// Items expire an hour after their last write, unless they have their own ttl.
const { container } = await database.containers.createIfNotExists({
  id: "sessions",
  partitionKey: { paths: ["/user"] },
  defaultTtl: 3600,
});

await container.items.upsert({ id: "s1", user: "ada", cart: ["telescope"] });
await container.items.upsert({ id: "s2", user: "ada", cart: [], ttl: 60 });

const { resource } = await container.item("s1", "ada").read();
console.log(`${resource.id}: ${resource.cart.join(", ")}`);

const query = {
  query: "SELECT * FROM c WHERE c.user = @user",
  parameters: [{ name: "@user", value: "ada" }],
};
const { resources } = await container.items.query(query).fetchAll();
for (const each of resources) {
  console.log(`${each.id} expires after ${each.ttl ?? 3600} seconds`);
}

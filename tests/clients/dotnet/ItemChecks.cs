using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Text;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>Single items: create, read, replace, upsert, patch, delete, etags.</summary>
public sealed class ItemChecks
{
    private static readonly PartitionKey Ada = new PartitionKey("ada");

    private readonly Database database;
    private Container orders;

    public ItemChecks(Database database)
    {
        this.database = database;
    }

    public async Task Run(Checks checks)
    {
        this.orders = await this.database.CreateContainerAsync("items", "/customer");
        await checks.Run("items: create, read, replace, upsert, delete", this.Life);
        await checks.Run("items: etags protect replace, upsert and delete", this.Etags);
        await checks.Run("items: a read with the current etag is 304", this.NotModified);
        await checks.Run("items: patch, with a condition", this.Patches);
        await checks.Run("items: streams keep their text", this.Streams);
        await checks.Run("items: no content in the response to a write", this.NoContent);
        await checks.Run("items: read many", this.ReadMany);
        await checks.Run("items: hierarchical partition keys", this.Hierarchical);
        await checks.Run("items: missing partition keys", this.MissingKeys);
        await checks.Run("items: unusual ids", this.UnusualIds);
        await checks.Run("items: session tokens", this.SessionTokens);
        await checks.Run("items: unique keys", this.UniqueKeys);
    }

    private static Order NewOrder(string id, double total = 1)
    {
        return new Order { Id = id, Customer = "ada", Total = total };
    }

    private async Task Life()
    {
        ItemResponse<Order> created = await this.orders.CreateItemAsync(NewOrder("life"), Ada);
        Expect.Equal(HttpStatusCode.Created, created.StatusCode, "create");
        Expect.True(created.RequestCharge > 0, "a charge");
        Expect.True(!string.IsNullOrEmpty(created.Headers.Session), "a session token");
        await Expect.Status(HttpStatusCode.Conflict, () => this.orders.CreateItemAsync(NewOrder("life"), Ada));
        ItemResponse<Order> read = await this.orders.ReadItemAsync<Order>("life", Ada);
        Expect.Equal(created.ETag, read.ETag, "etag");
        ItemResponse<Order> replaced = await this.orders.ReplaceItemAsync(NewOrder("life", 2), "life", Ada);
        Expect.Equal(2.0, replaced.Resource.Total, "total");
        Expect.True(replaced.ETag != created.ETag, "a new etag");
        Expect.Equal(HttpStatusCode.OK, (await this.orders.UpsertItemAsync(NewOrder("life", 3))).StatusCode, "upsert");
        Expect.Equal(HttpStatusCode.Created, (await this.orders.UpsertItemAsync(NewOrder("new"))).StatusCode, "upsert");
        Expect.Equal(HttpStatusCode.NoContent, (await this.orders.DeleteItemAsync<Order>("life", Ada)).StatusCode, "delete");
        await Expect.Status(HttpStatusCode.NotFound, () => this.orders.ReadItemAsync<Order>("life", Ada));
        await Expect.Status(HttpStatusCode.NotFound, () => this.orders.DeleteItemAsync<Order>("life", Ada));
    }

    private async Task Etags()
    {
        ItemResponse<Order> created = await this.orders.CreateItemAsync(NewOrder("etags"), Ada);
        var current = new ItemRequestOptions { IfMatchEtag = created.ETag };
        await this.orders.ReplaceItemAsync(NewOrder("etags", 2), "etags", Ada, current);
        await Expect.Status(HttpStatusCode.PreconditionFailed, () => this.orders.ReplaceItemAsync(NewOrder("etags", 3), "etags", Ada, current));
        await Expect.Status(HttpStatusCode.PreconditionFailed, () => this.orders.UpsertItemAsync(NewOrder("etags", 3), Ada, current));
        await Expect.Status(HttpStatusCode.PreconditionFailed, () => this.orders.DeleteItemAsync<Order>("etags", Ada, current));
        Order order = await this.orders.ReadItemAsync<Order>("etags", Ada);
        Expect.Equal(2.0, order.Total, "total");
    }

    private async Task NotModified()
    {
        ItemResponse<Order> created = await this.orders.CreateItemAsync(NewOrder("304"), Ada);
        var options = new ItemRequestOptions { IfNoneMatchEtag = created.ETag };
        using (ResponseMessage response = await this.orders.ReadItemStreamAsync("304", Ada, options))
        {
            Expect.Equal(HttpStatusCode.NotModified, response.StatusCode, "status");
        }
        await this.orders.ReplaceItemAsync(NewOrder("304", 2), "304", Ada);
        await this.orders.ReadItemAsync<Order>("304", Ada, options);
    }

    private async Task Patches()
    {
        await this.orders.CreateItemAsync(NewOrder("patch", 1), Ada);
        var operations = new List<PatchOperation>
        {
            PatchOperation.Increment("/total", 4),
            PatchOperation.Add("/status", "open"),
        };
        Order order = await this.orders.PatchItemAsync<Order>("patch", Ada, operations);
        Expect.Equal(5.0, order.Total, "total");
        var unmet = new PatchItemRequestOptions { FilterPredicate = "FROM c WHERE c.status = 'closed'" };
        await Expect.Status(HttpStatusCode.PreconditionFailed, () => this.orders.PatchItemAsync<Order>("patch", Ada, operations, unmet));
        var met = new PatchItemRequestOptions { FilterPredicate = "FROM c WHERE c.status = 'open'" };
        order = await this.orders.PatchItemAsync<Order>("patch", Ada, new[] { PatchOperation.Replace("/status", "closed"), PatchOperation.Remove("/total") }, met);
        Expect.Equal("closed", order.Status, "status");
    }

    private async Task Streams()
    {
        const string Text = "{\"id\":\"stream\",\"customer\":\"ada\",\"total\":1.50,\"long\":9007199254740993}";
        using (var sent = new MemoryStream(Encoding.UTF8.GetBytes(Text)))
        using (ResponseMessage created = await this.orders.CreateItemStreamAsync(sent, Ada))
        {
            Expect.Equal(HttpStatusCode.Created, created.StatusCode, "create");
        }
        using (ResponseMessage read = await this.orders.ReadItemStreamAsync("stream", Ada))
        using (var reader = new StreamReader(read.Content))
        {
            string body = await reader.ReadToEndAsync();
            Expect.True(body.StartsWith(Text.TrimEnd('}')), body);
        }
    }

    private async Task NoContent()
    {
        var options = new ItemRequestOptions { EnableContentResponseOnWrite = false };
        ItemResponse<Order> created = await this.orders.CreateItemAsync(NewOrder("silent"), Ada, options);
        Expect.True(created.Resource == null && created.ETag != null, "an etag, no content");
    }

    private async Task ReadMany()
    {
        var names = new List<(string, PartitionKey)>();
        foreach (int number in Enumerable.Range(0, 12))
        {
            string customer = "many" + (number % 5);
            var order = new Order { Id = "many" + number, Customer = customer };
            await this.orders.CreateItemAsync(order, new PartitionKey(customer));
            names.Add((order.Id, new PartitionKey(customer)));
        }
        names.Add(("missing", Ada));
        FeedResponse<Order> found = await this.orders.ReadManyItemsAsync<Order>(names);
        Expect.Equal(12, found.Count, "items");
    }

    private async Task Hierarchical()
    {
        var properties = new ContainerProperties("levels", new List<string> { "/customer", "/status" });
        Container container = await this.database.CreateContainerAsync(properties);
        foreach (string status in new[] { "open", "closed" })
        {
            PartitionKey key = new PartitionKeyBuilder().Add("ada").Add(status).Build();
            await container.CreateItemAsync(new Order { Id = "a", Customer = "ada", Status = status }, key);
            Order order = await container.ReadItemAsync<Order>("a", key);
            Expect.Equal(status, order.Status, "status");
        }
        var options = new QueryRequestOptions { PartitionKey = new PartitionKeyBuilder().Add("ada").Build() };
        var query = container.GetItemQueryIterator<string>("SELECT VALUE c.status FROM c ORDER BY c.status", requestOptions: options);
        Expect.Same(new[] { "closed", "open" }, await QueryChecks.All(query));
    }

    private async Task MissingKeys()
    {
        await this.orders.CreateItemAsync(new { id = "keyless" }, PartitionKey.None);
        await this.orders.ReadItemAsync<Order>("keyless", PartitionKey.None);
        await this.orders.CreateItemAsync(new { id = "null", customer = (string)null }, PartitionKey.Null);
        await this.orders.ReadItemAsync<Order>("null", PartitionKey.Null);
        await Expect.Status(HttpStatusCode.NotFound, () => this.orders.ReadItemAsync<Order>("null", PartitionKey.None));
    }

    private async Task UnusualIds()
    {
        foreach (string id in new[] { "with space", "é€😀", "a+b&c=d", "100%", "tab\there", "'quotes\"" })
        {
            await this.orders.CreateItemAsync(NewOrder(id), Ada);
            Order order = await this.orders.ReadItemAsync<Order>(id, Ada);
            Expect.Equal(id, order.Id, "id");
            await this.orders.DeleteItemAsync<Order>(id, Ada);
        }
    }

    private async Task SessionTokens()
    {
        ItemResponse<Order> written = await this.orders.UpsertItemAsync(NewOrder("session"), Ada);
        using (CosmosClient other = Connection.Open())
        {
            Container container = other.GetContainer(this.database.Id, this.orders.Id);
            var options = new ItemRequestOptions { SessionToken = written.Headers.Session };
            await container.ReadItemAsync<Order>("session", Ada, options);
        }
    }

    private async Task UniqueKeys()
    {
        var properties = new ContainerProperties("unique", "/customer");
        properties.UniqueKeyPolicy.UniqueKeys.Add(new UniqueKey { Paths = { "/status" } });
        Container container = await this.database.CreateContainerAsync(properties);
        await container.CreateItemAsync(new Order { Id = "a", Customer = "ada", Status = "open" }, Ada);
        await Expect.Status(HttpStatusCode.Conflict, () => container.CreateItemAsync(new Order { Id = "b", Customer = "ada", Status = "open" }, Ada));
    }
}

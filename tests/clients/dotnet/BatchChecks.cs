using System.IO;
using System.Linq;
using System.Net;
using System.Text;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>Transactional batches: all or nothing, in one logical partition.</summary>
public sealed class BatchChecks
{
    private static readonly PartitionKey Ada = new PartitionKey("ada");

    private readonly Database database;
    private Container orders;

    public BatchChecks(Database database)
    {
        this.database = database;
    }

    public async Task Run(Checks checks)
    {
        this.orders = await this.database.CreateContainerAsync(new ContainerProperties("batches", "/customer") { DefaultTimeToLive = -1 });
        await checks.Run("batch: all six operations", this.AllOperations);
        await checks.Run("batch: one failure undoes everything", this.Failure);
        await checks.Run("batch: etags", this.Etags);
        await checks.Run("batch: a read that is not modified", this.NotModified);
        await checks.Run("batch: no content in the results of writes", this.NoContent);
        await checks.Run("batch: streams", this.Streams);
        await checks.Run("batch: time to live", this.TimeToLive);
        await checks.Run("batch: patch with a condition", this.PatchWithCondition);
        await checks.Run("batch: a hundred operations, and one more", this.Hundred);
        await checks.Run("batch: more than 2 MB", this.TooLarge);
        await checks.Run("batch: an item of another partition key", this.WrongKey);
        await checks.Run("batch: a container that does not exist", this.NoContainer);
    }

    private static Order NewOrder(string id, double total = 1)
    {
        return new Order { Id = id, Customer = "ada", Total = total };
    }

    private static string Statuses(TransactionalBatchResponse response)
    {
        return string.Join(" ", response.Select(result => (int)result.StatusCode));
    }

    private async Task AllOperations()
    {
        await this.orders.CreateItemAsync(NewOrder("old"), Ada);
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .CreateItem(NewOrder("é€😀"))
            .UpsertItem(NewOrder("other"))
            .ReplaceItem("old", NewOrder("old", 2))
            .PatchItem("old", new[] { PatchOperation.Increment("/total", 5) })
            .ReadItem("old")
            .DeleteItem("other")
            .ExecuteAsync())
        {
            Expect.True(response.IsSuccessStatusCode, response.StatusCode + " " + response.ErrorMessage);
            Expect.Equal("201 201 200 200 200 204", Statuses(response), "statuses");
            Expect.Equal(7.0, response.GetOperationResultAtIndex<Order>(4).Resource.Total, "total");
            Expect.Equal("é€😀", response.GetOperationResultAtIndex<Order>(0).Resource.Id, "id");
            Expect.True(response.Take(5).All(result => result.ETag != null), "etags");
            Expect.True(response.RequestCharge > 10, "charge " + response.RequestCharge);
            Expect.True(!string.IsNullOrEmpty(response.Headers.Session), "a session token");
        }
        await Expect.Status(HttpStatusCode.NotFound, () => this.orders.ReadItemAsync<Order>("other", Ada));
    }

    private async Task Failure()
    {
        await this.orders.CreateItemAsync(NewOrder("exists"), Ada);
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .CreateItem(NewOrder("before")).CreateItem(NewOrder("exists")).ReadItem("exists").ExecuteAsync())
        {
            Expect.True(!response.IsSuccessStatusCode, "no success");
            Expect.Equal(HttpStatusCode.Conflict, response.StatusCode, "status");
            Expect.Equal("424 409 424", Statuses(response), "statuses");
        }
        await Expect.Status(HttpStatusCode.NotFound, () => this.orders.ReadItemAsync<Order>("before", Ada));
    }

    private async Task Etags()
    {
        ItemResponse<Order> created = await this.orders.CreateItemAsync(NewOrder("etag"), Ada);
        var options = new TransactionalBatchItemRequestOptions { IfMatchEtag = created.ETag };
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .ReplaceItem("etag", NewOrder("etag", 2), options).ExecuteAsync())
        {
            Expect.True(response.IsSuccessStatusCode, "the current etag");
        }
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .UpsertItem(NewOrder("etag-other")).DeleteItem("etag", options).ExecuteAsync())
        {
            Expect.Equal(HttpStatusCode.PreconditionFailed, response.StatusCode, "status");
            Expect.Equal("424 412", Statuses(response), "statuses");
        }
    }

    private async Task NotModified()
    {
        ItemResponse<Order> created = await this.orders.CreateItemAsync(NewOrder("same"), Ada);
        var options = new TransactionalBatchItemRequestOptions { IfNoneMatchEtag = created.ETag };
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .ReadItem("same", options).CreateItem(NewOrder("with-same")).ExecuteAsync())
        {
            Expect.Equal("304 201", Statuses(response), "statuses");
        }
        await this.orders.ReadItemAsync<Order>("with-same", Ada);
    }

    private async Task NoContent()
    {
        var options = new TransactionalBatchItemRequestOptions { EnableContentResponseOnWrite = false };
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .CreateItem(NewOrder("silent"), options).CreateItem(NewOrder("loud")).ReadItem("silent", options).ExecuteAsync())
        {
            Expect.True(response[0].ResourceStream == null && response[0].ETag != null, "an etag, no content");
            Expect.True(response[1].ResourceStream != null && response[2].ResourceStream != null, "content");
        }
    }

    private async Task Streams()
    {
        var sent = new MemoryStream(Encoding.UTF8.GetBytes("{\"id\":\"stream\",\"customer\":\"ada\",\"total\":1.50}"));
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .CreateItemStream(sent).ReadItem("stream").ExecuteAsync())
        using (var reader = new StreamReader(response[1].ResourceStream))
        {
            Expect.True((await reader.ReadToEndAsync()).Contains("\"total\":1.50"), "the text");
        }
        var broken = new MemoryStream(Encoding.UTF8.GetBytes("no JSON"));
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .CreateItem(NewOrder("beside")).CreateItemStream(broken).ExecuteAsync())
        {
            Expect.Equal("424 400", Statuses(response), "statuses");
        }
    }

    private async Task TimeToLive()
    {
        var order = NewOrder("short");
        order.TimeToLive = 60;
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada).CreateItem(order).ExecuteAsync())
        {
            Expect.True(response.IsSuccessStatusCode, "create");
        }
        await TestClock.Advance(60);
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .CreateItem(NewOrder("unwanted")).ReadItem("short").ExecuteAsync())
        {
            Expect.Equal("424 404", Statuses(response), "statuses");
        }
    }

    private async Task PatchWithCondition()
    {
        await this.orders.CreateItemAsync(NewOrder("patched"), Ada);
        var operations = new[] { PatchOperation.Set("/status", "open") };
        foreach (string filter in new[] { "FROM c WHERE c.total = 2", "FROM c WHERE c.total = 1" })
        {
            var options = new TransactionalBatchPatchItemRequestOptions { FilterPredicate = filter };
            using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
                .PatchItem("patched", operations, options).ExecuteAsync())
            {
                Expect.Equal(filter.EndsWith("1") ? "200" : "412", Statuses(response), "statuses");
            }
        }
    }

    private async Task Hundred()
    {
        foreach (int count in new[] { 100, 101 })
        {
            TransactionalBatch batch = this.orders.CreateTransactionalBatch(Ada);
            foreach (int number in Enumerable.Range(0, count))
            {
                batch.CreateItem(NewOrder($"{count}-{number}"));
            }
            using (TransactionalBatchResponse response = await batch.ExecuteAsync())
            {
                Expect.Equal(count == 100 ? HttpStatusCode.OK : HttpStatusCode.BadRequest, response.StatusCode, "status");
                Expect.True(count == 100 || response.ErrorMessage.Contains("100"), "which number is allowed");
            }
        }
        await Expect.Status(HttpStatusCode.NotFound, () => this.orders.ReadItemAsync<Order>("101-0", Ada));
    }

    private async Task TooLarge()
    {
        TransactionalBatch batch = this.orders.CreateTransactionalBatch(Ada);
        foreach (int number in Enumerable.Range(0, 5))
        {
            batch.UpsertItem(new Order { Id = "large" + number, Customer = "ada", Status = new string('x', 500 * 1000) });
        }
        using (TransactionalBatchResponse response = await batch.ExecuteAsync())
        {
            Expect.Equal(HttpStatusCode.RequestEntityTooLarge, response.StatusCode, "status");
        }
        await Expect.Status(HttpStatusCode.NotFound, () => this.orders.ReadItemAsync<Order>("large0", Ada));
    }

    private async Task WrongKey()
    {
        using (TransactionalBatchResponse response = await this.orders.CreateTransactionalBatch(Ada)
            .CreateItem(NewOrder("right")).CreateItem(new Order { Id = "wrong", Customer = "bob" }).ExecuteAsync())
        {
            Expect.Equal("424 400", Statuses(response), "statuses");
            Expect.Equal(HttpStatusCode.BadRequest, response.StatusCode, "status");
        }
    }

    private async Task NoContainer()
    {
        Container container = this.database.GetContainer("missing");
        await Expect.Status(HttpStatusCode.NotFound, () => container.CreateTransactionalBatch(Ada).ReadItem("a").ExecuteAsync());
    }
}

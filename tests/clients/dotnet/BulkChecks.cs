using System.Collections.Generic;
using System.Linq;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>Bulk: the client groups single calls into requests, each operation for itself.</summary>
public sealed class BulkChecks
{
    private const int Count = 1000;

    private readonly string databaseId;

    public BulkChecks(string databaseId)
    {
        this.databaseId = databaseId;
    }

    public async Task Run(Checks checks)
    {
        using (CosmosClient client = Connection.Open(bulk: true))
        {
            Database database = client.GetDatabase(this.databaseId);
            Container one = await database.CreateContainerAsync("bulk-one", "/customer", 400);
            Container several = await database.CreateContainerAsync("bulk-several", "/customer", 30000);
            foreach (Container container in new[] { one, several })
            {
                string name = container == one ? "one range" : "several ranges";
                await checks.Run($"bulk: create, read, patch, replace, delete over {name}", () => Everything(container));
                await checks.Run($"bulk: each failure for itself over {name}", () => Failures(container));
                await checks.Run($"bulk: large items over {name}", () => Large(container));
            }
            await checks.Run("bulk: keys of every type", () => Keys(several));
            await checks.Run("bulk: no content in the results of writes", () => NoContent(one));
        }
    }

    private static Order NewOrder(int number)
    {
        return new Order { Id = "bulk" + number, Customer = "customer" + (number % 37), Total = number };
    }

    private static PartitionKey KeyOf(int number) => new PartitionKey("customer" + (number % 37));

    private static async Task Everything(Container container)
    {
        IEnumerable<int> numbers = Enumerable.Range(0, Count);
        ItemResponse<Order>[] created = await Task.WhenAll(numbers.Select(number => container.CreateItemAsync(NewOrder(number), KeyOf(number))));
        Expect.True(created.All(each => each.StatusCode == HttpStatusCode.Created && each.RequestCharge > 0), "created");
        ItemResponse<Order>[] read = await Task.WhenAll(numbers.Select(number => container.ReadItemAsync<Order>("bulk" + number, KeyOf(number))));
        Expect.Same(numbers.Select(number => (double)number), read.Select(each => each.Resource.Total));
        PatchOperation[] operations = { PatchOperation.Increment("/total", 1) };
        await Task.WhenAll(numbers.Select(number => container.PatchItemAsync<Order>("bulk" + number, KeyOf(number), operations)));
        ItemResponse<Order>[] replaced = await Task.WhenAll(created.Select((each, number) => container.UpsertItemAsync(each.Resource, KeyOf(number))));
        Expect.True(replaced.All(each => each.StatusCode == HttpStatusCode.OK), "replaced");
        await Task.WhenAll(numbers.Skip(1).Select(number => container.DeleteItemAsync<Order>("bulk" + number, KeyOf(number))));
        var rest = await QueryChecks.All(container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c"));
        Expect.Same(new[] { "bulk0" }, rest);
    }

    private static async Task Failures(Container container)
    {
        await container.UpsertItemAsync(NewOrder(5), KeyOf(5));
        var calls = new List<Task<ItemResponse<Order>>>();
        foreach (int number in Enumerable.Range(0, 10))
        {
            calls.Add(container.CreateItemAsync(NewOrder(number), KeyOf(number)));
        }
        calls.Add(container.ReadItemAsync<Order>("missing", KeyOf(1)));
        await Task.WhenAll(calls).ContinueWith(all => { });
        var statuses = calls.Select(call => call.IsFaulted ? ((CosmosException)call.Exception.InnerException).StatusCode : call.Result.StatusCode).ToList();
        Expect.Equal(HttpStatusCode.Conflict, statuses[5], "the one that exists");
        Expect.Equal(HttpStatusCode.NotFound, statuses[10], "the one that is missing");
        Expect.Equal(8, statuses.Count(status => status == HttpStatusCode.Created), "created");
        var conflict = (CosmosException)calls[5].Exception.InnerException;
        Expect.True(conflict.Message.Contains("already exists"), conflict.Message);
    }

    private static async Task Large(Container container)
    {
        ItemResponse<Order>[] written = await Task.WhenAll(Enumerable.Range(0, 8).Select(number =>
        {
            var order = new Order { Id = "large" + number, Customer = "large", Status = new string('x', 300 * 1000) };
            return container.UpsertItemAsync(order, new PartitionKey("large"));
        }));
        Expect.True(written.All(each => each.Resource.Status.Length == 300 * 1000), "content");
        ItemResponse<Order>[] read = await Task.WhenAll(Enumerable.Range(0, 8).Select(number => container.ReadItemAsync<Order>("large" + number, new PartitionKey("large"))));
        Expect.True(read.All(each => each.Resource.Status.Length == 300 * 1000), "content");
    }

    private static async Task Keys(Container container)
    {
        var items = new (object, PartitionKey)[]
        {
            (new { id = "k", customer = 5 }, new PartitionKey(5)),
            (new { id = "k", customer = -0.25 }, new PartitionKey(-0.25)),
            (new { id = "k", customer = true }, new PartitionKey(true)),
            (new { id = "k", customer = "é€😀\"" }, new PartitionKey("é€😀\"")),
            (new { id = "k", customer = (string)null }, PartitionKey.Null),
            (new { id = "k" }, PartitionKey.None),
        };
        await Task.WhenAll(items.Select(each => container.CreateItemAsync(each.Item1, each.Item2)));
        await Task.WhenAll(items.Select(each => container.ReadItemAsync<object>("k", each.Item2)));
        await Task.WhenAll(items.Select(each => container.DeleteItemAsync<object>("k", each.Item2)));
    }

    private static async Task NoContent(Container container)
    {
        var options = new ItemRequestOptions { EnableContentResponseOnWrite = false };
        ItemResponse<Order>[] written = await Task.WhenAll(Enumerable.Range(0, 20).Select(number => container.UpsertItemAsync(NewOrder(number), KeyOf(number), options)));
        Expect.True(written.All(each => each.Resource == null && each.ETag != null), "etags, no content");
    }
}

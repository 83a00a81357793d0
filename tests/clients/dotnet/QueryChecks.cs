using System.Collections.Generic;
using System.Linq;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Linq;
using Newtonsoft.Json.Linq;

/// <summary>Queries with paging. Over several ranges the client plans and merges.</summary>
public sealed class QueryChecks
{
    private const int Count = 60;

    private readonly Database database;

    public QueryChecks(Database database)
    {
        this.database = database;
    }

    public static async Task<List<T>> All<T>(FeedIterator<T> pages)
    {
        var rows = new List<T>();
        int empty = 0;
        using (pages)
        {
            while (pages.HasMoreResults)
            {
                FeedResponse<T> page = await pages.ReadNextAsync();
                rows.AddRange(page);
                empty = page.Count == 0 ? empty + 1 : 0;
                Expect.True(rows.Count < 10000 && empty < 1000, "the query does not end");
            }
        }
        return rows;
    }

    public async Task Run(Checks checks)
    {
        foreach (int throughput in new[] { 400, 30000 })
        {
            string name = throughput == 400 ? "one range" : "several ranges";
            Container container = await this.database.CreateContainerAsync("queries" + throughput, "/customer", throughput);
            await Fill(container);
            await checks.Run($"queries: filter and parameters over {name}", () => Filter(container));
            await checks.Run($"queries: pages over {name}", () => Pages(container));
            await checks.Run($"queries: ORDER BY over {name}", () => Ordered(container));
            await checks.Run($"queries: ORDER BY, resumed from a token, over {name}", () => Resumed(container));
            await checks.Run($"queries: ORDER BY with equal values, resumed, over {name}", () => ResumedTies(container));
            await checks.Run($"queries: TOP, OFFSET and LIMIT over {name}", () => Limits(container));
            await checks.Run($"queries: aggregates over {name}", () => Aggregates(container));
            await checks.Run($"queries: GROUP BY over {name}", () => Groups(container));
            await checks.Run($"queries: DISTINCT over {name}", () => Distinct(container));
            await checks.Run($"queries: LINQ over {name}", () => Linq(container));
            await checks.Run($"queries: one partition key over {name}", () => OneKey(container));
            await checks.Run($"queries: feed ranges over {name}", () => FeedRanges(container));
        }
        Container any = this.database.GetContainer("queries400");
        await checks.Run("queries: mistakes are refused", () => Mistakes(any));
        await checks.Run("queries: databases and containers", this.Metadata);
    }

    private static async Task Fill(Container container)
    {
        foreach (int number in Enumerable.Range(0, Count))
        {
            var order = new Order { Id = number.ToString("000"), Customer = "customer" + (number % 12), Total = number * 7 % Count, Status = number % 3 == 0 ? "open" : "closed" };
            await container.CreateItemAsync(order, new PartitionKey(order.Customer));
        }
    }

    private static QueryRequestOptions PageOf(int rows) => new QueryRequestOptions { MaxItemCount = rows };

    private static async Task Filter(Container container)
    {
        var query = new QueryDefinition("SELECT VALUE c.id FROM c WHERE c.status = @status AND c.total < @most")
            .WithParameter("@status", "open").WithParameter("@most", 30);
        List<string> ids = await All(container.GetItemQueryIterator<string>(query));
        Expect.Equal(10, ids.Count, "rows");
    }

    private static async Task Pages(Container container)
    {
        var ids = new List<string>();
        string token = null;
        int pages = 0;
        do
        {
            using (FeedIterator<string> iterator = container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c", token, PageOf(7)))
            {
                FeedResponse<string> page = await iterator.ReadNextAsync();
                Expect.True(page.Count <= 7, "rows of a page");
                ids.AddRange(page);
                token = page.ContinuationToken;
            }
            Expect.True(++pages < 100, "the query does not end");
        }
        while (token != null);
        Expect.Same(Enumerable.Range(0, Count).Select(number => number.ToString("000")), ids.OrderBy(id => id));
    }

    private static async Task Ordered(Container container)
    {
        List<double> totals = await All(container.GetItemQueryIterator<double>("SELECT VALUE c.total FROM c ORDER BY c.total DESC", requestOptions: PageOf(8)));
        Expect.Same(Enumerable.Range(0, Count).Select(number => (double)(Count - 1 - number)), totals);
        List<Order> orders = await All(container.GetItemQueryIterator<Order>("SELECT * FROM c WHERE c.status = 'open' ORDER BY c.total", requestOptions: PageOf(3)));
        Expect.Equal(20, orders.Count, "rows");
    }

    private static async Task<List<T>> Resume<T>(Container container, string text, int pageSize)
    {
        var rows = new List<T>();
        string token = null;
        int pages = 0;
        do
        {
            using (FeedIterator<T> iterator = container.GetItemQueryIterator<T>(text, token, PageOf(pageSize)))
            {
                FeedResponse<T> page = await iterator.ReadNextAsync();
                rows.AddRange(page);
                token = page.ContinuationToken;
            }
            Expect.True(++pages < 100, "the query does not end; rows so far: " + rows.Count);
        }
        while (token != null);
        return rows;
    }

    private static async Task Resumed(Container container)
    {
        foreach (string direction in new[] { "ASC", "DESC" })
        {
            List<double> totals = await Resume<double>(container, "SELECT VALUE c.total FROM c ORDER BY c.total " + direction, 7);
            IEnumerable<double> expected = Enumerable.Range(0, Count).Select(number => (double)number);
            Expect.Same(direction == "ASC" ? expected : expected.Reverse(), totals, direction);
        }
    }

    private static async Task ResumedTies(Container container)
    {
        foreach (string direction in new[] { "ASC", "DESC" })
        {
            List<string> ids = await Resume<string>(container, "SELECT VALUE c.id FROM c ORDER BY c.status " + direction, 7);
            Expect.Equal(Count, ids.Count, direction + " rows");
            Expect.Equal(Count, ids.Distinct().Count(), direction + " different rows");
        }
    }

    private static async Task Limits(Container container)
    {
        Expect.Same(new[] { 0.0, 1, 2 }, await All(container.GetItemQueryIterator<double>("SELECT TOP 3 VALUE c.total FROM c ORDER BY c.total")));
        Expect.Same(new[] { 10.0, 11 }, await All(container.GetItemQueryIterator<double>("SELECT VALUE c.total FROM c ORDER BY c.total OFFSET 10 LIMIT 2", requestOptions: PageOf(1))));
    }

    private static async Task Aggregates(Container container)
    {
        double sum = Count * (Count - 1) / 2.0;
        Expect.Same(new[] { Count }, await All(container.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c")), "COUNT");
        Expect.Same(new[] { sum }, await All(container.GetItemQueryIterator<double>("SELECT VALUE SUM(c.total) FROM c")), "SUM");
        Expect.Same(new[] { sum / Count }, await All(container.GetItemQueryIterator<double>("SELECT VALUE AVG(c.total) FROM c")), "AVG");
        Expect.Same(new[] { 0.0 }, await All(container.GetItemQueryIterator<double>("SELECT VALUE MIN(c.total) FROM c")), "MIN");
        Expect.Same(new[] { Count - 1.0 }, await All(container.GetItemQueryIterator<double>("SELECT VALUE MAX(c.total) FROM c")), "MAX");
        List<JObject> several = await All(container.GetItemQueryIterator<JObject>("SELECT COUNT(1) AS n, MAX(c.total) AS most FROM c WHERE c.status = 'open'"));
        Expect.Equal(20, several.Single().Value<int>("n"), "n");
    }

    private static async Task Groups(Container container)
    {
        List<JObject> groups = await All(container.GetItemQueryIterator<JObject>("SELECT c.status, COUNT(1) AS n, SUM(c.total) AS total FROM c GROUP BY c.status"));
        Expect.Same(new[] { "closed 40", "open 20" }, groups.Select(group => $"{group["status"]} {group["n"]}").OrderBy(text => text));
        List<JObject> customers = await All(container.GetItemQueryIterator<JObject>("SELECT c.customer, AVG(c.total) AS average FROM c GROUP BY c.customer", requestOptions: PageOf(5)));
        Expect.Equal(12, customers.Count, "groups");
    }

    private static async Task Distinct(Container container)
    {
        List<string> statuses = await All(container.GetItemQueryIterator<string>("SELECT DISTINCT VALUE c.status FROM c"));
        Expect.Same(new[] { "closed", "open" }, statuses.OrderBy(text => text));
        Expect.Same(new[] { "closed", "open" }, await All(container.GetItemQueryIterator<string>("SELECT DISTINCT VALUE c.status FROM c ORDER BY c.status", requestOptions: PageOf(1))));
    }

    private static async Task Linq(Container container)
    {
        IQueryable<Order> query = container.GetItemLinqQueryable<Order>().Where(order => order.Status == "open" && order.Total > 30).OrderByDescending(order => order.Total);
        List<Order> orders = await All(query.ToFeedIterator());
        Expect.True(orders.Count > 0 && orders.All(order => order.Total > 30), "rows");
        int count = await container.GetItemLinqQueryable<Order>().Where(order => order.Customer.StartsWith("customer1")).CountAsync();
        Expect.Equal(15, count, "CountAsync");
    }

    private static async Task OneKey(Container container)
    {
        var options = new QueryRequestOptions { PartitionKey = new PartitionKey("customer3"), MaxItemCount = 2 };
        List<string> ids = await All(container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c ORDER BY c.id", requestOptions: options));
        Expect.Same(new[] { "003", "015", "027", "039", "051" }, ids);
    }

    private static async Task FeedRanges(Container container)
    {
        var ids = new List<string>();
        foreach (FeedRange range in await container.GetFeedRangesAsync())
        {
            ids.AddRange(await All(container.GetItemQueryIterator<string>(range, new QueryDefinition("SELECT VALUE c.id FROM c"))));
        }
        Expect.Equal(Count, ids.Distinct().Count(), "rows");
        Expect.Equal(Count, ids.Count, "rows");
    }

    private static async Task Mistakes(Container container)
    {
        await Expect.Status(HttpStatusCode.BadRequest, () => All(container.GetItemQueryIterator<string>("SELECT c.id FORM c")));
        await Expect.Status(HttpStatusCode.BadRequest, () => All(container.GetItemQueryIterator<string>("SELECT VALUE NO_SUCH(c.id) FROM c")));
    }

    private async Task Metadata()
    {
        List<ContainerProperties> containers = await All(this.database.GetContainerQueryIterator<ContainerProperties>("SELECT * FROM c WHERE c.id = 'queries400'"));
        Expect.Equal("queries400", containers.Single().Id, "id");
        Expect.True((await All(this.database.GetContainerQueryIterator<ContainerProperties>())).Count > 1, "containers");
        List<DatabaseProperties> databases = await All(this.database.Client.GetDatabaseQueryIterator<DatabaseProperties>());
        Expect.True(databases.Any(each => each.Id == this.database.Id), "the database");
    }
}

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Net;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>The change feed: pages that the program asks for, and the processor.</summary>
public sealed class ChangeFeedChecks
{
    private readonly Database database;

    public ChangeFeedChecks(Database database)
    {
        this.database = database;
    }

    public async Task Run(Checks checks)
    {
        foreach (int throughput in new[] { 400, 30000 })
        {
            string name = throughput == 400 ? "one range" : "several ranges";
            Container container = await this.database.CreateContainerAsync("feed" + throughput, "/customer", throughput);
            await checks.Run($"change feed: from the beginning, then what follows, over {name}", () => FromBeginning(container));
            await checks.Run($"change feed: from now over {name}", () => FromNow(container));
            await checks.Run($"change feed: for each feed range over {name}", () => EachRange(container));
            await checks.Run($"change feed: of one partition key over {name}", () => OneKey(container));
            await checks.Run($"change feed: processor over {name}", () => this.Processor(container));
        }
    }

    private static async Task Write(Container container, int from, int count)
    {
        foreach (int number in Enumerable.Range(from, count))
        {
            var order = new Order { Id = "o" + number, Customer = "customer" + (number % 12), Total = number };
            await container.UpsertItemAsync(order, new PartitionKey(order.Customer));
        }
    }

    private static async Task<(List<string>, string)> Read(Container container, ChangeFeedStartFrom start, int pageSize = 5)
    {
        var ids = new List<string>();
        var options = new ChangeFeedRequestOptions { PageSizeHint = pageSize };
        using (FeedIterator<Order> pages = container.GetChangeFeedIterator<Order>(start, ChangeFeedMode.Incremental, options))
        {
            while (pages.HasMoreResults)
            {
                FeedResponse<Order> page = await pages.ReadNextAsync();
                if (page.StatusCode == HttpStatusCode.NotModified)
                {
                    return (ids, page.ContinuationToken);
                }
                ids.AddRange(page.Select(order => order.Id));
                Expect.True(ids.Count < 10000, "the feed does not end");
            }
        }
        throw new CheckFailed("a change feed never ends");
    }

    private static async Task FromBeginning(Container container)
    {
        await Write(container, 0, 24);
        (List<string> ids, string token) = await Read(container, ChangeFeedStartFrom.Beginning());
        Expect.Equal(24, ids.Distinct().Count(), "changes");
        Expect.Equal(24, ids.Count, "changes");
        await Write(container, 3, 2);
        (ids, token) = await Read(container, ChangeFeedStartFrom.ContinuationToken(token));
        Expect.Same(new[] { "o3", "o4" }, ids.OrderBy(id => id));
        (ids, _) = await Read(container, ChangeFeedStartFrom.ContinuationToken(token));
        Expect.Equal(0, ids.Count, "no further changes");
    }

    private static async Task FromNow(Container container)
    {
        (List<string> ids, string token) = await Read(container, ChangeFeedStartFrom.Now());
        Expect.Equal(0, ids.Count, "no changes yet");
        await Write(container, 100, 3);
        (ids, _) = await Read(container, ChangeFeedStartFrom.ContinuationToken(token));
        Expect.Same(new[] { "o100", "o101", "o102" }, ids.OrderBy(id => id));
    }

    private static async Task EachRange(Container container)
    {
        var ids = new List<string>();
        foreach (FeedRange range in await container.GetFeedRangesAsync())
        {
            (List<string> part, _) = await Read(container, ChangeFeedStartFrom.Beginning(range));
            ids.AddRange(part);
        }
        Expect.Equal(27, ids.Count, "changes");
        Expect.Equal(27, ids.Distinct().Count(), "changes");
    }

    private static async Task OneKey(Container container)
    {
        FeedRange range = FeedRange.FromPartitionKey(new PartitionKey("customer5"));
        (List<string> ids, _) = await Read(container, ChangeFeedStartFrom.Beginning(range));
        Expect.Same(new[] { "o101", "o17", "o5" }, ids.OrderBy(id => id, StringComparer.Ordinal));
    }

    private async Task Processor(Container container)
    {
        Container leases = await this.database.CreateContainerIfNotExistsAsync("leases-" + container.Id, "/id");
        var seen = new ConcurrentDictionary<string, double>();
        ChangeFeedProcessor processor = container
            .GetChangeFeedProcessorBuilder<Order>("checks", (ChangeFeedProcessorContext context, IReadOnlyCollection<Order> changes, CancellationToken stop) =>
            {
                foreach (Order order in changes)
                {
                    seen[order.Id] = order.Total;
                }
                return Task.CompletedTask;
            })
            .WithInstanceName("one")
            .WithLeaseContainer(leases)
            .WithPollInterval(TimeSpan.FromMilliseconds(100))
            .WithStartTime(DateTime.MinValue.ToUniversalTime())
            .Build();
        await processor.StartAsync();
        try
        {
            await Until(() => seen.Count == 27, () => $"27 items, got {seen.Count}");
            await Write(container, 200, 1);
            await Until(() => seen.ContainsKey("o200"), () => "the next change");
        }
        finally
        {
            await processor.StopAsync();
        }
    }

    private static async Task Until(Func<bool> holds, Func<string> what)
    {
        for (int tries = 0; tries < 300; tries++)
        {
            if (holds())
            {
                return;
            }
            await Task.Delay(100);
        }
        throw new CheckFailed("not within 30 seconds: " + what());
    }
}

using System.Collections.Generic;
using System.Linq;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>The steps of the documentation about time to live, on a clock that is moved.</summary>
public sealed class TimeToLiveChecks
{
    private static readonly PartitionKey Ada = new PartitionKey("ada");

    private readonly Database database;

    public TimeToLiveChecks(Database database)
    {
        this.database = database;
    }

    public async Task Run(Checks checks)
    {
        await checks.Run("ttl: off on a container unless it is set", this.OffByDefault);
        await checks.Run("ttl: off, -1 and a number on a container", this.ContainerDefaults);
        await checks.Run("ttl: the nine combinations", this.Combinations);
        await checks.Run("ttl: change and read the default of a container", this.ChangeTheDefault);
        await checks.Run("ttl: an item's own value overrides the default", this.Override);
        await checks.Run("ttl: a write extends the lifetime", this.Extend);
        await checks.Run("ttl: remove it from an item", this.Remove);
        await checks.Run("ttl: disable it on the container", this.Disable);
        await checks.Run("ttl: patch it", this.PatchIt);
        await checks.Run("ttl: expired items are gone from queries", this.Queries);
        await checks.Run("ttl: invalid values are refused", this.Invalid);
    }

    private static Order NewOrder(string id, int? timeToLive = null)
    {
        return new Order { Id = id, Customer = "ada", Total = 10, TimeToLive = timeToLive };
    }

    private static async Task<string> Live(Container container)
    {
        var query = new QueryDefinition("SELECT VALUE c.id FROM c ORDER BY c.id");
        var ids = new List<string>();
        using (FeedIterator<string> pages = container.GetItemQueryIterator<string>(query))
        {
            while (pages.HasMoreResults)
            {
                ids.AddRange(await pages.ReadNextAsync());
            }
        }
        return string.Concat(ids);
    }

    private static Task<CosmosException> Gone(Container container, string id)
    {
        return Expect.Status(HttpStatusCode.NotFound, () => container.ReadItemAsync<Order>(id, Ada));
    }

    private async Task<Container> Create(string name, int? defaultTimeToLive)
    {
        var properties = new ContainerProperties(name, "/customer")
        {
            DefaultTimeToLive = defaultTimeToLive,
        };
        return await this.database.CreateContainerAsync(properties);
    }

    private async Task OffByDefault()
    {
        Container container = await this.Create("ttl-absent", null);
        ContainerProperties properties = await container.ReadContainerAsync();
        Expect.True(properties.DefaultTimeToLive == null, "no default");
        await container.CreateItemAsync(NewOrder("a", 5), Ada);
        await TestClock.Advance(3600);
        Order order = await container.ReadItemAsync<Order>("a", Ada);
        Expect.Equal<int?>(5, order.TimeToLive, "ttl is plain data");
    }

    private async Task ContainerDefaults()
    {
        foreach (int? value in new int?[] { null, -1, 90 * 60 * 60 * 24 })
        {
            Container container = await this.Create("ttl-default" + value, value);
            ContainerProperties properties = await container.ReadContainerAsync();
            Expect.Equal(value, properties.DefaultTimeToLive, "DefaultTimeToLive");
        }
        Container built = await this.database.DefineContainer("ttl-built", "/customer").WithDefaultTimeToLive(10).CreateAsync();
        ContainerProperties read = await built.ReadContainerAsync();
        Expect.Equal<int?>(10, read.DefaultTimeToLive, "DefaultTimeToLive");
    }

    private async Task Combinations()
    {
        var expected = new Dictionary<int, string[]>
        {
            // The items that exist after 0, 9, 10, 19 and 20 seconds; a has no ttl, b -1, c 20.
            { 0, new[] { "abc", "abc", "abc", "abc", "abc" } },
            { -1, new[] { "abc", "abc", "abc", "abc", "ab" } },
            { 10, new[] { "abc", "abc", "bc", "bc", "b" } },
        };
        var containers = new Dictionary<int, Container>();
        foreach (int value in expected.Keys)
        {
            containers[value] = await this.Create("ttl-nine" + value, value == 0 ? (int?)null : value);
        }
        await TestClock.Freeze();
        try
        {
            foreach (Container container in containers.Values)
            {
                await container.CreateItemAsync(NewOrder("a"), Ada);
                await container.CreateItemAsync(NewOrder("b", -1), Ada);
                await container.CreateItemAsync(NewOrder("c", 20), Ada);
            }
            int[] steps = { 0, 9, 1, 9, 1 };
            for (int step = 0; step < steps.Length; step++)
            {
                await (steps[step] == 0 ? Task.CompletedTask : TestClock.Advance(steps[step]));
                foreach (int value in expected.Keys)
                {
                    Expect.Equal(expected[value][step], await Live(containers[value]), $"default {value}, step {step}");
                }
            }
        }
        finally
        {
            await TestClock.Resume();
        }
    }

    private async Task ChangeTheDefault()
    {
        Container container = await this.Create("ttl-change", null);
        await container.CreateItemAsync(NewOrder("a"), Ada);
        ContainerProperties properties = await container.ReadContainerAsync();
        properties.DefaultTimeToLive = 60;
        ContainerProperties replaced = await container.ReplaceContainerAsync(properties);
        Expect.Equal<int?>(60, replaced.DefaultTimeToLive, "DefaultTimeToLive");
        await container.ReadItemAsync<Order>("a", Ada);
        await TestClock.Advance(60);
        await Gone(container, "a");
    }

    private async Task Override()
    {
        Container container = await this.Create("ttl-override", 60);
        await container.CreateItemAsync(NewOrder("short", 30), Ada);
        await container.CreateItemAsync(NewOrder("long", 600), Ada);
        await container.CreateItemAsync(NewOrder("never", -1), Ada);
        await container.CreateItemAsync(NewOrder("default"), Ada);
        await TestClock.Advance(30);
        await Gone(container, "short");
        await container.ReadItemAsync<Order>("default", Ada);
        await TestClock.Advance(30);
        await Gone(container, "default");
        await container.ReadItemAsync<Order>("long", Ada);
        await TestClock.Advance(540);
        await Gone(container, "long");
        await container.ReadItemAsync<Order>("never", Ada);
    }

    private async Task Extend()
    {
        Container container = await this.Create("ttl-extend", -1);
        await container.CreateItemAsync(NewOrder("a", 60), Ada);
        await TestClock.Advance(40);
        ItemResponse<Order> response = await container.ReadItemAsync<Order>("a", Ada);
        response.Resource.TimeToLive = 60 * 30;
        await container.ReplaceItemAsync(response.Resource, "a", Ada);
        await TestClock.Advance(60);
        Order order = await container.ReadItemAsync<Order>("a", Ada);
        Expect.Equal<int?>(1800, order.TimeToLive, "ttl");
        await TestClock.Advance(60 * 29);
        await Gone(container, "a");
    }

    private async Task Remove()
    {
        Container container = await this.Create("ttl-remove", -1);
        await container.CreateItemAsync(NewOrder("a", 60), Ada);
        ItemResponse<Order> response = await container.ReadItemAsync<Order>("a", Ada);
        response.Resource.TimeToLive = null;  // the container's default applies: no expiry
        await container.ReplaceItemAsync(response.Resource, "a", Ada);
        await TestClock.Advance(3600);
        Order order = await container.ReadItemAsync<Order>("a", Ada);
        Expect.True(order.TimeToLive == null, "no ttl");
    }

    private async Task Disable()
    {
        Container container = await this.Create("ttl-disable", 60);
        await container.CreateItemAsync(NewOrder("a"), Ada);
        await container.CreateItemAsync(NewOrder("b", 30), Ada);
        await TestClock.Advance(30);
        ContainerProperties properties = await container.ReadContainerAsync();
        properties.DefaultTimeToLive = null;
        await container.ReplaceContainerAsync(properties);
        properties = await container.ReadContainerAsync();
        Expect.True(properties.DefaultTimeToLive == null, "off");
        await TestClock.Advance(3600);
        await container.ReadItemAsync<Order>("a", Ada);
        await Gone(container, "b");
    }

    private async Task PatchIt()
    {
        Container container = await this.Create("ttl-patch", -1);
        await container.CreateItemAsync(NewOrder("a"), Ada);
        Order order = await container.PatchItemAsync<Order>("a", Ada, new[] { PatchOperation.Set("/ttl", 60) });
        Expect.Equal<int?>(60, order.TimeToLive, "ttl");
        await TestClock.Advance(60);
        await Gone(container, "a");
    }

    private async Task Queries()
    {
        Container container = await this.Create("ttl-queries", 100);
        await container.CreateItemAsync(NewOrder("a"), Ada);
        await container.CreateItemAsync(NewOrder("b", 10), Ada);
        await TestClock.Advance(10);
        var count = container.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c");
        Expect.Equal(1, (await count.ReadNextAsync()).Single(), "COUNT");
        Expect.Equal("a", await Live(container), "ids");
        await container.CreateItemAsync(NewOrder("b"), Ada);
        Expect.Equal("ab", await Live(container), "ids");
    }

    private async Task Invalid()
    {
        Container container = await this.Create("ttl-invalid", -1);
        foreach (int value in new[] { 0, -2 })
        {
            await Expect.Status(HttpStatusCode.BadRequest, () => container.CreateItemAsync(NewOrder("a", value), Ada));
        }
        var properties = new ContainerProperties("ttl-zero", "/customer") { DefaultTimeToLive = -5 };
        await Expect.Status(HttpStatusCode.BadRequest, () => this.database.CreateContainerAsync(properties));
        Expect.Equal("", await Live(container), "nothing stored");
    }
}

using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>Throughput of containers and databases, manual and autoscale.</summary>
public sealed class ThroughputChecks
{
    private readonly Database database;

    public ThroughputChecks(Database database)
    {
        this.database = database;
    }

    public async Task Run(Checks checks)
    {
        await checks.Run("throughput: read and replace", this.Manual);
        await checks.Run("throughput: autoscale", this.Autoscale);
        await checks.Run("throughput: the least that may be set", this.Least);
        await checks.Run("throughput: of a container without its own", this.Shared);
    }

    private async Task Manual()
    {
        Container container = await this.database.CreateContainerAsync("manual", "/customer", 400);
        Expect.Equal<int?>(400, await container.ReadThroughputAsync(), "throughput");
        ThroughputResponse replaced = await container.ReplaceThroughputAsync(800);
        Expect.Equal<int?>(800, replaced.Resource.Throughput, "throughput");
        Expect.True(replaced.IsReplacePending != true, "done");
        Expect.Equal<int?>(800, await container.ReadThroughputAsync(), "throughput");
        await Expect.Status(HttpStatusCode.BadRequest, () => container.ReplaceThroughputAsync(401 * 1000 + 1));
    }

    private async Task Autoscale()
    {
        var properties = new ContainerProperties("autoscale", "/customer");
        Container container = await this.database.CreateContainerAsync(properties, ThroughputProperties.CreateAutoscaleThroughput(4000));
        ThroughputResponse read = await container.ReadThroughputAsync(new RequestOptions());
        Expect.Equal<int?>(4000, read.Resource.AutoscaleMaxThroughput, "maximum");
        ThroughputResponse replaced = await container.ReplaceThroughputAsync(ThroughputProperties.CreateAutoscaleThroughput(5000));
        Expect.Equal<int?>(5000, replaced.Resource.AutoscaleMaxThroughput, "maximum");
    }

    private async Task Least()
    {
        Container container = await this.database.CreateContainerAsync("least", "/customer", 1000);
        ThroughputResponse read = await container.ReadThroughputAsync(new RequestOptions());
        Expect.Equal<int?>(400, read.MinThroughput, "MinThroughput");
    }

    private async Task Shared()
    {
        Database shared = await this.database.Client.CreateDatabaseAsync(this.database.Id + "-shared", 500);
        try
        {
            Container container = await shared.CreateContainerAsync("member", "/customer");
            Expect.True(await container.ReadThroughputAsync() == null, "none of its own");
            Expect.Equal<int?>(500, await shared.ReadThroughputAsync(), "throughput of the database");
        }
        finally
        {
            await shared.DeleteAsync();
        }
    }
}

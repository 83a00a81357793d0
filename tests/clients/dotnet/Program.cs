using System;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>Checks a server with the official .NET client. Needs a server with --test-clock.</summary>
public static class Program
{
    public static async Task<int> Main(string[] arguments)
    {
        var checks = new Checks(arguments.Length > 0 ? arguments[0] : null);
        using (CosmosClient client = Connection.Open())
        {
            Database database = client.GetDatabase("dotnet-" + Guid.NewGuid().ToString("N"));
            await checks.RunAlways("create a database", () => client.CreateDatabaseAsync(database.Id));
            try
            {
                if (checks.Succeeded)
                {
                    await RunAll(checks, database);
                }
            }
            finally
            {
                await checks.RunAlways("delete the database", () => database.DeleteAsync());
            }
        }
        checks.Summarize();
        return checks.Succeeded ? 0 : 1;
    }

    private static async Task RunAll(Checks checks, Database database)
    {
        await checks.RunGroup(new ItemChecks(database).Run);
        await checks.RunGroup(new TimeToLiveChecks(database).Run);
        await checks.RunGroup(new BatchChecks(database).Run);
        await checks.RunGroup(new BulkChecks(database.Id).Run);
        await checks.RunGroup(new QueryChecks(database).Run);
        await checks.RunGroup(new ChangeFeedChecks(database).Run);
        await checks.RunGroup(new ThroughputChecks(database).Run);
        await checks.RunGroup(new AccessChecks(database).Run);
    }
}

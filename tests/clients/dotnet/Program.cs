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
            Database database = await client.CreateDatabaseAsync("dotnet-" + Guid.NewGuid().ToString("N"));
            try
            {
                await new ItemChecks(database).Run(checks);
                await new TimeToLiveChecks(database).Run(checks);
                await new BatchChecks(database).Run(checks);
                await new BulkChecks(database.Id).Run(checks);
                await new QueryChecks(database).Run(checks);
                await new ChangeFeedChecks(database).Run(checks);
                await new ThroughputChecks(database).Run(checks);
                await new AccessChecks(database).Run(checks);
            }
            finally
            {
                await database.DeleteAsync();
            }
        }
        checks.Summarize();
        return checks.Succeeded ? 0 : 1;
    }
}

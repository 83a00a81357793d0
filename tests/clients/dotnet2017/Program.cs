using System;
using System.Threading.Tasks;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;

/// <summary>Checks a server with the .NET client of 2017, DocumentClient. Needs a server with --test-clock.</summary>
public static class Program
{
    public static async Task<int> Main()
    {
        var checks = new Checks();
        using (DocumentClient client = Connection.Open())
        {
            string database = "net2017-" + Guid.NewGuid().ToString("N");
            await checks.Run("create a database", () => client.CreateDatabaseAsync(new Database { Id = database }));
            await new TimeToLiveChecks(client, database).Run(checks);
            await new ItemChecks(client, database, hasKey: true).Run(checks);
            await new ItemChecks(client, database, hasKey: false).Run(checks);
            if (Connection.HasNativeLibrary)
            {
                await new ProcessorChecks(client, database).Run(checks);
            }
            await checks.Run("delete the database", () => client.DeleteDatabaseAsync(UriFactory.CreateDatabaseUri(database)));
        }
        checks.Summarize();
        return checks.Succeeded ? 0 : 1;
    }
}

using System;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json;

public class Session
{
    [JsonProperty("id")]
    public string Id { get; set; } = "";

    [JsonProperty("user")]
    public string User { get; set; } = "";

    [JsonProperty("cart")]
    public string[] Cart { get; set; } = Array.Empty<string>();

    // Its own lifetime in seconds. It is not sent if it is null; then the container's default applies.
    [JsonProperty("ttl", NullValueHandling = NullValueHandling.Ignore)]
    public int? TimeToLive { get; set; }
}

public static class Program
{
    // The server prints this connection string when it starts. The key is that of all local emulators.
    private const string ConnectionString =
        "AccountEndpoint=http://127.0.0.1:8081/;" +
        "AccountKey=C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==;";

    public static async Task Main()
    {
        var options = new CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway };
        using var client = new CosmosClient(ConnectionString, options);
        Database database = await client.CreateDatabaseIfNotExistsAsync("shop");

        // Items expire an hour after their last write, unless they have their own ttl.
        var properties = new ContainerProperties("sessions", "/user") { DefaultTimeToLive = 3600 };
        Container sessions = await database.CreateContainerIfNotExistsAsync(properties);

        var key = new PartitionKey("ada");
        await sessions.UpsertItemAsync(new Session { Id = "s1", User = "ada", Cart = new[] { "telescope" } }, key);
        await sessions.UpsertItemAsync(new Session { Id = "s2", User = "ada", TimeToLive = 60 }, key);

        Session session = await sessions.ReadItemAsync<Session>("s1", key);
        Console.WriteLine($"{session.Id}: {string.Join(", ", session.Cart)}");

        var query = new QueryDefinition("SELECT * FROM c WHERE c.user = @user").WithParameter("@user", "ada");
        using FeedIterator<Session> pages = sessions.GetItemQueryIterator<Session>(query);
        while (pages.HasMoreResults)
        {
            foreach (Session each in await pages.ReadNextAsync())
            {
                Console.WriteLine($"{each.Id} expires after {each.TimeToLive ?? 3600} seconds");
            }
        }
    }
}

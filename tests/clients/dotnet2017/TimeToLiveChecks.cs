using System;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;

/// <summary>The flows of the documentation of time to live, edition of 2017.</summary>
public sealed class TimeToLiveChecks
{
    private static readonly RequestOptions Ada = new RequestOptions { PartitionKey = new PartitionKey("ada") };

    private readonly DocumentClient client;
    private readonly string database;

    public TimeToLiveChecks(DocumentClient client, string database)
    {
        this.client = client;
        this.database = database;
    }

    public async Task Run(Checks checks)
    {
        await checks.Run("ttl: on, without a default", this.NoDefault);
        await checks.Run("ttl: a default for all items", this.Default);
        await checks.Run("ttl: an item that never expires", this.NeverExpires);
        await checks.Run("ttl: a value of an item", this.OfItem);
        await checks.Run("ttl: extend by writing again", this.Extend);
        await checks.Run("ttl: take the value of an item away", this.TakeAway);
        await checks.Run("ttl: off", this.Off);
        await checks.Run("ttl: switch off for a collection", this.SwitchOff);
        await checks.Run("ttl: an invalid value", this.Invalid);
    }

    private async Task NoDefault()
    {
        Uri orders = await this.Create("on", -1, 20000);
        await this.Write(orders, "kept", null);
        await this.Write(orders, "short", 10);
        await Connection.Advance(11);
        await this.Expired("on", "short");
        await this.Live("on", "kept");
    }

    private async Task Default()
    {
        Uri orders = await this.Create("default", 90 * 60);
        await this.Write(orders, "a", null);
        await Connection.Advance(5390);
        await this.Live("default", "a");
        await Connection.Advance(11);
        await this.Expired("default", "a");
    }

    private async Task NeverExpires()
    {
        Uri orders = await this.Create("never", 10);
        await this.Write(orders, "a", -1);
        await Connection.Advance(100000);
        await this.Live("never", "a");
    }

    private async Task OfItem()
    {
        Uri orders = await this.Create("own", 1000);
        await this.Write(orders, "shorter", 10);
        await this.Write(orders, "longer", 5000);
        await Connection.Advance(11);
        await this.Expired("own", "shorter");
        await Connection.Advance(1000);
        await this.Live("own", "longer");
        await Connection.Advance(4000);
        await this.Expired("own", "longer");
    }

    private async Task Extend()
    {
        Uri orders = await this.Create("extended", -1);
        await this.Write(orders, "a", 60);
        await Connection.Advance(50);
        Document document = (await this.client.ReadDocumentAsync(this.Link("extended", "a"), Ada)).Resource;
        Expect.Equal(60, document.TimeToLive, "ttl");
        document.TimeToLive = 60 * 30 * 30;
        await this.client.ReplaceDocumentAsync(document);
        await Connection.Advance(60 * 30 * 30 - 10);
        await this.Live("extended", "a");
        await Connection.Advance(11);
        await this.Expired("extended", "a");
    }

    private async Task TakeAway()
    {
        Uri orders = await this.Create("inherits", -1);
        await this.Write(orders, "a", 60);
        Document document = (await this.client.ReadDocumentAsync(this.Link("inherits", "a"), Ada)).Resource;
        document.TimeToLive = null;
        Document replaced = (await this.client.ReplaceDocumentAsync(document)).Resource;
        Expect.Equal(null, replaced.TimeToLive, "ttl");
        await Connection.Advance(100000);
        await this.Live("inherits", "a");
    }

    private async Task Off()
    {
        Uri orders = await this.Create("off", null);
        await this.Write(orders, "a", 10);
        await Connection.Advance(100000);
        await this.Live("off", "a");
    }

    private async Task SwitchOff()
    {
        Uri orders = await this.Create("switched", 1000);
        await this.Write(orders, "a", null);
        await this.Write(orders, "b", 10);
        DocumentCollection collection = await this.client.ReadDocumentCollectionAsync(orders);
        Expect.Equal(1000, collection.DefaultTimeToLive, "default");
        collection.DefaultTimeToLive = null;
        DocumentCollection replaced = await this.client.ReplaceDocumentCollectionAsync(collection);
        Expect.Equal(null, replaced.DefaultTimeToLive, "default");
        await Connection.Advance(100000);
        await this.Live("switched", "a");
        await this.Live("switched", "b");
    }

    private async Task Invalid()
    {
        Uri orders = await this.Create("invalid", -1);
        await Expect.Status(HttpStatusCode.BadRequest, () => this.Write(orders, "a", 0));
        await Expect.Status(HttpStatusCode.BadRequest, () => this.Create("invalid too", 0));
    }

    private async Task<Uri> Create(string id, int? defaultTimeToLive, int throughput = 400)
    {
        var definition = new DocumentCollection { Id = id, DefaultTimeToLive = defaultTimeToLive };
        definition.PartitionKey.Paths.Add("/customerId");
        DocumentCollection created = await this.client.CreateDocumentCollectionAsync(
            UriFactory.CreateDatabaseUri(this.database), definition, new RequestOptions { OfferThroughput = throughput });
        Expect.Equal(defaultTimeToLive, created.DefaultTimeToLive, "default");
        return UriFactory.CreateDocumentCollectionUri(this.database, id);
    }

    private Uri Link(string collection, string id) => UriFactory.CreateDocumentUri(this.database, collection, id);

    private Task Write(Uri collection, string id, int? timeToLive)
    {
        return this.client.CreateDocumentAsync(collection, new SalesOrder { Id = id, CustomerId = "ada", TimeToLive = timeToLive });
    }

    private Task Live(string collection, string id) => this.client.ReadDocumentAsync(this.Link(collection, id), Ada);

    private Task Expired(string collection, string id)
    {
        return Expect.Status(HttpStatusCode.NotFound, () => this.Live(collection, id));
    }
}

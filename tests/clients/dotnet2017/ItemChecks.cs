using System;
using System.Linq;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Linq;

/// <summary>Items, queries, sessions and the change feed of one collection, with or without a partition key.</summary>
public sealed class ItemChecks
{
    private readonly DocumentClient client;
    private readonly string database;
    private readonly string name;
    private readonly bool hasKey;

    public ItemChecks(DocumentClient client, string database, bool hasKey)
    {
        this.client = client;
        this.database = database;
        this.name = hasKey ? "items" : "no-key";
        this.hasKey = hasKey;
    }

    private Uri Collection => UriFactory.CreateDocumentCollectionUri(this.database, this.name);

    private RequestOptions Ada => this.hasKey ? new RequestOptions { PartitionKey = new PartitionKey("ada") } : null;

    private FeedOptions OfAda => this.hasKey ? new FeedOptions { PartitionKey = new PartitionKey("ada") } : null;

    public async Task Run(Checks checks)
    {
        await checks.Run(this.name + ": create and read the collection", this.Create);
        await checks.Run(this.name + ": create, read, upsert, replace", this.Write);
        await checks.Run(this.name + ": conflict and missing item", this.Refused);
        await checks.Run(this.name + ": etags", this.Etags);
        await checks.Run(this.name + ": links made of resource ids", this.SelfLinks);
        if (this.hasKey || Connection.HasNativeLibrary)
        {
            await checks.Run(this.name + ": query as text", this.QueryText);
            await checks.Run(this.name + ": query with parameters", this.QueryParameters);
            await checks.Run(this.name + ": query in LINQ", this.QueryLinq);
            await checks.Run(this.name + ": pages", this.Pages);
        }
        await checks.Run(this.name + ": list of items", this.List);
        await checks.Run(this.name + ": session of another client", this.Session);
        await checks.Run(this.name + ": change feed", this.ChangeFeed);
        await checks.Run(this.name + ": replace the collection", this.Replace);
        await checks.Run(this.name + ": expiry", this.Expiry);
        await checks.Run(this.name + ": delete", this.Delete);
    }

    private async Task Create()
    {
        var definition = new DocumentCollection { Id = this.name, DefaultTimeToLive = -1 };
        if (this.hasKey)
        {
            definition.PartitionKey.Paths.Add("/customerId");
        }
        await this.client.CreateDocumentCollectionAsync(
            UriFactory.CreateDatabaseUri(this.database), definition, new RequestOptions { OfferThroughput = 10000 });
        DocumentCollection read = await this.client.ReadDocumentCollectionAsync(this.Collection);
        Expect.Equal(this.hasKey ? 1 : 0, read.PartitionKey.Paths.Count, "paths");
    }

    private async Task Write()
    {
        await this.client.CreateDocumentAsync(this.Collection, new SalesOrder { Id = "1", CustomerId = "ada", Total = 1 });
        await this.client.UpsertDocumentAsync(this.Collection, new SalesOrder { Id = "2", CustomerId = "ada", Total = 2 });
        await this.client.UpsertDocumentAsync(this.Collection, new SalesOrder { Id = "1", CustomerId = "ada", Total = 5 });
        DocumentResponse<SalesOrder> read = await this.client.ReadDocumentAsync<SalesOrder>(this.Link("1"), this.Ada);
        Expect.Equal(5, read.Document.Total, "total");
        read.Document.Total = 7;
        await this.client.ReplaceDocumentAsync(this.Link("1"), read.Document);
        Document replaced = await this.client.ReadDocumentAsync(this.Link("1"), this.Ada);
        Expect.Equal(7, replaced.GetPropertyValue<int>("total"), "total");
        Expect.True(read.RequestCharge > 0, "the charge of a read");
    }

    private async Task Refused()
    {
        var again = new SalesOrder { Id = "1", CustomerId = "ada" };
        await Expect.Status(HttpStatusCode.Conflict, () => this.client.CreateDocumentAsync(this.Collection, again));
        await Expect.Status(HttpStatusCode.NotFound, () => this.client.ReadDocumentAsync(this.Link("none"), this.Ada));
    }

    private async Task Etags()
    {
        Document document = await this.client.ReadDocumentAsync(this.Link("2"), this.Ada);
        string etag = document.ETag;
        document.SetPropertyValue("total", 3);
        var condition = new AccessCondition { Condition = etag, Type = AccessConditionType.IfMatch };
        await this.client.ReplaceDocumentAsync(document, new RequestOptions { AccessCondition = condition });
        await Expect.Status(
            HttpStatusCode.PreconditionFailed,
            () => this.client.ReplaceDocumentAsync(document, new RequestOptions { AccessCondition = condition }));
    }

    private async Task SelfLinks()
    {
        DocumentCollection collection = await this.client.ReadDocumentCollectionAsync(this.Collection);
        await this.client.UpsertDocumentAsync(collection.SelfLink, new SalesOrder { Id = "2", CustomerId = "ada", Total = 2 });
        Document document = await this.client.ReadDocumentAsync(this.Link("2"), this.Ada);
        Document same = await this.client.ReadDocumentAsync(document.SelfLink, this.Ada);
        Expect.Equal("2", same.Id, "id");
    }

    private async Task QueryText()
    {
        var query = this.client.CreateDocumentQuery<SalesOrder>(
            this.Collection, "SELECT * FROM c WHERE c.total > 2 ORDER BY c.total", this.OfAda).AsDocumentQuery();
        Expect.Same(new[] { "1" }, (await query.ExecuteNextAsync<SalesOrder>()).Select(each => each.Id));
    }

    private async Task QueryParameters()
    {
        var text = new SqlQuerySpec(
            "SELECT VALUE c.total FROM c WHERE c.id = @id",
            new SqlParameterCollection { new SqlParameter("@id", "2") });
        var query = this.client.CreateDocumentQuery<int>(this.Collection, text, this.OfAda).AsDocumentQuery();
        Expect.Same(new[] { 2 }, await query.ExecuteNextAsync<int>());
    }

    private async Task QueryLinq()
    {
        var query = this.client.CreateDocumentQuery<SalesOrder>(this.Collection, this.OfAda)
            .Where(each => each.Total >= 2)
            .OrderByDescending(each => each.Total)
            .AsDocumentQuery();
        Expect.Same(new[] { "1", "2" }, (await query.ExecuteNextAsync<SalesOrder>()).Select(each => each.Id));
    }

    private async Task Pages()
    {
        FeedOptions options = this.OfAda ?? new FeedOptions();
        options.MaxItemCount = 1;
        var query = this.client.CreateDocumentQuery<SalesOrder>(this.Collection, "SELECT * FROM c", options).AsDocumentQuery();
        int pages = 0;
        int rows = 0;
        while (query.HasMoreResults)
        {
            rows += (await query.ExecuteNextAsync<SalesOrder>()).Count;
            pages++;
        }
        Expect.Equal(2, rows, "rows");
        Expect.True(pages >= 2, "pages");
    }

    private async Task List()
    {
        FeedResponse<dynamic> page = await this.client.ReadDocumentFeedAsync(this.Collection, new FeedOptions { MaxItemCount = 10 });
        Expect.Equal(2, page.Count, "items");
    }

    private async Task Session()
    {
        var item = new SalesOrder { Id = "2", CustomerId = "ada", Total = 20 };
        ResourceResponse<Document> written = await this.client.UpsertDocumentAsync(this.Collection, item);
        Expect.Equal(2, written.SessionToken.Split(':').Length, "parts of the session token");
        long.Parse(written.SessionToken.Split(':')[1]);
        using (DocumentClient other = Connection.Open())
        {
            RequestOptions options = this.Ada ?? new RequestOptions();
            options.SessionToken = written.SessionToken;
            DocumentResponse<SalesOrder> read = await other.ReadDocumentAsync<SalesOrder>(this.Link("2"), options);
            Expect.Equal(20, read.Document.Total, "total");
        }
    }

    private async Task ChangeFeed()
    {
        FeedResponse<PartitionKeyRange> ranges = await this.client.ReadPartitionKeyRangeFeedAsync(this.Collection);
        int changes = 0;
        foreach (PartitionKeyRange range in ranges)
        {
            var options = new ChangeFeedOptions { PartitionKeyRangeId = range.Id, StartFromBeginning = true, MaxItemCount = 1 };
            var feed = this.client.CreateDocumentChangeFeedQuery(this.Collection, options);
            while (feed.HasMoreResults)
            {
                changes += (await feed.ExecuteNextAsync<SalesOrder>()).Count;
            }
        }
        Expect.Equal(2, changes, "changes");
    }

    private async Task Replace()
    {
        DocumentCollection collection = await this.client.ReadDocumentCollectionAsync(this.Collection);
        collection.DefaultTimeToLive = 100000;
        DocumentCollection replaced = await this.client.ReplaceDocumentCollectionAsync(collection);
        Expect.Equal(100000, replaced.DefaultTimeToLive, "default");
        Expect.Equal(this.hasKey ? 1 : 0, replaced.PartitionKey.Paths.Count, "paths");
    }

    private async Task Expiry()
    {
        await this.client.CreateDocumentAsync(this.Collection, new SalesOrder { Id = "3", CustomerId = "ada", TimeToLive = 10 });
        await Connection.Advance(11);
        await Expect.Status(HttpStatusCode.NotFound, () => this.client.ReadDocumentAsync(this.Link("3"), this.Ada));
        await this.client.CreateDocumentAsync(this.Collection, new SalesOrder { Id = "3", CustomerId = "ada" });
    }

    private async Task Delete()
    {
        await this.client.DeleteDocumentAsync(this.Link("1"), this.Ada);
        await Expect.Status(HttpStatusCode.NotFound, () => this.client.ReadDocumentAsync(this.Link("1"), this.Ada));
        await this.client.DeleteDocumentCollectionAsync(this.Collection);
        await Expect.Status(HttpStatusCode.NotFound, () => this.client.ReadDocumentCollectionAsync(this.Collection));
    }

    private Uri Link(string id) => UriFactory.CreateDocumentUri(this.database, this.name, id);
}

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.ChangeFeedProcessor;
using Microsoft.Azure.Documents.Client;

/// <summary>The change feed processor of 2017, whose leases are in a collection without a partition key.</summary>
public sealed class ProcessorChecks
{
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    private readonly DocumentClient client;
    private readonly string database;

    public ProcessorChecks(DocumentClient client, string database)
    {
        this.client = client;
        this.database = database;
    }

    public Task Run(Checks checks) => checks.Run("processor: every item is observed", this.Observe);

    private async Task Observe()
    {
        Uri owner = UriFactory.CreateDatabaseUri(this.database);
        var observed = new DocumentCollection { Id = "observed" };
        observed.PartitionKey.Paths.Add("/customerId");
        await this.client.CreateDocumentCollectionAsync(owner, observed);
        await this.client.CreateDocumentCollectionAsync(owner, new DocumentCollection { Id = "leases" });
        Uri items = UriFactory.CreateDocumentCollectionUri(this.database, "observed");
        for (int number = 0; number < 5; number++)
        {
            await this.client.CreateDocumentAsync(items, new SalesOrder { Id = number.ToString(), CustomerId = "ada" });
        }
        var options = new ChangeFeedHostOptions { FeedPollDelay = TimeSpan.FromMilliseconds(200) };
        var start = new ChangeFeedOptions { StartFromBeginning = true };
        var host = new ChangeFeedEventHost("host", this.Info("observed"), this.Info("leases"), start, options);
        await host.RegisterObserverAsync<Observer>();
        bool isComplete = await Observer.Wait(5, Patience);
        await host.UnregisterObserversAsync();
        Expect.True(isComplete, "items were not observed");
    }

    private DocumentCollectionInfo Info(string collection) => new DocumentCollectionInfo
    {
        Uri = Connection.Endpoint,
        MasterKey = Connection.Key,
        DatabaseName = this.database,
        CollectionName = collection,
        ConnectionPolicy = Connection.Policy,
    };
}

/// <summary>Remembers the ids of the changes that it is given.</summary>
public sealed class Observer : IChangeFeedObserver
{
    private static readonly ConcurrentDictionary<string, bool> Ids = new ConcurrentDictionary<string, bool>();
    private static readonly SemaphoreSlim Changed = new SemaphoreSlim(0);

    public static async Task<bool> Wait(int count, TimeSpan patience)
    {
        DateTime end = DateTime.UtcNow + patience;
        while (Ids.Count < count && DateTime.UtcNow < end)
        {
            await Changed.WaitAsync(TimeSpan.FromSeconds(1));
        }
        return Ids.Count == count;
    }

    public Task OpenAsync(ChangeFeedObserverContext context) => Task.CompletedTask;

    public Task CloseAsync(ChangeFeedObserverContext context, ChangeFeedObserverCloseReason reason) => Task.CompletedTask;

    public Task ProcessChangesAsync(ChangeFeedObserverContext context, IReadOnlyList<Document> documents)
    {
        foreach (Document document in documents)
        {
            Ids[document.Id] = true;
        }
        Changed.Release();
        return Task.CompletedTask;
    }
}

using System.Linq;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>Users, permissions, and a client that has only a resource token.</summary>
public sealed class AccessChecks
{
    private static readonly PartitionKey Ada = new PartitionKey("ada");

    private readonly Database database;

    public AccessChecks(Database database)
    {
        this.database = database;
    }

    public async Task Run(Checks checks)
    {
        Container container = await this.database.CreateContainerAsync("access", "/customer");
        await container.CreateItemAsync(new Order { Id = "a", Customer = "ada" }, Ada);
        await container.CreateItemAsync(new Order { Id = "b", Customer = "bob" }, new PartitionKey("bob"));
        User user = await this.database.CreateUserAsync("reader");
        await checks.Run("access: users and permissions are listed", () => this.Lists(user, container));
        await checks.Run("access: a token that may read", () => this.Read(user, container));
        await checks.Run("access: a token for one partition key", () => this.OneKey(user, container));
        await checks.Run("access: a wrong key", this.WrongKey);
    }

    private async Task Lists(User user, Container container)
    {
        await user.CreatePermissionAsync(new PermissionProperties("listed", PermissionMode.Read, container));
        var permissions = await QueryChecks.All(user.GetPermissionQueryIterator<PermissionProperties>());
        Expect.Same(new[] { "listed" }, permissions.Select(each => each.Id));
        var users = await QueryChecks.All(this.database.GetUserQueryIterator<UserProperties>());
        Expect.Same(new[] { "reader" }, users.Select(each => each.Id));
        await user.GetPermission("listed").DeleteAsync();
    }

    private async Task Read(User user, Container container)
    {
        PermissionResponse permission = await user.CreatePermissionAsync(new PermissionProperties("read", PermissionMode.Read, container));
        using (CosmosClient client = Connection.OpenWithToken(permission.Resource.Token))
        {
            Container seen = client.GetContainer(this.database.Id, container.Id);
            await seen.ReadItemAsync<Order>("a", Ada);
            Expect.Equal(2, (await QueryChecks.All(seen.GetItemQueryIterator<Order>("SELECT * FROM c ORDER BY c.id"))).Count, "rows");
            await Expect.Status(HttpStatusCode.Forbidden, () => seen.UpsertItemAsync(new Order { Id = "c", Customer = "ada" }, Ada));
            await Expect.Status(HttpStatusCode.Forbidden, () => client.GetContainer(this.database.Id, "items").ReadItemAsync<Order>("a", Ada));
        }
    }

    private async Task OneKey(User user, Container container)
    {
        var properties = new PermissionProperties("ada", PermissionMode.All, container, Ada);
        PermissionResponse permission = await user.UpsertPermissionAsync(properties, 3600);
        using (CosmosClient client = Connection.OpenWithToken(permission.Resource.Token))
        {
            Container seen = client.GetContainer(this.database.Id, container.Id);
            await seen.UpsertItemAsync(new Order { Id = "c", Customer = "ada" }, Ada);
            using (TransactionalBatchResponse response = await seen.CreateTransactionalBatch(Ada).ReadItem("a").DeleteItem("c").ExecuteAsync())
            {
                Expect.True(response.IsSuccessStatusCode, "batch: " + response.StatusCode);
            }
            await Expect.Status(HttpStatusCode.Forbidden, () => seen.ReadItemAsync<Order>("b", new PartitionKey("bob")));
        }
    }

    private async Task WrongKey()
    {
        string key = System.Convert.ToBase64String(new byte[64]);
        using (CosmosClient client = Connection.OpenWithToken(key))
        {
            await Expect.Status(HttpStatusCode.Unauthorized, () => client.GetDatabase(this.database.Id).ReadAsync());
        }
    }
}

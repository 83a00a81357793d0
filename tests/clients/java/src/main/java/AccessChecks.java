import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PermissionMode;
import java.util.Base64;
import java.util.List;

/** Users, permissions, and a client that has only permissions. */
final class AccessChecks {
    private static final PartitionKey ADA = new PartitionKey("ada");

    private final CosmosDatabase database;

    AccessChecks(CosmosDatabase database) {
        this.database = database;
    }

    void run(Checks checks) {
        database.createContainer("access", "/customer");
        CosmosContainer container = database.getContainer("access");
        container.createItem(new Order("a", "ada", 1));
        container.createItem(new Order("b", "bob", 1));
        database.createUser(new CosmosUserProperties().setId("reader"));
        // Only the asynchronous client has permissions.
        try (CosmosAsyncClient client = Connection.builder().key(Connection.KEY).buildAsyncClient()) {
            CosmosAsyncUser user = client.getDatabase(database.getId()).getUser("reader");
            checks.run("access: users and permissions are listed", () -> lists(user));
            checks.run("access: a token that may read", () -> read(user));
            checks.run("access: a token for one partition key", () -> oneKey(user));
        }
        checks.run("access: a wrong key", this::wrongKey);
    }

    private static CosmosPermissionProperties permission(String id, PermissionMode mode) {
        return new CosmosPermissionProperties().setId(id).setPermissionMode(mode).setContainerName("access");
    }

    private void lists(CosmosAsyncUser user) {
        user.createPermission(permission("listed", PermissionMode.READ), null).block();
        Checks.same(List.of("reader"), database.readAllUsers().stream().map(each -> each.getId()).toList(), "users");
        List<String> ids = user.readAllPermissions().map(each -> each.getId()).collectList().block();
        Checks.same(List.of("listed"), ids, "permissions");
        user.getPermission("listed").delete(null).block();
    }

    private CosmosContainer open(CosmosClient client) {
        return client.getDatabase(database.getId()).getContainer("access");
    }

    private void read(CosmosAsyncUser user) throws Exception {
        String token = user.createPermission(permission("read", PermissionMode.READ), null).block().getProperties().getToken();
        try (CosmosClient client = Connection.builder().resourceToken(token).buildClient()) {
            CosmosContainer orders = open(client);
            orders.readItem("a", ADA, Order.class);
            var rows = orders.queryItems("SELECT * FROM c ORDER BY c.id", new CosmosQueryRequestOptions(), Order.class);
            Checks.same(2L, rows.stream().count(), "rows");
            Checks.status(403, () -> orders.upsertItem(new Order("c", "ada", 1)));
        }
        user.getPermission("read").delete(null).block();
    }

    private void oneKey(CosmosAsyncUser user) throws Exception {
        CosmosPermissionProperties properties = permission("ada", PermissionMode.ALL).setResourcePartitionKey(ADA);
        String token = user.upsertPermission(properties, null).block().getProperties().getToken();
        try (CosmosClient client = Connection.builder().resourceToken(token).buildClient()) {
            CosmosContainer orders = open(client);
            orders.upsertItem(new Order("c", "ada", 1));
            orders.readItem("c", ADA, Order.class);
            Checks.status(403, () -> orders.readItem("b", new PartitionKey("bob"), Order.class));
        }
    }

    private void wrongKey() {
        String key = Base64.getEncoder().encodeToString(new byte[64]);
        // The client reads the account first, and reports its failure as a RuntimeException.
        try (CosmosClient client = Connection.builder().key(key).buildClient()) {
            client.getDatabase(database.getId()).read();
        } catch (RuntimeException error) {
            Checks.isTrue(error.toString().contains("Unauthorized"), error.toString());
            return;
        }
        throw new AssertionError("expected 401, but the call succeeded");
    }
}

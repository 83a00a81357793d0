import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import java.util.List;

/** Items: create, read, replace, upsert, patch, delete, and etags. */
final class ItemChecks {
    private static final PartitionKey ADA = new PartitionKey("ada");

    private final CosmosDatabase database;
    private CosmosContainer orders;

    ItemChecks(CosmosDatabase database) {
        this.database = database;
    }

    void run(Checks checks) {
        database.createContainer("items", "/customer");
        orders = database.getContainer("items");
        checks.run("items: create, read, replace, upsert, patch, delete", this::crud);
        checks.run("items: etags", this::etags);
        checks.run("items: conflict and not found", this::refusals);
        checks.run("items: read many", this::readMany);
    }

    private void crud() throws Exception {
        CosmosItemResponse<Order> created = orders.createItem(new Order("é€😀", "ada", 1));
        Checks.same(201, created.getStatusCode(), "create");
        Checks.isTrue(created.getRequestCharge() > 0, "charge");
        Order order = orders.readItem("é€😀", ADA, Order.class).getItem();
        order.total = 2;
        Checks.same(200, orders.replaceItem(order, order.id, ADA, new CosmosItemRequestOptions()).getStatusCode(), "replace");
        order.total = 3;
        Checks.same(200, orders.upsertItem(order).getStatusCode(), "upsert");
        CosmosPatchOperations patch = CosmosPatchOperations.create().increment("/total", 4);
        Checks.same(7, orders.patchItem(order.id, ADA, patch, Order.class).getItem().total, "total");
        Checks.same(204, orders.deleteItem(order.id, ADA, new CosmosItemRequestOptions()).getStatusCode(), "delete");
        Checks.status(404, () -> orders.readItem("é€😀", ADA, Order.class));
    }

    private void etags() throws Exception {
        Order order = new Order("etag", "ada", 1);
        String etag = orders.createItem(order).getETag();
        orders.replaceItem(order, "etag", ADA, new CosmosItemRequestOptions().setIfMatchETag(etag));
        Checks.status(412, () -> orders.replaceItem(order, "etag", ADA, new CosmosItemRequestOptions().setIfMatchETag(etag)));
        Checks.status(412, () -> orders.deleteItem("etag", ADA, new CosmosItemRequestOptions().setIfMatchETag(etag)));
        String current = orders.readItem("etag", ADA, Order.class).getETag();
        CosmosItemRequestOptions unlessCurrent = new CosmosItemRequestOptions().setIfNoneMatchETag(current);
        Checks.same(304, orders.readItem("etag", ADA, unlessCurrent, Order.class).getStatusCode(), "unchanged");
    }

    private void refusals() throws Exception {
        orders.createItem(new Order("twice", "ada", 1));
        Checks.status(409, () -> orders.createItem(new Order("twice", "ada", 1)));
        Checks.status(404, () -> orders.deleteItem("never", ADA, new CosmosItemRequestOptions()));
    }

    private void readMany() {
        orders.createItem(new Order("m1", "ada", 1));
        orders.createItem(new Order("m2", "bob", 1));
        var ids = List.of(new CosmosItemIdentity(ADA, "m1"), new CosmosItemIdentity(new PartitionKey("bob"), "m2"));
        Checks.same(2, orders.readMany(ids, Order.class).getResults().size(), "items");
    }
}

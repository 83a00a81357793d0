import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import java.util.ArrayList;
import java.util.List;

/** Transactional batches and bulk operations. */
final class BatchChecks {
    private static final PartitionKey ADA = new PartitionKey("ada");

    private final CosmosDatabase database;

    BatchChecks(CosmosDatabase database) {
        this.database = database;
    }

    void run(Checks checks) {
        checks.run("batch: all operations", this::all);
        checks.run("batch: one fails, none is done", this::none);
        checks.run("bulk: over several ranges", this::bulk);
    }

    private CosmosContainer create(String name, int throughput) {
        database.createContainer(name, "/customer", ThroughputProperties.createManualThroughput(throughput));
        return database.getContainer(name);
    }

    private void all() {
        CosmosContainer orders = create("batch", 400);
        orders.createItem(new Order("old", "ada", 1));
        CosmosBatch batch = CosmosBatch.createCosmosBatch(ADA);
        batch.createItemOperation(new Order("new", "ada", 1));
        batch.upsertItemOperation(new Order("other", "ada", 1));
        batch.replaceItemOperation("old", new Order("old", "ada", 2));
        batch.patchItemOperation("old", CosmosPatchOperations.create().increment("/total", 5));
        batch.readItemOperation("old");
        batch.deleteItemOperation("other");
        CosmosBatchResponse response = orders.executeCosmosBatch(batch);
        Checks.isTrue(response.isSuccessStatusCode(), "batch: " + response.getErrorMessage());
        List<Integer> statuses = response.getResults().stream().map(each -> each.getStatusCode()).toList();
        Checks.same(List.of(201, 201, 200, 200, 200, 204), statuses, "statuses");
        Checks.same(7, response.getResults().get(4).getItem(Order.class).total, "total");
    }

    private void none() throws Exception {
        CosmosContainer orders = create("batch-none", 400);
        orders.createItem(new Order("old", "ada", 1));
        CosmosBatch batch = CosmosBatch.createCosmosBatch(ADA);
        batch.createItemOperation(new Order("new", "ada", 1));
        batch.createItemOperation(new Order("old", "ada", 1));
        CosmosBatchResponse response = orders.executeCosmosBatch(batch);
        List<Integer> statuses = response.getResults().stream().map(each -> each.getStatusCode()).toList();
        Checks.same(List.of(424, 409), statuses, "statuses");
        Checks.status(404, () -> orders.readItem("new", ADA, Order.class));
    }

    private void bulk() {
        CosmosContainer orders = create("bulk", 24000);
        List<CosmosItemOperation> operations = new ArrayList<>();
        for (int number = 0; number < 200; number++) {
            Order order = new Order("o" + number, "customer" + number % 12, number);
            operations.add(CosmosBulkOperations.getCreateItemOperation(order, new PartitionKey(order.customer)));
        }
        Checks.same(200, count(orders, operations, 201), "created");
        Checks.same(200, count(orders, operations, 409), "conflicts");
        List<CosmosItemOperation> more = new ArrayList<>();
        for (int number = 0; number < 200; number++) {
            more.add(CosmosBulkOperations.getDeleteItemOperation("o" + number, new PartitionKey("customer" + number % 12)));
        }
        Checks.same(200, count(orders, more, 204), "deleted");
    }

    private static int count(CosmosContainer orders, List<CosmosItemOperation> operations, int status) {
        int count = 0;
        for (CosmosBulkOperationResponse<Object> each : orders.executeBulkOperations(operations)) {
            Checks.isTrue(each.getResponse() != null, "bulk: " + each.getException());
            count += each.getResponse().getStatusCode() == status ? 1 : 0;
        }
        return count;
    }
}

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/** Queries over one and several ranges, in pages; the client merges what ranges return. */
final class QueryChecks {
    private static final int COUNT = 60;

    private final CosmosDatabase database;

    QueryChecks(CosmosDatabase database) {
        this.database = database;
    }

    void run(Checks checks) {
        for (int throughput : new int[] {400, 24000}) {
            String where = throughput == 400 ? "one range" : "several ranges";
            database.createContainer("queries" + throughput, "/customer", ThroughputProperties.createManualThroughput(throughput));
            CosmosContainer orders = database.getContainer("queries" + throughput);
            for (int number = 0; number < COUNT; number++) {
                orders.createItem(new Order("o" + number, "customer" + number % 12, number));
            }
            checks.run("query: pages over " + where, () -> pages(orders));
            checks.run("query: ORDER BY over " + where, () -> ordered(orders));
            checks.run("query: aggregates over " + where, () -> aggregates(orders));
            checks.run("query: DISTINCT, TOP, OFFSET LIMIT, GROUP BY over " + where, () -> others(orders));
            checks.run("query: one partition key, with parameters, over " + where, () -> oneKey(orders));
        }
    }

    private static <T> List<T> all(CosmosContainer orders, String query, Class<T> type) {
        return orders.queryItems(query, new CosmosQueryRequestOptions(), type).stream().toList();
    }

    private static List<Integer> totals(CosmosContainer orders, String query) {
        return all(orders, query, Integer.class);
    }

    /** Every page is a query of its own that continues from the token of the last one. */
    private static List<Integer> continued(CosmosContainer orders, String query) {
        List<Integer> rows = new ArrayList<>();
        String token = null;
        int count = 0;
        do {
            FeedResponse<Integer> page = orders.queryItems(query, new CosmosQueryRequestOptions(), Integer.class)
                .iterableByPage(token, 7).iterator().next();
            Checks.isTrue(page.getResults().size() <= 7, "page of " + page.getResults().size());
            rows.addAll(page.getResults());
            token = page.getContinuationToken();
            Checks.isTrue(++count < 100, "the pages do not end");
        } while (token != null);
        return rows;
    }

    private static void pages(CosmosContainer orders) {
        List<Integer> rows = continued(orders, "SELECT VALUE c.total FROM c");
        Checks.same(numbers(0, COUNT), rows.stream().sorted().toList(), "rows");
    }

    private static List<Integer> numbers(int from, int to) {
        return IntStream.range(from, to).boxed().toList();
    }

    private static void ordered(CosmosContainer orders) {
        Checks.same(numbers(0, COUNT), continued(orders, "SELECT VALUE c.total FROM c ORDER BY c.total"), "rows");
        List<Integer> down = totals(orders, "SELECT VALUE c.total FROM c WHERE c.total < 3 ORDER BY c.total DESC");
        Checks.same(List.of(2, 1, 0), down, "rows");
    }

    private static void aggregates(CosmosContainer orders) {
        Checks.same(List.of(COUNT), totals(orders, "SELECT VALUE COUNT(1) FROM c"), "COUNT");
        // The client adds up the sums of the ranges as doubles.
        Checks.same(List.of(1770.0), all(orders, "SELECT VALUE SUM(c.total) FROM c", Double.class), "SUM");
        Checks.same(List.of(0), totals(orders, "SELECT VALUE MIN(c.total) FROM c"), "MIN");
        Checks.same(List.of(59), totals(orders, "SELECT VALUE MAX(c.total) FROM c"), "MAX");
        Checks.same(List.of(29.5), all(orders, "SELECT VALUE AVG(c.total) FROM c", Double.class), "AVG");
    }

    private static void others(CosmosContainer orders) {
        Checks.same(12, all(orders, "SELECT DISTINCT VALUE c.customer FROM c", String.class).size(), "DISTINCT");
        Checks.same(numbers(0, 5), totals(orders, "SELECT TOP 5 VALUE c.total FROM c ORDER BY c.total"), "TOP");
        List<Integer> middle = totals(orders, "SELECT VALUE c.total FROM c ORDER BY c.total OFFSET 10 LIMIT 5");
        Checks.same(numbers(10, 15), middle, "OFFSET LIMIT");
        List<JsonNode> groups = all(orders, "SELECT c.customer, COUNT(1) AS n FROM c GROUP BY c.customer", JsonNode.class);
        Checks.same(12, groups.size(), "groups");
        Checks.isTrue(groups.stream().allMatch(each -> each.get("n").asInt() == 5), "GROUP BY: " + groups);
    }

    private static void oneKey(CosmosContainer orders) {
        SqlQuerySpec query = new SqlQuerySpec("SELECT VALUE c.total FROM c WHERE c.total >= @least", new SqlParameter("@least", 24));
        CosmosQueryRequestOptions options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("customer3"));
        List<Integer> rows = orders.queryItems(query, options, Integer.class).stream().sorted().toList();
        Checks.same(List.of(27, 39, 51), rows, "rows");
    }
}

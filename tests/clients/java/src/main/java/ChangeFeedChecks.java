import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import java.util.ArrayList;
import java.util.List;

/** The change feed over one and several ranges. */
final class ChangeFeedChecks {
    private final CosmosDatabase database;
    private String token;

    ChangeFeedChecks(CosmosDatabase database) {
        this.database = database;
    }

    void run(Checks checks) {
        for (int throughput : new int[] {400, 24000}) {
            String where = throughput == 400 ? "one range" : "several ranges";
            database.createContainer("feed" + throughput, "/customer", ThroughputProperties.createManualThroughput(throughput));
            CosmosContainer orders = database.getContainer("feed" + throughput);
            checks.run("change feed: from the beginning, then what follows, over " + where, () -> fromBeginning(orders));
            checks.run("change feed: from now over " + where, () -> fromNow(orders));
            checks.run("change feed: for each feed range over " + where, () -> eachRange(orders));
            checks.run("change feed: of one partition key over " + where, () -> oneKey(orders));
        }
    }

    private static void write(CosmosContainer orders, int from, int count) {
        for (int number = from; number < from + count; number++) {
            orders.upsertItem(new Order("o" + number, "customer" + number % 12, number));
        }
    }

    /** The changed ids, sorted; `token` is where to go on. */
    private List<String> read(CosmosContainer orders, CosmosChangeFeedRequestOptions options) {
        List<String> ids = new ArrayList<>();
        for (FeedResponse<Order> page : orders.queryChangeFeed(options.setMaxItemCount(5), Order.class).iterableByPage()) {
            page.getResults().forEach(order -> ids.add(order.id));
            token = page.getContinuationToken();
            Checks.isTrue(ids.size() < 1000, "the feed does not end");
        }
        return ids.stream().sorted().toList();
    }

    private CosmosChangeFeedRequestOptions onward() {
        return CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(token);
    }

    private void fromBeginning(CosmosContainer orders) {
        write(orders, 0, 24);
        List<String> ids = read(orders, CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange()));
        Checks.same(24, ids.size(), "changes");
        Checks.same(24L, ids.stream().distinct().count(), "ids");
        write(orders, 3, 2);
        Checks.same(List.of("o3", "o4"), read(orders, onward()), "changes");
        Checks.same(List.of(), read(orders, onward()), "no further changes");
    }

    private void fromNow(CosmosContainer orders) {
        Checks.same(List.of(), read(orders, CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange())), "no changes yet");
        write(orders, 100, 3);
        Checks.same(List.of("o100", "o101", "o102"), read(orders, onward()), "changes");
    }

    private void eachRange(CosmosContainer orders) {
        List<String> ids = new ArrayList<>();
        for (FeedRange range : orders.getFeedRanges()) {
            ids.addAll(read(orders, CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range)));
        }
        Checks.same(27, ids.size(), "changes");
        Checks.same(27L, ids.stream().distinct().count(), "ids");
    }

    private void oneKey(CosmosContainer orders) {
        FeedRange range = FeedRange.forLogicalPartition(new PartitionKey("customer5"));
        List<String> ids = read(orders, CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range));
        Checks.same(List.of("o101", "o17", "o5"), ids, "changes");
    }
}

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;

/** The steps of the documentation about time to live, on a clock that is moved. */
final class TimeToLiveChecks {
    private static final PartitionKey ADA = new PartitionKey("ada");
    private static final Integer[] DEFAULTS = {null, -1, 10};
    // The items that exist after 0, 9, 10, 19 and 20 seconds; a has no ttl, b -1, c 20.
    private static final String[][] LIVE = {
        {"abc", "abc", "abc", "abc", "abc"},
        {"abc", "abc", "abc", "abc", "ab"},
        {"abc", "abc", "bc", "bc", "b"},
    };

    private final CosmosDatabase database;

    TimeToLiveChecks(CosmosDatabase database) {
        this.database = database;
    }

    void run(Checks checks) {
        checks.run("ttl: off, -1 and a number on a container", this::defaults);
        checks.run("ttl: the nine combinations", this::combinations);
        checks.run("ttl: change the default of a container", this::changeTheDefault);
        checks.run("ttl: an item's own value overrides the default", this::override);
        checks.run("ttl: a write extends the lifetime", this::extend);
        checks.run("ttl: remove it from an item", this::remove);
        checks.run("ttl: disable it on the container", this::disable);
        checks.run("ttl: patch it", this::patch);
        checks.run("ttl: invalid values are refused", this::invalid);
    }

    private CosmosContainer create(String name, Integer defaultTtl) {
        CosmosContainerProperties properties = new CosmosContainerProperties(name, "/customer");
        properties.setDefaultTimeToLiveInSeconds(defaultTtl);
        database.createContainer(properties);
        return database.getContainer(name);
    }

    private static Order order(String id, Integer ttl) {
        return new Order(id, "ada", 10).withTtl(ttl);
    }

    private static void gone(CosmosContainer container, String id) throws Exception {
        Checks.status(404, () -> container.readItem(id, ADA, Order.class));
    }

    private static String live(CosmosContainer container) {
        StringBuilder ids = new StringBuilder();
        container.queryItems("SELECT VALUE c.id FROM c ORDER BY c.id", new CosmosQueryRequestOptions(), String.class)
            .forEach(ids::append);
        return ids.toString();
    }

    private void defaults() throws Exception {
        for (Integer value : DEFAULTS) {
            CosmosContainer container = create("ttl-default" + value, value);
            Checks.same(value, container.read().getProperties().getDefaultTimeToLiveInSeconds(), "default");
        }
        CosmosContainer off = database.getContainer("ttl-defaultnull");
        off.createItem(order("a", 5));
        TestClock.advance(3600);
        Checks.same(5, off.readItem("a", ADA, Order.class).getItem().ttl, "ttl is plain data");
    }

    private void combinations() throws Exception {
        CosmosContainer[] containers = new CosmosContainer[DEFAULTS.length];
        for (int row = 0; row < DEFAULTS.length; row++) {
            containers[row] = create("ttl-nine" + DEFAULTS[row], DEFAULTS[row]);
        }
        TestClock.freeze();
        try {
            for (CosmosContainer container : containers) {
                container.createItem(order("a", null));
                container.createItem(order("b", -1));
                container.createItem(order("c", 20));
            }
            int[] steps = {0, 9, 1, 9, 1};
            for (int step = 0; step < steps.length; step++) {
                if (steps[step] > 0) {
                    TestClock.advance(steps[step]);
                }
                for (int row = 0; row < containers.length; row++) {
                    Checks.same(LIVE[row][step], live(containers[row]), "default " + DEFAULTS[row] + ", step " + step);
                }
            }
        } finally {
            TestClock.resume();
        }
    }

    private void changeTheDefault() throws Exception {
        CosmosContainer container = create("ttl-change", null);
        container.createItem(order("a", null));
        CosmosContainerProperties properties = container.read().getProperties();
        properties.setDefaultTimeToLiveInSeconds(60);
        Checks.same(60, container.replace(properties).getProperties().getDefaultTimeToLiveInSeconds(), "default");
        container.readItem("a", ADA, Order.class);
        TestClock.advance(60);
        gone(container, "a");
    }

    private void override() throws Exception {
        CosmosContainer container = create("ttl-override", 60);
        container.createItem(order("short", 30));
        container.createItem(order("long", 600));
        container.createItem(order("never", -1));
        container.createItem(order("default", null));
        TestClock.advance(30);
        gone(container, "short");
        container.readItem("default", ADA, Order.class);
        TestClock.advance(30);
        gone(container, "default");
        container.readItem("long", ADA, Order.class);
        TestClock.advance(540);
        gone(container, "long");
        container.readItem("never", ADA, Order.class);
    }

    private void extend() throws Exception {
        CosmosContainer container = create("ttl-extend", -1);
        container.createItem(order("a", 60));
        TestClock.advance(40);
        Order order = container.readItem("a", ADA, Order.class).getItem();
        order.ttl = 60 * 30;
        container.replaceItem(order, "a", ADA, new CosmosItemRequestOptions());
        TestClock.advance(60);
        Checks.same(1800, container.readItem("a", ADA, Order.class).getItem().ttl, "ttl");
        TestClock.advance(60 * 29);
        gone(container, "a");
    }

    private void remove() throws Exception {
        CosmosContainer container = create("ttl-remove", -1);
        container.createItem(order("a", 60));
        Order order = container.readItem("a", ADA, Order.class).getItem();
        order.ttl = null;  // the container's default applies: no expiry
        container.replaceItem(order, "a", ADA, new CosmosItemRequestOptions());
        TestClock.advance(3600);
        Checks.same(null, container.readItem("a", ADA, Order.class).getItem().ttl, "ttl");
    }

    private void disable() throws Exception {
        CosmosContainer container = create("ttl-disable", 60);
        container.createItem(order("a", null));
        container.createItem(order("b", 30));
        TestClock.advance(30);
        CosmosContainerProperties properties = container.read().getProperties();
        properties.setDefaultTimeToLiveInSeconds(null);
        container.replace(properties);
        Checks.same(null, container.read().getProperties().getDefaultTimeToLiveInSeconds(), "default");
        TestClock.advance(3600);
        container.readItem("a", ADA, Order.class);
        gone(container, "b");
    }

    private void patch() throws Exception {
        CosmosContainer container = create("ttl-patch", -1);
        container.createItem(order("a", null));
        container.patchItem("a", ADA, CosmosPatchOperations.create().set("/ttl", 60), Order.class);
        TestClock.advance(60);
        gone(container, "a");
    }

    private void invalid() throws Exception {
        CosmosContainer container = create("ttl-invalid", -1);
        Checks.status(400, () -> container.createItem(order("a", 0)));
        Checks.status(400, () -> container.createItem(order("a", -2)));
    }
}

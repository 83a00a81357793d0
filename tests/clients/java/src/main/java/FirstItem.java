import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.List;

public class FirstItem {
    private static final String ENDPOINT = "http://127.0.0.1:8081/";
    private static final String KEY =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    public static class Session {
        public String id;
        public String user = "ada";
        public List<String> cart = List.of();

        @JsonInclude(JsonInclude.Include.NON_NULL)  // without a ttl the container's default applies
        public Integer ttl;
    }

    public static void main(String[] arguments) {
        System.setProperty("COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED", "true");
        try (CosmosClient client = new CosmosClientBuilder().endpoint(ENDPOINT).key(KEY).gatewayMode().buildClient()) {
            client.createDatabaseIfNotExists("shop");
            CosmosDatabase database = client.getDatabase("shop");

            // Items expire an hour after their last write, unless they have their own ttl.
            CosmosContainerProperties properties = new CosmosContainerProperties("sessions", "/user");
            properties.setDefaultTimeToLiveInSeconds(3600);
            database.createContainerIfNotExists(properties);
            CosmosContainer sessions = database.getContainer("sessions");

            Session first = new Session();
            first.id = "s1";
            first.cart = List.of("telescope");
            sessions.upsertItem(first);
            Session second = new Session();
            second.id = "s2";
            second.ttl = 60;
            sessions.upsertItem(second);

            Session found = sessions.readItem("s1", new PartitionKey("ada"), Session.class).getItem();
            System.out.println(found.id + ": " + String.join(", ", found.cart));

            String query = "SELECT * FROM c WHERE c.user = 'ada'";
            for (Session each : sessions.queryItems(query, new CosmosQueryRequestOptions(), Session.class)) {
                int seconds = each.ttl == null ? 3600 : each.ttl;
                System.out.println(each.id + " expires after " + seconds + " seconds");
            }
        }
    }
}

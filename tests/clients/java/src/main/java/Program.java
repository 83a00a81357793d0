import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosDatabase;
import java.util.UUID;

/** Checks a server with the official Java client. Needs a server with --test-clock. */
public final class Program {
    private Program() {
    }

    public static void main(String[] arguments) throws Exception {
        String certificate = System.getenv("PERSEID_CERT");
        if (certificate != null && !certificate.isEmpty()) {
            Connection.trust(certificate);
        }
        Checks checks = new Checks();
        try (CosmosClient client = Connection.open()) {
            CosmosDatabase database = client.getDatabase("java-" + UUID.randomUUID());
            checks.run("create a database", () -> client.createDatabase(database.getId()));
            checks.group("items", new ItemChecks(database)::run);
            checks.group("ttl", new TimeToLiveChecks(database)::run);
            checks.group("batches", new BatchChecks(database)::run);
            checks.group("queries", new QueryChecks(database)::run);
            checks.group("change feed", new ChangeFeedChecks(database)::run);
            checks.group("throughput", new ThroughputChecks(database)::run);
            checks.group("access", new AccessChecks(database)::run);
            checks.run("delete the database", () -> database.delete());
        }
        System.exit(checks.summarize());
    }
}

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.ThroughputProperties;
import com.azure.cosmos.models.ThroughputResponse;

/** Throughput of a container, manual and autoscale. */
final class ThroughputChecks {
    private final CosmosDatabase database;

    ThroughputChecks(CosmosDatabase database) {
        this.database = database;
    }

    void run(Checks checks) {
        checks.run("throughput: read and replace", this::manual);
        checks.run("throughput: autoscale", this::autoscale);
    }

    private void manual() {
        database.createContainer("manual", "/customer", ThroughputProperties.createManualThroughput(400));
        CosmosContainer container = database.getContainer("manual");
        ThroughputResponse read = container.readThroughput();
        Checks.same(400, read.getProperties().getManualThroughput(), "throughput");
        Checks.same(400, read.getMinThroughput(), "least throughput");
        container.replaceThroughput(ThroughputProperties.createManualThroughput(800));
        Checks.same(800, container.readThroughput().getProperties().getManualThroughput(), "throughput");
    }

    private void autoscale() {
        database.createContainer("autoscale", "/customer", ThroughputProperties.createAutoscaledThroughput(4000));
        CosmosContainer container = database.getContainer("autoscale");
        Checks.same(4000, container.readThroughput().getProperties().getAutoscaleMaxThroughput(), "maximum");
        container.replaceThroughput(ThroughputProperties.createAutoscaledThroughput(5000));
        Checks.same(5000, container.readThroughput().getProperties().getAutoscaleMaxThroughput(), "maximum");
    }
}

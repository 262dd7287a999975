package armilla;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosAsyncDatabase;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.UUID;

/** A client in Gateway mode, and a database of its own that goes with the test. */
final class Armilla implements AutoCloseable {
    private static final String PUBLISHED_KEY =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    final CosmosAsyncClient client;
    final CosmosAsyncDatabase database;

    Armilla() {
        client = new CosmosClientBuilder()
            .endpoint(endpoint())
            .key(setting("ARMILLA_KEY", PUBLISHED_KEY))
            .gatewayMode()
            .consistencyLevel(ConsistencyLevel.SESSION)
            .contentResponseOnWriteEnabled(true)
            .buildAsyncClient();
        String name = "java-" + UUID.randomUUID();
        client.createDatabase(name).block();
        database = client.getDatabase(name);
    }

    static String endpoint() {
        return setting("ARMILLA_ENDPOINT", "http://localhost:8081/");
    }

    private static String setting(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    CosmosAsyncContainer container(CosmosContainerProperties properties, int throughput) {
        database.createContainer(properties, ThroughputProperties.createManualThroughput(throughput)).block();
        return database.getContainer(properties.getId());
    }

    CosmosAsyncContainer items(int throughput) {
        return container(new CosmosContainerProperties("items", "/pk"), throughput);
    }

    static ObjectNode item(String pk, String id, int version) {
        return JsonNodeFactory.instance.objectNode().put("id", id).put("pk", pk).put("version", version);
    }

    static void upsert(CosmosAsyncContainer container, String pk, String id, int version) {
        container.upsertItem(item(pk, id, version), new PartitionKey(pk), null).block();
    }

    @Override
    public void close() {
        database.delete().block();
        client.close();
    }
}

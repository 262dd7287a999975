package armilla;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

/** The pull model and the change feed processor with its lease container, also across a split. */
class ChangeFeedTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private static void await(String what, BooleanSupplier reached) throws InterruptedException {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!reached.getAsBoolean()) {
            assertTrue(System.nanoTime() < deadline, what + " did not come");
            Thread.sleep(50);
        }
    }

    /** Reads pages until one is empty; says where to go on. */
    private static String drain(
        CosmosAsyncContainer container, CosmosChangeFeedRequestOptions options, Map<String, Integer> seen) {
        String position = null;
        for (FeedResponse<JsonNode> page : container.queryChangeFeed(options, JsonNode.class).byPage().toIterable()) {
            for (JsonNode row : page.getResults()) {
                seen.put(row.get("id").asText(), row.get("version").asInt());
            }
            position = page.getContinuationToken();
        }
        return position;
    }

    @Test
    void thePullModelSurvivesASplit() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(400);
            for (int number = 0; number < 20; number++) {
                Armilla.upsert(container, "p" + number, "i" + number, 1);
            }
            Map<String, Integer> seen = new ConcurrentHashMap<>();
            var beginning =
                CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange());
            String position = drain(container, beginning.setMaxItemCount(3), seen);
            assertEquals(20, seen.size());

            container.replaceThroughput(ThroughputProperties.createManualThroughput(25_000)).block();
            for (int number = 0; number < 10; number++) {
                Armilla.upsert(container, "p" + number, "i" + number, 2);
            }
            Map<String, Integer> changed = new ConcurrentHashMap<>();
            drain(container, CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(position), changed);
            assertEquals(10, changed.size());
            assertTrue(changed.values().stream().allMatch(version -> version == 2));

            Map<String, Integer> ofKey = new ConcurrentHashMap<>();
            var key = FeedRange.forLogicalPartition(new PartitionKey("p15"));
            drain(container, CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(key), ofKey);
            assertEquals(Map.of("i15", 1), ofKey);
        }
    }

    @Test
    void theProcessorSharesItsWorkByLeases() throws InterruptedException {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(25_000);
            CosmosAsyncContainer leases = armilla.container(new CosmosContainerProperties("leases", "/id"), 400);
            Map<String, Integer> seen = new ConcurrentHashMap<>();
            ChangeFeedProcessor processor = new ChangeFeedProcessorBuilder()
                .hostName("host")
                .feedContainer(container)
                .leaseContainer(leases)
                .handleLatestVersionChanges((List<ChangeFeedProcessorItem> changes) -> changes.forEach(change ->
                    seen.put(change.getCurrent().get("id").asText(), change.getCurrent().get("version").asInt())))
                .options(new ChangeFeedProcessorOptions()
                    .setStartFromBeginning(true)
                    .setFeedPollDelay(Duration.ofMillis(200))
                    .setLeaseAcquireInterval(Duration.ofSeconds(1)))
                .buildChangeFeedProcessor();
            for (int number = 0; number < 20; number++) {
                Armilla.upsert(container, "p" + number, "i" + number, 1);
            }
            processor.start().block();
            await("everything", () -> seen.size() == 20);
            for (int number = 0; number < 20; number++) {
                Armilla.upsert(container, "p" + number, "i" + number, 2);
            }
            await("every change", () -> seen.values().stream().allMatch(version -> version == 2));
            processor.stop().block();
        }
    }

    @Test
    void theProcessorSeesAllVersionsAndDeletes() throws InterruptedException {
        try (Armilla armilla = new Armilla()) {
            var properties = new CosmosContainerProperties("versions", "/pk");
            properties.setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(10)));
            CosmosAsyncContainer container = armilla.container(properties, 400);
            CosmosAsyncContainer leases = armilla.container(new CosmosContainerProperties("leases", "/id"), 400);
            List<String> seen = new CopyOnWriteArrayList<>();
            AtomicBoolean isPolling = new AtomicBoolean();
            ChangeFeedProcessor processor = new ChangeFeedProcessorBuilder()
                .hostName("host")
                .feedContainer(container)
                .leaseContainer(leases)
                .handleAllVersionsAndDeletesChanges((List<ChangeFeedProcessorItem> changes) -> changes.forEach(change -> {
                    if (change.getCurrent() != null && change.getCurrent().path("id").asText().equals("probe")) {
                        isPolling.set(true);
                    } else {
                        seen.add(change.getChangeFeedMetaData().getOperationType().toString());
                    }
                }))
                .options(new ChangeFeedProcessorOptions()
                    .setFeedPollDelay(Duration.ofMillis(200))
                    .setLeaseAcquireInterval(Duration.ofSeconds(1)))
                .buildChangeFeedProcessor();
            processor.start().block();
            // A lease may hold no more than "from now on", which begins with its first poll: once a probe
            // was seen nothing is missed.
            await("a poll", () -> {
                Armilla.upsert(container, "p", "probe", 1);
                return isPolling.get();
            });
            Armilla.upsert(container, "p", "i", 1);
            Armilla.upsert(container, "p", "i", 2);
            container.deleteItem("i", new PartitionKey("p")).block();
            await("three changes", () -> seen.size() >= 3);
            assertEquals(List.of("create", "replace", "delete"), seen.stream().map(String::toLowerCase).toList());
            processor.stop().block();
        }
    }
}

package armilla;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.PermissionMode;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The SDK as it comes: Direct mode over TLS, with the server's certificate authority in the trust store. */
class DirectTest {
    private static List<JsonNode> query(CosmosAsyncContainer container, String text, int pageSize) {
        List<JsonNode> rows = new ArrayList<>();
        String position = null;
        do {
            var options = new CosmosQueryRequestOptions();
            FeedResponse<JsonNode> page = container.queryItems(text, options, JsonNode.class)
                .byPage(position, pageSize).blockFirst();
            rows.addAll(page.getResults());
            position = page.getContinuationToken();
        } while (position != null);
        return rows;
    }

    private static int statusOf(Runnable request) {
        return assertThrows(CosmosException.class, request::run).getStatusCode();
    }

    /** Which way requests went, as the SDK tells it. */
    private static void assertDirect(String diagnostics) {
        assertTrue(diagnostics.contains("rntbd://"), diagnostics);
    }

    @Test
    void itemsLiveTheirLife() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(400);
            PartitionKey key = new PartitionKey("p ü/?#");
            var created = container.createItem(Armilla.item("p ü/?#", "a ü+&", 1), key, null).block();
            assertEquals(201, created.getStatusCode());
            assertDirect(created.getDiagnostics().toString());
            assertTrue(created.getRequestCharge() > 1);
            var read = container.readItem("a ü+&", key, ObjectNode.class).block();
            assertDirect(read.getDiagnostics().toString());
            assertEquals(created.getETag(), read.getETag());
            assertEquals(409, statusOf(() -> container.createItem(Armilla.item("p ü/?#", "a ü+&", 1), key, null).block()));
            var known = new CosmosItemRequestOptions().setIfNoneMatchETag(read.getETag());
            assertEquals(304, container.readItem("a ü+&", key, known, ObjectNode.class).block().getStatusCode());
            var condition = new CosmosItemRequestOptions().setIfMatchETag(read.getETag());
            container.replaceItem(Armilla.item("p ü/?#", "a ü+&", 2), "a ü+&", key, condition).block();
            assertEquals(412, statusOf(() ->
                container.replaceItem(Armilla.item("p ü/?#", "a ü+&", 3), "a ü+&", key, condition).block()));
            CosmosPatchOperations patch = CosmosPatchOperations.create().increment("/version", 5);
            assertEquals(7, container.patchItem("a ü+&", key, patch, ObjectNode.class).block().getItem().get("version").asInt());
            container.deleteItem("a ü+&", key).block();
            long started = System.nanoTime();
            assertEquals(404, statusOf(() -> container.readItem("a ü+&", key, ObjectNode.class).block()));
            assertTrue(System.nanoTime() - started < 5_000_000_000L, "a missing item is not asked for again and again");
            var none = PartitionKey.NONE;
            container.createItem(com.fasterxml.jackson.databind.node.JsonNodeFactory.instance.objectNode().put("id", "n"), none, null).block();
            assertEquals(200, container.readItem("n", none, ObjectNode.class).block().getStatusCode());
        }
    }

    @Test
    void queriesCrossPartitionsAndPages() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(25_000);
            for (int number = 0; number < 60; number++) {
                Armilla.upsert(container, "p" + number % 11, "i" + number, number * 7 % 60);
            }
            List<JsonNode> ordered = query(container, "SELECT * FROM c ORDER BY c.version", 7);
            assertEquals(60, ordered.size());
            for (int number = 0; number < 60; number++) {
                assertEquals(number, ordered.get(number).get("version").asInt());
            }
            assertEquals(60, query(container, "SELECT * FROM c", 9).size());
            assertEquals(1770, query(container, "SELECT VALUE SUM(c.version) FROM c", 10).get(0).asInt());
            for (String distinct : List.of("SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk", "SELECT DISTINCT c.pk FROM c")) {
                assertEquals(11, container.queryItems(distinct, JsonNode.class).collectList().block().size());
            }
            var ofKey = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("p3"));
            assertEquals(6, container.queryItems("SELECT * FROM c", ofKey, JsonNode.class).collectList().block().size());
            assertEquals(6, container.readAllItems(new PartitionKey("p3"), JsonNode.class).collectList().block().size());
            List<CosmosItemIdentity> wanted = new ArrayList<>();
            for (int number = 0; number < 20; number++) {
                wanted.add(new CosmosItemIdentity(new PartitionKey("p" + number % 11), "i" + number));
            }
            assertEquals(20, container.readMany(wanted, JsonNode.class).block().getResults().size());
        }
    }

    @Test
    void batchesAndBulk() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(25_000);
            CosmosBatch batch = CosmosBatch.createCosmosBatch(new PartitionKey("p"));
            batch.createItemOperation(Armilla.item("p", "a", 1));
            batch.upsertItemOperation(Armilla.item("p", "b", 1));
            batch.readItemOperation("a");
            CosmosBatchResponse done = container.executeCosmosBatch(batch).block();
            assertTrue(done.isSuccessStatusCode());
            assertDirect(done.getDiagnostics().toString());
            CosmosBatch failing = CosmosBatch.createCosmosBatch(new PartitionKey("p"));
            failing.createItemOperation(Armilla.item("p", "c", 1));
            failing.createItemOperation(Armilla.item("p", "a", 1));
            CosmosBatchResponse failed = container.executeCosmosBatch(failing).block();
            assertEquals(409, failed.getStatusCode());
            assertEquals(424, failed.getResults().get(0).getStatusCode());
            assertEquals(404, statusOf(() -> container.readItem("c", new PartitionKey("p"), JsonNode.class).block()));

            List<CosmosItemOperation> operations = new ArrayList<>();
            for (int number = 0; number < 500; number++) {
                String pk = "k" + number % 50;
                operations.add(CosmosBulkOperations.getCreateItemOperation(Armilla.item(pk, "i" + number, 1), new PartitionKey(pk)));
            }
            var answers = container.executeBulkOperations(Flux.fromIterable(operations)).collectList().block();
            assertEquals(500, answers.stream().filter(answer -> answer.getResponse().getStatusCode() == 201).count());
            assertEquals(502, query(container, "SELECT VALUE COUNT(1) FROM c", 10).get(0).asInt());
        }
    }

    @Test
    void proceduresRun() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(400);
            String body = "function(text) { console.log('said ' + text);"
                + " var c = getContext().getCollection();"
                + " c.createDocument(c.getSelfLink(), {id: 'made', pk: 'p'}, function(e, d) { if (e) throw e; getContext().getResponse().setBody(text + d.id); }); }";
            container.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("make", body)).block();
            var options = new CosmosStoredProcedureRequestOptions();
            options.setPartitionKey(new PartitionKey("p")).setScriptLoggingEnabled(true);
            var answer = container.getScripts().getStoredProcedure("make").execute(List.of("x"), options).block();
            assertEquals("\"xmade\"", answer.getResponseAsString());
            assertTrue(answer.getScriptLog().contains("said x"), answer.getScriptLog());
            assertEquals(200, container.readItem("made", new PartitionKey("p"), JsonNode.class).block().getStatusCode());
        }
    }

    /** Returns when the container has three ranges, which the client that was given knows nothing of. */
    private static void splitInThree(CosmosAsyncContainer container) {
        container.replaceThroughput(ThroughputProperties.createManualThroughput(25_000)).block();
        try (CosmosAsyncClient other = new CosmosClientBuilder().endpoint(Armilla.endpoint()).key(Armilla.key()).buildAsyncClient()) {
            CosmosAsyncContainer same = other.getDatabase(container.getDatabase().getId()).getContainer(container.getId());
            Instant deadline = Instant.now().plusSeconds(60);
            while (same.getFeedRanges().block().size() < 3) {
                assertTrue(Instant.now().isBefore(deadline), "the range is not split");
                Mono.delay(Duration.ofMillis(50)).block();
            }
        }
    }

    /** Every kind of request with a warm cache, after its range was split. */
    @Test
    void everythingGoesOnThroughASplit() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(400);
            for (int number = 0; number < 40; number++) {
                Armilla.upsert(container, "p" + number, "i" + number, 1);
            }
            assertEquals(40, query(container, "SELECT * FROM c ORDER BY c.id", 100).size());
            var half = container.queryItems("SELECT * FROM c ORDER BY c.id", JsonNode.class).byPage(15).blockFirst();
            splitInThree(container);
            assertEquals(200, container.readItem("i1", new PartitionKey("p1"), JsonNode.class).block().getStatusCode());
            container.createItem(Armilla.item("q1", "n1", 1), new PartitionKey("q1"), null).block();
            container.patchItem("i2", new PartitionKey("p2"), CosmosPatchOperations.create().set("/version", 2), JsonNode.class).block();
            container.deleteItem("i3", new PartitionKey("p3")).block();
            assertEquals(40, query(container, "SELECT * FROM c", 6).size());
            Set<String> seen = new TreeSet<>();
            Set<String> expected = new TreeSet<>(Set.of("n1"));
            for (int number = 0; number < 40; number++) {
                expected.add("i" + number);
            }
            // It was deleted before its page was asked for.
            expected.remove("i3");
            half.getResults().forEach(row -> seen.add(row.get("id").asText()));
            for (FeedResponse<JsonNode> page : container.queryItems("SELECT * FROM c ORDER BY c.id", JsonNode.class)
                .byPage(half.getContinuationToken(), 15).toIterable()) {
                page.getResults().forEach(row -> assertTrue(seen.add(row.get("id").asText()), "a row twice"));
            }
            assertEquals(expected, seen);
            assertEquals(3, container.getFeedRanges().block().size());
        }
    }

    @Test
    void manyRequestsAtOnce() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(25_000);
            Flux.range(0, 300).flatMap(number ->
                container.upsertItem(Armilla.item("p" + number % 17, "i" + number, number), new PartitionKey("p" + number % 17), null), 100)
                .blockLast();
            long right = Flux.range(0, 300).flatMap(number ->
                container.readItem("i" + number, new PartitionKey("p" + number % 17), ObjectNode.class)
                    .map(answer -> answer.getItem().get("version").asInt() == number), 100)
                .filter(equal -> equal).count().block();
            assertEquals(300, right);
        }
    }

    @Test
    void largeItemsAndHierarchicalKeys() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(400);
            ObjectNode large = Armilla.item("p", "large", 1).put("text", "x".repeat(1_900_000));
            container.createItem(large, new PartitionKey("p"), null).block();
            var read = container.readItem("large", new PartitionKey("p"), ObjectNode.class).block();
            assertEquals(1_900_000, read.getItem().get("text").asText().length());
            ObjectNode larger = Armilla.item("p", "larger", 1).put("text", "x".repeat(2_200_000));
            assertEquals(413, statusOf(() -> container.createItem(larger, new PartitionKey("p"), null).block()));

            PartitionKeyDefinition levels = new PartitionKeyDefinition();
            levels.setPaths(List.of("/tenant", "/pk")).setKind(PartitionKind.MULTI_HASH).setVersion(PartitionKeyDefinitionVersion.V2);
            CosmosAsyncContainer nested = armilla.container(new CosmosContainerProperties("nested", levels), 25_000);
            for (int number = 0; number < 12; number++) {
                ObjectNode item = Armilla.item("u" + number, "i" + number, 1).put("tenant", "t" + number % 3);
                nested.createItem(item, new PartitionKeyBuilder().add("t" + number % 3).add("u" + number).build(), null).block();
            }
            var prefix = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKeyBuilder().add("t1").build());
            assertEquals(4, nested.queryItems("SELECT * FROM c", prefix, JsonNode.class).collectList().block().size());
        }
    }

    @Test
    void usersAndTheirTokens() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(400);
            Armilla.upsert(container, "p", "i", 1);
            armilla.database.createUser(new CosmosUserProperties().setId("mary")).block();
            var user = armilla.database.getUser("mary");
            CosmosPermissionProperties permission = new CosmosPermissionProperties().setId("reads")
                .setPermissionMode(PermissionMode.READ).setContainerName(container.getId());
            user.createPermission(permission, null).block();
            CosmosPermissionProperties read = user.getPermission("reads").read(null).block().getProperties();
            assertNotNull(read.getToken());
            assertEquals(1, user.readAllPermissions().collectList().block().size());
            try (CosmosAsyncClient guest = new CosmosClientBuilder().endpoint(Armilla.endpoint())
                .resourceToken(read.getToken()).buildAsyncClient()) {
                CosmosAsyncContainer seen = guest.getDatabase(armilla.database.getId()).getContainer(container.getId());
                assertEquals(200, seen.readItem("i", new PartitionKey("p"), JsonNode.class).block().getStatusCode());
                assertEquals(403, statusOf(() -> seen.deleteItem("i", new PartitionKey("p")).block()));
            }
            assertFalse(armilla.client.readAllDatabases().collectList().block().isEmpty());
        }
    }
}

package armilla;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The steps of the SDK's quick start: write, read, query, patch, batch, delete. */
class QuickStartTest {
    @Test
    void itemsAreWrittenReadQueriedAndDeleted() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(400);
            PartitionKey key = new PartitionKey("gear");
            assertEquals(201, container.createItem(Armilla.item("gear", "board", 1)).block().getStatusCode());
            var read = container.readItem("board", key, JsonNode.class).block();
            assertEquals(1, read.getItem().get("version").asInt());
            assertTrue(read.getRequestCharge() > 0);

            var patch = CosmosPatchOperations.create().increment("/version", 2).add("/sale", true);
            container.patchItem("board", key, patch, JsonNode.class).block();
            var stale = new CosmosItemRequestOptions().setIfMatchETag(read.getETag());
            var refused = assertThrows(CosmosException.class, () ->
                container.replaceItem(Armilla.item("gear", "board", 9), "board", key, stale).block());
            assertEquals(412, refused.getStatusCode());

            List<JsonNode> rows = container
                .queryItems("SELECT * FROM c WHERE c.version = 3", new CosmosQueryRequestOptions(), JsonNode.class)
                .collectList().block();
            assertEquals(1, rows.size());
            assertTrue(rows.get(0).get("sale").asBoolean());

            CosmosBatch batch = CosmosBatch.createCosmosBatch(key);
            batch.createItemOperation(Armilla.item("gear", "fin", 1));
            batch.deleteItemOperation("board");
            assertTrue(container.executeCosmosBatch(batch).block().isSuccessStatusCode());
            var gone = assertThrows(CosmosException.class, () ->
                container.readItem("board", key, JsonNode.class).block());
            assertEquals(404, gone.getStatusCode());
        }
    }

    @Test
    void ordersAndAggregatesAreMergedOverPartitions() {
        try (Armilla armilla = new Armilla()) {
            CosmosAsyncContainer container = armilla.items(30_000);
            for (int number = 0; number < 12; number++) {
                Armilla.upsert(container, "p" + number, "i", number);
            }
            List<Integer> ordered = container
                .queryItems("SELECT VALUE c.version FROM c ORDER BY c.version DESC", Integer.class)
                .collectList().block();
            assertEquals(List.of(11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), ordered);
            List<Double> sum = container
                .queryItems("SELECT VALUE SUM(c.version) FROM c", Double.class).collectList().block();
            assertEquals(List.of(66.0), sum);
        }
    }
}

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
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.UUID;
import reactor.core.publisher.Flux;

/**
 * A client, and a database of its own that goes with the test. With the property {@code armilla.direct} it is a client
 * as it comes, in Direct mode, which trusts the server's certificate authority; without, it is in Gateway mode.
 */
final class Armilla implements AutoCloseable {
    private static final String PUBLISHED_KEY =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    private static final String PASSWORD = "changeit";

    /** As many as a test has under way at a time. */
    private static final int READS_AT_ONCE = 120;

    final CosmosAsyncClient client;
    final CosmosAsyncDatabase database;

    Armilla() {
        CosmosClientBuilder builder = new CosmosClientBuilder()
            .endpoint(endpoint())
            .key(key())
            .consistencyLevel(ConsistencyLevel.SESSION)
            .contentResponseOnWriteEnabled(true);
        if (Boolean.getBoolean("armilla.direct")) {
            trustAuthority();
        } else {
            builder.gatewayMode();
        }
        client = builder.buildAsyncClient();
        String name = "java-" + UUID.randomUUID();
        client.createDatabase(name).block();
        database = client.getDatabase(name);
    }

    /** Puts the authority that the server hands out into a trust store, as its users do. */
    private static synchronized void trustAuthority() {
        if (System.getProperty("javax.net.ssl.trustStore") != null) {
            return;
        }
        String pem = endpoint().replaceFirst("^https:", "http:") + "_explorer/emulator.pem";
        try (InputStream in = URI.create(pem).toURL().openStream()) {
            KeyStore store = KeyStore.getInstance("PKCS12");
            store.load(null, null);
            store.setCertificateEntry("armilla", CertificateFactory.getInstance("X.509").generateCertificate(in));
            Path file = Files.createTempFile("armilla", ".p12");
            file.toFile().deleteOnExit();
            try (OutputStream out = Files.newOutputStream(file)) {
                store.store(out, PASSWORD.toCharArray());
            }
            System.setProperty("javax.net.ssl.trustStore", file.toString());
            System.setProperty("javax.net.ssl.trustStorePassword", PASSWORD);
            System.setProperty("javax.net.ssl.trustStoreType", "PKCS12");
        } catch (IOException | GeneralSecurityException error) {
            throw new IllegalStateException("the authority of " + pem + " cannot be trusted", error);
        }
    }

    static String endpoint() {
        return setting("ARMILLA_ENDPOINT", "http://localhost:8081/");
    }

    static String key() {
        return setting("ARMILLA_KEY", PUBLISHED_KEY);
    }

    private static String setting(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    CosmosAsyncContainer container(CosmosContainerProperties properties, int throughput) {
        database.createContainer(properties, ThroughputProperties.createManualThroughput(throughput)).block();
        CosmosAsyncContainer container = database.getContainer(properties.getId());
        if (Boolean.getBoolean("armilla.direct")) {
            openChannels(container);
        }
        return container;
    }

    /**
     * Has the client open as many channels as its tests use, with requests that it repeats by itself.
     *
     * <p>The SDK's channel pool ({@code RntbdClientChannelPool.notifyChannelConnect}, 4.74 to 4.81) hands out a new channel
     * before it has noted it as acquired. If the receiver is faster than that note, the pool takes the channel for a
     * stranger's and closes it ("cannot be released because it was not acquired by this pool") with the request on it. The
     * SDK sends reads again; a write that may have reached the server ends with 408. Only the first request of a new
     * channel can meet this.
     */
    private static void openChannels(CosmosAsyncContainer container) {
        Flux.range(0, READS_AT_ONCE)
            .flatMap(number -> container.queryItems("SELECT VALUE 1 FROM c WHERE false", Integer.class).collectList(), READS_AT_ONCE)
            .blockLast();
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

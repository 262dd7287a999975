package armilla;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The Java snippet of docs/sdks/java.md: the client as it comes, in Direct mode, with the certificate trusted. */
class PageTest {
    private static final Pattern SNIPPET = Pattern.compile("^```java\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);

    @Test
    void theSnippetOfThePageRuns(@TempDir Path folder) throws Exception {
        try (Armilla armilla = new Armilla()) {
            var found = SNIPPET.matcher(Files.readString(Path.of("../../docs/sdks/java.md")));
            assertTrue(found.find(), "the page has a snippet in Java");
            String program = """
                import com.azure.cosmos.CosmosClient;
                import com.azure.cosmos.CosmosClientBuilder;

                public class Page {
                    private static final String KEY = "%s";

                    public static void main(String[] arguments) {
                        %s
                        System.out.println(client.getDatabase("blog").read().getProperties().getId());
                        client.close();
                    }
                }
                """.formatted(Armilla.key(), found.group(1))
                .replace("https://localhost:8081/", Armilla.endpoint())
                .replace("\"blog\"", "\"" + armilla.database.getId() + "\"");
            assertEquals(armilla.database.getId(), GuideTest.run("Page", program, folder).strip());
        }
    }
}

package armilla;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The Java snippet of docs/guide.md, compiled and run as it is printed. */
class GuideTest {
    private static final Pattern SNIPPET = Pattern.compile("^```java\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);

    @Test
    void theSnippetOfTheGuideRuns(@TempDir Path folder) throws Exception {
        try (Armilla armilla = new Armilla()) {
            var posts = armilla.container(new CosmosContainerProperties("posts", "/postId"), 400);
            var post = JsonNodeFactory.instance.objectNode().put("id", "p1").put("postId", "p1").put("title", "Rings");
            posts.upsertItem(post, new PartitionKey("p1"), null).block();

            String program = snippet()
                .replace("http://localhost:8081/", Armilla.endpoint().replaceFirst("^https:", "http:"))
                .replace("\"blog\"", "\"" + armilla.database.getId() + "\"");
            assertEquals("Rings", run("Guide", program, folder).strip());
        }
    }

    private static String snippet() throws Exception {
        var found = SNIPPET.matcher(Files.readString(Path.of("../../docs/guide.md")));
        assertTrue(found.find(), "the guide has a snippet in Java");
        String text = found.group(1);
        assertTrue(!found.find(), "and only one");
        return text;
    }

    /** What the program prints; its class has this name. */
    static String run(String name, String program, Path folder) throws Exception {
        Path source = folder.resolve(name + ".java");
        Files.writeString(source, program);
        // The test runner hides the class path in a jar and tells it here.
        String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        var errors = new ByteArrayOutputStream();
        int compiled = ToolProvider.getSystemJavaCompiler()
            .run(null, null, errors, "-cp", classes, "-d", folder.toString(), source.toString());
        assertEquals(0, compiled, errors.toString(StandardCharsets.UTF_8));
        var printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        try (var loader = new URLClassLoader(new URL[] {folder.toUri().toURL()}, GuideTest.class.getClassLoader())) {
            System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
            loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) new String[0]);
        } finally {
            System.setOut(before);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}

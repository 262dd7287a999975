import java.io.FileWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.testng.IConfigurationListener;
import org.testng.ITestListener;
import org.testng.ITestResult;

/**
 * Writes one line per test of Microsoft's Java suite, and per set-up that failed (its tests are then skipped): verdict, mode of the client
 * under test, class and method, the first line of what went wrong. The suite runs most classes once in Gateway and several times in Direct mode, and its own reports do
 * not tell which. The file is named by the property {@code tally.file}.
 */
public class Tally implements ITestListener, IConfigurationListener {
    @Override
    public void onTestSuccess(ITestResult result) {
        write("pass", result);
    }

    @Override
    public void onTestFailure(ITestResult result) {
        write("fail", result);
    }

    @Override
    public void onTestSkipped(ITestResult result) {
        // What is tried again is told when it is over.
        if (!result.wasRetried()) {
            write("skip", result);
        }
    }

    @Override
    public void onConfigurationFailure(ITestResult result) {
        write("fail", result);
    }

    private static synchronized void write(String verdict, ITestResult result) {
        Object instance = result.getInstance();
        String name = result.getTestClass().getRealClass().getSimpleName() + "." + result.getMethod().getMethodName();
        String reason = result.getThrowable() == null ? "" : String.valueOf(result.getThrowable()).lines().findFirst().orElse("");
        try (FileWriter out = new FileWriter(System.getProperty("tally.file"), true)) {
            out.write(String.join("\t", verdict, mode(instance), name, reason) + "\n");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** The connection mode of the instance's client builder; tests that make their clients themselves have none. */
    private static String mode(Object instance) {
        if (instance == null) {
            return "none";
        }
        for (Class<?> type = instance.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (!field.getType().getSimpleName().equals("CosmosClientBuilder") && !field.getType().getSimpleName().equals("Builder")) {
                    continue;
                }
                try {
                    field.setAccessible(true);
                    Object builder = field.get(instance);
                    Object policy = builder == null ? null : call(builder, "getConnectionPolicy");
                    if (policy != null) {
                        return String.valueOf(call(policy, "getConnectionMode")).toLowerCase();
                    }
                } catch (ReflectiveOperationException unknown) {
                    // Another builder.
                }
            }
        }
        return "none";
    }

    private static Object call(Object target, String name) throws ReflectiveOperationException {
        Method method = target.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(target);
    }
}

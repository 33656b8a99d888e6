import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** What one recipe has done, and what went wrong: printed as one line of JSON. */
final class Report {
    private final String name;
    final AtomicInteger turns = new AtomicInteger();
    final AtomicInteger interrupted = new AtomicInteger();
    private final List<String> broken = new ArrayList<>();
    private String lastInterruption = "";

    Report(String name) {
        this.name = name;
    }

    /** A promise was not kept. */
    synchronized void broken(String format, Object... values) {
        if (broken.size() < 10) {
            broken.add(String.format(format, values));
        }
    }

    void require(boolean holds, String format, Object... values) {
        if (!holds) {
            broken(format, values);
        }
    }

    synchronized void interrupted(Exception error) {
        interrupted.incrementAndGet();
        lastInterruption = error.toString();
    }

    synchronized void print() {
        List<String> quoted = new ArrayList<>();
        for (String each : broken) {
            quoted.add(quote(each));
        }
        Recipes.tell("{\"recipe\": %s, \"turns\": %d, \"interrupted\": %d, \"last\": %s, \"broken\": [%s]}",
                quote(name), turns.get(), interrupted.get(), quote(lastInterruption), String.join(", ", quoted));
    }

    private static String quote(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
    }
}

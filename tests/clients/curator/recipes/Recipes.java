import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * All recipes of Curator at once, in three sessions, until stdin is closed; then each is checked.
 *
 * Lines of JSON go to stdout: {"event": "ready"}; {"op": "transaction", "outcome": "ok", "ended": MS} for each acknowledged transaction;
 * at the end one line for each recipe (Report), and {"event": "end"}.
 */
public final class Recipes {
    static final int MEMBERS = 3;
    private static final int END_SECONDS = 60;

    private record Use(Recipe recipe, Report report) {}

    private final List<Member> members = new ArrayList<>();
    private final List<Use> uses = new ArrayList<>();
    private volatile boolean isOver;

    public static void main(String[] arguments) throws Exception {
        new Recipes().run(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
        System.exit(0); // threads of a recipe may stand in a wait
    }

    private void run(String hosts, String root, int sessionMs) throws Exception {
        for (int number = 0; number < MEMBERS; number++) {
            members.add(new Member(hosts, sessionMs));
        }
        Locks.add(this, root + "/locks");
        Elections.add(this, root + "/elections");
        Barriers.add(this, root + "/barriers");
        Queues.add(this, root + "/queues");
        Counters.add(this, root + "/counters");
        Caches.add(this, root + "/caches");
        Presence.add(this, root + "/presence");
        Transactions.add(this, root + "/transactions");

        ExecutorService threads = Executors.newCachedThreadPool();
        for (Use use : uses) {
            threads.execute(() -> takeTurns(use));
        }
        tell("{\"event\": \"ready\"}");
        System.in.transferTo(OutputStream.nullOutputStream());
        isOver = true;
        threads.shutdown();
        if (!threads.awaitTermination(END_SECONDS, TimeUnit.SECONDS)) {
            tell("{\"event\": \"stuck\"}");
            Thread.getAllStackTraces().forEach((thread, trace) -> {
                if (thread.getName().startsWith("pool")) {
                    System.err.println(thread.getName() + " " + List.of(trace));
                }
            });
        }
        for (Use use : uses) {
            use.recipe.check(use.report);
        }
        for (Use use : uses) {
            use.report.print();
        }
        for (Use use : uses) {
            use.recipe.close();
        }
        for (Member member : members) {
            member.close();
        }
        tell("{\"event\": \"end\"}");
    }

    /** A recipe whose turns a thread of its own takes. */
    void use(String name, RecipeMaker maker) throws Exception {
        Report report = new Report(name);
        uses.add(new Use(maker.make(report), report));
    }

    Member member(int number) {
        return members.get(number);
    }

    /** Operations that may have happened twice, in one thread of each member. */
    int losses() {
        return members.stream().mapToInt(member -> member.losses.get()).sum();
    }

    boolean isOver() {
        return isOver;
    }

    private void takeTurns(Use use) {
        while (!isOver) {
            try {
                use.recipe.turn();
                use.report.turns.incrementAndGet();
            } catch (Exception error) {
                use.report.interrupted(error);
            }
        }
    }

    interface RecipeMaker {
        Recipe make(Report report) throws Exception;
    }

    static synchronized void tell(String format, Object... values) {
        System.out.println(String.format(format, values));
    }
}

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Barriers that nobody passes too early. */
final class Barriers {
    private static final int WAIT_SECONDS = 5;

    private Barriers() {}

    static void add(Recipes recipes, String root) throws Exception {
        addBarrier(recipes, root + "/single");
        addDoubleBarrier(recipes, root + "/double");
    }

    /** One member sets the barrier and takes it away; another one waits at it. */
    private static void addBarrier(Recipes recipes, String root) throws Exception {
        CuratorFramework setter = recipes.member(0).client;
        CuratorFramework waiter = recipes.member(1).client;
        AtomicInteger rounds = new AtomicInteger();
        recipes.use("DistributedBarrier", report -> () -> {
            String path = root + "/" + rounds.incrementAndGet();
            DistributedBarrier set = new DistributedBarrier(setter, path);
            boolean[] isRemoved = {false};
            int before = recipes.losses();
            set.setBarrier();
            waiter.sync().forPath(path);
            Thread waiting = new Thread(() -> {
                try {
                    new DistributedBarrier(waiter, path).waitOnBarrier();
                    synchronized (isRemoved) {
                        // Curator's sync is asynchronous: after a lost connection the waiter may look before it.
                        report.require(isRemoved[0] || recipes.losses() != before, "a barrier was passed while it was there");
                    }
                } catch (Exception error) {
                    report.interrupted(error);
                }
            });
            waiting.start();
            setter.checkExists().forPath("/");
            synchronized (isRemoved) {
                isRemoved[0] = true;
            }
            set.removeBarrier();
            waiting.join(TimeUnit.SECONDS.toMillis(6 * WAIT_SECONDS));
            report.require(!waiting.isAlive(), "a client still waits at a barrier that is gone");
        });
    }

    /**
     * A round in which no connection was lost is judged: all were in before one got on, and all but one wanted out before one was out. Each
     * member has its thread, and they begin a round together, at a new path.
     *
     * Curator waits for the last one to leave as well, but not surely, with any server: DistributedDoubleBarrier.internalLeave looks again at
     * any event of its watcher, the late one of enter's watch of `ready` among them, and is out once a single member is left.
     */
    private static void addDoubleBarrier(Recipes recipes, String root) throws Exception {
        Meeting together = new Meeting(recipes);
        AtomicInteger[] came = {new AtomicInteger(), new AtomicInteger()};
        AtomicInteger[] left = {new AtomicInteger(), new AtomicInteger()};
        for (int number = 0; number < Recipes.MEMBERS; number++) {
            CuratorFramework client = recipes.member(number).client;
            int[] round = {0};
            recipes.use("DistributedDoubleBarrier", report -> () -> {
                if (!together.await()) {
                    return;
                }
                int mine = ++round[0];
                int before = recipes.losses();
                try {
                    DistributedDoubleBarrier barrier =
                            new DistributedDoubleBarrier(client, root + "/" + mine, Recipes.MEMBERS);
                    came[mine % 2].incrementAndGet();
                    boolean isIn = barrier.enter(WAIT_SECONDS, TimeUnit.SECONDS);
                    int here = came[mine % 2].get();
                    left[mine % 2].incrementAndGet();
                    boolean isOut = barrier.leave(WAIT_SECONDS, TimeUnit.SECONDS);
                    int gone = left[mine % 2].get();
                    if (isIn && isOut && recipes.losses() == before) {
                        report.require(here == Recipes.MEMBERS, "one got on with %d inside", here);
                        report.require(gone >= Recipes.MEMBERS - 1, "one was out when %d wanted to", gone);
                    } else {
                        throw new IllegalStateException("a connection was lost in the round");
                    }
                } finally {
                    if (together.await()) {
                        came[mine % 2].set(0);
                        left[mine % 2].set(0);
                    }
                }
            });
        }
    }

    /** All threads of the members meet here before a round and after it; at the end they do not wait for those that have ended. */
    private static final class Meeting {
        private static final int POLL_MS = 100;

        private final Recipes recipes;
        private int arrived;
        private int meetings;

        Meeting(Recipes recipes) {
            this.recipes = recipes;
        }

        /** False if it is over. */
        synchronized boolean await() throws InterruptedException {
            int before = meetings;
            arrived++;
            if (arrived == Recipes.MEMBERS) {
                arrived = 0;
                meetings++;
                notifyAll();
            }
            while (meetings == before) {
                if (recipes.isOver()) {
                    return false;
                }
                wait(POLL_MS);
            }
            return true;
        }
    }
}

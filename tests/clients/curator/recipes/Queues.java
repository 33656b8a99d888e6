import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.data.Stat;

/** Queues from one client to others. Curator's repetitions after a lost connection may put an item in twice, with any server. */
final class Queues {
    private static final int WAIT_SECONDS = 30;
    private static final int AHEAD = 10;

    private Queues() {}

    static void add(Recipes recipes, String root) throws Exception {
        addQueue(recipes, root + "/queue");
        addSimple(recipes, root + "/simple");
    }

    /**
     * With a path for locks, an item whose consumer fails stays: none is lost.
     *
     * One may be stuck, with any server: the lock was made, and the answer lost; Curator makes it again, takes its own lock for that of
     * another consumer, and leaves it (DistributedQueue.processWithLockSafety). The item is in the queue, and its lock goes with the session.
     */
    private static void addQueue(Recipes recipes, String root) throws Exception {
        Items items = new Items();
        CuratorFramework producer = recipes.member(0).client;
        DistributedQueue<String> queue = QueueBuilder.builder(producer, null, new Texts(), root)
                .lockPath(root + "-locks").buildQueue();
        queue.start();
        for (int number = 1; number < Recipes.MEMBERS; number++) {
            QueueBuilder.builder(recipes.member(number).client, new Consumer(items), new Texts(), root)
                    .lockPath(root + "-locks").buildQueue().start();
        }
        recipes.use("DistributedQueue", report -> new Recipe() {
            @Override
            public void turn() throws Exception {
                queue.put(items.next());
                items.await(AHEAD);
            }

            @Override
            public void check(Report report) throws Exception {
                report.require(queue.flushPuts(WAIT_SECONDS, TimeUnit.SECONDS), "items were not put for %d s", WAIT_SECONDS);
                items.await(0);
                // The lock of an item is an ephemeral, and its consumer goes on to the next one only after the item is deleted.
                int stuck = countStuck();
                if (stuck > 0) {
                    report.interrupted(new IllegalStateException(stuck + " items are stuck behind a lock of their own consumer"));
                }
                int lost = recipes.member(1).losses.get() + recipes.member(2).losses.get();
                report.require(stuck <= lost, "%d items are stuck, and %d connections were lost", stuck, lost);
                items.check(report, stuck, recipes.losses() * Recipes.MEMBERS);
            }

            /** Items in the queue whose lock is held by a consumer that lives. */
            private int countStuck() throws Exception {
                Set<Long> consumers = new HashSet<>();
                for (int number = 1; number < Recipes.MEMBERS; number++) {
                    consumers.add(recipes.member(number).client.getZookeeperClient().getZooKeeper().getSessionId());
                }
                int found = 0;
                for (String name : producer.getChildren().forPath(root)) {
                    Stat lock = producer.checkExists().forPath(root + "-locks/" + name);
                    found += lock != null && consumers.contains(lock.getEphemeralOwner()) ? 1 : 0;
                }
                return found;
            }
        });
    }

    /** A delete that was done, and whose answer was lost, is an item that is not handed out: one for each lost connection at most. */
    private static void addSimple(Recipes recipes, String root) throws Exception {
        Items items = new Items();
        SimpleDistributedQueue offering = new SimpleDistributedQueue(recipes.member(0).client, root);
        SimpleDistributedQueue taking = new SimpleDistributedQueue(recipes.member(1).client, root);
        int[] newest = {0};
        recipes.use("SimpleDistributedQueue", report -> new Recipe() {
            @Override
            public void turn() throws Exception {
                offering.offer(items.next().getBytes(StandardCharsets.UTF_8));
                take();
            }

            private boolean take() throws Exception {
                byte[] item = taking.poll(1, TimeUnit.SECONDS);
                if (item == null) {
                    return false;
                }
                int number = Integer.parseInt(new String(item, StandardCharsets.UTF_8));
                report.require(number >= newest[0], "%d came after %d", number, newest[0]);
                newest[0] = number;
                items.took(Integer.toString(number));
                return true;
            }

            @Override
            public void check(Report report) throws Exception {
                while (take()) {
                    continue;
                }
                items.check(report, recipes.member(1).losses.get(), recipes.member(0).losses.get());
            }
        });
    }

    /** Items that were put, and how often each has come. */
    private static final class Items {
        private final AtomicInteger put = new AtomicInteger();
        private final Map<String, AtomicInteger> taken = new ConcurrentHashMap<>();

        String next() {
            return Integer.toString(put.incrementAndGet());
        }

        void took(String item) {
            taken.computeIfAbsent(item, ignored -> new AtomicInteger()).incrementAndGet();
        }

        /** Returns once so many are under way at most, or after a while. */
        void await(int ahead) throws InterruptedException {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
            while (put.get() - taken.size() > ahead && System.nanoTime() < deadline) {
                Thread.sleep(1);
            }
        }

        void check(Report report, int missingMost, int doubledMost) {
            int missing = put.get() - taken.size();
            int doubled = taken.values().stream().mapToInt(AtomicInteger::get).sum() - taken.size();
            report.require(missing <= missingMost, "%d of %d items were lost", missing, put.get());
            report.require(doubled <= doubledMost, "%d items of %d came again", doubled, put.get());
        }
    }

    private static final class Consumer implements QueueConsumer<String> {
        private final Items items;

        Consumer(Items items) {
            this.items = items;
        }

        @Override
        public void consumeMessage(String item) {
            items.took(item);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private static final class Texts implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }
}

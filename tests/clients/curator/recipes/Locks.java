import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Locks around a counter that is read and written without a version: an update that is lost is a section that was shared. */
final class Locks {
    private static final int WAIT_SECONDS = 30;
    private static final int LEASES = 2;

    private Locks() {}

    static void add(Recipes recipes, String root) throws Exception {
        addLock(recipes, "InterProcessMutex", root + "/mutex", InterProcessMutex::new);
        addLock(recipes, "InterProcessSemaphoreMutex", root + "/semaphore-mutex", InterProcessSemaphoreMutex::new);
        addLock(recipes, "InterProcessMultiLock", root + "/multi",
                (client, path) -> new InterProcessMultiLock(client, List.of(path + "-1", path + "-2")));
        addReadWrite(recipes, root + "/read-write");
        addSemaphore(recipes, root + "/semaphore");
    }

    private interface LockMaker {
        InterProcessLock make(CuratorFramework client, String path);
    }

    private static void addLock(Recipes recipes, String name, String root, LockMaker maker) throws Exception {
        Counter counter = new Counter(recipes.member(0).client, root + "-counter");
        for (int number = 0; number < 2; number++) {
            CuratorFramework client = recipes.member(number).client;
            InterProcessLock lock = maker.make(client, root);
            recipes.use(name, report -> new Recipe() {
                @Override
                public void turn() throws Exception {
                    if (!lock.acquire(WAIT_SECONDS, TimeUnit.SECONDS)) {
                        throw new IllegalStateException("waited " + WAIT_SECONDS + " s");
                    }
                    try {
                        counter.add(client, report);
                    } finally {
                        lock.release();
                    }
                }

                @Override
                public void check(Report report) throws Exception {
                    counter.check(report);
                }
            });
        }
    }

    /** Writers exclude each other and the readers, who see the counter stand still. */
    private static void addReadWrite(Recipes recipes, String root) throws Exception {
        Counter counter = new Counter(recipes.member(0).client, root + "-counter");
        for (int number = 0; number < Recipes.MEMBERS; number++) {
            boolean isWriter = number < 2;
            CuratorFramework client = recipes.member(number).client;
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, root);
            recipes.use("InterProcessReadWriteLock", report -> new Recipe() {
                @Override
                public void turn() throws Exception {
                    InterProcessMutex side = isWriter ? lock.writeLock() : lock.readLock();
                    if (!side.acquire(WAIT_SECONDS, TimeUnit.SECONDS)) {
                        throw new IllegalStateException("waited " + WAIT_SECONDS + " s");
                    }
                    try {
                        if (isWriter) {
                            counter.add(client, report);
                        } else {
                            int before = counter.inside.get();
                            client.checkExists().forPath("/");
                            report.require(before == 0 && counter.inside.get() == 0, "a writer was beside a reader");
                        }
                    } finally {
                        side.release();
                    }
                }

                @Override
                public void check(Report report) throws Exception {
                    counter.check(report);
                }
            });
        }
    }

    private static void addSemaphore(Recipes recipes, String root) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        for (int number = 0; number < Recipes.MEMBERS; number++) {
            CuratorFramework client = recipes.member(number).client;
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, root, LEASES);
            recipes.use("InterProcessSemaphoreV2", report -> () -> {
                Lease lease = semaphore.acquire(WAIT_SECONDS, TimeUnit.SECONDS);
                if (lease == null) {
                    throw new IllegalStateException("waited " + WAIT_SECONDS + " s");
                }
                try {
                    report.require(inside.incrementAndGet() <= LEASES, "more than %d had a lease", LEASES);
                    client.checkExists().forPath("/");
                } finally {
                    inside.decrementAndGet();
                    semaphore.returnLease(lease);
                }
            });
        }
    }

    /** A znode with a number. */
    private static final class Counter {
        private final CuratorFramework client;
        private final String path;
        private final AtomicInteger added = new AtomicInteger();
        final AtomicInteger inside = new AtomicInteger();

        Counter(CuratorFramework client, String path) throws Exception {
            this.client = client;
            this.path = path;
            client.create().creatingParentsIfNeeded().forPath(path, new byte[] {'0'});
        }

        void add(CuratorFramework client, Report report) throws Exception {
            report.require(inside.incrementAndGet() == 1, "two had the lock");
            try {
                int value = read(client);
                client.setData().forPath(path, Integer.toString(value + 1).getBytes(StandardCharsets.UTF_8));
                added.incrementAndGet();
            } finally {
                inside.decrementAndGet();
            }
        }

        void check(Report report) throws Exception {
            client.sync().forPath(path);
            int value = read(client);
            report.require(value == added.get(), "%d sections left a counter of %d", added.get(), value);
        }

        private int read(CuratorFramework client) throws Exception {
            return Integer.parseInt(new String(client.getData().forPath(path), StandardCharsets.UTF_8));
        }
    }
}

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryForever;

/** Counters that several clients raise at once. A repetition after a lost connection may count twice, with any server; never less. */
final class Counters {
    private static final int RETRY_MS = 5;

    private Counters() {}

    static void add(Recipes recipes, String root) throws Exception {
        AtomicInteger added = new AtomicInteger();
        for (int number = 0; number < 2; number++) {
            CuratorFramework client = recipes.member(number).client;
            DistributedAtomicLong counter = new DistributedAtomicLong(client, root + "/atomic", new RetryForever(RETRY_MS));
            recipes.use("DistributedAtomicLong", report -> new Recipe() {
                @Override
                public void turn() throws Exception {
                    AtomicValue<Long> value = counter.increment();
                    report.require(value.succeeded(), "an increment was given up");
                    report.require(value.postValue() == value.preValue() + 1, "%d after %d", value.postValue(), value.preValue());
                    added.incrementAndGet();
                }

                @Override
                public void check(Report report) throws Exception {
                    client.sync().forPath(root + "/atomic");
                    checkTotal(report, counter.get().postValue(), added.get(), recipes.losses());
                }
            });
        }
        AtomicInteger set = new AtomicInteger();
        for (int number = 0; number < 2; number++) {
            CuratorFramework client = recipes.member(number).client;
            SharedCount count = new SharedCount(client, root + "/shared", 0);
            count.start();
            recipes.use("SharedCount", report -> new Recipe() {
                @Override
                public void turn() throws Exception {
                    if (count.trySetCount(count.getVersionedValue(), count.getCount() + 1)) {
                        set.incrementAndGet();
                    }
                }

                @Override
                public void check(Report report) throws Exception {
                    client.sync().forPath(root + "/shared");
                    int value = java.nio.ByteBuffer.wrap(client.getData().forPath(root + "/shared")).getInt();
                    checkTotal(report, value, set.get(), recipes.losses());
                }

                @Override
                public void close() throws Exception {
                    count.close();
                }
            });
        }
    }

    private static void checkTotal(Report report, long value, int added, int losses) {
        report.require(added <= value && value <= added + losses, "%d increments and %d lost connections made %d", added, losses, value);
    }
}

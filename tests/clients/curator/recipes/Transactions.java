import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.zookeeper.KeeperException;

/** Transactions that make a znode and set two others: the writes whose times are printed. */
final class Transactions {
    private Transactions() {}

    static void add(Recipes recipes, String root) throws Exception {
        CuratorFramework client = recipes.member(0).client;
        client.create().creatingParentsIfNeeded().forPath(root + "/one", bytes(0));
        client.create().forPath(root + "/other", bytes(0));
        client.create().forPath(root + "/made");
        AtomicInteger done = new AtomicInteger();
        recipes.use("transaction", report -> new Recipe() {
            @Override
            public void turn() throws Exception {
                int number = done.get() + 1;
                List<CuratorOp> operations = List.of(
                        client.transactionOp().create().forPath(root + "/made/" + number),
                        client.transactionOp().setData().withVersion(number - 1).forPath(root + "/one", bytes(number)),
                        client.transactionOp().setData().forPath(root + "/other", bytes(number)));
                try {
                    client.transaction().forOperations(operations);
                } catch (KeeperException.NodeExistsException error) {
                    // Its repetition has found that it was done before the connection was lost.
                    report.interrupted(error);
                }
                done.set(number);
                Recipes.tell("{\"op\": \"transaction\", \"outcome\": \"ok\", \"ended\": %d}", System.currentTimeMillis());
            }

            @Override
            public void check(Report report) throws Exception {
                client.sync().forPath(root);
                int made = client.getChildren().forPath(root + "/made").size();
                int one = read(client, root + "/one");
                int other = read(client, root + "/other");
                int version = client.checkExists().forPath(root + "/one").getVersion();
                report.require(made == done.get() && one == done.get() && other == done.get() && version == done.get(),
                        "%d transactions: %d made, %d and %d, version %d", done.get(), made, one, other, version);
                report.require(report.interrupted.get() <= recipes.losses(),
                        "%d were said to be there before, with %d lost connections", report.interrupted.get(), recipes.losses());
            }
        });
        // The watcher of the parts: both are set together, or not at all.
        CuratorFramework reader = recipes.member(1).client;
        recipes.use("transaction, seen by a reader", report -> () -> {
            int other = read(reader, root + "/other");
            int one = read(reader, root + "/one");
            report.require(other <= one, "the second part was seen without the first: %d, %d", other, one);
        });
    }

    private static int read(CuratorFramework client, String path) throws Exception {
        return Integer.parseInt(new String(client.getData().forPath(path), StandardCharsets.UTF_8));
    }

    private static byte[] bytes(int number) {
        return Integer.toString(number).getBytes(StandardCharsets.UTF_8);
    }
}

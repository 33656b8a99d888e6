import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.zookeeper.KeeperException;

/**
 * Caches of a tree that another client changes: once it rests, each has what is there.
 *
 * A CuratorCache has one recursive watch, the others have many that fire once. Servers must keep both kinds apart when they are of one
 * session and on one znode. ZooKeeper 3.8 does not (ZOOKEEPER-4466, mended in 3.9), so one CuratorCache has a session without the others.
 */
final class Caches {
    private static final int WAIT_SECONDS = 30;
    private static final int PARENTS = 3;
    private static final int CHILDREN = 5;

    private Caches() {}

    static void add(Recipes recipes, String root) throws Exception {
        CuratorFramework writer = recipes.member(0).client;
        writer.create().creatingParentsIfNeeded().forPath(root + "/0");
        recipes.use("tree for caches", report -> new Writer(writer, root));

        CuratorFramework reader = recipes.member(1).client;
        addCuratorCache(recipes, "CuratorCache", recipes.member(2).client, root);
        addCuratorCache(recipes, "CuratorCache beside other caches", reader, root);
        TreeCache tree = new TreeCache(reader, root);
        tree.start();
        addCache(recipes, "TreeCache", reader, root, tree, () -> {
            Map<String, String> found = new TreeMap<>();
            collect(tree, root, found);
            return found;
        }, () -> read(reader, root));
        PathChildrenCache children = new PathChildrenCache(reader, root + "/0", true);
        children.start();
        addCache(recipes, "PathChildrenCache", reader, root, children, () -> {
            Map<String, String> found = new TreeMap<>();
            children.getCurrentData().forEach(each -> found.put(each.getPath(), text(each.getData())));
            return found;
        }, () -> {
            Map<String, String> there = read(reader, root + "/0");
            there.remove(root + "/0"); // no part of it
            return there;
        });
        NodeCache node = new NodeCache(reader, root + "/0");
        node.start();
        addCache(recipes, "NodeCache", reader, root, node, () -> {
            ChildData data = node.getCurrentData();
            return data == null ? Map.of() : Map.of(data.getPath(), text(data.getData()));
        }, () -> Map.of(root + "/0", text(reader.getData().forPath(root + "/0"))));
    }

    private static void addCuratorCache(Recipes recipes, String name, CuratorFramework client, String root) throws Exception {
        CuratorCache cache = CuratorCache.build(client, root);
        cache.start();
        addCache(recipes, name, client, root, cache, () -> {
            Map<String, String> found = new TreeMap<>();
            cache.stream().forEach(each -> found.put(each.getPath(), text(each.getData())));
            return found;
        }, () -> read(client, root));
    }

    private interface Content {
        Map<String, String> read() throws Exception;
    }

    private static void addCache(
            Recipes recipes, String name, CuratorFramework client, String root, AutoCloseable cache, Content content, Content truth)
            throws Exception {
        recipes.use(name, report -> new Recipe() {
            /** Only that it answers while the tree changes. */
            @Override
            public void turn() throws Exception {
                content.read();
                Thread.sleep(5);
            }

            @Override
            public void check(Report report) throws Exception {
                client.sync().forPath(root);
                Map<String, String> there = truth.read();
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
                while (!content.read().equals(there)) {
                    if (System.nanoTime() > deadline) {
                        report.broken("it has %s, and there is %s", content.read(), there);
                        return;
                    }
                    Thread.sleep(5);
                }
            }

            @Override
            public void close() throws Exception {
                cache.close();
            }
        });
    }

    /** Makes, sets and deletes znodes. */
    private static final class Writer implements Recipe {
        private final CuratorFramework client;
        private final String root;
        private final RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(1);
        private int number;

        Writer(CuratorFramework client, String root) {
            this.client = client;
            this.root = root;
        }

        @Override
        public void turn() throws Exception {
            String parent = root + "/" + random.nextInt(PARENTS);
            String child = parent + "/" + random.nextInt(CHILDREN);
            byte[] data = Integer.toString(++number).getBytes(StandardCharsets.UTF_8);
            switch (random.nextInt(4)) {
                case 0 -> client.delete().quietly().forPath(child);
                case 1 -> setIfThere(parent, data);
                default -> client.create().orSetData().creatingParentsIfNeeded().forPath(child, data);
            }
        }

        private void setIfThere(String path, byte[] data) throws Exception {
            try {
                client.setData().forPath(path, data);
            } catch (KeeperException.NoNodeException error) {
                client.create().orSetData().forPath(path, data);
            }
        }
    }

    private static void collect(TreeCache tree, String path, Map<String, String> found) {
        ChildData data = tree.getCurrentData(path);
        if (data == null) {
            return;
        }
        found.put(path, text(data.getData()));
        Map<String, ChildData> children = tree.getCurrentChildren(path);
        if (children != null) {
            children.keySet().forEach(name -> collect(tree, path + "/" + name, found));
        }
    }

    private static Map<String, String> read(CuratorFramework client, String path) throws Exception {
        Map<String, String> found = new TreeMap<>();
        found.put(path, text(client.getData().forPath(path)));
        for (String name : client.getChildren().forPath(path)) {
            found.putAll(read(client, path + "/" + name));
        }
        return found;
    }

    private static String text(byte[] data) {
        return data == null ? "" : new String(data, StandardCharsets.UTF_8);
    }
}

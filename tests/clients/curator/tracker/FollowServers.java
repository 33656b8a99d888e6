import java.io.OutputStream;
import java.util.TreeSet;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;

/**
 * A client of Curator that is told of some servers, follows the list of all of them, and writes to any that it knows.
 *
 * Prints {"event": "servers", "listed": "...", "known": "..."} whenever one of the two changes: addresses on /zookeeper/config as
 * Curator has parsed it, and its connection string; {"op": "create", "outcome": "ok", "ended": MS} for each write.
 */
public final class FollowServers {
    private static final int RETRY_MS = 50;
    private static final int CONNECT_MS = 5_000;
    private static final int POLL_MS = 5;

    private static volatile boolean isOver;

    private FollowServers() {}

    public static void main(String[] arguments) throws Exception {
        String root = arguments[1];
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(arguments[0])
                .sessionTimeoutMs(Integer.parseInt(arguments[2]))
                .connectionTimeoutMs(CONNECT_MS)
                .retryPolicy(new RetryForever(RETRY_MS))
                .build();
        client.start();
        client.create().creatingParentsIfNeeded().forPath(root);
        Thread showing = new Thread(() -> show(client));
        showing.setDaemon(true);
        showing.start();
        Thread input = new Thread(FollowServers::waitForEnd);
        input.start();
        tell("{\"event\": \"ready\"}");
        while (!isOver) {
            client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(root + "/e-");
            tell("{\"op\": \"create\", \"outcome\": \"ok\", \"ended\": %d}", System.currentTimeMillis());
        }
        client.close();
        tell("{\"event\": \"end\"}");
        System.exit(0);
    }

    private static void show(CuratorFramework client) {
        String shown = "";
        while (true) {
            TreeSet<String> listed = new TreeSet<>();
            for (QuorumServer server : client.getCurrentConfig().getAllMembers().values()) {
                listed.add(server.clientAddr.getAddress().getHostAddress() + ":" + server.clientAddr.getPort());
            }
            String known = client.getZookeeperClient().getCurrentConnectionString();
            String line = String.format(
                    "{\"event\": \"servers\", \"listed\": \"%s\", \"known\": \"%s\"}", String.join(",", listed), known);
            if (!line.equals(shown)) {
                tell("%s", line);
                shown = line;
            }
            pause();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(POLL_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void waitForEnd() {
        try {
            System.in.transferTo(OutputStream.nullOutputStream());
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        isOver = true;
    }

    private static synchronized void tell(String format, Object... values) {
        System.out.println(String.format(format, values));
    }
}

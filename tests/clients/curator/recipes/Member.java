import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/** A client of Curator with a session of its own. Its operations are repeated until they are answered. */
final class Member implements AutoCloseable {
    private static final int RETRY_MS = 50;
    private static final int CONNECT_MS = 5_000;

    final CuratorFramework client;
    /** Times that the connection was lost. Each may make an operation of each thread happen twice, as its repetition cannot know. */
    final AtomicInteger losses = new AtomicInteger();

    Member(String hosts, int sessionMs) throws InterruptedException {
        client = CuratorFrameworkFactory.builder()
                .connectString(hosts)
                .sessionTimeoutMs(sessionMs)
                .connectionTimeoutMs(CONNECT_MS)
                .retryPolicy(new RetryForever(RETRY_MS))
                .build();
        client.getConnectionStateListenable().addListener((same, state) -> {
            if (state == ConnectionState.SUSPENDED) {
                losses.incrementAndGet();
            }
            if (state == ConnectionState.LOST) {
                Recipes.tell("{\"event\": \"expired\"}");
            }
        });
        client.start();
        client.blockUntilConnected();
    }

    @Override
    public void close() {
        client.close();
    }
}

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The ledger of tests/clients/ledger/judge.py, with ZooKeeper's own client in Java. */
public final class Ledger {
    private static final int UNKNOWN = -1;
    private static final int PAUSE_MS = 20;

    private final ZooKeeper client;
    private final String root;

    private Ledger(String hosts, String root, int sessionMs) throws IOException {
        this.client = new ZooKeeper(hosts, sessionMs, Ledger::noteState);
        this.root = root;
    }

    public static void main(String[] arguments) throws Exception {
        int sessionMs = Integer.parseInt(arguments[2]);
        Ledger writer = new Ledger(arguments[0], arguments[1], sessionMs);
        Ledger reader = new Ledger(arguments[0], arguments[1], sessionMs);
        writer.appear();
        tell("{\"event\": \"ready\", \"session\": \"%x\"}", writer.client.getSessionId());

        AtomicInteger seen = new AtomicInteger(UNKNOWN);
        start(() -> reader.follow(seen));
        Thread input = start(() -> System.in.transferTo(java.io.OutputStream.nullOutputStream()));
        int version = 0;
        for (int n = 1; input.isAlive() || version == UNKNOWN; n++) {
            if (!writer.create(n)) {
                Thread.sleep(PAUSE_MS);
                continue;
            }
            if (version == UNKNOWN) {
                version = writer.get(); // what the acknowledged create has seen, this session sees
                if (version == UNKNOWN) {
                    continue;
                }
            }
            version = writer.set(n, version);
        }
        while (seen.get() < version) {
            Thread.sleep(PAUSE_MS);
        }
        writer.client.close();
        tell("{\"event\": \"end\"}");
        System.exit(0); // the reader waits for events
    }

    private void appear() throws InterruptedException {
        for (boolean tried = false; ; tried = true) {
            try {
                client.create(root + "/presence/alive", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
                return;
            } catch (KeeperException error) {
                if (tried && error.code() == KeeperException.Code.NODEEXISTS) {
                    return; // an answer did not come: it is ours
                }
                checkUnknown(error, "ephemeral");
            }
        }
    }

    private boolean create(int n) throws InterruptedException {
        long begun = System.currentTimeMillis();
        String path = "";
        try {
            path = client.create(root + "/entries/e-", bytes(n), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
        } catch (KeeperException error) {
            checkUnknown(error, "create");
        }
        String outcome = path.isEmpty() ? "unknown" : "ok";
        tell("{\"op\": \"create\", \"n\": %d, \"begun\": %d, \"ended\": %d, \"outcome\": \"%s\", \"path\": \"%s\"}",
                n, begun, System.currentTimeMillis(), outcome, path);
        return !path.isEmpty();
    }

    /** Returns the new version. */
    private int set(int n, int version) throws InterruptedException {
        long begun = System.currentTimeMillis();
        int reached = UNKNOWN;
        try {
            List<OpResult> results = client.multi(List.of(
                    Op.check(root + "/register", version),
                    Op.setData(root + "/register", bytes(n), version),
                    Op.setData(root + "/mirror", bytes(n), -1)));
            reached = ((OpResult.SetDataResult) results.get(1)).getStat().getVersion();
        } catch (KeeperException error) {
            checkUnknown(error, "multi");
        }
        tell("{\"op\": \"multi\", \"n\": %d, \"begun\": %d, \"ended\": %d, \"outcome\": \"%s\", \"version\": %d}",
                n, begun, System.currentTimeMillis(), reached == UNKNOWN ? "unknown" : "ok", reached);
        return reached;
    }

    private int get() throws InterruptedException {
        Stat stat = new Stat();
        try {
            byte[] data = client.getData(root + "/register", false, stat);
            tell("{\"op\": \"get\", \"n\": %s, \"version\": %d}", text(data), stat.getVersion());
            return stat.getVersion();
        } catch (KeeperException error) {
            checkUnknown(error, "get");
            return UNKNOWN;
        }
    }

    /** Reads the register at each event, and watches it again. */
    private void follow(AtomicInteger seen) throws InterruptedException {
        Object changes = new Object();
        int[] told = {0};
        Watcher watcher = event -> {
            if (event.getType() != Watcher.Event.EventType.None) {
                synchronized (changes) {
                    told[0]++;
                    changes.notifyAll();
                }
            }
        };
        while (true) {
            int before = told[0];
            Stat stat = new Stat();
            try {
                byte[] data = client.getData(root + "/register", watcher, stat);
                tell("{\"event\": \"seen\", \"n\": %s, \"version\": %d}", text(data), stat.getVersion());
                seen.set(stat.getVersion());
            } catch (KeeperException error) {
                checkUnknown(error, "get");
                Thread.sleep(PAUSE_MS);
                continue;
            }
            synchronized (changes) {
                while (told[0] == before) {
                    changes.wait();
                }
            }
        }
    }

    /** Ends the program for an operation that was refused. */
    private static void checkUnknown(KeeperException error, String operation) {
        switch (error.code()) {
            case CONNECTIONLOSS, OPERATIONTIMEOUT -> { }
            default -> {
                tell("{\"event\": \"refused\", \"op\": \"%s\", \"reason\": \"%s\"}", operation, error.code());
                System.exit(4);
            }
        }
    }

    private static void noteState(WatchedEvent event) {
        if (event.getState() == Watcher.Event.KeeperState.Expired) {
            tell("{\"event\": \"expired\"}");
            System.exit(3);
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private static Thread start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(5);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static synchronized void tell(String format, Object... values) {
        System.out.println(String.format(format, values));
    }

    private static byte[] bytes(int n) {
        return Integer.toString(n).getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }
}

import java.util.List;
import java.util.ArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Leaders, of which there is never more than one, and always one again. */
final class Elections {
    private static final int LEAD_SECONDS = 30;
    private static final int LEAD_MS = 20;

    private Elections() {}

    static void add(Recipes recipes, String root) throws Exception {
        addLatch(recipes, root + "/latch");
        addSelector(recipes, root + "/selector");
    }

    /** One thread looks at all latches; the leader resigns, and another one must follow. */
    private static void addLatch(Recipes recipes, String root) throws Exception {
        List<Candidate> candidates = new ArrayList<>();
        for (int number = 0; number < Recipes.MEMBERS; number++) {
            candidates.add(new Candidate(recipes.member(number).client, root, "member-" + number));
        }
        recipes.use("LeaderLatch", report -> new Recipe() {
            @Override
            public void turn() throws Exception {
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LEAD_SECONDS);
                while (true) {
                    Candidate leader = leader(report);
                    if (leader != null) {
                        leader.resign();
                        return;
                    }
                    if (System.nanoTime() > deadline) {
                        report.broken("no leader for %d s", LEAD_SECONDS);
                        return;
                    }
                    Thread.sleep(1);
                }
            }

            /** Two that lead are two that have led without a break around the same moment. */
            private Candidate leader(Report report) {
                Candidate found = null;
                for (Candidate one : candidates) {
                    int term = one.terms.get();
                    if (!one.latch.hasLeadership()) {
                        continue;
                    }
                    found = one;
                    for (Candidate other : candidates) {
                        boolean both = other != one && other.latch.hasLeadership() && one.latch.hasLeadership();
                        report.require(!both || one.terms.get() != term, "two lead: %s, %s", one.id, other.id);
                    }
                }
                return found;
            }

            @Override
            public void close() throws Exception {
                for (Candidate each : candidates) {
                    each.latch.close();
                }
            }
        });
    }

    private static final class Candidate {
        private final CuratorFramework client;
        private final String path;
        final String id;
        final AtomicInteger terms = new AtomicInteger();
        volatile LeaderLatch latch;

        Candidate(CuratorFramework client, String path, String id) throws Exception {
            this.client = client;
            this.path = path;
            this.id = id;
            start();
        }

        /** Gives the leadership up, and stands again. */
        void resign() throws Exception {
            latch.close();
            start();
        }

        private void start() throws Exception {
            LeaderLatch next = new LeaderLatch(client, path, id);
            next.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    terms.incrementAndGet();
                }

                @Override
                public void notLeader() {
                    terms.incrementAndGet();
                }
            });
            next.start();
            latch = next;
        }
    }

    private static void addSelector(Recipes recipes, String root) throws Exception {
        AtomicInteger leading = new AtomicInteger();
        AtomicInteger terms = new AtomicInteger();
        List<LeaderSelector> selectors = new ArrayList<>();
        recipes.use("LeaderSelector", report -> {
            for (int number = 0; number < Recipes.MEMBERS; number++) {
                LeaderSelector selector =
                        new LeaderSelector(recipes.member(number).client, root, new LeaderSelectorListenerAdapter() {
                            @Override
                            public void takeLeadership(CuratorFramework client) throws Exception {
                                report.require(leading.incrementAndGet() == 1, "two lead");
                                try {
                                    Thread.sleep(LEAD_MS);
                                    terms.incrementAndGet();
                                } finally {
                                    leading.decrementAndGet();
                                }
                            }
                        });
                selector.autoRequeue();
                selector.start();
                selectors.add(selector);
            }
            return new Recipe() {
                @Override
                public void turn() throws Exception {
                    int before = terms.get();
                    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LEAD_SECONDS);
                    while (terms.get() == before && System.nanoTime() < deadline) {
                        Thread.sleep(1);
                    }
                    report.require(terms.get() > before, "no leader for %d s", LEAD_SECONDS);
                }

                @Override
                public void close() {
                    selectors.forEach(LeaderSelector::close);
                }
            };
        });
    }
}

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Znodes that say that a client is there. */
final class Presence {
    private static final int WAIT_SECONDS = 30;
    private static final byte[] DATA = {'h', 'e', 'r', 'e'};

    private Presence() {}

    static void add(Recipes recipes, String root) throws Exception {
        addPersistentNode(recipes, root + "/persistent");
        addGroup(recipes, root + "/group");
    }

    /** A node that another client deletes comes again, with its data, each time as the ephemeral of its client. */
    private static void addPersistentNode(Recipes recipes, String path) throws Exception {
        CuratorFramework owner = recipes.member(0).client;
        CuratorFramework other = recipes.member(1).client;
        recipes.use("PersistentNode", report -> {
            PersistentNode node = new PersistentNode(owner, CreateMode.EPHEMERAL, false, path, DATA);
            node.start();
            report.require(node.waitForInitialCreate(WAIT_SECONDS, TimeUnit.SECONDS), "it was not made");
            return new Recipe() {
                private long former;

                @Override
                public void turn() throws Exception {
                    Stat stat = await();
                    if (stat == null) {
                        report.broken("it did not come again for %d s", WAIT_SECONDS);
                        return;
                    }
                    long session = owner.getZookeeperClient().getZooKeeper().getSessionId();
                    report.require(stat.getEphemeralOwner() == session, "it is of another session");
                    report.require(Arrays.equals(other.getData().forPath(path), DATA), "it has other data");
                    former = stat.getCzxid();
                    other.delete().quietly().forPath(path);
                }

                /** Another one than the one deleted last. */
                private Stat await() throws Exception {
                    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
                    while (System.nanoTime() < deadline) {
                        Stat stat = other.checkExists().forPath(path);
                        if (stat != null && stat.getCzxid() > former) {
                            return stat;
                        }
                        Thread.sleep(1);
                    }
                    return null;
                }

                @Override
                public void close() throws Exception {
                    node.close();
                    report.require(owner.checkExists().forPath(path) == null, "it is there after its end");
                }
            };
        });
    }

    /** All members see each other, and one that comes and goes. */
    private static void addGroup(Recipes recipes, String root) throws Exception {
        List<GroupMember> members = new ArrayList<>();
        for (int number = 0; number < Recipes.MEMBERS; number++) {
            GroupMember member = new GroupMember(recipes.member(number).client, root, "member-" + number, DATA);
            member.start();
            members.add(member);
        }
        recipes.use("GroupMember", report -> new Recipe() {
            private int guests;

            @Override
            public void turn() throws Exception {
                String name = "guest-" + ++guests;
                GroupMember guest = new GroupMember(recipes.member(0).client, root, name, DATA);
                guest.start();
                await(true, name);
                guest.close();
                await(false, name);
            }

            private void await(boolean isThere, String name) throws InterruptedException {
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
                for (GroupMember member : members) {
                    while (member.getCurrentMembers().containsKey(name) != isThere) {
                        if (System.nanoTime() > deadline) {
                            report.broken("%s was %s for %d s", name, isThere ? "not seen" : "still seen", WAIT_SECONDS);
                            return;
                        }
                        Thread.sleep(1);
                    }
                }
            }

            @Override
            public void check(Report report) {
                for (GroupMember member : members) {
                    TreeSet<String> seen = new TreeSet<>(member.getCurrentMembers().keySet());
                    report.require(seen.equals(new TreeSet<>(List.of("member-0", "member-1", "member-2"))), "the members are %s", seen);
                }
            }

            @Override
            public void close() {
                members.forEach(GroupMember::close);
            }
        });
    }
}

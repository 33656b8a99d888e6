/* The ledger of tests/clients/ledger/judge.py, with ZooKeeper's own client in C (libzookeeper_mt). */

#define THREADED /* the header shows the synchronous calls */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define PATH_BYTES 512
#define VALUE_BYTES 32

static char entries[PATH_BYTES], value[PATH_BYTES], mirror[PATH_BYTES], alive[PATH_BYTES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int seen = -1; /* version of the register that the reader has seen */

static long long now(void) {
    struct timeval time;
    gettimeofday(&time, NULL);
    return time.tv_sec * 1000LL + time.tv_usec / 1000;
}

/* A session that is over ends the program: none may be, in these runs. */
static void note_state(zhandle_t *client, int type, int state, const char *path, void *context) {
    (void)client, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE) {
        printf("{\"event\": \"expired\"}\n");
        exit(3);
    }
}

static zhandle_t *connect_to(const char *hosts, int session_ms) {
    zhandle_t *client = zookeeper_init(hosts, note_state, session_ms, NULL, NULL, 0);
    if (client == NULL) {
        perror("zookeeper_init");
        exit(2);
    }
    return client;
}

/* True for an operation whose outcome is unknown. Ends the program for one that was refused. */
static int is_unknown(int code, const char *operation) {
    if (code == ZOK) return 0;
    if (code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT) return 1;
    printf("{\"event\": \"refused\", \"op\": \"%s\", \"reason\": \"%s\"}\n", operation, zerror(code));
    exit(4);
}

/* Reads the register; returns its version, or -1 while there is no connection. */
static int read_register(zhandle_t *client, watcher_fn watch, int *number) {
    char data[VALUE_BYTES];
    int bytes = sizeof data - 1;
    struct Stat stat;
    int code = zoo_wget(client, value, watch, NULL, data, &bytes, &stat);
    if (is_unknown(code, "get")) return -1;
    data[bytes > 0 ? bytes : 0] = 0;
    *number = atoi(data);
    return stat.version;
}

static void note_change(zhandle_t *client, int type, int state, const char *path, void *context) {
    (void)client, (void)state, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT) return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Each event makes the reader read again, and watch again. Its own thread, as a watcher must not block. */
static void *follow(void *context) {
    zhandle_t *client = context;
    for (;;) {
        int number;
        pthread_mutex_lock(&lock);
        /* Held until the wait begins, so that an event in between is not missed. */
        int version = read_register(client, note_change, &number);
        if (version < 0) {
            pthread_mutex_unlock(&lock);
            usleep(20000);
            continue;
        }
        seen = version;
        printf("{\"event\": \"seen\", \"n\": %d, \"version\": %d}\n", number, version);
        pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* Again after an answer that did not come: if there is one then, it is ours. */
static void make_ephemeral(zhandle_t *client) {
    int tried = 0;
    for (;;) {
        int code = zoo_create(client, alive, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
        if (tried && code == ZNODEEXISTS) return;
        if (!is_unknown(code, "ephemeral")) return;
        tried = 1;
    }
}

static int create_entry(zhandle_t *client, int n) {
    char data[VALUE_BYTES], path[PATH_BYTES];
    long long begun = now();
    int bytes = snprintf(data, sizeof data, "%d", n);
    int code = zoo_create(client, entries, data, bytes, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, sizeof path);
    int unknown = is_unknown(code, "create");
    printf("{\"op\": \"create\", \"n\": %d, \"begun\": %lld, \"ended\": %lld, \"outcome\": \"%s\", \"path\": \"%s\"}\n", n,
           begun, now(), unknown ? "unknown" : "ok", unknown ? "" : path);
    return !unknown;
}

/* Returns the new version, or -1 if the outcome is unknown. */
static int set_register(zhandle_t *client, int n, int version) {
    char data[VALUE_BYTES];
    struct Stat stats[2];
    zoo_op_t operations[3];
    zoo_op_result_t results[3];
    long long begun = now();
    int bytes = snprintf(data, sizeof data, "%d", n);
    zoo_check_op_init(&operations[0], value, version);
    zoo_set_op_init(&operations[1], value, data, bytes, version, &stats[0]);
    zoo_set_op_init(&operations[2], mirror, data, bytes, -1, &stats[1]);
    int unknown = is_unknown(zoo_multi(client, 3, operations, results), "multi");
    printf("{\"op\": \"multi\", \"n\": %d, \"begun\": %lld, \"ended\": %lld, \"outcome\": \"%s\", \"version\": %d}\n", n, begun,
           now(), unknown ? "unknown" : "ok", unknown ? -1 : stats[0].version);
    return unknown ? -1 : stats[0].version;
}

static void *wait_for_end(void *context) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    *(volatile int *)context = 1;
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    const char *hosts = arguments[1], *root = arguments[2];
    int session_ms = atoi(arguments[3]);
    snprintf(entries, sizeof entries, "%s/entries/e-", root);
    snprintf(value, sizeof value, "%s/register", root);
    snprintf(mirror, sizeof mirror, "%s/mirror", root);
    snprintf(alive, sizeof alive, "%s/presence/alive", root);
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);

    zhandle_t *writer = connect_to(hosts, session_ms), *reader = connect_to(hosts, session_ms);
    make_ephemeral(writer);
    printf("{\"event\": \"ready\", \"session\": \"%llx\"}\n", (unsigned long long)zoo_client_id(writer)->client_id);

    pthread_t following, ending;
    volatile int is_over = 0;
    pthread_create(&following, NULL, follow, reader);
    pthread_create(&ending, NULL, wait_for_end, (void *)&is_over);
    int version = 0;
    for (int n = 1; !is_over || version < 0; n++) {
        if (!create_entry(writer, n)) {
            usleep(20000);
            continue;
        }
        if (version < 0) {
            int number; /* what the acknowledged create has seen, this session sees */
            version = read_register(writer, NULL, &number);
            if (version < 0) continue;
            printf("{\"op\": \"get\", \"n\": %d, \"version\": %d}\n", number, version);
        }
        version = set_register(writer, n, version);
    }
    pthread_mutex_lock(&lock);
    while (seen < version) {
        pthread_mutex_unlock(&lock);
        usleep(20000);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    zookeeper_close(writer);
    printf("{\"event\": \"end\"}\n");
    fflush(stdout);
    _exit(0); /* the reader's thread stands in a wait */
}

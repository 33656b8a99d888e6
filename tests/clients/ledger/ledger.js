// The ledger of tests/clients/ledger/judge.py, with node-zookeeper-client.

'use strict';

const zookeeper = require('node-zookeeper-client');

const PAUSE_MS = 20;
const UNKNOWN = -1;
const [hosts, root, sessionTimeout] = process.argv.slice(2);

const tell = (line) => console.log(JSON.stringify(line));
const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

// Resolves to what the callback of an operation is given.
const call = (operation) => new Promise((resolve, reject) => {
    operation((error, ...results) => (error ? reject(error) : resolve(results)));
});

function connect() {
    const client = zookeeper.createClient(hosts, { sessionTimeout: Number(sessionTimeout) });
    client.on('state', (state) => {
        if (state === zookeeper.State.EXPIRED) {
            tell({ event: 'expired' });
            process.exit(3);
        }
    });
    client.connect();
    return client;
}

// Ends the program for an operation that was refused.
function checkUnknown(error, operation) {
    const unknown = ['CONNECTION_LOSS', 'OPERATION_TIMEOUT'].includes(error.name);
    if (!unknown) {
        tell({ event: 'refused', op: operation, reason: String(error.name || error) });
        process.exit(4);
    }
}

// True once it has been done; false if the outcome is unknown.
async function create(client, n) {
    const begun = Date.now();
    let path = '';
    try {
        const mode = zookeeper.CreateMode.PERSISTENT_SEQUENTIAL;
        [path] = await call((done) => client.create(`${root}/entries/e-`, Buffer.from(String(n)), mode, done));
    } catch (error) {
        checkUnknown(error, 'create');
    }
    tell({ op: 'create', n, begun, ended: Date.now(), outcome: path ? 'ok' : 'unknown', path });
    return Boolean(path);
}

// The new version.
async function set(client, n, version) {
    const begun = Date.now();
    const data = Buffer.from(String(n));
    let reached = UNKNOWN;
    try {
        const [results] = await call((done) => client.transaction()
            .check(`${root}/register`, version)
            .setData(`${root}/register`, data, version)
            .setData(`${root}/mirror`, data, -1)
            .commit(done));
        reached = results[1].stat.version;
    } catch (error) {
        checkUnknown(error, 'multi');
    }
    const outcome = reached === UNKNOWN ? 'unknown' : 'ok';
    tell({ op: 'multi', n, begun, ended: Date.now(), outcome, version: reached });
    return reached;
}

async function get(client) {
    try {
        const [data, stat] = await call((done) => client.getData(`${root}/register`, done));
        tell({ op: 'get', n: Number(data), version: stat.version });
        return stat.version;
    } catch (error) {
        checkUnknown(error, 'get');
        return UNKNOWN;
    }
}

// Reads the register at each event, and watches it again.
async function follow(client, progress) {
    for (;;) {
        let told;
        const changed = new Promise((resolve) => { told = resolve; });
        try {
            const [data, stat] = await call((done) => client.getData(`${root}/register`, told, done));
            tell({ event: 'seen', n: Number(data), version: stat.version });
            progress.seen = stat.version;
        } catch (error) {
            checkUnknown(error, 'get');
            await pause();
            continue;
        }
        await changed;
    }
}

async function main() {
    const writer = connect();
    const reader = connect();
    for (let there = false, tried = false; !there; tried = true) {
        try {
            await call((done) => writer.create(`${root}/presence/alive`, zookeeper.CreateMode.EPHEMERAL, done));
            there = true;
        } catch (error) {
            there = tried && error.name === 'NODE_EXISTS'; // an answer did not come: it is ours
            if (!there) {
                checkUnknown(error, 'ephemeral');
            }
        }
    }
    tell({ event: 'ready', session: writer.getSessionId().toString('hex') });

    let isOver = false;
    process.stdin.on('end', () => { isOver = true; }).resume();
    const progress = { seen: UNKNOWN };
    follow(reader, progress);
    let version = 0;
    for (let n = 1; !isOver || version === UNKNOWN; n += 1) {
        if (!await create(writer, n)) {
            await pause();
            continue;
        }
        if (version === UNKNOWN) {
            version = await get(writer); // what the acknowledged create has seen, this session sees
            if (version === UNKNOWN) continue;
        }
        version = await set(writer, n, version);
    }
    while (progress.seen < version) await pause();
    writer.on('disconnected', () => {
        tell({ event: 'end' });
        process.exit(0); // the reader waits for events
    });
    writer.close();
}

main();

// The ledger of tests/clients/ledger/judge.py, with the client in Go that Debian packages.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

const pause = 20 * time.Millisecond

var everyone = zk.WorldACL(zk.PermAll)

type line map[string]interface{}

var printing sync.Mutex

func tell(what line) {
	text, _ := json.Marshal(what)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

func now() int64 { return time.Now().UnixNano() / 1e6 }

// isUnknown ends the program for an operation that was refused, and for a session that has expired.
func isUnknown(err error, operation string) bool {
	switch err {
	case nil:
		return false
	case zk.ErrConnectionClosed, zk.ErrNoServer:
		return true
	case zk.ErrSessionExpired:
		tell(line{"event": "expired"})
		os.Exit(3)
	}
	// Requests that were sent when the connection broke fail with the error of the socket.
	if errors.Is(err, io.EOF) || strings.Contains(err.Error(), "connection") || strings.Contains(err.Error(), "timeout") {
		return true
	}
	tell(line{"event": "refused", "op": operation, "reason": err.Error()})
	os.Exit(4)
	return false
}

func connect(hosts string, session time.Duration) *zk.Conn {
	client, events, err := zk.Connect(strings.Split(hosts, ","), session)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for event := range events {
			if event.State == zk.StateExpired {
				tell(line{"event": "expired"})
				os.Exit(3)
			}
		}
	}()
	return client
}

type ledger struct {
	client                    *zk.Conn
	entries, register, mirror string
}

func (l *ledger) create(n int) bool {
	begun := now()
	path, err := l.client.Create(l.entries, []byte(strconv.Itoa(n)), zk.FlagSequence, everyone)
	outcome := "ok"
	if isUnknown(err, "create") {
		outcome = "unknown"
	}
	tell(line{"op": "create", "n": n, "begun": begun, "ended": now(), "outcome": outcome, "path": path})
	return outcome == "ok"
}

// set returns the new version, or -1 if the outcome is unknown.
func (l *ledger) set(n int, version int32) int32 {
	begun, data := now(), []byte(strconv.Itoa(n))
	results, err := l.client.Multi(
		&zk.CheckVersionRequest{Path: l.register, Version: version},
		&zk.SetDataRequest{Path: l.register, Data: data, Version: version},
		&zk.SetDataRequest{Path: l.mirror, Data: data, Version: -1},
	)
	outcome, reached := "ok", int32(-1)
	if isUnknown(err, "multi") {
		outcome = "unknown"
	} else {
		reached = results[1].Stat.Version
	}
	tell(line{"op": "multi", "n": n, "begun": begun, "ended": now(), "outcome": outcome, "version": reached})
	return reached
}

func (l *ledger) get() int32 {
	data, stat, err := l.client.Get(l.register)
	if isUnknown(err, "get") {
		return -1
	}
	number, _ := strconv.Atoi(string(data))
	tell(line{"op": "get", "n": number, "version": stat.Version})
	return stat.Version
}

// follow reads the register at each event, and watches it again.
func (l *ledger) follow(seen *int32) {
	for {
		data, stat, changed, err := l.client.GetW(l.register)
		if isUnknown(err, "get") {
			time.Sleep(pause)
			continue
		}
		number, _ := strconv.Atoi(string(data))
		tell(line{"event": "seen", "n": number, "version": stat.Version})
		atomic.StoreInt32(seen, stat.Version)
		<-changed
	}
}

func main() {
	hosts, root := os.Args[1], os.Args[2]
	milliseconds, _ := strconv.Atoi(os.Args[3])
	session := time.Duration(milliseconds) * time.Millisecond
	names := ledger{entries: root + "/entries/e-", register: root + "/register", mirror: root + "/mirror"}
	writer, reader := names, names
	writer.client, reader.client = connect(hosts, session), connect(hosts, session)

	for tried := false; ; tried = true {
		_, err := writer.client.Create(root+"/presence/alive", nil, zk.FlagEphemeral, everyone)
		if tried && err == zk.ErrNodeExists { // an answer did not come: it is ours
			break
		}
		if !isUnknown(err, "ephemeral") {
			break
		}
	}
	tell(line{"event": "ready", "session": strconv.FormatInt(writer.client.SessionID(), 16)})

	var seen, over int32
	go reader.follow(&seen)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		atomic.StoreInt32(&over, 1)
	}()
	version := int32(0)
	for n := 1; atomic.LoadInt32(&over) == 0 || version < 0; n++ {
		if !writer.create(n) {
			time.Sleep(pause)
			continue
		}
		if version < 0 {
			if version = writer.get(); version < 0 { // what the acknowledged create has seen, this session sees
				continue
			}
		}
		version = writer.set(n, version)
	}
	for atomic.LoadInt32(&seen) < version {
		time.Sleep(pause)
	}
	writer.client.Close()
	tell(line{"event": "end"})
}

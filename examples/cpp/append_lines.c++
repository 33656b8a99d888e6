// A client of virtuallog in C++17 with stock Cap'n Proto: appends each line of stdin, and prints its position.
//
//     append_lines HOST:PORT < LINES
//
// Each line is in the log once, and in order, also if nodes, connections and segments fail or change meanwhile. Exit codes: 0 all
// are in the log; 3 the first line without a position may be in it; 1 that line is not in it. Segments must be of the kind
// `native`, connections without TLS. docs/howto/other-languages.md explains it, docs/reference/wire.md the protocol.
#include <capnp/compat/json.h>
#include <capnp/rpc-twoparty.h>
#include <capnp/serialize.h>
#include <kj/async-io.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include "control.capnp.h"
#include "formats.h"
#include "native.capnp.h"
#include "node.capnp.h"
#include "register.capnp.h"

namespace {
using namespace virtuallog;
using LogletId = std::pair<uint64_t, uint64_t>;  // version, attempt
using Refusal = std::runtime_error;              // it is of no use to try again
constexpr uint16_t PROTOCOL = 6, REGISTER = 3;   // the newest versions that this program was written for
constexpr size_t ENTRY_BYTES_MAX = 4 << 20;
constexpr auto ANSWER = 2 * kj::SECONDS, PAUSE = 50 * kj::MILLISECONDS;
constexpr auto GIVE_UP = 60 * kj::SECONDS;  // a sequencer remembers a batch for twice as long

capnp::Data::Reader bytes(const std::string& text) {
  return capnp::Data::Reader(reinterpret_cast<const kj::byte*>(text.data()), text.size());
}

bool isFinal(const kj::Exception& error) {  // "remote exception: NAME {FIELDS}"
  static const std::set<std::string> names = {"ForbiddenError", "MalformedError", "TooLargeError", "UnsupportedError"};
  std::string text = error.getDescription().cStr(), name = text.substr(std::min(text.size(), size_t(18)));
  return names.count(name.substr(0, name.find(' ')));
}

struct Connection {
  kj::Own<kj::AsyncIoStream> stream;
  capnp::TwoPartyClient rpc{*stream};
  node::Node::Client node = nullptr;
};

// The config of a segment, which is JSON by the names of native.capnp, and the id of the loglet on its servers.
struct Config {
  explicit Config(chain::Segment::Reader segment) : loglet(segment.getVersion(), segment.getAttempt()) {
    if (segment.getKind() != "native") throw Refusal("a segment is not native");
    capnp::JsonCodec().decode(segment.getConfig().asChars(), fields);
    if (fields.hasLoglet()) std::sscanf(fields.getLoglet().cStr(), "%" SCNu64 ".%" SCNx64, &loglet.first, &loglet.second);
  }
  void name(native::SegmentId::Builder to) const { to.setVersion(loglet.first), to.setAttempt(loglet.second); }

  capnp::MallocMessageBuilder memory;
  native::Config::Builder fields = memory.initRoot<native::Config>();
  LogletId loglet;  // that of the segment, unless it was moved
};

class Appender {
 public:
  bool inDoubt = false;  // the entry may be in the open segment, or come there

  explicit Appender(const std::string& address) : addresses{{0, address}} {
    std::ifstream("/dev/urandom").read(session.data(), session.size());
  }

  // Appends one entry, returns its position. After an exception nothing more may be appended by this session.
  uint64_t append(const std::string& entry) {
    if (entry.size() > ENTRY_BYTES_MAX) throw Refusal("the entry is too large");
    auto blob = formats::batch(session, sequence, entry);
    auto deadline = timer.now() + GIVE_UP;
    bool isSent = false;
    for (int attempt = 0;; attempt++, timer.afterDelay(PAUSE).wait(io.waitScope)) try {
      isSent = false;
      if (attempt || !version) refresh();
      auto last = segments()[segments().size() - 1];
      bool isOpen = last.getStop() < 0;
      if (LogletId id(last.getVersion(), last.getAttempt()); id != entered || !isOpen) {
        // The segment that was left is sealed, and its end is decided: what is not below it now never gets there.
        auto found = inDoubt ? find(isOpen ? last.getStart() : last.getStop()) : std::nullopt;
        if (found) return settle(*found);
        inDoubt = opened = false;
        if (!isOpen) throw Refusal("the log has been closed");
        if (entered == LogletId()) floor = last.getStart();
        entered = id;
      }
      Config config(last);
      auto request = open(config.fields.getSequencer()).castAs<native::Sequencer>().appendRequest();
      config.name(request.initSegment());
      request.setBatch(bytes(blob));
      request.setOpens(!opened);  // the first one of the session in this segment
      isSent = true;
      auto offset = answer(request.send()).getFirst();
      opened = true;
      return settle(offset - last.getBase() + last.getStart());
    } catch (const kj::Exception& error) {
      connections.clear();
      if (isFinal(error)) throw;
      inDoubt |= isSent;
      if (timer.now() > deadline) throw;
    }
  }

 private:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  std::map<uint32_t, std::string> addresses;  // by node; 0: the one that was given
  std::map<uint32_t, std::unique_ptr<Connection>> connections;
  std::unique_ptr<capnp::MallocMessageBuilder> known;  // the newest register
  uint64_t version = 0;                                // of it
  std::string cluster, session = std::string(16, 0);
  uint64_t sequence = 0;  // of the next entry
  uint64_t floor = 0;     // the next entry is not below it
  LogletId entered;       // the segment that the session appends to
  bool opened = false;    // it has settled a batch of the session

  capnp::List<chain::Segment>::Reader segments() { return known->getRoot<chain::Register>().asReader().getSegments(); }
  uint64_t settle(uint64_t position) { return inDoubt = false, sequence++, floor = position + 1, position; }
  template <typename T> T within(kj::Promise<T> promise) { return timer.timeoutAfter(ANSWER, kj::mv(promise)).wait(io.waitScope); }
  template <typename T> capnp::Response<T> answer(capnp::RemotePromise<T> call) { return within<capnp::Response<T>>(kj::mv(call)); }

  // The object of a node, with all its interfaces. Calls of it fail, and do nothing, if it is another node than is meant.
  node::Node::Client open(uint32_t id) {
    auto& found = connections[id];
    if (!found) {
      KJ_REQUIRE(addresses.count(id), "the register has no address of this node", id);
      auto address = within(io.provider->getNetwork().parseAddress(addresses[id]));
      found.reset(new Connection{within(address->connect())});
      auto request = found->rpc.bootstrap().castAs<node::Node>().openRequest();
      request.setCluster(bytes(cluster)), request.setNode(id), request.setProtocolLast(PROTOCOL);
      found->node = request.send().getNode();
    }
    return found->node;
  }

  // Looks for a newer register. Each node may lag behind, so all are asked until one has news.
  void refresh() {
    for (auto& [id, address] : std::map<uint32_t, std::string>(addresses)) try {
      auto status = answer(open(id).castAs<control::Control>().getStatusRequest().send());
      kj::ArrayInputStream stream(status.getRegister());
      capnp::InputStreamMessageReader message(stream);
      auto found = message.getRoot<chain::Register>();
      if (found.getVersion() <= version) continue;
      if (found.getFormat() > REGISTER) throw Refusal("the register has a newer format");
      known = std::make_unique<capnp::MallocMessageBuilder>();
      known->setRoot(found), version = found.getVersion();
      cluster.assign(found.getCluster().asChars().begin(), found.getCluster().size());
      for (auto each : found.getNodes())
        if (each.getAddresses().size()) addresses[each.getId()] = each.getAddresses()[0].cStr();
      return;
    } catch (const kj::Exception&) {
      connections.erase(id);
    }
    KJ_REQUIRE(version, "no node has told the register");
  }

  // The position of the present batch in closed segments, from `floor` to `end`.
  std::optional<uint64_t> find(uint64_t end) {
    if (segments()[0].getStart() > floor) throw Refusal("the log was trimmed before it was searched");
    for (auto each : segments()) {
      if (each.getStart() >= end || uint64_t(each.getStop()) <= floor) continue;
      Config config(each);
      auto shift = each.getStart() - each.getBase();
      for (auto at = std::max(floor, each.getStart()) - shift, stop = each.getStop() - shift; at < stop;) {
        auto before = at;
        for (auto server : config.fields.getServers()) try {
          auto request = open(server).castAs<native::LogServer>().readWavesRequest();
          config.name(request.initSegment());
          request.setStart(at), request.setStop(stop), request.setMaxBytes(4 << 20);
          auto reply = answer(request.send());
          if (reply.getState().getTrim() > at) throw Refusal("the log was trimmed before it was searched");
          for (auto blob : reply.getWaves()) {
            formats::Wave wave(blob.asChars().begin(), blob.size(), session, sequence);
            if (wave.found) return *wave.found + shift;
            if (wave.first <= at) at = std::max(at, wave.stop);
          }
        } catch (const kj::Exception&) {
          connections.erase(server);  // another server may have the rest
        }
        KJ_REQUIRE(at > before, "no server has told what is in a closed segment");
      }
    }
    return std::nullopt;
  }
};
}  // namespace

int main(int count, char* words[]) {
  if (count != 2) return std::cerr << "usage: append_lines HOST:PORT < LINES\n", 2;
  Appender appender(words[1]);
  try {
    for (std::string line; std::getline(std::cin, line);) std::cout << appender.append(line) << std::endl;
    return 0;
  } catch (const kj::Exception& error) {
    std::cerr << error.getDescription().cStr() << "\n";
  } catch (const Refusal& error) {
    std::cerr << error.what() << "\n";
  }
  return appender.inDoubt ? 3 : 1;
}

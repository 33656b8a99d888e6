// The two formats that a client of native segments needs: it writes batches, and looks for them in waves. Little-endian, and so must
// this machine be. The layouts are in virtuallog/contract/batch.py and loglets/virtuallog_loglets/native/core/wave.py.
#pragma once
#include <kj/debug.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace formats {

inline uint32_t crc32c(const char* data, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; i++) {
    crc ^= uint8_t(data[i]);
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

template <typename T> void put(std::string& to, T value) { to.append(reinterpret_cast<char*>(&value), sizeof value); }
template <typename T> T get(const char* from) { T value; std::memcpy(&value, from, sizeof value); return value; }

// A batch of one entry.
inline std::string batch(const std::string& session, uint64_t sequence, const std::string& entry) {
  std::string body = session, head = {'V', 'B', 1, 0};
  put<uint64_t>(body, sequence), put<uint32_t>(body, 1), put<uint32_t>(body, 0), put<uint32_t>(body, entry.size());
  body += entry;
  put<uint32_t>(head, crc32c(body.data(), body.size()));
  return head + body;
}

// A wave: its place, and the offset of the batch of this session and sequence number in it.
struct Wave {
  uint64_t first, stop;
  std::optional<uint64_t> found;

  Wave(const char* data, size_t size, const std::string& session, uint64_t sequence) {
    KJ_REQUIRE(size >= 56 && std::memcmp(data, "VW\1", 4) == 0, "not a wave of version 1");
    KJ_REQUIRE(get<uint32_t>(data + 4) == crc32c(data + 8, size - 8), "a damaged wave");
    first = stop = get<uint64_t>(data + 24);
    auto batches = get<uint32_t>(data + 52);
    auto table = data + 56, blob = table + 8 * batches;
    for (uint32_t i = 0; i < batches; i++, table += 8) {
      if (std::equal(session.begin(), session.end(), blob + 8) && get<uint64_t>(blob + 24) == sequence) found = stop;
      stop += get<uint32_t>(table), blob += get<uint32_t>(table + 4);
    }
  }
};

}  // namespace formats

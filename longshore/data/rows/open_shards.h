// OpenShards opens the files of a dataset as their rows are needed, and ahead of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "longshore/data/rows/rows.h"

namespace longshore::data {

struct OpenedShard {
  std::string name;                        // as messages call it
  std::shared_ptr<const Rows> rows;        // nothing where none come of it
  std::string identity;                    // of all that its rows are made of
  std::function<void()> when_closed = {};  // called where it has been passed
};

// Opens the shard of that number, which may take as long as tokenizing a file does and use all
// processors. Throws, or gives something of no use, once it is asked to stop.
using OpenShard = std::function<OpenedShard(int64_t shard, std::stop_token stop)>;

// Opens one after the other, in the order in which they were first asked for, on threads of its
// own. What was opened stays open until close_older(). For one thread at a time, but for stop().
class OpenShards {
 public:
  explicit OpenShards(OpenShard open) : open_(std::move(open)) {}
  ~OpenShards() { stop(); }  // waits for what is being opened

  // Waits until it is open, and throws what that threw.
  const OpenedShard& get(int64_t shard);
  // Has it opened in the background.
  void prepare(int64_t shard) { entry(shard); }
  // Closes all but the last `most` that were got or prepared; those being opened stay.
  void close_older(size_t most);

  // Lets get() throw soon, also where it waits. Any thread may call it.
  void stop() { stop_.request_stop(); }

 private:
  struct Entry {
    int64_t shard;
    std::shared_future<OpenedShard> opened;
  };

  // The one that was used last from now on.
  Entry& entry(int64_t shard);
  std::shared_future<OpenedShard> begin(int64_t shard);

  OpenShard open_;
  std::stop_source stop_;
  std::shared_future<OpenedShard> last_begun_;
  std::list<Entry> entries_;  // the one that was used last is the first
};

}  // namespace longshore::data

#include "longshore/data/rows/open_shards.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

#include "longshore/base/error.h"

namespace longshore::data {

OpenShards::Entry& OpenShards::entry(int64_t shard) {
  const auto found = std::ranges::find(entries_, shard, &Entry::shard);
  if (found != entries_.end())
    entries_.splice(entries_.begin(), entries_, found);
  else
    entries_.push_front({shard, begin(shard)});
  return entries_.front();
}

std::shared_future<OpenedShard> OpenShards::begin(int64_t shard) {
  auto open = [this, shard, before = last_begun_]() mutable {
    if (before.valid()) before.wait();
    before = {};  // or it would stay open as long as this one
    if (stop_.stop_requested()) throw Error("stopped before a file was opened");
    return open_(shard, stop_.get_token());
  };
  return last_begun_ = std::async(std::launch::async, std::move(open)).share();
}

const OpenedShard& OpenShards::get(int64_t shard) { return entry(shard).opened.get(); }

void OpenShards::close_older(size_t most) {
  if (entries_.size() <= most) return;
  auto one = std::next(entries_.begin(), static_cast<std::ptrdiff_t>(most));
  while (one != entries_.end()) {
    const bool is_open = one->opened.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (!is_open) {
      ++one;
      continue;
    }
    const std::shared_future<OpenedShard> opened = one->opened;
    one = entries_.erase(one);
    std::function<void()> when_closed;
    try {
      when_closed = opened.get().when_closed;
    } catch (const std::exception&) {
      continue;  // that nobody needed: who does is told
    }
    if (when_closed) when_closed();
  }
}

}  // namespace longshore::data

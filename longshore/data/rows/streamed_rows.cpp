#include "longshore/data/rows/streamed_rows.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/data/rows/permutation.h"

namespace longshore::data {

StreamedRows::StreamedRows(OpenShard open, StreamedRowsOptions options)
    : options_(std::move(options)), open_(std::move(open)) {
  if (options_.shards.empty() || options_.window < 1)
    throw InternalError("windows of " + std::to_string(options_.window) + " rows of " +
                        std::to_string(options_.shards.size()) + " shards");
}

void StreamedRows::read(int64_t place, const Row& into) const {
  const Found found = find(place);
  found.rows->read(found.row, into);
}

std::vector<ShardRecord> StreamedRows::records() const {
  std::lock_guard lock(records_mutex_);
  std::vector<ShardRecord> records;
  for (const auto& [shard, record] : records_) records.push_back(record);
  return records;
}

void StreamedRows::restore(const std::vector<ShardRecord>& records) {
  std::lock_guard lock(records_mutex_);
  for (const ShardRecord& record : records)
    if (std::ranges::binary_search(options_.shards, record.shard))
      records_.emplace(record.shard, record);
}

StreamedRows::Found StreamedRows::find(int64_t place) const {
  std::lock_guard lock(mutex_);
  if (!all_rows_) {  // in which the place may be beyond the first epoch
    enter_epoch(0);
    count_to(place + 1);
  }
  const int64_t epoch = all_rows_ ? place / *all_rows_ : 0;
  const int64_t at = place - epoch * all_rows_.value_or(0);
  const int64_t number = at / options_.window, begin = number * options_.window;
  enter_epoch(epoch);
  count_to(begin + options_.window);
  const int64_t end = std::min(begin + options_.window, firsts_.back());
  const auto size = static_cast<uint64_t>(end - begin);
  const Permutation order(size, options_.seed, static_cast<uint64_t>(epoch),
                          {.part = static_cast<uint64_t>(number)});
  const int64_t row = begin + static_cast<int64_t>(order(static_cast<uint64_t>(at - begin)));
  auto index_of = [&](int64_t of) {
    return static_cast<size_t>(std::ranges::upper_bound(firsts_, of) - firsts_.begin() - 1);
  };
  if (const std::pair window{epoch, number}; window != window_) {
    prepare_window(index_of(begin), index_of(end - 1));
    window_ = window;
  }
  const size_t index = index_of(row);
  return {open(shard_at(epoch, index)).rows, row - firsts_[index]};
}

void StreamedRows::enter_epoch(int64_t epoch) const {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  firsts_ = {0};
}

// Until that row of the epoch, or its end, is known.
void StreamedRows::count_to(int64_t end) const {
  const size_t shards = options_.shards.size();
  while (firsts_.back() < end && firsts_.size() <= shards)
    firsts_.push_back(firsts_.back() + rows_of(shard_at(epoch_, firsts_.size() - 1)));
  if (firsts_.size() <= shards) return;
  if (firsts_.back() == 0)
    throw DataError("found nothing to train on in any of " + std::to_string(shards) + " files");
  all_rows_ = firsts_.back();
}

// Of a window, whose shards are these by their places in the epoch; as many are prepared behind it.
// Those of the window before stay open, since another thread, or another process of the run, may
// still read them.
void StreamedRows::prepare_window(size_t first, size_t last) const {
  const size_t shards = options_.shards.size(), count = last + 1 - first;
  for (size_t i = first; i <= last + count; ++i)
    open_.prepare(shard_at(epoch_ + static_cast<int64_t>(i / shards), i % shards));
  open_.close_older(3 * count + 1);
}

int64_t StreamedRows::shard_at(int64_t epoch, size_t index) const {
  if (options_.window == 1) return options_.shards[index];
  const Permutation order(options_.shards.size(), options_.seed, static_cast<uint64_t>(epoch),
                          {.use = RandomUse::shard_order});
  return options_.shards[order(index)];
}

int64_t StreamedRows::rows_of(int64_t shard) const {
  {
    std::lock_guard lock(records_mutex_);
    if (const auto found = records_.find(shard); found != records_.end()) return found->second.rows;
  }
  open(shard);
  std::lock_guard lock(records_mutex_);
  return records_.at(shard).rows;
}

const OpenedShard& StreamedRows::open(int64_t shard) const {
  const OpenedShard& opened = open_.get(shard);
  const ShardRecord found{shard, opened.rows ? opened.rows->count() : 0, opened.identity};
  std::lock_guard lock(records_mutex_);
  const ShardRecord& expected = records_.emplace(shard, found).first->second;
  if (found != expected)
    throw DataError(opened.name + ": changed since the run first read it: found " +
                    std::to_string(found.rows) + " rows with the hash " + found.identity +
                    ", expected " + std::to_string(expected.rows) + " with " + expected.identity);
  return opened;
}

}  // namespace longshore::data

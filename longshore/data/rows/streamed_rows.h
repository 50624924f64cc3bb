// StreamedRows takes the rows of files (shards) one file after the other, in epochs without end,
// and shuffles them within windows. The shards of a window are opened when its first row is read,
// and as many behind it meanwhile, so a run begins before all are there.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/data/rows/open_shards.h"
#include "longshore/data/rows/row_sequence.h"

namespace longshore::data {

// What is known of a shard once it was opened.
struct ShardRecord {
  int64_t shard = 0;
  int64_t rows = 0;
  std::string identity;  // OpenedShard's

  bool operator==(const ShardRecord&) const = default;
};

struct StreamedRowsOptions {
  std::vector<int64_t> shards;  // their numbers, of at least one, in ascending order
  int64_t window = 1;           // rows
  uint64_t seed = 0;
};

// An epoch has every row of every shard once. Its order of shards is a permutation by seed and
// epoch; rows as they stand in them, shard by shard, are cut into windows of so many rows, the last
// of the rest, and each window is a permutation of itself. Windows of one row leave all of it in
// order, shards too.
//
// So the row at a place follows from the place and the numbers of rows of the shards before it.
// Shards that were opened have a record, with which another process finds the same rows without
// opening them. What is kept of a shard that was passed is its record.
//
// Other trainers draw each row from a buffer that the next rows then fill: there a row may wait for
// long, and where it comes depends on all before it.
class StreamedRows : public RowSequence {
 public:
  StreamedRows(OpenShard open, StreamedRowsOptions options);

  // Throws what opening a shard throws; a DataError where one is not what its record says, and
  // where no row comes of any.
  void read(int64_t place, const Row& into) const override;

  // Of the shards that were opened up to now, by number. Does not wait for those being opened.
  std::vector<ShardRecord> records() const;
  // Takes what another process found. Those of other shards are left out.
  void restore(const std::vector<ShardRecord>& records);

  // Lets reading threads that wait for a shard fail soon: nobody needs their rows any more.
  void stop() { open_.stop(); }

 private:
  struct Found {
    std::shared_ptr<const Rows> rows;
    int64_t row;
  };

  Found find(int64_t place) const;
  void enter_epoch(int64_t epoch) const;
  void count_to(int64_t end) const;
  void prepare_window(size_t first, size_t last) const;
  int64_t shard_at(int64_t epoch, size_t index) const;
  int64_t rows_of(int64_t shard) const;
  const OpenedShard& open(int64_t shard) const;

  const StreamedRowsOptions options_;

  mutable std::mutex mutex_;  // held while a shard is waited for
  mutable OpenShards open_;
  mutable int64_t epoch_ = -1;               // the one that was read last
  mutable std::vector<int64_t> firsts_;      // of it: where each shard begins, as far as is known
  mutable std::optional<int64_t> all_rows_;  // of an epoch, once all are counted
  mutable std::pair<int64_t, int64_t> window_{-1, -1};  // the one that was read last, of its epoch

  mutable std::mutex records_mutex_;
  mutable std::map<int64_t, ShardRecord> records_;
};

}  // namespace longshore::data

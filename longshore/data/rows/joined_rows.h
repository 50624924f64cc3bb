// JoinedRows are the rows of several files, one file after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "longshore/data/rows/rows.h"

namespace longshore::data {

class JoinedRows : public Rows {
 public:
  explicit JoinedRows(std::vector<std::shared_ptr<const Rows>> parts);

  int64_t count() const override { return firsts_.back(); }
  void read(int64_t index, const Row& into) const override;

 private:
  std::vector<std::shared_ptr<const Rows>> parts_;
  std::vector<int64_t> firsts_;  // the number of each part's first row; and of all rows
};

}  // namespace longshore::data

// A Mixture takes rows from several sources in fixed proportions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longshore::data {

// Which source each row comes from: a pure function of the row's number, without memory. Among the
// first n rows every source has its share of n, but for fewer rows than there are sources; after
// as many rows as all shares add up to, it is exact.
class Mixture {
 public:
  struct Place {
    size_t source;
    int64_t row;  // of the source: 0, 1, 2, ... each once
  };

  // At least one share, none of them 0; their sum is below 2^62.
  explicit Mixture(std::vector<uint64_t> shares);

  Place operator()(int64_t row) const;

 private:
  std::vector<uint64_t> shares_;
  std::vector<uint64_t> left_;  // the sum of the shares from this one on
};

}  // namespace longshore::data

// HeldOutDocuments are those documents of a token file that nobody trains on.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/data/rows/token_file.h"

namespace longshore::data {

// About a fraction of all, chosen by a hash of a document's tokens: the same whatever order or
// file a document stands in, and never one of two that are alike. Of a file with pairs or rollouts
// those of the prompt, which are those before the first that carries loss: all answers to a prompt
// go together.
// Takes a bit of memory a document.
class HeldOutDocuments {
 public:
  // Reads the whole file, which has_documents(). `fraction` is from 0 to 1.
  HeldOutDocuments(const TokenFile& file, double fraction);

  bool contains(int64_t document) const { return is_held_out_[static_cast<size_t>(document)]; }
  int64_t count() const { return count_; }

 private:
  std::vector<bool> is_held_out_;
  int64_t count_ = 0;
};

}  // namespace longshore::data

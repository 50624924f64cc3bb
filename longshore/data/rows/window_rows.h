// WindowRows cuts a stream of tokens into rows, without regard to documents.
#pragma once

#include <cstdint>
#include <memory>

#include "longshore/data/rows/rows.h"
#include "longshore/data/rows/token_file.h"

namespace longshore::data {

// A token file cut into windows of T + 1 tokens, each starting at the last token of the one before.
// A window is one sequence, whatever documents it has parts of.
class WindowRows : public Rows {
 public:
  // What becomes of the last window where the tokens do not fill it.
  enum class Remainder { dropped, padded };

  // Throws a NoRowsError, without the file's name, when there is no window: T + 1 tokens are
  // needed, or 2 where the last is padded. The file has no loss mask.
  WindowRows(std::shared_ptr<const TokenFile> file, int64_t length, Remainder remainder);

  int64_t count() const override { return count_; }
  void read(int64_t index, const Row& into) const override;

 private:
  std::shared_ptr<const TokenFile> file_;
  int64_t length_;
  int64_t count_;
};

}  // namespace longshore::data

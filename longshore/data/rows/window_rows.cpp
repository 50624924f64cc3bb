#include "longshore/data/rows/window_rows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"

namespace longshore::data {

WindowRows::WindowRows(std::shared_ptr<const TokenFile> file, int64_t length, Remainder remainder)
    : file_(std::move(file)), length_(length) {
  if (file_->loss_mask() == LossMask::present)
    throw InternalError(path_text(file_->path()) + ": windows of a file with loss mask");
  const bool is_padded = remainder == Remainder::padded;
  const int64_t needed = is_padded ? 2 : length + 1;
  if (file_->token_count() < needed)
    throw NoRowsError("found " + plural(file_->token_count(), "token") + "; one sequence takes " +
                      (is_padded ? "at least " : "") + std::to_string(needed));
  const int64_t targets = file_->token_count() - 1;
  count_ = (targets + (is_padded ? length - 1 : 0)) / length;
}

void WindowRows::read(int64_t index, const Row& into) const {
  const int64_t begin = index * length_;
  const int64_t end = std::min(begin + length_ + 1, file_->token_count());
  std::vector<int32_t> window(static_cast<size_t>(end - begin));
  file_->read(begin, window);
  into.put(0, kPadding + 1, window, std::vector<uint8_t>(window.size(), 1));
}

}  // namespace longshore::data

#include "longshore/offload/memory/memory.h"

#include <cstdio>

#include "longshore/base/error.h"

namespace longshore::offload {

const char* name(Category category) {
  static constexpr std::array kNames{"parameters",  "optimizer", "gradients", "batch", "kept",
                                     "temporaries", "staging",   "workspace", "cache", "saving"};
  return kNames[static_cast<size_t>(category)];
}

std::string bytes_text(int64_t bytes) {
  char buffer[32];
  if (bytes >= int64_t{1} << 30)
    std::snprintf(buffer, sizeof buffer, "%.2f GiB", bytes / 1073741824.0);
  else if (bytes >= 1 << 20)
    std::snprintf(buffer, sizeof buffer, "%.1f MiB", bytes / 1048576.0);
  else
    std::snprintf(buffer, sizeof buffer, "%lld bytes", static_cast<long long>(bytes));
  return buffer;
}

void Ledger::take(MemoryKind kind, Category category, int64_t bytes) {
  Account& account = accounts_[kind];
  account.now += bytes;
  account.by_category[category] += bytes;
  if (account.now > account.peak) {
    account.peak = account.now;
    account.at_peak = account.by_category;
  }
}

void Ledger::give(MemoryKind kind, Category category, int64_t bytes) {
  Account& account = accounts_[kind];
  account.now -= bytes;
  account.by_category[category] -= bytes;
  if (account.now < 0) throw InternalError("Ledger: more given back than taken");
}

}  // namespace longshore::offload

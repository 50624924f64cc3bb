// What memory is for, and the ledger of what occupies it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "longshore/base/enum_array.h"
#include "longshore/models/ir/memory_kind.h"

namespace longshore::offload {

using models::kMemoryKinds;
using models::MemoryKind;
using models::name;
template <class T>
using PerMemoryKind = EnumArray<MemoryKind, T, kMemoryKinds.size()>;

enum class Category : uint8_t {
  parameters,   // compute and master weights
  optimizer,    // moments
  gradients,    // of parameters
  batch,        // token ids, targets, step scalars, results on their way to the host
  kept,         // activations kept from the forward to the backward pass
  temporaries,  // all other activations and gradients of activations
  staging,      // on the device: copies of what lives in host memory or on other devices
  workspace,    // scratch memory of kernels
  cache,        // keys and values of the tokens of a text so far
  saving,       // buffers through which a checkpoint is written
};
inline constexpr std::array kCategories{
    Category::parameters, Category::optimizer,   Category::gradients, Category::batch,
    Category::kept,       Category::temporaries, Category::staging,   Category::workspace,
    Category::cache,      Category::saving};
template <class T>
using PerCategory = EnumArray<Category, T, kCategories.size()>;

const char* name(Category category);

// "3.2 GiB", "812.0 MiB", "512 bytes".
std::string bytes_text(int64_t bytes);

// Accounts for every byte that is in use, by memory kind and category: now, and at the peak of each
// kind.
class Ledger {
 public:
  using ByCategory = PerCategory<int64_t>;

  void take(MemoryKind kind, Category category, int64_t bytes);
  // Throws InternalError when more is given than was taken.
  void give(MemoryKind kind, Category category, int64_t bytes);

  int64_t now_bytes(MemoryKind kind) const { return account(kind).now; }
  const ByCategory& now(MemoryKind kind) const { return account(kind).by_category; }
  int64_t peak_bytes(MemoryKind kind) const { return account(kind).peak; }
  // What was in use when the peak was first reached; adds up to peak_bytes.
  const ByCategory& at_peak(MemoryKind kind) const { return account(kind).at_peak; }

 private:
  struct Account {
    int64_t now = 0, peak = 0;
    ByCategory by_category{}, at_peak{};
  };
  const Account& account(MemoryKind kind) const { return accounts_[kind]; }

  PerMemoryKind<Account> accounts_;
};

}  // namespace longshore::offload

#include "longshore/offload/execution/arguments.h"

#include <gtest/gtest.h>

#include <memory>

#include "longshore/base/error.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/memory/alignment.h"

namespace longshore::offload {
namespace {

TEST(Arguments, KeepTheirSize) {
  auto backend = make_cpu_backend();
  Ledger ledger;
  Arguments arguments(*backend, ledger);
  std::byte* x = arguments.at("x", 100, MemoryKind::device, Category::batch);
  EXPECT_EQ(arguments.at("x", 100, MemoryKind::device, Category::batch), x);
  EXPECT_EQ(ledger.now_bytes(MemoryKind::device), 256);
  EXPECT_THROW(arguments.at("x", 99, MemoryKind::device, Category::batch), InternalError);
  float value = 0;
  EXPECT_THROW(arguments.write("x", &value, sizeof value), InternalError);
  EXPECT_THROW(arguments.read("y", &value, sizeof value), InternalError);
  arguments.write_part("x", 96, &value, sizeof value);
  for (int64_t offset : {-1, 97}) {
    EXPECT_THROW(arguments.write_part("x", offset, &value, sizeof value), InternalError);
    EXPECT_THROW(arguments.read_part("x", offset, &value, sizeof value), InternalError);
  }
}

TEST(Arguments, LieInOneAllocationAsFarAsItReaches) {
  std::unique_ptr<Backend> backend = make_cpu_backend();
  Ledger ledger;
  Arguments arguments(*backend, ledger, 2 * align_up(100));
  auto at = [&](const char* name, MemoryKind kind) {
    return arguments.at(name, 100, kind, Category::parameters);
  };
  std::byte* const first = at("first", MemoryKind::device);
  std::byte* const elsewhere = at("elsewhere", MemoryKind::pinned_host);
  std::byte* const second = at("second", MemoryKind::device);
  std::byte* const third = at("third", MemoryKind::device);
  EXPECT_EQ(second, first + align_up(100));
  for (std::byte* other : {elsewhere, third})
    EXPECT_TRUE(other < first || other >= first + 2 * align_up(100));
  EXPECT_EQ(at("first", MemoryKind::device), first);
  EXPECT_EQ(ledger.now_bytes(MemoryKind::device), 3 * align_up(100));
  arguments.write_zeros("third");
}

}  // namespace
}  // namespace longshore::offload

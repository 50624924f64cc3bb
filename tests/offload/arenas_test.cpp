#include "longshore/offload/execution/arenas.h"

#include <gtest/gtest.h>

#include "longshore/offload/backends/virtual_backend.h"

namespace longshore::offload {
namespace {

TEST(Arenas, AreAsLargeAsTheLargestOfTheirPlansNeeds) {
  auto backend = make_virtual_backend(nominal_hardware(models::Target::cpu));
  Plan first, second;
  first.arena_bytes = {1000, 200, 0};
  second.arena_bytes = {500, 300, 0};
  const Arenas arenas(*backend, {&first, &second});
  EXPECT_EQ(arenas.of(MemoryKind::device).bytes(), 1000);
  EXPECT_EQ(arenas.of(MemoryKind::pinned_host).bytes(), 300);
  EXPECT_NE(arenas.of(MemoryKind::device).memory(), arenas.of(MemoryKind::pinned_host).memory());
}

}  // namespace
}  // namespace longshore::offload

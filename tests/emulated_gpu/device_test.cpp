#include "tests/emulated_gpu/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace longshore::emulated {
namespace {

constexpr size_t kBytes = size_t{4} << 30;

// A copy into a buffer on one stream, and one out of it on another: what the second reads.
int handed_over(Device& device, bool waits) {
  int from = 7, to = 0;
  auto* buffer = static_cast<int*>(device.allocate(sizeof(int)));
  Stream *first = device.make_stream(), *second = device.make_stream();
  Event written;
  device.enqueue(first, [&] { *buffer = from; });
  device.record(first, written);
  if (waits) device.wait(second, written);
  device.enqueue(second, [&] { to = *buffer; });
  device.finish(second);
  device.destroy(first);
  device.destroy(second);
  EXPECT_TRUE(device.free(buffer));
  return to;
}

TEST(EmulatedDevice, StreamsThatWaitAgreeInAnyOrder) {
  Device early(kBytes, WorkOrder::early), late(kBytes, WorkOrder::late);
  EXPECT_EQ(handed_over(early, true), 7);
  EXPECT_EQ(handed_over(late, true), 7);
  for (unsigned seed = 0; seed < 100; ++seed) {
    Device mixed(kBytes, WorkOrder::mixed, seed);
    EXPECT_EQ(handed_over(mixed, true), 7) << seed;
  }
}

TEST(EmulatedDevice, StreamsThatForgetToWaitGiveWrongResults) {
  Device late(kBytes, WorkOrder::late);
  EXPECT_EQ(handed_over(late, false), -1);  // as fresh memory is
  int wrong = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Device mixed(kBytes, WorkOrder::mixed, seed);
    wrong += handed_over(mixed, false) != 7;
  }
  EXPECT_GT(wrong, 0);
  EXPECT_LT(wrong, 100);
}

// What is overwritten too early shows where work is done at once, if its reader is late.
TEST(EmulatedDevice, AStreamDoesItsWorkInOrder) {
  for (WorkOrder order : {WorkOrder::early, WorkOrder::late, WorkOrder::mixed}) {
    Device device(kBytes, order, 5);
    Stream* stream = device.make_stream();
    std::vector<int> done;
    for (int i = 0; i < 20; ++i) device.enqueue(stream, [&done, i] { done.push_back(i); });
    device.finish(stream);
    ASSERT_EQ(done.size(), 20u);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(done[i], i);
    device.destroy(stream);
  }
}

TEST(EmulatedDevice, AnEventIsItsLastRecord) {
  Device device(kBytes, WorkOrder::late);
  Stream *first = device.make_stream(), *second = device.make_stream();
  int written = 0, read = 0;
  Event event;
  device.wait(second, event);  // of nothing
  device.enqueue(first, [&] { written = 1; });
  device.record(first, event);
  device.enqueue(first, [&] { written = 2; });
  device.record(first, event);
  device.wait(second, event);
  device.enqueue(second, [&] { read = written; });
  device.enqueue(first, [&] { written = 3; });
  device.finish(second);
  EXPECT_EQ(read, 2);
  device.finish(first);
  EXPECT_EQ(written, 3);
  device.destroy(first);
  device.destroy(second);
}

TEST(EmulatedDevice, CountsMemoryAsTheDriverGivesIt) {
  Device device(kBytes, WorkOrder::late);
  const size_t before = device.free_bytes();
  EXPECT_LT(before, kBytes);
  void* one = device.allocate(1);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(before - device.free_bytes(), size_t{2} << 20);
  EXPECT_EQ(device.allocate(before), nullptr);
  EXPECT_EQ(device.kind(one), MemoryKind::device);
  int here;
  EXPECT_EQ(device.kind(&here), MemoryKind::pageable);
  EXPECT_TRUE(device.holds(one, size_t{2} << 20));
  EXPECT_FALSE(device.holds(one, (size_t{2} << 20) + 1));
  void* pinned = device.pin(100);
  EXPECT_EQ(device.kind(pinned), MemoryKind::pinned);
  EXPECT_FALSE(device.holds(pinned, 101));
  EXPECT_TRUE(device.free(pinned));
  EXPECT_TRUE(device.register_host(&here, sizeof here));
  EXPECT_EQ(device.kind(&here), MemoryKind::pinned);
  EXPECT_FALSE(device.register_host(&here, sizeof here));
  EXPECT_FALSE(device.free(&here));
  EXPECT_TRUE(device.unregister_host(&here));
  EXPECT_FALSE(device.unregister_host(&here));
  EXPECT_EQ(device.kind(&here), MemoryKind::pageable);
  EXPECT_TRUE(device.free(one));
  EXPECT_FALSE(device.free(one));
  EXPECT_EQ(device.free_bytes(), before);
  EXPECT_EQ(device.counts().allocations, 3);
}

TEST(EmulatedDeviceDeathTest, TheHostCannotTouchDeviceMemory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        Device device(kBytes, WorkOrder::late);
        *static_cast<volatile int*>(device.allocate(sizeof(int))) = 1;
      },
      "");
  Device device(kBytes, WorkOrder::late);
  auto* memory = static_cast<int*>(device.allocate(sizeof(int)));
  const Device::Access access(device);
  EXPECT_EQ(*memory, -1);
}

}  // namespace
}  // namespace longshore::emulated

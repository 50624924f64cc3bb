// What control groups leave a process.
#include "longshore/offload/memory/host_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "tests/data/temporary_folder.h"

namespace longshore::offload {
namespace {

namespace fs = std::filesystem;

// Groups as the kernel shows them.
class ControlGroups : public testing::Test {
 protected:
  void write(const fs::path& file, const std::string& contents) {
    fs::create_directories((folder_ / "groups" / file).parent_path());
    folder_.write("groups" / file, contents);
  }

  int64_t left(const std::string& membership) {
    fs::create_directories(folder_ / "proc/self");
    folder_.write("proc/self/cgroup", membership);
    folder_.write("proc/self/mountinfo",
                  "41 31 0:38 / /groups rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
                  "35 31 0:32 / /groups/memory rw,relatime - cgroup cgroup rw,memory\n");
    return control_group_bytes(folder_ / "");
  }

  data::TemporaryFolder folder_;
};

TEST_F(ControlGroups, LeaveWhatTheTightestOfThemDoes) {
  write("memory.max", "max\n");  // a root has no limit, nor what it used
  write("job/memory.max", "1000\n");
  write("job/memory.current", "300\n");
  write("job/step/memory.max", "900\n");
  write("job/step/memory.current", "100\n");
  EXPECT_EQ(left("0::/job/step\n"), 700);
  EXPECT_EQ(left("0::/job\n"), 700);
  EXPECT_EQ(left("0::/\n"), INT64_MAX);
  write("job/step/memory.max", "150\n");
  EXPECT_EQ(left("0::/job/step\n"), 50);
  EXPECT_EQ(left("0::/job\n"), 700);
}

TEST_F(ControlGroups, CountPagesOfFilesAsLeft) {
  write("memory.max", "1000\n");
  write("memory.current", "990\n");
  write("memory.stat", "anon 190\nfile 800\ninactive_file 500\nactive_file 250\nshmem 50\n");
  EXPECT_EQ(left("0::/\n"), 760);
  write("memory.current", "1200\n");
  write("memory.stat", "anon 1200\ninactive_file 0\nactive_file 0\n");
  EXPECT_EQ(left("0::/\n"), 0);
}

TEST_F(ControlGroups, AreReadInTheirFirstVersion) {
  write("memory/box/memory.limit_in_bytes", "1000\n");
  write("memory/box/memory.usage_in_bytes", "600\n");
  write("memory/box/memory.stat",
        "inactive_file 7\ntotal_inactive_file 80\ntotal_active_file 20\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(left("5:cpu,cpuacct:/box\n4:memory:/box\n0::/\n"), 500);
  // A container may see the path outside of it.
  write("memory/memory.limit_in_bytes", "2000\n");
  write("memory/memory.usage_in_bytes", "600\n");
  EXPECT_EQ(left("4:memory:/docker/1234\n"), 1400);
}

TEST_F(ControlGroups, AreNoneWhereNothingIsSaid) {
  EXPECT_EQ(left(""), INT64_MAX);
  EXPECT_EQ(left("nonsense\n4\n:\n0::\n"), INT64_MAX);
  EXPECT_EQ(control_group_bytes(folder_ / "absent"), INT64_MAX);
}

// Bytes, as the kernel counts them towards a limit.
rlim_t in_use(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string key, rest;
  rlim_t kilobytes = 0;
  while (status >> key && key != field + ":") std::getline(status, rest);
  status >> kilobytes;
  return kilobytes << 10;
}

// Other tests' memory is not limited: the limits end with the process.
TEST(HostMemoryDeathTest, IsWithinTheProcesssOwnLimits) {
  for (const auto& [resource, field] : {std::pair{RLIMIT_AS, "VmSize"}, {RLIMIT_DATA, "VmData"}})
    EXPECT_EXIT(
        {
          // Beyond what is in use: below that, nothing could be allocated at all.
          rlimit limit;
          getrlimit(resource, &limit);
          limit.rlim_cur = in_use(field) + (rlim_t{100} << 20);
          setrlimit(resource, &limit);
          const int64_t available = available_host_bytes();
          std::exit(0 <= available && available <= int64_t{100} << 20 ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  EXPECT_EQ(limited_bytes(), INT64_MAX);
}

TEST(HostMemory, IsWithinTheMachines) {
  EXPECT_GT(available_host_bytes(), 0);
  EXPECT_GT(resident_bytes(), 0);
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
}

}  // namespace
}  // namespace longshore::offload

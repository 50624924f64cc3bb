// What control groups leave of the processors' time.
#include "longshore/base/processors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "longshore/base/control_groups.h"

namespace longshore {
namespace {

namespace fs = std::filesystem;

class Quotas : public testing::Test {
 protected:
  Quotas() {
    std::string name = (fs::temp_directory_path() / "quotas-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~Quotas() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& contents) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << contents;
  }

  fs::path root_;
};

TEST_F(Quotas, AreTheLeastOfAllGroupsAboveInVersion2) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("proc/self/mountinfo",
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup rw\n");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  EXPECT_EQ(processor_quota(root_), 2.5);
  write("sys/fs/cgroup/job/step/cpu.max", "50000 100000\n");
  EXPECT_EQ(processor_quota(root_), 0.5);
}

// Version 1 mounts controllers wherever, several together; of a container only its own part.
TEST_F(Quotas, AreFoundWhereVersion1IsMounted) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/docker/12\n4:cpuset:/docker/12\n0::/\n");
  write("proc/self/mountinfo",
        "32 31 0:29 /docker/12 /my\\040groups/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "33 31 0:30 / /my\\040groups/cpuset rw - cgroup cgroup rw,cpuset\n");
  write("my groups/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("my groups/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("my groups/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(processor_quota(root_), 1.5);
  // A namespace tells of groups outside of it, which never lead out of what is mounted.
  write("proc/self/cgroup", "5:cpu,cpuacct:/../../other\n");
  EXPECT_EQ(processor_quota(root_), 1.5);
  for (const ControlGroup& group : control_groups("cpu", root_))
    EXPECT_EQ(group.folder, root_ / "my groups/cpu,cpuacct");
}

TEST_F(Quotas, AreNoneWhereNothingIsSaid) {
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("proc/self/cgroup", "nonsense\n4\n:\n0::\n1:cpu:/\n");
  write("proc/self/mountinfo", "nonsense\n - \n1 2 3 / /groups rw - cgroup cgroup rw,cpu\n");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
  write("groups/cpu.cfs_quota_us", "0\n");
  write("groups/cpu.cfs_period_us", "0\n");
  EXPECT_TRUE(std::isinf(processor_quota(root_)));
}

TEST(Processors, AreAtLeastOneAndNotMoreThanTheProcessIsBoundTo) {
  EXPECT_GE(usable_processors(), 1);
  EXPECT_LE(usable_processors(), bound_processors());
}

}  // namespace
}  // namespace longshore

#include "longshore/trainer/programs/compare/energy_meter.h"

#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

// A powercap folder of the test's own.
class Powercap {
 public:
  void set(const std::string& zone, const std::string& name, int64_t microjoules) const {
    std::filesystem::create_directories(folder_ / zone);
    folder_.write(zone + "/name", name + "\n");
    folder_.write(zone + "/energy_uj", std::to_string(microjoules) + "\n");
    folder_.write(zone + "/max_energy_range_uj", "1000000000\n");
  }
  std::filesystem::path path() const { return folder_ / ""; }

 private:
  data::TemporaryFolder folder_;
};

TEST(EnergyMeter, AddsPackagesAndNothingThatIsInThem) {
  Powercap powercap;
  powercap.set("intel-rapl:0", "package-0", 5'000'000);
  powercap.set("intel-rapl:1", "package-1", 7'000'000);
  powercap.set("intel-rapl:2", "psys", 7'000'000);
  powercap.set("intel-rapl:0:0", "dram", 1'000'000);
  powercap.set("intel-rapl-mmio:0", "package-0", 5'000'000);
  auto meter = find_package_meter(powercap.path());
  ASSERT_TRUE(meter);
  double before = meter->joules();
  powercap.set("intel-rapl:0", "package-0", 6'500'000);
  powercap.set("intel-rapl:1", "package-1", 9'000'000);
  powercap.set("intel-rapl:2", "psys", 90'000'000);
  powercap.set("intel-rapl:0:0", "dram", 90'000'000);
  powercap.set("intel-rapl-mmio:0", "package-0", 90'000'000);
  EXPECT_DOUBLE_EQ(meter->joules() - before, 3.5);
}

TEST(EnergyMeter, GoesOnWhereACounterBeginsAnew) {
  Powercap powercap;
  powercap.set("intel-rapl:0", "package-0", 999'000'000);
  auto meter = find_package_meter(powercap.path());
  ASSERT_TRUE(meter);
  double before = meter->joules();
  powercap.set("intel-rapl:0", "package-0", 2'000'000);
  EXPECT_DOUBLE_EQ(meter->joules() - before, 3);
  powercap.set("intel-rapl:0", "package-0", 4'000'000);
  EXPECT_DOUBLE_EQ(meter->joules() - before, 5);
}

TEST(EnergyMeter, IsNoneWhereNothingCounts) {
  Powercap powercap;
  EXPECT_FALSE(find_package_meter(powercap.path()));
  EXPECT_FALSE(find_package_meter(powercap.path() / "none"));
  powercap.set("intel-rapl:0", "package-0", 1);
  std::filesystem::remove(powercap.path() / "intel-rapl:0/energy_uj");
  EXPECT_FALSE(find_package_meter(powercap.path()));
}

}  // namespace
}  // namespace longshore::trainer

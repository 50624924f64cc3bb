#include "longshore/trainer/config/hardware_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "longshore/base/error.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using models::Dtype;
using offload::Hardware;
using offload::Lane;
using offload::RateCurve;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

constexpr const char* kLeast =
    "target: cuda\n"
    "device_bytes: 80e9\n"
    "host_bytes: 100e9\n"
    "launch_seconds: 1e-6\n"
    "link_to_device: 2e9\n"
    "link_to_host: 1e9\n";

constexpr const char* kLeastRates =
    "flops_per_second.matmul.bf16: 1e14\n"
    "flops_per_second.attention: 1e13\n"
    "bytes_per_second.memory: 1e12\n"
    "bytes_per_second.host.memory: 1e11\n";

Hardware parse(const std::string& more) {
  return parse_hardware(kLeast + more + kLeastRates, "x.yml", "x");
}

std::string refused(const std::string& more) {
  try {
    parse(more);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RateCurve, GoesStraightInLogarithms) {
  RateCurve curve({{1e3, 10}, {1e5, 1000}, {1e6, 1000}});
  EXPECT_DOUBLE_EQ(curve.at(1), 10);
  EXPECT_DOUBLE_EQ(curve.at(1e3), 10);
  EXPECT_NEAR(curve.at(1e4), 100, 1e-9);
  EXPECT_DOUBLE_EQ(curve.at(3e5), 1000);
  EXPECT_DOUBLE_EQ(curve.at(1e9), 1000);
  EXPECT_DOUBLE_EQ(RateCurve(7).at(123), 7);
  EXPECT_TRUE(std::isinf(RateCurve().at(1)));
}

// A product [64,32]·[16,32]ᵀ: 65536 FLOPs; 2·(64·32 + 16·32 + 64·16) bytes in bf16.
double product_seconds(const Hardware& hardware, Dtype dtype, Lane lane = Lane::compute) {
  std::vector<models::Type> in{{{64, 32}, dtype}, {{16, 32}, dtype}}, out{{{64, 16}, dtype}};
  return hardware.kernel_seconds(lane, models::linear_op, {}, in, out);
}

TEST(Hardware, FindsTheCurveThatIsNearest) {
  Hardware hardware = parse(
      "flops_per_second.linear.bf16: 65536\n"
      "flops_per_second.linear: 32768\n"
      "flops_per_second.matmul.f32: 8192\n"
      "flops_per_second.matmul: 4096\n"
      "flops_per_second.host.matmul: 2048\n");
  EXPECT_NEAR(product_seconds(hardware, Dtype::bfloat16), 1, 1e-5);
  EXPECT_NEAR(product_seconds(hardware, Dtype::float32), 2, 1e-5);
  EXPECT_NEAR(product_seconds(hardware, Dtype::float32, Lane::host_compute), 32, 1e-5);
  hardware.flops_per_second.erase("linear");
  EXPECT_NEAR(product_seconds(hardware, Dtype::float32), 8, 1e-5);
  hardware.flops_per_second.erase("matmul.f32");
  EXPECT_NEAR(product_seconds(hardware, Dtype::float32), 16, 1e-5);
  hardware.bytes_per_second["linear"] = RateCurve(4 * (64 * 32 + 16 * 32 + 64 * 16) / 20.);
  EXPECT_NEAR(product_seconds(hardware, Dtype::float32), 20, 1e-5);
  EXPECT_NEAR(product_seconds(hardware, Dtype::bfloat16), 10, 1e-5);
}

TEST(Hardware, FindsAVariantsCurve) {
  const models::Type heads{{1, 16, 8}, Dtype::bfloat16}, lse{{1, 1, 16}, Dtype::float32};
  const std::vector<models::Type> in{heads, heads, heads, heads, heads, lse};
  auto seconds = [&](const Hardware& hardware, bool deterministic) {
    const std::any attrs = models::AttentionAttrs{{.head_dim = 8, .deterministic = deterministic}};
    return hardware.kernel_seconds(Lane::compute, models::attention_grad_op, attrs, in,
                                   std::vector{heads, heads, heads});
  };
  const Hardware alike = parse("flops_per_second.attention_grad: 100\n"),
                 apart = parse(
                     "flops_per_second.attention_grad: 100\n"
                     "flops_per_second.attention_grad_any_order.bf16: 200\n");
  EXPECT_NEAR(seconds(alike, true), 102.4, 1e-3);  // 10·8·(16·16 / 2) FLOPs
  EXPECT_EQ(seconds(alike, false), seconds(alike, true));
  EXPECT_EQ(seconds(apart, true), seconds(alike, true));
  EXPECT_NEAR(seconds(apart, false), 51.2, 1e-3);
}

TEST(Hardware, SharesItsLink) {
  Hardware hardware = parse("link_both_ways: 0.5\n");
  EXPECT_NEAR(hardware.copy_seconds(Lane::host_to_device, 2'000'000'000), 1, 1e-5);
  EXPECT_NEAR(hardware.copy_seconds(Lane::device_to_host, 2'000'000'000), 2, 1e-5);
  EXPECT_NEAR(
      hardware.copy_seconds(Lane::device_to_host, 2'000'000'000, Hardware::OtherDirection::busy), 4,
      1e-5);
}

double all_reduce_seconds(const Hardware& hardware, const models::Collective& among) {
  return hardware.collective_seconds(models::all_reduce_op, among,
                                     {{1'000'000'000}, Dtype::float32});
}

TEST(Hardware, TimesCollectives) {
  Hardware hardware = parse("ici: 100e9\ndcn: 10e9\n");
  auto seconds = [&](int64_t ranks, int64_t nodes) {
    return all_reduce_seconds(hardware, {offload::Axis::fsdp, ranks, nodes});
  };
  EXPECT_NEAR(seconds(2, 1), 4e9 / 100e9, 1e-5);
  EXPECT_NEAR(seconds(8, 1), 2 * 7. / 8 * 4e9 / 100e9, 1e-5);
  // One rank of each of two nodes; eight of each, which send side by side; more than ici carries.
  EXPECT_NEAR(seconds(2, 2), 4e9 / 10e9, 1e-5);
  EXPECT_NEAR(seconds(16, 2), 2 * 15. / 16 * 4e9 / 80e9, 1e-5);
  EXPECT_NEAR(seconds(32, 2), 2 * 31. / 32 * 4e9 / 100e9, 1e-5);
  EXPECT_NEAR(seconds(1, 1), hardware.launch_seconds, 1e-9);
}

// The steps of NCCL's rings and trees, added up by hand.
TEST(Hardware, CountsTheHopsBetweenNodes) {
  const Hardware hardware =
      parse("ici: 100e9\ndcn: 10e9\nici_hop_seconds: 1e-3\ndcn_hop_seconds: 1e-2\n");
  auto seconds = [&](const models::Op& op, int64_t ranks, int64_t nodes, int64_t count) {
    return hardware.collective_seconds(op, models::Collective{offload::Axis::fsdp, ranks, nodes},
                                       {{count}, Dtype::float32});
  };
  // 31 hops of a ring through four nodes of eight: three of them between nodes.
  const double hops = 3e-2 + 28e-3;
  EXPECT_NEAR(seconds(models::all_gather_op, 32, 4, 1'000'000), 31 * 4e6 / 80e9 + hops, 2e-6);
  EXPECT_NEAR(seconds(models::reduce_scatter_op, 32, 4, 32'000'000), 31 * 4e6 / 80e9 + hops, 2e-6);
  // What is large goes around the ring, twice; what is small through a tree.
  EXPECT_NEAR(seconds(models::all_reduce_op, 32, 4, 32'000'000'000), 2 * 31 * 4e9 / 80e9 + 2 * hops,
              2e-6);
  EXPECT_NEAR(seconds(models::all_reduce_op, 32, 4, 1000),
              2 * 4e3 / (0.92 * 80e9) + 2 * (2e-2 + 7e-3), 2e-6);
  // The rate within a node is with its hops.
  EXPECT_NEAR(seconds(models::all_gather_op, 8, 1, 1'000'000), 7 * 4e6 / 100e9, 2e-6);
}

TEST(Hardware, SharesTheNetworkWithMoreNodes) {
  const Hardware alone = parse("ici: 100e9\ndcn: 10e9\n"),
                 shared = parse("ici: 100e9\ndcn: 10e9\ndcn_contention: 0.2\n");
  auto times_as_long = [&](int64_t nodes) {
    const models::Collective among{offload::Axis::data, nodes, nodes};
    return all_reduce_seconds(shared, among) / all_reduce_seconds(alone, among);
  };
  EXPECT_NEAR(times_as_long(2), 1, 1e-3);
  EXPECT_NEAR(times_as_long(4), 1 / 0.8, 1e-3);
  EXPECT_NEAR(times_as_long(16), 1 / (0.8 * 0.8 * 0.8), 1e-3);
}

TEST(Hardware, SendsOnTheLinksThatThereAre) {
  const Hardware torus = parse("ici: [1e8:10e9, 1e9:20e9]\nici_links: [4:2, 64:6]\n");
  auto rate = [&](int64_t devices, double bytes_of_link) {
    const double links = torus.ici_links.at(static_cast<double>(devices)),
                 bytes = bytes_of_link * links;
    const auto n = static_cast<double>(devices);
    const auto count = static_cast<int64_t>(bytes / (2 * (n - 1) / n) / 4);
    return bytes / torus.collective_seconds(models::all_reduce_op,
                                            models::Collective{offload::Axis::fsdp, devices, 1},
                                            {{count}, Dtype::float32});
  };
  EXPECT_NEAR(rate(4, 1e9) / 40e9, 1, 1e-3);
  EXPECT_NEAR(rate(64, 1e9) / 120e9, 1, 1e-3);
  EXPECT_NEAR(rate(256, 1e9) / 120e9, 1, 1e-3);
  EXPECT_NEAR(rate(64, 1e8) / 60e9, 1, 1e-3);  // the size is that of a link
}

// More nodes take longer, at every scale.
TEST(Hardware, TakesLongerAmongMoreNodes) {
  for (const std::string& name : hardware_names(kConfigs)) {
    const Hardware hardware = read_hardware(name, kConfigs);
    if (hardware.dcn.points().empty() || hardware.dcn_hop_seconds == 0) continue;
    for (const models::Op* op :
         {&models::all_gather_op, &models::reduce_scatter_op, &models::all_reduce_op}) {
      double before = 0;
      for (int64_t nodes = 1; nodes <= 4096; nodes *= 2) {
        const int64_t ranks = 8 * nodes, whole = int64_t{1} << 28;
        const double now = hardware.collective_seconds(
            *op, models::Collective{offload::Axis::fsdp, ranks, nodes},
            {{op == &models::all_gather_op ? whole / ranks : whole}, Dtype::bfloat16});
        EXPECT_GT(now, before) << name << " " << op->name << " among " << nodes << " nodes";
        before = now;
      }
    }
  }
}

TEST(Hardware, IsSharedByDevicesThatOffload) {
  Hardware hardware = parse("gpus_per_link: 2\nhost_bandwidth: 1.2e9\n");
  auto rate = [&](int64_t devices) { return hardware.shared_by(devices).link_to_device.at(1e9); };
  EXPECT_EQ(rate(1), 1.2e9);  // the link has 2e9
  EXPECT_EQ(rate(2), 0.6e9);  // host memory
  EXPECT_EQ(rate(4), 0.3e9);
  hardware.host_bandwidth = 0;
  EXPECT_EQ(rate(1), 2e9);
  EXPECT_EQ(rate(2), 1e9);
  EXPECT_EQ(rate(4), 1e9);  // two links
}

// The part of its nominal peak that a card has been measured to reach, where its clock goes beyond
// the one that the peak is stated for.
double above_nominal(const std::string& name) {
  if (name == "rtx5090") return 1.08;
  if (name == "rtx4090") return 1.02;
  return 0.95;
}

TEST(HardwareFile, ReadsWhatIsShipped) {
  std::vector<std::string> names = hardware_names(kConfigs);
  for (const char* name :
       {"h200", "h100", "h100_a3", "a100_80g", "a100_40g", "l40s", "l4", "rtx_pro_6000", "a6000",
        "rtx5090", "rtx4090", "rtx3090", "tpu_v5p", "tpu_v6e"}) {
    ASSERT_NE(std::ranges::find(names, name), names.end()) << name;
    Hardware hardware = read_hardware(name, kConfigs);
    EXPECT_EQ(hardware.name, name);
    EXPECT_GT(hardware.peak_flops_per_second.at(Dtype::bfloat16), 5e13);
    EXPECT_NE(hardware.source, offload::ProfileSource::unstated) << name;
    // No product is faster than the peak, unless its profile names who measured it above the
    // nominal one; and text() loses nothing that matters.
    const double most = above_nominal(name);
    for (double size : {1e8, 1e10, 1e12, 1e14})
      EXPECT_LT(hardware.flops_per_second.at("matmul.bf16").at(size),
                most * hardware.peak_flops_per_second.at(Dtype::bfloat16))
          << name;
    EXPECT_EQ(text(parse_hardware(text(hardware), "again", name)), text(hardware));
  }
}

TEST(HardwareFile, WritesEveryKeyThatIsSet) {
  EXPECT_EQ(text(parse("")),
            "target: cuda\ndevice_bytes: 80000000000\nhost_bytes: 100000000000\n"
            "launch_seconds: 1e-06\nlink_to_device: 2e+09\nlink_to_host: 1e+09\n"
            "link_both_ways: 1\ngpus_per_link: 1\npeer_to_peer: false\n"
            "flops_per_second.attention: 1e+13\nflops_per_second.matmul.bf16: 1e+14\n"
            "bytes_per_second.host.memory: 1e+11\n"
            "bytes_per_second.memory: 1e+12\n");
  EXPECT_EQ(text(parse("ici_hop_seconds: 0\ndcn_hop_seconds: 0\ndcn_contention: 0\n")),
            text(parse("")))
      << "what is there where nothing is said";
  const std::string all =
      text(parse("device_reserved_bytes: 1e9\npeak_flops_per_second.bf16: 2e14\n"
                 "peak_flops_per_second.f32: 1e14\ncache_bytes: 3e7\nfetch_bytes_per_second: 1e10\n"
                 "link_both_ways: 0.5\ngpus_per_link: 4\nhost_bandwidth: 3e11\npeer_to_peer: true\n"
                 "ici: [1:2, 3:4]\ndcn: 5e10\nsource: published_runs\nici_links: [4:2, 64:6]\n"
                 "ici_hop_seconds: 3e-6\ndcn_hop_seconds: 1.4e-5\ndcn_contention: 0.1\n"
                 "kernels_beside_dcn: 0.7\n"));
  for (const char* line :
       {"device_reserved_bytes: 1000000000", "peak_flops_per_second.bf16: 2e+14",
        "peak_flops_per_second.f32: 1e+14", "cache_bytes: 30000000",
        "fetch_bytes_per_second: 1e+10", "link_both_ways: 0.5", "gpus_per_link: 4",
        "host_bandwidth: 3e+11", "peer_to_peer: true", "ici: [1:2, 3:4]", "dcn: 5e+10",
        "source: published_runs", "ici_links: [4:2, 64:6]", "ici_hop_seconds: 3e-06",
        "dcn_hop_seconds: 1.4e-05", "dcn_contention: 0.1", "kernels_beside_dcn: 0.7"})
    EXPECT_THAT(all, HasSubstr(std::string(line) + "\n"));
}

TEST(HardwareFile, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refused(""), "");
  EXPECT_THAT(refused("flops_per_second.linaer: 1\n"),
              HasSubstr("nearest: flops_per_second.linear"));
  EXPECT_THAT(refused("peer_to_pear: true\n"), HasSubstr("x.yml:7"));
  EXPECT_THAT(refused("source: datasheet\n"), HasSubstr("nearest: data_sheet"));
  for (const char* bad : {"peer_to_peer: yes\n",
                          "host_bandwidth: 0\n",
                          "host_bandwidth: 1e-300\n",
                          "host_bandwidth: inf\n",
                          "peak_flops_per_second.bf16: 1e-300\n",
                          "peak_flops_per_second.bf16: 1e300\n",
                          "link_both_ways: 1e-300\n",
                          "flops_per_second.matmul: [1e-300:1]\n",
                          "peak_flops_per_second.bf16: 4e13\n",
                          "flops_per_second.matmul: [1:1e-300, 2:1]\n",
                          "bytes_per_second.memory: 1e22\n",
                          "ici: fast\n",
                          "dcn: [1e6:0]\n",
                          "link_both_ways: 0\n",
                          "source: guess\n",
                          "source: [measured]\n",
                          "ici_links: 0\n",
                          "ici_links: [4:2, 64:65]\n",
                          "ici_links: [64:6, 4:2]\n",
                          "ici_hop_seconds: -1e-6\n",
                          "dcn_hop_seconds: 14\n",
                          "dcn_contention: 0.6\n",
                          "dcn_contention: none\n",
                          "kernels_beside_dcn: 0\n",
                          "kernels_beside_dcn: 1.1\n",
                          "link_both_ways: 1.5\n",
                          "gpus_per_link: -1\n",
                          "gpus_per_link: 0.5\n",
                          "gpus_per_link: 2.5\n",
                          "cache_bytes: 1e6\n",
                          "fetch_bytes_per_second: 1e10\n",
                          "flops_per_second.matmul: []\n",
                          "flops_per_second.matmul: [1:2, 1:3]\n",
                          "flops_per_second.matmul: [2:2, 1:3]\n",
                          "flops_per_second.matmul: [1:0]\n",
                          "flops_per_second.matmul: fast\n",
                          "flops_per_second.matmul: nan\n",
                          "flops_per_second.matmul: [1:inf]\n",
                          "flops_per_second.matmul.f16: 1\n",
                          "flops_per_second.: 1\n",
                          "flops_per_second: 1\n",
                          "device_reserved_bytes: 80e9\n",
                          "device_reserved_bytes: 1e40\n",
                          "link_both_ways: [1, 2]\n",
                          "target: gpu\n"})
    EXPECT_NE(refused(bad), "") << bad;
  EXPECT_THROW(parse_hardware("target: cpu\n", "x.yml", "x"), ConfigError);
  try {
    read_hardware("h20", kConfigs);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nearest: h200"));
  }
}

TEST(HardwareFile, RatesAreNotFarAboveThePeak) {
  EXPECT_EQ(refused("peak_flops_per_second.bf16: 6e13\n"), "");
  EXPECT_THAT(refused("peak_flops_per_second.bf16: 1e9\n"),
              HasSubstr("flops_per_second.attention: found 1e+13, expected at most twice the "
                        "peak_flops_per_second.bf16 of 1e+09"));
}

TEST(HardwareFile, NamesTheRateThatIsMissing) {
  const std::string rates = kLeastRates;
  for (const char* line : {"flops_per_second.matmul", "flops_per_second.attention",
                           "bytes_per_second.memory", "bytes_per_second.host.memory"}) {
    const size_t begin = rates.find(line), end = rates.find('\n', begin) + 1;
    try {
      parse_hardware(kLeast + rates.substr(0, begin) + rates.substr(end), "x.yml", "x");
      FAIL() << line;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(line));
    }
  }
}

}  // namespace
}  // namespace longshore::trainer

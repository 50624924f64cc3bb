#include "longshore/trainer/weights/initialize.h"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "longshore/offload/backends/cpu_backend.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/toy_models.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using offload::Bucket;
using offload::Copy;
using offload::ParameterLayout;

using Bytes = std::vector<std::byte>;

// Every copy of every parameter: "name.master" and so on, gaps of the bucket left out.
struct State {
  std::map<std::string, Bytes> parameters;
  std::map<std::string, Bytes> buckets;  // whole, gaps included
};

State initialized(const ParameterLayout& layout, uint64_t seed = 1) {
  auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  initialize(layout, seed, arguments);
  State state;
  for (const Bucket& bucket : layout.buckets)
    for (Copy copy : bucket.copies()) {
      std::string name = argument_name(bucket, copy);
      if (!arguments.has(name)) continue;
      Bytes contents(static_cast<size_t>(bytes(bucket, copy)));
      arguments.read(name, contents.data(), bytes(bucket, copy));
      int64_t element = models::size_bytes(dtype(bucket, copy));
      for (const offload::Parameter& parameter : bucket.parameters) {
        auto begin = contents.begin() + parameter.offset * element;
        state.parameters[parameter.name + name.substr(bucket.name.size())] = {
            begin, begin + parameter.type.shape.count() * element};
      }
      state.buckets[name] = std::move(contents);
    }
  return state;
}

std::vector<float> floats(const Bytes& contents) {
  std::vector<float> values(contents.size() / sizeof(float));
  std::memcpy(values.data(), contents.data(), contents.size());
  return values;
}

ParameterLayout layout_of(const models::DecoderConfig& config) {
  return offload::lay_out(models::decoder(config), {.optimizers = offload::adamw_states()});
}

const char* kQuery = "model.layers.1.self_attn.q_proj.weight.compute";

TEST(Initialize, DependsOnSeedAndNameOnly) {
  models::DecoderConfig config = offload::tiny_llama();
  State once = initialized(layout_of(config));
  EXPECT_EQ(once.buckets, initialized(layout_of(config)).buckets);
  EXPECT_NE(once.parameters.at(kQuery), initialized(layout_of(config), 2).parameters.at(kQuery));

  // Fewer layers, tied embeddings, another order: what is still there is the same.
  config.layers = 2;
  config.tied_embeddings = true;
  ParameterLayout fewer = layout_of(config);
  std::reverse(fewer.buckets.begin(), fewer.buckets.end());
  for (Bucket& bucket : fewer.buckets) {
    std::reverse(bucket.parameters.begin(), bucket.parameters.end());
    int64_t offset = 0;
    for (offload::Parameter& parameter : bucket.parameters) {
      parameter.offset = offset;
      int64_t size = parameter.type.shape.count();
      offset += (size + offload::kParameterAlignment - 1) / offload::kParameterAlignment *
                offload::kParameterAlignment;
    }
  }
  State other = initialized(fewer);
  EXPECT_LT(other.parameters.size(), once.parameters.size());
  for (const auto& [name, contents] : other.parameters)
    EXPECT_EQ(contents, once.parameters.at(name)) << name;
}

TEST(Initialize, DoesNotDependOnTheThreads) {
  ParameterLayout layout = layout_of(offload::tiny_llama());
  int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  State one = initialized(layout);
  omp_set_num_threads(3);
  EXPECT_EQ(initialized(layout).buckets, one.buckets);
  omp_set_num_threads(threads);
}

TEST(Initialize, NarrowWeightsAreRoundedFromTheSameMasters) {
  State wide = initialized(layout_of(offload::tiny_llama(Dtype::float32)));
  State narrow = initialized(layout_of(offload::tiny_llama(Dtype::bfloat16)));
  int compared = 0;
  for (const auto& [name, contents] : wide.parameters) {
    if (!name.ends_with(".compute")) continue;
    std::string stem = name.substr(0, name.size() - std::string(".compute").size());
    EXPECT_EQ(narrow.parameters.at(stem + ".master"), contents) << name;
    std::vector<float> values = floats(contents);
    at::Tensor rounded =
        at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat)
            .to(at::kBFloat16);
    const Bytes& found = narrow.parameters.at(name);
    ASSERT_EQ(found.size(), rounded.nbytes());
    EXPECT_EQ(std::memcmp(found.data(), rounded.const_data_ptr(), found.size()), 0) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 2 + 3 * 9 + 1);
}

TEST(Initialize, MatricesAreNormalAndNormsAreOne) {
  models::DecoderConfig config = offload::tiny_llama();
  config.width = 256;
  config.mlp_width = 1024;
  ParameterLayout layout = layout_of(config);
  State state = initialized(layout);
  for (const Bucket& bucket : layout.buckets)
    for (const offload::Parameter& parameter : bucket.parameters) {
      std::vector<float> values = floats(state.parameters.at(parameter.name + ".compute"));
      double count = static_cast<double>(values.size());
      if (parameter.type.shape.rank() == 1) {
        EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float x) { return x == 1; }));
        continue;
      }
      double deviation = parameter.weight.init.scale;
      EXPECT_EQ(deviation, 0.02);
      double mean = 0, square = 0, fourth = 0, neighbours = 0, largest = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        double x = values[i] / deviation;
        mean += x / count;
        square += x * x / count;
        fourth += x * x * x * x / count;
        if (i + 1 < values.size()) neighbours += x * values[i + 1] / deviation / count;
        largest = std::max(largest, std::abs(x));
      }
      // Five standard errors of each; the fourth moment of a normal number is 3, its variance 96.
      double error = 5 / std::sqrt(count);
      EXPECT_NEAR(mean, 0, error) << parameter.name;
      EXPECT_NEAR(square, 1, std::sqrt(2) * error) << parameter.name;
      EXPECT_NEAR(fourth, 3, std::sqrt(96) * error) << parameter.name;
      EXPECT_NEAR(neighbours, 0, error) << parameter.name;
      EXPECT_GT(largest, 3) << parameter.name;
      EXPECT_LT(largest, 6.7) << parameter.name;
    }
}

TEST(Initialize, ParametersDoNotResembleEachOther) {
  State state = initialized(layout_of(offload::tiny_llama()));
  std::map<std::string, std::vector<float>> matrices;
  for (const auto& [name, contents] : state.parameters)
    if (name.ends_with("proj.weight.compute")) matrices[name] = floats(contents);
  ASSERT_EQ(matrices.size(), 3u * 7u);
  for (const auto& [a_name, a] : matrices)
    for (const auto& [b_name, b] : matrices) {
      if (a_name >= b_name) continue;
      double product = 0, count = static_cast<double>(std::min(a.size(), b.size()));
      for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) product += double(a[i]) * b[i];
      EXPECT_LT(std::abs(product) / (0.02 * 0.02 * count), 6 / std::sqrt(count))
          << a_name << " and " << b_name;
    }
}

TEST(Initialize, MomentsAndGapsAreZero) {
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    ParameterLayout layout = layout_of(offload::tiny_llama(dtype));
    State state = initialized(layout);
    auto zero = [](std::byte b) { return b == std::byte{0}; };
    for (const auto& [name, contents] : state.buckets)
      if (name.ends_with("moment")) {
        EXPECT_TRUE(std::all_of(contents.begin(), contents.end(), zero)) << name;
      }
    for (const Bucket& bucket : layout.buckets) {
      const Bytes& contents = state.buckets.at(argument_name(bucket, Copy::compute));
      int64_t element = models::size_bytes(bucket.dtype);
      for (size_t p = 0; p < bucket.parameters.size(); ++p) {
        const offload::Parameter& parameter = bucket.parameters[p];
        int64_t end =
            p + 1 < bucket.parameters.size() ? bucket.parameters[p + 1].offset : bucket.count;
        EXPECT_TRUE(std::all_of(
            contents.begin() + (parameter.offset + parameter.type.shape.count()) * element,
            contents.begin() + end * element, zero))
            << parameter.name;
      }
    }
  }
}

TEST(Initialize, FrozenParametersHaveComputeWeightsOnly) {
  ParameterLayout layout =
      offload::lay_out(offload::toy(), {.optimizers = offload::adamw_states()});
  State state = initialized(layout);
  for (const Bucket& bucket : layout.buckets) {
    bool trains = bucket.trainable == models::Trainable::yes;
    EXPECT_TRUE(state.buckets.count(argument_name(bucket, Copy::compute)));
    for (const char* state_name : {".first_moment", ".second_moment"})
      EXPECT_EQ(state.buckets.count(bucket.name + state_name), trains);
    EXPECT_FALSE(state.buckets.count(argument_name(bucket, Copy::master)));
  }
}

}  // namespace
}  // namespace longshore::trainer

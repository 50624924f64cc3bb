// Every family against transformers: small checkpoints with the logits, losses and gradients that
// transformers gives in float32 (tests/goldens/models; each golden.json has its tolerances, in both
// spellings of config.json), through plans, under several policies.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/safetensors_checkpoint.h"
#include "data/safetensors_float.h"
#include "models/hf/config.h"
#include "offload/cpu_backend.h"
#include "offload/gradient_function.h"
#include "trainer/step.h"

namespace longshore::offload {
namespace {

namespace fs = std::filesystem;
using data::SafetensorsTensor;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Golden {
  explicit Golden(const std::string& name)
      : folder(fs::path(LONGSHORE_SOURCE_DIR) / "tests/goldens/models" / name),
        weights(folder),
        tensors(folder / "golden.safetensors"),
        description(nlohmann::json::parse(read_text(folder / "golden.json"))) {}

  models::DecoderConfig config(const char* file) const {
    models::DecoderConfig config = models::parse_hf_config(read_text(folder / file));
    config.batch = tensors.at("input_ids").shape[0];
    config.length = tensors.at("input_ids").shape[1];
    config.segments = tensors.contains("segment_ids");
    return config;
  }

  // |got - reference| <= abs + rel * max|reference|, by the first word of the tensor's name.
  void expect(const std::string& name, std::span<const float> got, double factor = 1) const {
    const auto& bounds = description["tolerances"][name.substr(0, name.find('.'))];
    std::vector<float> reference = floats(tensors.at(name));
    ASSERT_EQ(got.size(), reference.size()) << name;
    double largest = 0, worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(double(reference[i])));
      worst = std::max(worst, std::abs(got[i] * factor - double(reference[i])));
    }
    EXPECT_LE(worst, bounds["abs"].get<double>() + bounds["rel"].get<double>() * largest) << name;
  }

  static std::vector<float> floats(const SafetensorsTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.element_count()));
    data::NonFinite odd = data::to_float32(tensor, values);
    EXPECT_EQ(odd, data::NonFinite{}) << tensor.name;
    return values;
  }
  std::vector<int32_t> integers(const std::string& name) const {
    const SafetensorsTensor& tensor = tensors.at(name);
    std::vector<int32_t> values;
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      int64_t value;
      std::memcpy(&value, tensor.data.data() + i * sizeof value, sizeof value);
      values.push_back(static_cast<int32_t>(value));
    }
    return values;
  }

  fs::path folder;
  data::Checkpoint weights;
  data::SafetensorsFile tensors;
  nlohmann::json description;
};

// What the decoder reads, by name. The target of a position is the next one's label.
std::map<std::string, std::vector<int32_t>> batch_of(const Golden& golden,
                                                     const models::DecoderConfig& config) {
  std::map<std::string, std::vector<int32_t>> batch{{"tokens", golden.integers("input_ids")}};
  std::vector<int32_t> labels = golden.integers("labels"), &targets = batch["targets"],
                       &positions = batch["positions"];
  for (size_t i = 0; i < labels.size(); ++i) {
    int64_t t = static_cast<int64_t>(i) % config.length;
    bool has_next = t + 1 < config.length;
    targets.push_back(has_next && labels[i + 1] >= 0 ? labels[i + 1] : -1);
    positions.push_back(static_cast<int32_t>(t));
  }
  if (golden.tensors.contains("position_ids")) positions = golden.integers("position_ids");
  if (config.segments) batch["segments"] = golden.integers("segment_ids");
  return batch;
}

void expect_gradients(const Golden& golden, const models::DecoderConfig& config,
                      const std::string& policy) {
  models::Model model = models::decoder(config);
  Runtime runtime{make_cpu_backend(), {}};
  GradientFunction f(runtime, model,
                     {.policy = make_policy(policy, {}, model.stages[1].programs[0])});
  for (const std::string& name : golden.weights.names())
    f.set_parameter(name, Golden::floats(golden.weights.at(name)));
  int64_t trained = 0;
  for (const auto& [name, values] : batch_of(golden, config)) {
    f.set_batch(name, values);
    if (name == "targets")
      trained = std::count_if(values.begin(), values.end(), [](int32_t t) { return t >= 0; });
  }
  const float loss = static_cast<float>(f());
  double mean = 1.0 / static_cast<double>(trained);
  golden.expect("loss", {&loss, 1}, mean);
  for (const std::string& name : golden.weights.names())
    golden.expect("grad." + name, f.gradient(name), mean);
}

void expect_logits(const Golden& golden, const models::DecoderConfig& config) {
  int64_t rows = config.batch * config.length;
  models::Model model = models::decoder(config, {.head = models::Head::logits, .rows = rows});
  ParameterLayout layout = lay_out(model);
  Plan plan = trainer::plan_forward(model, layout, "logits", {}, models::Target::cpu);
  auto backend = make_cpu_backend();
  Ledger ledger;
  Arguments arguments(*backend, ledger);
  Arena device(*backend, MemoryKind::device, plan.arena(MemoryKind::device));
  Arena host(*backend, MemoryKind::pinned_host, plan.arena(MemoryKind::pinned_host));
  Executable executable(plan, *backend, arguments, device, host);
  for (const auto& [name, location] : layout.by_name) {
    std::vector<float> values = Golden::floats(golden.weights.at(name));
    arguments.write_part(argument_name(layout.slab(location), Copy::compute),
                         layout.parameter(location).offset * static_cast<int64_t>(sizeof(float)),
                         values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
  }
  std::map<std::string, std::vector<int32_t>> batch = batch_of(golden, config);
  for (int32_t row = 0; row < rows; ++row) batch["rows"].push_back(row);
  for (const auto& [name, values] : batch)
    if (arguments.has(host_name(name)))
      arguments.write(host_name(name), values.data(),
                      static_cast<int64_t>(values.size() * sizeof(int32_t)));
  executable.run(ledger);
  backend->synchronize();
  std::vector<float> logits(static_cast<size_t>(rows * config.vocabulary));
  arguments.read(host_name("output.0"), logits.data(),
                 static_cast<int64_t>(logits.size() * sizeof(float)));
  // Padded positions mean nothing.
  if (golden.tensors.contains("attention_mask")) {
    std::vector<int32_t> mask = golden.integers("attention_mask");
    std::vector<float> reference = Golden::floats(golden.tensors.at("logits"));
    for (size_t i = 0; i < logits.size(); ++i)
      if (mask[i / config.vocabulary] == 0) logits[i] = reference[i];
  }
  golden.expect("logits", logits);
}

class Goldens : public testing::TestWithParam<const char*> {};

TEST_P(Goldens, AgreeWithTransformers) {
  Golden golden(GetParam());
  for (const char* file : {"config.json", "config_v4.json"}) {
    SCOPED_TRACE(file);
    expect_logits(golden, golden.config(file));
  }
  for (const char* policy : {"none", "full", "qkv_proj_offloaded"}) {
    SCOPED_TRACE(policy);
    expect_gradients(golden, golden.config("config.json"), policy);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Goldens,
                         testing::Values("llama2_mha_untied", "llama31_gqa", "llama32_tied",
                                         "llama32_packed", "mistral_window", "qwen2_bias",
                                         "qwen3_qknorm", "gemma1_mqa", "gemma2", "gemma3_text"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace longshore::offload

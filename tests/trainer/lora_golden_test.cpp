// Adapted models against transformers with peft: tests/goldens/models/lora_*, whose adapter/ holds
// peft's files.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "data/safetensors_checkpoint.h"
#include "models/decoder.h"
#include "models/hf/config.h"
#include "offload/cpu_backend.h"
#include "offload/gradient_function.h"
#include "tests/trainer/golden.h"
#include "trainer/adapter.h"
#include "trainer/step.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;
using Weights = std::map<std::string, std::vector<float>>;
using Batch = std::map<std::string, std::vector<int32_t>>;

const std::string kPeftPrefix = "base_model.model.";

class LoraGoldens : public testing::TestWithParam<const char*> {
 protected:
  LoraGoldens() : golden(GetParam()) {
    data::Checkpoint checkpoint(golden.folder);
    for (const std::string& name : checkpoint.names()) base[name] = floats(checkpoint.at(name));
    adapted = base;
    data::SafetensorsFile file(golden.folder / "adapter/adapter_model.safetensors");
    for (const data::SafetensorsTensor& tensor : file.tensors())
      adapted[tensor.name.substr(kPeftPrefix.size())] = floats(tensor);

    base_config = models::parse_hf_config(data::read_file(golden.folder / "config.json"));
    base_config.batch = golden.tensors.at("input_ids").shape[0];
    base_config.length = golden.tensors.at("input_ids").shape[1];
    config = base_config;
    config.lora =
        parse_adapter_config(data::read_file(golden.folder / "adapter/adapter_config.json"));

    // The target of a position is the next one's label.
    std::vector<int64_t> ids = integers(golden.tensors.at("input_ids"));
    std::vector<int64_t> labels = integers(golden.tensors.at("labels"));
    batch["tokens"].assign(ids.begin(), ids.end());
    for (size_t i = 0; i < labels.size(); ++i) {
      int64_t t = static_cast<int64_t>(i) % config.length;
      bool is_trained = t + 1 < config.length && labels[i + 1] >= 0;
      batch["targets"].push_back(is_trained ? static_cast<int32_t>(labels[i + 1]) : -1);
      batch["positions"].push_back(static_cast<int32_t>(t));
    }
  }

  void expect(const std::string& name, std::span<const float> got) const {
    golden.expect(name, got, golden.tolerance(name));
  }

  std::vector<float> logits_of(const models::DecoderConfig& decoder, const Weights& weights) const;
  void expect_gradients(const std::string& policy) const;

  Golden golden;
  Weights base, adapted;
  models::DecoderConfig base_config, config;
  Batch batch;
};

std::vector<float> LoraGoldens::logits_of(const models::DecoderConfig& decoder,
                                          const Weights& weights) const {
  int64_t rows = decoder.batch * decoder.length;
  models::Model model = models::decoder(decoder, {.head = models::Head::logits, .rows = rows});
  offload::ParameterLayout layout = offload::lay_out(model);
  offload::Plan plan = plan_forward(model, layout, "logits", {}, models::Target::cpu);
  auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  offload::Arena device(*backend, MemoryKind::device, plan.arena(MemoryKind::device));
  offload::Arena host(*backend, MemoryKind::pinned_host, plan.arena(MemoryKind::pinned_host));
  offload::Executable executable(plan, *backend, arguments, device, host);
  for (const auto& [name, location] : layout.by_name) {
    const std::vector<float>& values = weights.at(name);
    arguments.write_part(argument_name(layout.slab(location), offload::Copy::compute),
                         layout.parameter(location).offset * 4, values.data(),
                         std::ssize(values) * 4);
  }
  Batch inputs = batch;
  for (int32_t row = 0; row < rows; ++row) inputs["rows"].push_back(row);
  for (const auto& [name, values] : inputs)
    if (arguments.has(offload::host_name(name)))
      arguments.write(offload::host_name(name), values.data(), std::ssize(values) * 4);
  executable.run(ledger);
  backend->synchronize();
  std::vector<float> logits(static_cast<size_t>(rows * decoder.vocabulary));
  arguments.read(offload::host_name("output.0"), logits.data(), std::ssize(logits) * 4);
  return logits;
}

// The loss, and gradients of every adapter weight and of nothing else.
void LoraGoldens::expect_gradients(const std::string& policy) const {
  models::Model model = models::decoder(config);
  offload::Runtime runtime{offload::make_cpu_backend(), {}};
  offload::GradientFunction f(
      runtime, model, {.policy = offload::make_policy(policy, {}, model.stages[1].programs[0])});
  for (const auto& [name, values] : adapted) f.set_parameter(name, values);
  for (const auto& [name, values] : batch) f.set_batch(name, values);
  auto trained = std::ranges::count_if(batch.at("targets"), [](int32_t t) { return t >= 0; });
  float mean = static_cast<float>(f() / static_cast<double>(trained));
  expect("loss", {&mean, 1});
  for (const auto& [name, values] : adapted) {
    if (base.contains(name)) continue;
    std::vector<float> gradient = f.gradient(name);
    for (float& value : gradient) value /= static_cast<float>(trained);
    expect("grad_adapter." + kPeftPrefix + name, gradient);
  }
}

// Loss of each position whose next one has a label.
std::vector<float> token_losses(std::span<const float> logits, std::span<const int32_t> targets) {
  std::vector<float> losses;
  size_t vocabulary = logits.size() / targets.size();
  for (size_t i = 0; i < targets.size(); ++i) {
    std::span<const float> row = logits.subspan(i * vocabulary, vocabulary);
    double sum = 0;
    for (float logit : row) sum += std::exp(double(logit));
    losses.push_back(targets[i] < 0 ? 0 : static_cast<float>(std::log(sum) - row[targets[i]]));
  }
  return losses;
}

TEST_P(LoraGoldens, AgreeWithPeft) {
  ASSERT_GT(adapted.size(), base.size());
  std::vector<float> logits = logits_of(config, adapted);
  expect("logits", logits);
  expect("token_loss", token_losses(logits, batch.at("targets")));
  expect("base_logits", logits_of(base_config, base));
  for (const char* policy : {"none", "full", "qkv_proj_offloaded"}) {
    SCOPED_TRACE(policy);
    expect_gradients(policy);
  }
}

TEST_P(LoraGoldens, OnlyAdaptersTrain) {
  size_t trained = 0;
  for (const offload::Slab& slab : offload::lay_out(models::decoder(config)).slabs)
    for (const offload::Parameter& parameter : slab.parameters) {
      EXPECT_EQ(slab.has(offload::Copy::gradient), !base.contains(parameter.name))
          << parameter.name;
      trained += slab.has(offload::Copy::gradient);
    }
  EXPECT_EQ(trained, adapted.size() - base.size());
}

// The base model with merged weights computes what the adapted one does.
TEST_P(LoraGoldens, MergedWeightsGiveTheSameLogits) {
  Weights weights = base;
  int merged_weights = 0;
  for (auto& [name, values] : weights) {
    std::string module = name.substr(0, name.rfind('.'));
    auto a = adapted.find(models::lora_a_name(module));
    if (a == adapted.end()) continue;
    values = merged(values, {.a = a->second,
                             .b = adapted.at(models::lora_b_name(module)),
                             .rank = config.lora.rank,
                             .scale = config.lora.scale()});
    ++merged_weights;
  }
  EXPECT_EQ(merged_weights, 2 * config.layers);
  expect("logits", logits_of(base_config, weights));
}

INSTANTIATE_TEST_SUITE_P(Models, LoraGoldens, testing::Values("lora_llama", "lora_gemma2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace longshore::trainer

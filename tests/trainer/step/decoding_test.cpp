// Decoding token by token against transformers' logits and against our own full forward pass, for
// every family.
#include "longshore/trainer/step/decoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "longshore/base/error.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/decoding/continuation.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/inputs.h"
#include "longshore/trainer/step/step_plans.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/folder_model.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "longshore/trainer/weights/read_floats.h"
#include "tests/golden_cases.h"
#include "tests/message_of.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/target_here.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

using models::DecoderConfig;
using models::Dtype;
using offload::MemoryKind;

struct Setting {
  Dtype dtype = Dtype::float32;
  MemoryKind home = MemoryKind::device;  // of the weights
  bool with_adapter = false;
};

// A checkpoint with its weights in memory, to be run in any way; texts share one capacity.
class Loaded {
 public:
  Loaded(const std::filesystem::path& folder, const Setting& setting = {})
      : backend_(make_backend(target_here())), arguments_(*backend_, ledger_) {
    const auto adapter_folder = setting.with_adapter ? folder / "adapter" : "";
    model = read_folder_model(folder, adapter_folder, models::UnknownKeys::refuse,
                              models::Images::read);
    model.dtype = setting.dtype;
    layout_ = offload::lay_out(models::decoder(model), {.homes = {.parameters = setting.home}});
    load_weights({.folder = folder, .adapter = adapter_folder}, model, layout_, arguments_,
                 Copies::compute);
  }

  // Logits [V] behind each part of the text, which is run in parts of these lengths; behind them
  // token by token.
  std::vector<std::vector<float>> decode(std::span<const int32_t> text,
                                         const std::vector<int64_t>& parts) {
    Running running(*this, std::ssize(text), parts);
    std::vector<std::vector<float>> logits;
    for (size_t i = 0; !text.empty(); ++i) {
      size_t count = i < parts.size() ? static_cast<size_t>(parts[i]) : 1;
      logits.push_back(running.decoding.append(text.first(count), ledger_));
      text = text.subspan(count);
    }
    return logits;
  }

  // Logits [V] behind a prompt with images, and behind each of the tokens that follow.
  std::vector<std::vector<float>> decode_behind(const data::Batch& prompt,
                                                std::span<const int32_t> text) {
    const int64_t length = prompt.shape.length;
    Running running(*this, length + std::ssize(text), {length});
    std::vector<std::vector<float>> logits{running.decoding.append_prompt(prompt, ledger_)};
    for (const int32_t& token : text)
      logits.push_back(running.decoding.append({&token, 1}, ledger_));
    return logits;
  }

  std::vector<int32_t> continued(std::span<const int32_t> prompt, int64_t capacity,
                                 const ContinuationOptions& options,
                                 const std::function<void(int32_t)>& on_token = nullptr) {
    Running running(*this, capacity, {});
    return continue_text(running.decoding, {.tokens = {prompt.begin(), prompt.end()}}, options,
                         ledger_, on_token);
  }

  // Logits [T,V] of the full forward pass.
  std::vector<float> forward(std::span<const int32_t> text) {
    DecoderConfig whole = model;
    whole.batch = 1;
    whole.length = std::ssize(text);
    offload::Plan plan = plan_forward(models::decoder(whole, {.head = models::Head::hidden_states}),
                                      layout_, "forward", {}, target_here());
    data::Batch batch{.shape = {1, whole.length}};
    batch["tokens"].assign(text.begin(), text.end());
    batch["targets"].assign(text.size(), data::kIgnoredTarget);
    for (int32_t i = 0; i < whole.length; ++i) batch["positions"].push_back(i);
    offload::Arguments arguments(*backend_, ledger_);  // their sizes are this text's
    offload::Arenas arenas(*backend_, {&plan});
    offload::Executable executable(
        plan, *backend_,
        [&](const offload::Buffer& buffer) {
          bool is_weight = buffer.category == offload::Category::parameters;
          auto& from = is_weight ? arguments_ : arguments;
          return from.at(buffer.name, buffer.bytes, buffer.kind, buffer.category);
        },
        arenas);
    write_batch(batch, arguments);
    executable.run(ledger_);
    backend_->synchronize();
    return read_floats(arguments, offload::host_name("output.1"),
                       {{whole.length, whole.vocabulary}, whole.dtype});
  }

  DecoderConfig model;

 private:
  // With weights of this model; all else is its own.
  struct Running {
    Running(Loaded& loaded, int64_t capacity, const std::vector<int64_t>& lengths)
        : plans(plan_decoding(loaded.model, loaded.layout_, capacity, lengths, {}, target_here())),
          arenas(*loaded.backend_, plans.all()),
          decoding(plans, *loaded.backend_, loaded.arguments_, arenas) {}
    DecodingPlans plans;
    offload::Arenas arenas;
    Decoding decoding;
  };
  std::unique_ptr<offload::Backend> backend_;
  offload::ParameterLayout layout_;
  offload::Ledger ledger_;
  offload::Arguments arguments_;
};

std::vector<int32_t> row(const Golden& golden, int64_t index) {
  const auto& ids = golden.tensors.at("input_ids");
  std::vector<int64_t> all = integers(ids);
  return {all.begin() + index * ids.shape[1], all.begin() + (index + 1) * ids.shape[1]};
}

double largest_of(std::span<const float> values) {
  double largest = 0;
  for (float value : values) largest = std::max(largest, std::abs(double(value)));
  return largest;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double(a[i]) - b[i]));
  return largest;
}

size_t likeliest(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

class DecodingOf : public testing::TestWithParam<std::string> {};

// [B,T,V] of the golden's batch, token by token.
std::vector<float> all_logits(Loaded& loaded, const Golden& golden) {
  std::vector<float> logits;
  for (int64_t b = 0; b < golden.tensors.at("input_ids").shape[0]; ++b)
    for (const std::vector<float>& part : loaded.decode(row(golden, b), {}))
      logits.insert(logits.end(), part.begin(), part.end());
  return logits;
}

TEST_P(DecodingOf, LogitsAreTransformers) {
  Golden golden(GetParam());
  Loaded loaded(golden.folder);
  golden.expect("logits", all_logits(loaded, golden), golden.tolerance("logits"));
  Loaded offloaded(golden.folder, {.home = MemoryKind::pinned_host});
  EXPECT_EQ(loaded.decode(row(golden, 0), {}), offloaded.decode(row(golden, 0), {}));
}

// Twice what transformers is off by in bfloat16: see probe_golden_test.cpp.
TEST_P(DecodingOf, Bfloat16IsAsNearAsTransformers) {
  if (!has_bfloat16_here()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  Golden golden(GetParam());
  if (is_routed(golden.description)) GTEST_SKIP() << "a token may go to another expert";
  Loaded loaded(golden.folder, {.dtype = Dtype::bfloat16});
  double off = golden.description["measured_bf16"]["logits"]["max_rel_to_tensor_max"];
  golden.expect("logits", all_logits(loaded, golden), {.rel = 2 * off});
}

// Whatever parts a text is run in; and the likeliest token is the same, so that greedy texts are.
void expect_parts_are_the_full_forward_pass(Loaded& loaded, std::span<const int32_t> text) {
  const int64_t whole = std::ssize(text), vocabulary = loaded.model.vocabulary;
  const std::vector<float> forward = loaded.forward(text);
  const double tolerance = 1e-5 * largest_of(forward);
  for (const std::vector<int64_t>& parts :
       {std::vector<int64_t>{}, std::vector<int64_t>{whole}, std::vector<int64_t>{5, 3, 5}}) {
    const std::vector<std::vector<float>> logits = loaded.decode(text, parts);
    for (size_t i = 0, end = 0; i < logits.size(); ++i) {
      end += i < parts.size() ? static_cast<size_t>(parts[i]) : 1;
      const std::span expected(forward.data() + (static_cast<int64_t>(end) - 1) * vocabulary,
                               static_cast<size_t>(vocabulary));
      EXPECT_LE(largest_difference(logits[i], expected), tolerance) << end;
      EXPECT_EQ(likeliest(logits[i]), likeliest(expected)) << end;
    }
  }
}

TEST_P(DecodingOf, PartsAreTheFullForwardPass) {
  Golden golden(GetParam());
  Loaded loaded(golden.folder);
  expect_parts_are_the_full_forward_pass(loaded, row(golden, 0));
}

TEST(Decoding, TemperaturesGoByThePlaceInTheText) {
  Golden golden("llama4_text");
  Loaded loaded(golden.folder);
  const std::vector<float> before = loaded.forward(row(golden, 0));
  loaded.model.unrotated_temperature_length = 4;
  EXPECT_NE(loaded.forward(row(golden, 0)), before);
  expect_parts_are_the_full_forward_pass(loaded, row(golden, 0));
}

TEST_P(DecodingOf, GreedyTextIsThatOfFullForwardPasses) {
  Golden golden(GetParam());
  Loaded loaded(golden.folder);
  std::vector<int32_t> text = row(golden, 0);
  text.resize(4);
  ContinuationOptions options{.max_tokens = 10,
                              .vocabulary = static_cast<int32_t>(loaded.model.vocabulary),
                              .end_tokens = {},
                              .sampling = {.temperature = 0}};
  std::vector<int32_t> continued = loaded.continued(text, 14, options);
  for (int32_t token : continued) {
    std::vector<float> logits = loaded.forward(text);
    EXPECT_EQ(likeliest(std::span(logits).last(static_cast<size_t>(loaded.model.vocabulary))),
              static_cast<size_t>(token));
    text.push_back(token);
  }
  EXPECT_EQ(text.size(), 14u);
}

INSTANTIATE_TEST_SUITE_P(Models, DecodingOf, testing::ValuesIn(golden_cases(GoldenKind::text)),
                         [](const auto& info) { return info.param; });

class DecodingBehindImages : public testing::TestWithParam<const char*> {};

// What a row of a batch begins with, as a batch of its own.
data::Batch prompt_of(const data::Batch& batch, int64_t row, int64_t length) {
  data::Batch prompt{.shape = {1, length}};
  auto part = [&](const auto& values) {
    const auto count = std::ssize(values) / batch.shape.rows;
    return std::decay_t<decltype(values)>(values.begin() + row * count,
                                          values.begin() + (row + 1) * count);
  };
  for (const auto& [name, held] : batch.inputs)
    prompt.inputs[name] =
        std::visit([&](const auto& values) { return data::Batch::Values(part(values)); }, held);
  for (const char* name : {data::kTokens, data::kBlocks})
    prompt[name].resize(static_cast<size_t>(length));
  for (int32_t& place : prompt[data::kImagePlaces])
    place -= static_cast<int32_t>(row * batch.shape.length);
  return prompt;
}

// With each row's prompt at once; `check` is given logits [V] and those of the golden.
void decode_rows(const Golden& golden, const Setting& setting,
                 const std::function<void(std::span<const float>, std::span<const float>)>& check) {
  Loaded loaded(golden.folder, setting);
  const ProbeInputs inputs = read_probe_inputs(golden.folder / "golden.safetensors", loaded.model);
  const data::Batch& batch = inputs.batch;
  const std::vector<float> reference = floats(golden.tensors.at("logits"));
  const auto [rows, length] = batch.shape;
  loaded.model.vision->images = inputs.images / rows;
  for (int64_t b = 0; b < rows; ++b) {
    const std::span blocks = std::span(batch[data::kBlocks]).subspan(b * length, length);
    int64_t prompt = length;
    while (blocks[static_cast<size_t>(prompt - 1)] == 0) --prompt;
    const std::span text =
        std::span(batch[data::kTokens]).subspan(b * length + prompt, length - prompt);
    int64_t at = b * length + prompt - 1;
    for (const std::vector<float>& logits :
         loaded.decode_behind(prompt_of(batch, b, prompt), text)) {
      if (!golden.is_padding(at))
        check(logits, std::span(reference).subspan(at * loaded.model.vocabulary,
                                                   static_cast<size_t>(loaded.model.vocabulary)));
      ++at;
    }
  }
}

TEST_P(DecodingBehindImages, LogitsAreTransformers) {
  Golden golden(GetParam());
  const double tolerance =
      golden.tolerance("logits").rel * largest_of(floats(golden.tensors.at("logits")));
  decode_rows(golden, {}, [&](auto logits, auto expected) {
    EXPECT_LE(largest_difference(logits, expected), tolerance);
    EXPECT_EQ(likeliest(logits), likeliest(expected));
  });
}

// Twice what transformers is off by in bfloat16: see probe_golden_test.cpp.
TEST_P(DecodingBehindImages, Bfloat16IsAsNearAsTransformers) {
  if (!has_bfloat16_here()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  Golden golden(GetParam());
  const double off = golden.description["measured_bf16"]["logits"]["max_rel_to_tensor_max"];
  const double tolerance = 2 * off * largest_of(floats(golden.tensors.at("logits")));
  decode_rows(golden, {.dtype = Dtype::bfloat16}, [&](auto logits, auto expected) {
    EXPECT_LE(largest_difference(logits, expected), tolerance);
  });
}

INSTANTIATE_TEST_SUITE_P(Models, DecodingBehindImages,
                         testing::Values("paligemma2", "paligemma2_window", "gemma3_vision"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Decoding, AdaptersArePefts) {
  for (const char* name : {"lora_llama", "lora_gemma2", "lora_phi3", "lora_qwen3_moe",
                           "lora_gpt_oss", "lora_llama4"}) {
    Golden golden(name);
    Loaded loaded(golden.folder, {.with_adapter = true});
    golden.expect("logits", all_logits(loaded, golden), golden.tolerance("logits"));
  }
}

TEST(Decoding, TakesNoMoreThanItsCapacity) {
  Loaded loaded(golden_folder("llama32_tied"));
  std::vector<int32_t> text(6, 1);
  EXPECT_EQ(loaded.decode(text, {5}).size(), 2u);
  ContinuationOptions options{.max_tokens = 9, .vocabulary = 307, .end_tokens = {}, .sampling = {}};
  // Of the last token only the choice is made.
  EXPECT_EQ(loaded.continued(std::span(text).first(4), 6, options).size(), 3u);
  text.push_back(1);
  std::string message = message_of<Error>([&] { loaded.continued(text, 6, options); });
  EXPECT_THAT(message, HasSubstr("found 7 more, expected at most 6"));
}

TEST(Decoding, EndTokensEndTheText) {
  Loaded loaded(golden_folder("llama32_tied"));
  const std::vector<int32_t> prompt{3, 1, 4, 1, 5};
  ContinuationOptions options{
      .max_tokens = 12, .vocabulary = 307, .end_tokens = {}, .sampling = {.temperature = 2}};
  std::vector<int32_t> seen,
      all = loaded.continued(prompt, 20, options, [&](int32_t token) { seen.push_back(token); });
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(seen, all);
  options.end_tokens = {-1, all[7]};
  auto end = std::ranges::find(all, all[7]);
  EXPECT_EQ(loaded.continued(prompt, 20, options), std::vector<int32_t>(all.begin(), end));
  options.vocabulary = 20;
  for (int32_t token : loaded.continued(prompt, 20, options)) EXPECT_LT(token, 20);
}

// The weights being trained are the ones that are read, where they are.
TEST(Decoding, SamplesFromTheWeightsInTraining) {
  for (const char* home : {"false", "true"}) {
    Config config = load_config(
        "quickstart.yml",
        std::vector<std::string>{"base_num_decoder_layers=3", "sample_tokens=5", "backend=cpu",
                                 std::string("parameter_memory_host_offload=") + home},
        default_configs_directory());
    TrainingPlans plans = plan_training({config, models::Target::cpu});
    std::set<std::string> trained;
    for (const offload::Plan* plan : plans.step.all())
      for (const offload::Buffer& buffer : plan->buffers)
        if (buffer.owner == offload::Owner::caller) trained.insert(buffer.name);
    ASSERT_TRUE(plans.sample);
    size_t read = 0;
    for (const offload::Plan* plan : plans.sample->all())
      for (const offload::Buffer& buffer : plan->buffers)
        if (buffer.category == offload::Category::parameters) {
          ++read;
          EXPECT_TRUE(trained.contains(buffer.name)) << buffer.name;
        }
    EXPECT_GE(read, 5u);
    EXPECT_EQ(plans.sample->capacity, 2 + 9 + 5);
  }
}

}  // namespace
}  // namespace longshore::trainer

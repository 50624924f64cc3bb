// Any text as an adapter_config.json, and behind a zero byte any bytes as the tensors that belong
// to it: refused with a DataError, or a config that stays the same when it is written, and tensors
// that are all there in the shapes it says. The text also as a mixture's, whose experts are saved
// one by one, or together, or are not in all layers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/trainer/weights/adapter_format.h"

namespace longshore::trainer {
namespace {

// Of one layer, whose linear layers are all square.
std::map<std::string, std::vector<int64_t>> expected_shapes(const models::LoraConfig& config) {
  constexpr int64_t kWidth = 2;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::string& linear : models::linear_modules(models::kLlama.layer)) {
    const std::string module = models::lora_module_name(0, linear);
    const auto adapter = adapter_of(config, module);
    if (!adapter) continue;
    shapes[peft_names(models::lora_a_name(module))[0]] = {adapter->rank, kWidth};
    shapes[peft_names(models::lora_b_name(module))[0]] = {kWidth, adapter->rank};
  }
  return shapes;
}

models::LoraConfig check_config(std::string_view text, const AdapterBase& base) {
  const models::LoraConfig config = parse_adapter_config(text, base);
  if (parse_adapter_config(write_adapter_config(config, base, "base"), base) != config)
    std::abort();
  return config;
}

void check_mixture(std::string_view text, const AdapterBase& base) {
  try {
    check_config(text, base);
  } catch (const DataError&) {
  }
}

void check(std::string_view text, std::span<const std::byte> file) {
  check_mixture(text, {.family = &models::kMixtral, .layers = 1, .experts = 2});
  check_mixture(text, {.family = &models::kGptOss, .layers = 1, .experts = 2});
  check_mixture(
      text, {.family = &models::kQwen3Moe, .layers = 2, .experts = 2, .has_dense_layers = true});
  const models::LoraConfig config = check_config(text, {.layers = 1});
  const std::vector<data::SafetensorsTensor> tensors = data::parse_safetensors(file);
  const auto expected = expected_shapes(config);
  check_adapter_tensors(tensors, expected);
  if (tensors.size() != expected.size()) std::abort();
  for (const data::SafetensorsTensor& tensor : tensors) {
    std::vector<float> values(static_cast<size_t>(tensor.element_count()));
    data::to_float32(tensor, values);
  }
}

}  // namespace
}  // namespace longshore::trainer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  try {
    longshore::trainer::check(input.substr(0, end),
                              std::as_bytes(std::span(input.substr(std::min(end + 1, size)))));
  } catch (const longshore::DataError&) {
  }
  return 0;
}

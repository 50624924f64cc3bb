// Any text as a config.json, of a text model or of a model with one: refused with a DataError, with
// what reads images or without, or a decoder, which then can be written, or is refused with a
// ConfigError; and its dtype can be set.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/models/hf/config.h"
#include "longshore/models/hf/text_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longshore::models;
  const std::string_view whole(reinterpret_cast<const char*>(data), size);
  try {
    parse_hf_config(whole, UnknownKeys::refuse, Images::read);
  } catch (const longshore::DataError&) {
  }
  try {
    const std::string text = text_model_config(whole);
    const DecoderConfig config = parse_hf_config(text);
    if (parse_hf_config(with_hf_dtype(text, "bfloat16")).dtype != Dtype::bfloat16) __builtin_trap();
    write_hf_config(config);
  } catch (const longshore::DataError&) {
  } catch (const longshore::ConfigError&) {
  }
  return 0;
}

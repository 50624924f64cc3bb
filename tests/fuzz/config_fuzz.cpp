// Any text as a config: refused with a ConfigError, or valid, and then it stays valid.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/hf_model.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/validate.h"

// Only texts are tried here, not the folders that they name.
bool longshore::trainer::take_model_of_weights(Config&) { return true; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longshore::trainer;
  try {
    const Config config = load_config_text({reinterpret_cast<const char*>(data), size},
                                           "configs/fuzz.yml", {}, "configs");
    validate(config);
  } catch (const longshore::ConfigError&) {
  }
  return 0;
}

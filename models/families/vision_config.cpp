#include "models/families/vision_config.h"

namespace longshore::models {

const VisionFamily* find_vision_family(std::string_view name) {
  for (const VisionFamily* family : {&kPaliGemma, &kGemma3})
    if (family->name == name) return family;
  return nullptr;
}

}  // namespace longshore::models

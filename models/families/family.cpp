#include "models/families/family.h"

#include <algorithm>

namespace longshore::models {

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> all{&kLlama,   &kMistral, &kQwen2,      &kQwen3,
                                              &kGemma,   &kGemma2,  &kGemma3Text, &kOlmo2,
                                              &kGranite, &kSmolLm3};
  return all;
}

const Family* find_family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : *found;
}

bool computes_as(const Family& one, const Family& other) { return one.layer == other.layer; }

}  // namespace longshore::models

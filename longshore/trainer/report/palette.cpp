#include "longshore/trainer/report/palette.h"

#include <fmt/format.h>

namespace longshore::trainer {
namespace {

struct Color {
  const char *name, *value;
};

// By categories of memory and kinds of work.
constexpr Color kColors[] = {
    {"parameters", "#e69f00"},  {"optimizer", "#7b5aa6"},      {"gradients", "#b8a900"},
    {"batch", "#888888"},       {"kept", "#cc79a7"},           {"temporaries", "#56b4e9"},
    {"staging", "#8c8c8c"},     {"workspace", "#bdbdbd"},      {"cache", "#a0522d"},
    {"saving", "#6b8e23"},      {"forward", "#56b4e9"},        {"backward", "#0072b2"},
    {"recomputed", "#d55e00"},  {"optimizer-step", "#009e73"}, {"weights", "#e69f00"},
    {"activations", "#cc79a7"}, {"states", "#7b5aa6"},         {"other", "#888888"},
};

}  // namespace

std::string page_palette() {
  std::string variables, classes;
  for (const Color& color : kColors) {
    variables += fmt::format("--{}: {}; ", color.name, color.value);
    classes += fmt::format(".{0} {{ fill: var(--{0}); }}\n", color.name);
  }
  return fmt::format(":root {{ {}}}\n{}", variables, classes);
}

std::string svg_palette() {
  std::string classes;
  for (const Color& color : kColors)
    classes += fmt::format(".{}{{fill:{}}}", color.name, color.value);
  return classes;
}

}  // namespace longshore::trainer

// golden_cases() lists the models of tests/goldens that have logits and gradients.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longshore {

// `text`: one document a row, and no images.
enum class GoldenKind { any, text };

// The names of their folders under tests/goldens/models, in order; none from where these are not.
inline std::vector<std::string> golden_cases(GoldenKind kind = GoldenKind::any) {
  const std::filesystem::path folder = "tests/goldens/models";
  std::vector<std::string> names;
  if (!std::filesystem::is_directory(folder)) return names;
  auto read = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file, nullptr, false);
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto description = read(entry.path() / "golden.json");
    if (!description.is_object() || description.value("kind", "") != "forward_backward") continue;
    const bool is_text = !read(entry.path() / "config.json").contains("vision_config") &&
                         !description["tensors"].contains("segment_ids");
    if (kind == GoldenKind::any || is_text) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace longshore

// Reference results of transformers for small checkpoints, in tests/goldens/models below the folder
// where tests run: inputs and results in golden.safetensors, tolerances by the first word of a
// tensor's name in golden.json.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "tests/data/temporary_folder.h"

namespace longshore::trainer {

// |got - reference| <= abs + rel * max|reference|, but for one element or `outlier_fraction` of
// them, if that is more, which may be off by `outlier_abs`.
// Whether rounding may send a token to another expert, whose result is another.
inline bool is_routed(const nlohmann::json& description) {
  return description.contains("routing_margin");
}

struct Tolerance {
  double abs = 0, rel = 0;
  double outlier_fraction = 0, outlier_abs = 0;
};

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::absolute("tests/goldens/models") / name;
}

inline std::string first_word(const std::string& name) { return name.substr(0, name.find('.')); }

inline std::vector<float> floats(const data::SafetensorsTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.element_count()));
  data::to_float32(tensor, values);
  return values;
}

inline std::vector<int64_t> integers(const data::SafetensorsTensor& tensor) {
  std::vector<int64_t> values(static_cast<size_t>(tensor.element_count()));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

class Golden {
 public:
  explicit Golden(const std::string& name)
      : folder(golden_folder(name)),
        tensors(folder / "golden.safetensors"),
        description(nlohmann::json::parse(data::read_file(folder / "golden.json"))) {
    if (tensors.contains("attention_mask")) mask_ = integers(tensors.at("attention_mask"));
  }

  Tolerance tolerance(const std::string& name) const {
    const nlohmann::json& t = description["tolerances"][first_word(name)];
    return {t["abs"], t["rel"], t.value("outlier_fraction", 0.0), t.value("outlier_abs", 0.0)};
  }

  // Of all positions of the batch.
  bool is_padding(int64_t position) const {
    return !mask_.empty() && mask_[static_cast<size_t>(position)] == 0;
  }

  // Padded positions mean nothing.
  void expect(const std::string& name, std::span<const float> got,
              const Tolerance& tolerance) const {
    std::vector<float> reference = floats(tensors.at(name));
    ASSERT_EQ(got.size(), reference.size()) << name;
    bool of_images = name.starts_with("hidden.vision.") || name == "hidden.projector";
    bool by_position =
        !mask_.empty() && !first_word(name).starts_with("grad") && name != "loss" && !of_images;
    size_t position = by_position ? reference.size() / mask_.size() : 0;
    double largest = 0, worst = 0;
    std::vector<double> differences;
    for (size_t i = 0; i < got.size(); ++i) {
      if (by_position && mask_[i / position] == 0) continue;
      ASSERT_TRUE(std::isfinite(got[i])) << name;
      largest = std::max(largest, std::abs(double(reference[i])));
      differences.push_back(std::abs(got[i] - double(reference[i])));
      worst = std::max(worst, differences.back());
    }
    double limit = tolerance.abs + tolerance.rel * largest;
    auto beyond =
        std::ranges::count_if(differences, [&](double difference) { return difference > limit; });
    if (tolerance.outlier_abs == 0) {
      EXPECT_EQ(beyond, 0) << name << ": differs by up to " << worst << ", allowed " << limit;
      return;
    }
    double outliers = tolerance.outlier_fraction * static_cast<double>(got.size());
    EXPECT_LE(static_cast<double>(beyond), std::max(1.0, outliers)) << name << ", beyond " << limit;
    EXPECT_LE(worst, std::max(limit, tolerance.outlier_abs)) << name;
  }

  const std::filesystem::path folder;
  const data::SafetensorsFile tensors;
  const nlohmann::json description;

 private:
  std::vector<int64_t> mask_;  // [B,T]; empty: nothing is padded
};

}  // namespace longshore::trainer

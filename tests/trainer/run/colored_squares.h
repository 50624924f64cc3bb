// colored_squares() writes pictures of squares and what color they are, and what it takes to train
// on them: a small task whose answers stand in the pictures alone.
#pragma once

#include <png.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace longshore::trainer {

struct Color {
  const char* name;
  std::array<int, 3> rgb;
};

inline constexpr std::array<Color, 6> kColors{{{"red", {220, 30, 30}},
                                               {"green", {30, 200, 40}},
                                               {"blue", {40, 60, 220}},
                                               {"yellow", {230, 220, 40}},
                                               {"white", {245, 245, 245}},
                                               {"purple", {150, 40, 170}}}};

inline void write_square(const std::filesystem::path& file, const Color& color,
                         std::mt19937& random) {
  constexpr unsigned kSize = 56, kLeast = 14;
  auto below = [&](unsigned count) { return static_cast<unsigned>(random() % count); };
  const unsigned side = kLeast + below(17), left = below(kSize - side), top = below(kSize - side);
  std::vector<uint8_t> pixels(size_t{kSize} * kSize * 3, 40);
  for (unsigned y = top; y < top + side; ++y)
    for (unsigned x = left; x < left + side; ++x)
      for (size_t c = 0; c < 3; ++c)
        pixels[(size_t{y} * kSize + x) * 3 + c] = static_cast<uint8_t>(color.rgb[c]);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = kSize;
  image.format = PNG_FORMAT_RGB;
  if (!png_image_write_to_file(&image, file.c_str(), 0, pixels.data(), 0, nullptr))
    throw std::runtime_error(file.string() + ": " + image.message);
}

// `count` pictures in `folder` and its data.jsonl, which has a line for each.
inline std::filesystem::path colored_squares(const std::filesystem::path& folder, int count,
                                             uint32_t seed) {
  std::filesystem::create_directories(folder);
  std::mt19937 random(seed);
  std::ofstream lines(folder / "data.jsonl");
  for (int i = 0; i < count; ++i) {
    const Color& color = kColors[random() % kColors.size()];
    const std::string name = std::to_string(i) + ".png";
    write_square(folder / name, color, random);
    lines << nlohmann::json{{"image", name},
                            {"prefix", "what color is the square?"},
                            {"suffix", color.name}}
          << "\n";
  }
  return folder / "data.jsonl";
}

// A tokenizer.json that also has the special tokens of images, from `first` on.
inline std::filesystem::path image_tokenizer(const std::filesystem::path& folder,
                                             const std::vector<std::string>& names, int first) {
  nlohmann::json file =
      nlohmann::json::parse(std::ifstream("tests/goldens/tokenizers/gemma_bpe/tokenizer.json"));
  for (const std::string& name : names) {
    nlohmann::json token = file.at("added_tokens").at(0);
    token["id"] = first++;
    token["content"] = name;
    file.at("added_tokens").push_back(token);
  }
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << file;
  return folder / "tokenizer.json";
}

// Keys of a small model of that family; its tokenizer has 887 tokens and then those of images.
inline constexpr const char* kSmallImageModel =
    " base_emb_dim=64 base_num_decoder_layers=3 base_num_query_heads=4 base_num_kv_heads=2 "
    "head_dim=16 base_mlp_dim=96 vocab_size=1024 sliding_window_size=16 query_pre_attn_scalar=16 "
    "image_size_for_vit=28 patch_size_for_vit=7 hidden_size_for_vit=48 "
    "num_hidden_layers_for_vit=2 num_attention_heads_for_vit=3 intermediate_size_for_vit=96 ";

}  // namespace longshore::trainer

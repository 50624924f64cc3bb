#include "trainer/weights/folder_model.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "trainer/config/keys.h"
#include "trainer/weights/adapter.h"
#include "trainer/weights/hf_folder.h"

namespace longshore::trainer {
namespace {

using models::DecoderConfig;

// The config keys' bounds keep products of sizes within int64_t.
void check_sizes(const std::filesystem::path& file, const DecoderConfig& model) {
  Config sizes;
  sizes.base_emb_dim = model.width;
  sizes.base_num_decoder_layers = model.layers;
  sizes.base_num_query_heads = model.query_heads;
  sizes.base_num_kv_heads = model.kv_heads;
  sizes.head_dim = model.head_dim;
  sizes.base_mlp_dim = model.mlp_width;
  sizes.vocab_size = model.vocabulary;
  constexpr std::array kNames{std::pair{"hidden_size", "base_emb_dim"},
                              std::pair{"num_hidden_layers", "base_num_decoder_layers"},
                              std::pair{"num_attention_heads", "base_num_query_heads"},
                              std::pair{"num_key_value_heads", "base_num_kv_heads"},
                              std::pair{"head_dim", "head_dim"},
                              std::pair{"intermediate_size", "base_mlp_dim"},
                              std::pair{"vocab_size", "vocab_size"}};
  for (auto [name, key_name] : kNames)
    if (const Key& key = *find_key(key_name); !is_valid(key, sizes))
      throw DataError(fmt::format("{}: {}: found {}, expected {}", file.string(), name,
                                  value_text(key, sizes), expected(key)));
}

}  // namespace

DecoderConfig read_folder_model(const std::filesystem::path& folder,
                                const std::filesystem::path& adapter) {
  DecoderConfig model = read_hf_config(folder).decoder;
  check_sizes(folder / "config.json", model);
  if (!adapter.empty()) model.lora = read_adapter_config(adapter);
  return model;
}

}  // namespace longshore::trainer

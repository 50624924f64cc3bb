#include "trainer/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "data/safetensors_checkpoint.h"
#include "data/safetensors_float.h"
#include "models/hf/config.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::SafetensorsDtype;

std::string hf_name(SafetensorsDtype dtype) {
  switch (dtype) {
    case SafetensorsDtype::float32:
      return "float32";
    case SafetensorsDtype::bfloat16:
      return "bfloat16";
    case SafetensorsDtype::float16:
      return "float16";
    default:
      throw InternalError(std::string("nothing is converted to ") + data::name(dtype));
  }
}

// The first layer's before the second's; what is no parameter (a tied model's lm_head) at the end.
std::vector<std::string> in_order(const offload::ParameterLayout& layout,
                                  const data::Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const offload::Slab& slab : layout.slabs)
    for (const offload::Parameter& parameter : slab.parameters) names.push_back(parameter.name);
  for (const std::string& name : checkpoint.names())
    if (!layout.by_name.contains(name)) names.push_back(name);
  return names;
}

// Piece by piece, whatever its size.
void append_converted(const data::SafetensorsTensor& tensor, SafetensorsDtype dtype,
                      data::SafetensorsWriter& writer) {
  constexpr size_t kPiece = size_t{1} << 20;  // elements
  const auto from_bytes = static_cast<size_t>(size_bytes(tensor.dtype));
  std::vector<std::byte> converted;
  data::SafetensorsTensor piece = tensor;
  for (size_t first = 0; first < tensor.data.size(); first += kPiece * from_bytes) {
    piece.data =
        tensor.data.subspan(first, std::min(kPiece * from_bytes, tensor.data.size() - first));
    converted.resize(piece.data.size() / from_bytes * static_cast<size_t>(size_bytes(dtype)));
    data::convert_floats(piece, dtype, converted);
    writer.append(tensor.name, converted);
  }
}

}  // namespace

std::string convert(const Conversion& conversion) {
  const HfConfig config = read_hf_config(conversion.from);
  const offload::ParameterLayout layout = offload::lay_out(models::decoder(config.decoder));
  const data::Checkpoint checkpoint(conversion.from);
  check_tensors(conversion.from, layout, checkpoint, config.decoder.tied_embeddings);

  std::vector<data::SafetensorsInfo> tensors;
  std::set<std::string> dtypes;
  int64_t bytes = 0;
  for (const std::string& name : in_order(layout, checkpoint)) {
    tensors.push_back(checkpoint.at(name));
    if (conversion.dtype) tensors.back().dtype = *conversion.dtype;
    dtypes.insert(data::name(tensors.back().dtype));
    bytes += tensors.back().bytes();
  }
  auto append_data = [&](const data::SafetensorsInfo& info, data::SafetensorsWriter& writer) {
    const data::SafetensorsTensor& tensor = checkpoint.at(info.name);
    if (tensor.dtype == info.dtype)
      writer.append(info.name, tensor.data);
    else
      append_converted(tensor, info.dtype, writer);
  };
  write_hf_folder(
      conversion.to,
      {.config = conversion.dtype ? models::with_hf_dtype(config.text, hf_name(*conversion.dtype))
                                  : config.text,
       .tensors = tensors,
       .append_data = append_data,
       .tokenizer_folder = conversion.from,
       .max_shard_bytes = conversion.max_shard_bytes});
  return fmt::format("{}: {} tensors, {:.1f} MB of {}", conversion.to.string(), tensors.size(),
                     static_cast<double>(bytes) / 1e6, fmt::join(dtypes, ", "));
}

}  // namespace longshore::trainer

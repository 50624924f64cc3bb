#include "longshore/trainer/weights/convert_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/base/utf8.h"
#include "longshore/data/gguf/gguf_numbers.h"
#include "longshore/data/gguf/gguf_writer.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/gguf_adapter.h"
#include "longshore/trainer/weights/gguf_metadata.h"
#include "longshore/trainer/weights/gguf_tensors.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/merged_weights.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::GgufEntry;
using data::GgufTensorInfo;
using data::GgufType;
using data::SafetensorsDtype;
using offload::Parameter;

// What holds the numbers of files without rounding them, F64 aside.
GgufType own_type(SafetensorsDtype dtype) {
  if (dtype == SafetensorsDtype::bfloat16) return GgufType::bfloat16;
  return dtype == SafetensorsDtype::float16 ? GgufType::float16 : GgufType::float32;
}

// That of all tensors that the parameters are of; float32 where they differ.
GgufType own_type(const GgufTensor& tensor, const StoredWeights& weights) {
  std::set<GgufType> types;
  for (const Parameter* part : tensor.parts)
    for (const std::string& name : part->tensors) types.insert(own_type(weights.info(name).dtype));
  return types.size() == 1 ? *types.begin() : GgufType::float32;
}

GgufType within_rows(GgufType type, std::span<const int64_t> shape) {
  return shape.back() % block_elements(type) == 0 ? type : GgufType::float16;
}

// As llama.cpp numbers what most of a file is.
uint32_t file_type(std::span<const GgufTensorInfo> tensors) {
  std::map<GgufType, int64_t> bytes;
  for (const GgufTensorInfo& tensor : tensors) bytes[tensor.type] += tensor.bytes();
  const auto most =
      std::ranges::max_element(bytes, {}, &std::pair<const GgufType, int64_t>::second);
  switch (most == bytes.end() ? GgufType::float32 : most->first) {
    case GgufType::float32:
      return 0;
    case GgufType::float16:
      return 1;
    case GgufType::q8_0:
      return 7;
    case GgufType::bfloat16:
      return 32;
  }
  throw InternalError("no such type of GGUF");
}

// What make() gives; a DataError of its has the file before it.
template <class Make>
auto of_file(const fs::path& file, Make make) {
  try {
    return make();
  } catch (const DataError& error) {
    throw DataError(path_text(file) + ": " + error.what());
  }
}

std::vector<GgufEntry> general_entries(const models::DecoderConfig& model, const char* type,
                                       const fs::path& source,
                                       std::span<const GgufTensorInfo> tensors) {
  constexpr uint32_t kQuantizationVersion = 2;
  std::vector<GgufEntry> entries{
      {"general.architecture", std::string(gguf_family(model).architecture)},
      {"general.type", std::string(type)}};
  const std::string name = fs::weakly_canonical(source).filename().string();
  if (!name.empty() && valid_utf8_prefix(name) == name.size())
    entries.push_back({"general.name", name});
  entries.push_back({"general.file_type", file_type(tensors)});
  entries.push_back({"general.quantization_version", kQuantizationVersion});
  return entries;
}

void add(std::vector<GgufEntry> more, std::vector<GgufEntry>& entries) {
  std::ranges::move(more, std::back_inserter(entries));
}

void expect_to_go_on(const fs::path& to) {
  if (StopSignal::is_there())
    throw Error(path_text(to) + ": " + StopSignal::name() +
                " ended the conversion; nothing is left of it");
}

std::string summary(const fs::path& to, std::span<const GgufTensorInfo> tensors) {
  std::set<std::string> types;
  int64_t bytes = 0;
  for (const GgufTensorInfo& tensor : tensors) {
    types.insert(data::name(tensor.type));
    bytes += tensor.bytes();
  }
  return fmt::format("{}: {}, {:.1f} MB of {}", path_text(to),
                     plural(std::ssize(tensors), "tensor"), static_cast<double>(bytes) / 1e6,
                     fmt::join(types, ", "));
}

std::string write_adapter(const GgufConversion& conversion, const SourceModel& source,
                          std::span<const GgufTensor> model_tensors) {
  const models::DecoderConfig& model = source.config().decoder;
  const GgufAdapter adapter(source.adapter(), source.layout(), model_tensors);
  const GgufType type = conversion.type.value_or(GgufType::float32);
  std::vector<GgufTensorInfo> infos;
  for (const GgufAdapter::Tensor& tensor : adapter.tensors())
    infos.push_back({tensor.name, within_rows(type, tensor.shape), tensor.shape});
  std::vector<GgufEntry> entries = general_entries(model, "adapter", source.adapter(), infos);
  add({{"adapter.type", std::string("lora")},
       {"adapter.lora.alpha", static_cast<float>(adapter.alpha())}},
      entries);

  const StopSignal listening;
  data::GgufWriter writer(conversion.to, entries, infos);
  for (size_t i = 0; i < infos.size(); ++i) {
    expect_to_go_on(conversion.to);
    data::GgufNumbers numbers(infos[i].name, infos[i].type);
    const std::vector<float> values = adapter.values(i);
    writer.append(infos[i].name,
                  of_file(source.adapter(), [&] { return numbers.convert(values); }));
  }
  writer.finish();
  return summary(conversion.to, infos) + "; the adapter of " + path_text(source.adapter()) +
         " alone";
}

// What is to be said of a model that llama.cpp knows less of than the folder.
std::string notes(const models::DecoderConfig& model) {
  std::string said;
  if (const int64_t tokens = gguf_context_length(model); tokens < model.max_position_embeddings)
    said += fmt::format(
        "; context_length is its window of {} tokens, as llama.cpp knows no windows "
        "of its architecture",
        tokens);
  if (gguf_query_factor(model) != 1)
    said += "; queries are scaled as llama.cpp scales scores otherwise";
  return said;
}

std::string write_model(const GgufConversion& conversion, const SourceModel& source,
                        std::span<const GgufTensor> tensors) {
  const models::DecoderConfig& model = source.config().decoder;
  const StoredWeights weights = source.weights();
  std::vector<GgufTensorInfo> infos;
  for (const GgufTensor& tensor : tensors) {
    const GgufType wanted = conversion.type.value_or(own_type(tensor, weights));
    infos.push_back({tensor.name,
                     tensor.is_float32 ? GgufType::float32 : within_rows(wanted, tensor.shape),
                     tensor.shape});
  }
  std::vector<GgufEntry> entries = general_entries(model, "model", source.folder(), infos);
  add(of_file(source.folder() / kHfConfigFile, [&] { return gguf_hyperparameters(model); }),
      entries);
  GgufText text = gguf_text(source);
  add(std::move(text.entries), entries);

  std::optional<MergedWeights> merge;
  if (!source.adapter().empty()) merge.emplace(source.adapter(), model, source.layout(), weights);
  const SavedTensors saved(source.layout(), SavedIn::model);
  const StopSignal listening;
  data::GgufWriter writer(conversion.to, entries, infos);
  for (size_t i = 0; i < infos.size(); ++i) {
    data::GgufNumbers numbers(infos[i].name, infos[i].type);
    std::optional<MergedWeights::Reader> reader;
    if (merge) reader.emplace(*merge);
    tensors[i].for_each_piece(
        [&](const Parameter& parameter, int64_t first, int64_t count) {
          if (reader) return reader->read(parameter, first, count);
          std::vector<float> values(static_cast<size_t>(count));
          read_numbers(weights, saved, parameter, first, values);
          return values;
        },
        [&](std::span<const float> values) {
          expect_to_go_on(conversion.to);
          writer.append(infos[i].name,
                        of_file(source.folder(), [&] { return numbers.convert(values); }));
        });
  }
  writer.finish();
  std::string said = summary(conversion.to, infos);
  if (merge) said += "; merged with " + path_text(source.adapter());
  if (merge && source.frozen())
    said += fmt::format("; frozen weights are what {} made of them", name(source.frozen()->format));
  said += notes(model);
  for (const std::string& more :
       {text.left_out, unknown_keys_text(source.config()), weights.left_out_text()})
    if (!more.empty()) said += "; " + more;
  return said;
}

std::vector<fs::path> input_files(const SourceModel& source) {
  std::vector<fs::path> files = model_files(source.folder());
  if (!source.adapter().empty())
    std::ranges::move(adapter_files(source.adapter()), std::back_inserter(files));
  return files;
}

}  // namespace

std::string convert_to_gguf(const GgufConversion& conversion) {
  const SourceModel source(conversion.source);
  require_no_input(conversion.to, input_files(source));
  const models::DecoderConfig& model = source.config().decoder;
  if (conversion.adapter_only && source.adapter().empty())
    throw ConfigError("--adapter-only: found no adapter beside " + path_text(source.folder()) +
                      ", expected --adapter, or a run that trained one");
  const std::vector<GgufTensor> tensors = of_file(source.folder() / kHfConfigFile, [&] {
    require_gguf_model(model);
    return gguf_tensors(model, source.layout());
  });
  if (!conversion.adapter_only) return write_model(conversion, source, tensors);
  return write_adapter(conversion, source, tensors);
}

}  // namespace longshore::trainer

// The weights of a model as Hugging Face keeps them: a folder with model.safetensors, or with
// model.safetensors.index.json and the files that it names:
//
//   {"metadata": {"total_parameters": 130248, "total_size": 520992},
//    "weight_map": {"lm_head.weight": "model-00004-of-00004.safetensors", ...}}
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_writer.h"

namespace longshore::data {

// The name that a SafetensorsFolder gives to a tensor of the files, or nothing to leave it out.
using TensorNaming = std::function<std::optional<std::string>(std::string_view)>;

// All tensors of a folder by name, mapped. Where there are both an index and a single file, the
// single file counts, as in transformers. A file that the index names lies in the folder itself (or
// is a link that does; "./" may stand before its name), and index and files must agree on every
// tensor. Errors are DataErrors that name the file; where index and files disagree, the error lists
// all that is wrong. Two tensors of one name are refused.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& directory,
                             const TensorNaming& naming = {});
  SafetensorsFolder(SafetensorsFolder&&) = default;

  std::vector<std::string> names() const;  // sorted
  // Names that the files have for tensors that the naming leaves out; sorted.
  const std::vector<std::string>& left_out() const { return left_out_; }
  bool contains(std::string_view name) const { return tensors_.contains(name); }
  const SafetensorsTensor& at(std::string_view name) const;
  // Gives the tensor `name`, which is there, another name, which is not.
  void rename(std::string_view name, const std::string& other);

 private:
  std::filesystem::path directory_;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, SafetensorsTensor, std::less<>> tensors_;
  std::vector<std::string> left_out_;
};

// The files that a SafetensorsFolder of the folder opens, which need not be there. Throws a
// DataError for an index that is none.
std::vector<std::filesystem::path> safetensors_files(const std::filesystem::path& directory);

// "weight_map" of an index: names of tensors to names of files, which are plain names. Throws a
// DataError, which does not name the index, on anything else.
std::map<std::string, std::string> parse_safetensors_index(std::string_view text);

// Called once for each tensor; appends all of its data.
using AppendData = std::function<void(const SafetensorsInfo&, SafetensorsWriter&)>;

// Writes `tensors` into `directory`, which is made if need be, as transformers does: one file
// model.safetensors when their data takes at most `max_shard_bytes`; otherwise the tensors are
// dealt out in the given order to files model-00001-of-0000N.safetensors of at most that size (a
// tensor that is larger gets one to itself), and the index is written last. Within a file they are
// sorted_as_safetensors, the order in which `append_data` is called.
//
// Throws a DataError when the directory holds weights already, since a failure while they are
// written over would leave a mixture of both, and a FileError where the file system refuses.
void write_safetensors_folder(const std::filesystem::path& directory,
                              std::span<const SafetensorsInfo> tensors, int64_t max_shard_bytes,
                              const AppendData& append_data);

}  // namespace longshore::data

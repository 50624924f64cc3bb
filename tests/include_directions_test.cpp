// Reads every #include line of the sources and checks that includes point one way.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace longshore {
namespace {

namespace fs = std::filesystem;

// What the files of a folder may include of ours, beside their own folder.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"data", {"base"}},
    {"models", {"base"}},
    {"offload", {"base"}},
    {"trainer", {"base", "data", "models", "offload"}},
    {"tests", {"base", "data", "models", "offload", "trainer"}},
};

// The same within trainer/: of a folder there, its other folders. What lies beside them includes
// all.
const std::map<std::string, std::set<std::string>> kTrainerMayInclude = {
    {"config", {}},
    {"weights", {"config"}},
    {"distributed", {"config"}},
    {"step", {"config", "weights"}},
    {"checkpoint", {"config", "distributed", "weights"}},
    {"measuring", {"config", "step"}},
    {"planning", {"config", "step"}},
    {"compare", {"config", "weights", "step", "measuring", "planning"}},
    {"generate", {"config", "weights", "step", "planning"}},
    {"probe", {"config", "weights", "step", "planning"}},
    {"run",
     {"config", "weights", "distributed", "step", "checkpoint", "measuring", "planning", "generate",
      "probe"}},
};

// The language that models are written in. It knows no architecture and no tensor library, and is
// all that offload/ sees of models/.
const std::set<std::string> kProgramHeaders = {
    "models/add.h", "models/backward.h", "models/labels.h", "models/model.h",
    "models/op.h",  "models/program.h",  "models/trace.h",  "models/types.h",
};

// Planning is free of tensors.
const std::set<std::string> kFreeOfTensors = {"offload/partition.h", "offload/plan.h",
                                              "offload/policy.h"};

// What the kernels of several ops are made of.
const std::string kKernels = "models/kernels/";

struct Include {
  std::string from, line_number, what;
  bool is_ours() const { return what.front() == '"'; }
  std::string path() const { return what.substr(1, what.size() - 2); }
};

std::string top_folder(const std::string& path) { return path.substr(0, path.find('/')); }

bool is_torch(const std::string& path) {
  static const std::set<std::string> folders = {"ATen", "c10", "torch"};
  return folders.contains(top_folder(path));
}

// Of a path in trainer/: the folder there, or "".
std::string trainer_folder(const std::string& path) {
  const std::string rest = path.substr(std::string("trainer/").size());
  return rest.find('/') == std::string::npos ? "" : top_folder(rest);
}

std::string fault_in_trainer(const std::string& from_path, const std::string& to_path) {
  const std::string from = trainer_folder(from_path), to = trainer_folder(to_path);
  if (from.empty() || from == to) return "";
  const auto rule = kTrainerMayInclude.find(from);
  if (rule == kTrainerMayInclude.end()) return "trainer/" + from + "/ has no rule here";
  return rule->second.contains(to) ? "" : "trainer/" + from + "/ may not include " + to_path;
}

// What is wrong with an include, or "".
std::string fault(const Include& include) {
  const std::string from = top_folder(include.from), path = include.path();
  if (is_torch(path)) {
    if (include.from.ends_with(".cu") || include.from.ends_with(".cuh"))
      return "CUDA sources see raw pointers, no torch headers";
    if (from == "base" || from == "data" || kProgramHeaders.contains(include.from) ||
        kFreeOfTensors.contains(include.from))
      return "this file is to be free of tensors";
    return "";
  }
  if (!include.is_ours()) return "";
  const std::string to = top_folder(path);
  if (!kMayInclude.contains(to)) return "not a path from the root of the repository";
  if (kProgramHeaders.contains(include.from) && to == "models" && !kProgramHeaders.contains(path))
    return "a program header may include only program headers of models/";
  if (include.from.starts_with(kKernels) && to == "models" && !path.starts_with(kKernels) &&
      path != "models/op.h" && path != "models/types.h")
    return "what kernels share knows no op and no program";
  if (from == "trainer" && to == "trainer") return fault_in_trainer(include.from, path);
  if (from == to || kMayInclude.at(from).contains(to)) return "";
  if (from == "offload" && to == "models")
    return kProgramHeaders.contains(path) ? "" : "offload/ may include only the program headers";
  return from + "/ may not include " + to + "/";
}

std::vector<Include> includes_of(const fs::path& file, const std::string& name) {
  std::vector<Include> includes;
  std::ifstream stream(file);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const size_t open = line.find_first_of("\"<", word);
    if (open == std::string::npos) continue;
    const size_t close = line.find(line[open] == '"' ? '"' : '>', open + 1);
    if (close == std::string::npos) continue;
    includes.push_back({name, std::to_string(number), line.substr(open, close - open + 1)});
  }
  return includes;
}

std::vector<Include> all_includes() {
  const fs::path root = LONGSHORE_SOURCE_DIR;
  std::vector<Include> includes;
  for (const auto& [folder, allowed] : kMayInclude) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string name = fs::relative(entry.path(), root).generic_string();
      static const std::set<std::string> sources = {".h", ".cpp", ".cu", ".cuh"};
      if (!sources.contains(entry.path().extension().string())) continue;
      std::ranges::move(includes_of(entry.path(), name), std::back_inserter(includes));
    }
  }
  return includes;
}

TEST(IncludeDirections, HoldInTheWholeTree) {
  const std::vector<Include> includes = all_includes();
  std::set<std::string> folders;
  for (const Include& include : includes) {
    folders.insert(top_folder(include.from));
    EXPECT_EQ(fault(include), "") << include.from << ":" << include.line_number << " includes "
                                  << include.what;
    if (include.is_ours()) {
      EXPECT_TRUE(fs::exists(fs::path(LONGSHORE_SOURCE_DIR) / include.path()))
          << include.from << ":" << include.line_number << " includes " << include.what;
    }
  }
  EXPECT_EQ(folders.size(), kMayInclude.size()) << "a folder without sources: was it renamed?";
}

TEST(IncludeDirections, HeadersAreIncludedOnce) {
  const fs::path root = LONGSHORE_SOURCE_DIR;
  for (const auto& [folder, allowed] : kMayInclude) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".h") continue;
      std::ifstream stream(entry.path());
      std::string line;
      bool found = false;
      while (!found && std::getline(stream, line)) found = line == "#pragma once";
      EXPECT_TRUE(found) << entry.path() << " has no #pragma once";
    }
  }
}

TEST(IncludeDirections, FaultsAreSeen) {
  auto is_faulty = [](const char* from, const char* what) {
    return !fault({from, "1", what}).empty();
  };
  EXPECT_TRUE(is_faulty("base/error.h", "\"data/batches.h\""));
  EXPECT_TRUE(is_faulty("data/batches.h", "\"models/types.h\""));
  EXPECT_TRUE(is_faulty("models/llama.cpp", "\"offload/policy.h\""));
  EXPECT_TRUE(is_faulty("offload/scan.cpp", "\"models/decoder.h\""));
  EXPECT_TRUE(is_faulty("offload/scan.cpp", "\"trainer/config/config.h\""));
  EXPECT_TRUE(is_faulty("models/program.h", "\"models/decoder.h\""));
  EXPECT_TRUE(is_faulty("models/program.h", "<ATen/core/Tensor.h>"));
  EXPECT_TRUE(is_faulty("offload/plan.h", "<c10/core/Scalar.h>"));
  EXPECT_TRUE(is_faulty("models/ops/rope.cu", "<ATen/core/Tensor.h>"));
  EXPECT_TRUE(is_faulty("models/kernels/simd.h", "\"models/ops/rope.h\""));
  EXPECT_TRUE(is_faulty("trainer/step/step.cpp", "\"step.h\""));
  EXPECT_FALSE(is_faulty("offload/scan.cpp", "\"models/program.h\""));
  EXPECT_FALSE(is_faulty("models/kernels/aten.h", "\"models/op.h\""));
  EXPECT_FALSE(is_faulty("models/ops/rope.cpp", "<ATen/core/Tensor.h>"));
  EXPECT_FALSE(is_faulty("trainer/step/step.cpp", "\"offload/plan.h\""));
  EXPECT_FALSE(is_faulty("models/ops/rope.cpp", "<vector>"));
}

}  // namespace
}  // namespace longshore

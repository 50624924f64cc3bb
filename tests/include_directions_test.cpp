// Reads every #include line of the sources and checks that includes point one way.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace longshore {
namespace {

namespace fs = std::filesystem;

// The rooms of longshore/, from the ground up: what lies in a room may include what lies in its own
// and in those before it. "*" stands for each folder there is: an op, a program.
const std::vector<std::string> kRooms = {
    "base",
    "base/quantization",
    "data/files",
    "data/images",
    "data/jinja",
    "data/tokenizers",
    "data/rows",
    "data/text",
    "data/tables",
    "data/tensorboard",
    "data/safetensors",
    "data/gguf",
    "models/ir",
    "models/ops/kernels",
    "models/ops/*",
    "models/ops",
    "models/families",
    "models/hf",
    "offload/memory",
    "offload/plan",
    "offload/hardware",
    "offload/policy",
    "offload/lowering",
    "offload/mpi",
    "offload/backends",
    "offload/backends/cuda",
    "offload/execution",
    "trainer/config",
    "trainer/weights",
    "trainer/distributed",
    "trainer/step",
    "trainer/report",
    "trainer/checkpoint",
    "trainer/calibration",
    "trainer/planner",
    "trainer/planner/auto",
    "trainer/planner/advice",
    "trainer/decoding",
    "trainer/run",
    "trainer/programs/*",
    "tests",
};

// Of these, only rooms whose names begin like this, beside their own top folder.
const std::map<std::string, std::vector<std::string>> kOnly = {
    {"base", {}},
    {"data", {"base"}},
    {"models", {"base"}},
    // Of models, the language that they are written in.
    {"offload", {"base", "models/ir"}},
    {"trainer", {"base", "data", "models", "offload"}},
    {"tests", {"base", "data", "models", "offload", "trainer"}},
};

// Where LibTorch is used: by kernels, for a GPU's memory and streams, and for torchrun's store.
const std::vector<std::string> kSeesTorch = {"models/ops", "offload/backends/cuda",
                                             "trainer/distributed", "tests"};

// A path from the root of the repository, as the lists above have it.
std::string place(const std::string& path) {
  static const std::string house = "longshore/";
  return path.starts_with(house) ? path.substr(house.size()) : path;
}

struct Include {
  std::string file, line_number, what;
  bool is_ours() const { return what.front() == '"'; }
  std::string path() const { return what.substr(1, what.size() - 2); }
  std::string from() const { return place(file); }
  std::string to() const { return place(path()); }
};

std::string top_folder(const std::string& path) { return path.substr(0, path.find('/')); }

bool is_torch(const std::string& path) {
  static const std::set<std::string> folders = {"ATen", "c10", "torch"};
  return folders.contains(top_folder(path));
}

bool begins_with(const std::string& path, const std::string& folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// The place in kRooms of what lies in that folder; -1 if it is no room.
int room(const std::string& folder) {
  if (begins_with(folder, "tests")) return static_cast<int>(kRooms.size()) - 1;
  const std::string parent = folder.substr(0, folder.rfind('/'));
  for (const std::string& name : {folder, parent + "/*"})
    if (const auto found = std::ranges::find(kRooms, name); found != kRooms.end())
      return static_cast<int>(found - kRooms.begin());
  return -1;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// A header and its sources; an op with a folder of its own is one unit.
std::string unit_of(const std::string& path) {
  const std::string folder = folder_of(path);
  if (const int at = room(folder); at >= 0 && kRooms[at] == "models/ops/*") return folder;
  return path.substr(0, path.rfind('.'));
}

bool is_in_any(const std::string& path, const std::vector<std::string>& folders) {
  return std::ranges::any_of(folders,
                             [&](const std::string& one) { return begins_with(path, one); });
}

// What is wrong with an include, or "".
std::string fault(const Include& include) {
  const std::string from = folder_of(include.from());
  if (is_torch(include.path())) {
    if (include.file.ends_with(".cu") || include.file.ends_with(".cuh"))
      return "CUDA sources see raw pointers, no torch headers";
    return is_in_any(from, kSeesTorch) ? "" : from + "/ is to be free of LibTorch";
  }
  if (!include.is_ours()) return "";
  const std::string to = folder_of(include.to()), top = top_folder(from);
  const int from_room = room(from), to_room = room(to);
  if (from_room < 0) return from + "/ is no room of the list here";
  if (to_room < 0 || (include.to() == include.path() && top_folder(to) != "tests"))
    return "not a path from the root of the repository to a room of the list here";
  if (from == to || (top == "tests" && top_folder(to) == "tests")) return "";
  if (top != top_folder(to) && !is_in_any(to, kOnly.at(top)))
    return top + "/ may not include " + to + "/";
  if (from_room < to_room) return from + "/ stands below " + to + "/";
  if (from_room == to_room && begins_with(from, "trainer/programs"))
    return "programs share libraries, not each other's folders";
  return "";
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

fs::path folder_at(const std::string& folder) {
  const fs::path root = LONGSHORE_SOURCE_DIR;
  return folder == "tests" ? root / folder : root / "longshore" / folder;
}

std::vector<Include> all_includes() {
  const fs::path root = LONGSHORE_SOURCE_DIR;
  std::vector<Include> includes;
  for (const auto& [folder, allowed] : kOnly) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_at(folder))) {
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
    folders.insert(top_folder(include.from()));
    EXPECT_EQ(fault(include), "") << include.file << ":" << include.line_number << " includes "
                                  << include.what;
    if (include.is_ours()) {
      EXPECT_TRUE(fs::exists(fs::path(LONGSHORE_SOURCE_DIR) / include.path()))
          << include.file << ":" << include.line_number << " includes " << include.what;
    }
  }
  EXPECT_EQ(folders.size(), kOnly.size()) << "a folder without sources: was it renamed?";
}

// The units that a unit includes.
using Units = std::map<std::string, std::set<std::string>>;

// A circle of units that include each other, "a -> b -> a", or "".
std::string circle(const Units& units) {
  std::set<std::string> done;
  std::vector<std::string> way;
  std::function<std::string(const std::string&)> walk =
      [&](const std::string& unit) -> std::string {
    if (const auto begin = std::ranges::find(way, unit); begin != way.end()) {
      std::string text;
      for (auto one = begin; one != way.end(); ++one) text += *one + " -> ";
      return text + unit;
    }
    if (done.contains(unit)) return "";
    way.push_back(unit);
    if (const auto found = units.find(unit); found != units.end())
      for (const std::string& next : found->second)
        if (std::string text = walk(next); !text.empty()) return text;
    way.pop_back();
    done.insert(unit);
    return "";
  };
  for (const auto& [unit, included] : units)
    if (std::string text = walk(unit); !text.empty()) return text;
  return "";
}

TEST(IncludeDirections, NoUnitsIncludeEachOther) {
  Units units;
  for (const Include& include : all_includes()) {
    if (!include.is_ours() || top_folder(include.from()) == "tests") continue;
    const std::string from = unit_of(include.from()), to = unit_of(include.to());
    if (from != to) units[from].insert(to);
  }
  EXPECT_GT(units.size(), 100u);
  EXPECT_EQ(circle(units), "");
}

TEST(IncludeDirections, CirclesAreSeen) {
  EXPECT_EQ(circle({{"a", {"b"}}, {"b", {"c"}}}), "");
  EXPECT_EQ(circle({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {"b"}}}), "b -> c -> b");
}

TEST(IncludeDirections, HeadersAreIncludedOnce) {
  for (const auto& [folder, allowed] : kOnly) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_at(folder))) {
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
  EXPECT_TRUE(is_faulty("longshore/base/error.h", "\"longshore/data/rows/batches.h\""));
  EXPECT_TRUE(is_faulty("longshore/data/rows/batches.h", "\"longshore/models/ir/types.h\""));
  EXPECT_TRUE(is_faulty("longshore/data/rows/batches.h", "\"longshore/data/text/example.h\""));
  EXPECT_TRUE(
      is_faulty("longshore/models/families/decoder.h", "\"longshore/offload/policy/policy.h\""));
  EXPECT_TRUE(
      is_faulty("longshore/models/ir/program.h", "\"longshore/models/families/decoder.h\""));
  EXPECT_TRUE(is_faulty("longshore/models/ir/program.h", "<ATen/core/Tensor.h>"));
  EXPECT_TRUE(
      is_faulty("longshore/models/ops/kernels/simd.h", "\"longshore/models/ops/rope/rope.h\""));
  EXPECT_TRUE(is_faulty("longshore/models/ops/rope/rope.cu", "<ATen/core/Tensor.h>"));
  EXPECT_TRUE(is_faulty("longshore/offload/plan/plan.h", "<c10/core/Scalar.h>"));
  EXPECT_TRUE(
      is_faulty("longshore/offload/plan/plan.h", "\"longshore/offload/backends/backend.h\""));
  EXPECT_TRUE(
      is_faulty("longshore/offload/lowering/scan.cpp", "\"longshore/models/families/decoder.h\""));
  EXPECT_TRUE(
      is_faulty("longshore/offload/lowering/scan.cpp", "\"longshore/trainer/config/config.h\""));
  EXPECT_TRUE(is_faulty("longshore/trainer/planner/room.cpp",
                        "\"longshore/trainer/planner/auto/auto_policy.h\""));
  EXPECT_TRUE(is_faulty("longshore/trainer/programs/plan/plan_main.cpp",
                        "\"longshore/trainer/programs/compare/report.h\""));
  EXPECT_TRUE(is_faulty("longshore/trainer/step/step.cpp", "\"step.h\""));
  EXPECT_TRUE(is_faulty("longshore/trainer/step/step.cpp", "\"base/error.h\""));
  EXPECT_TRUE(is_faulty("longshore/trainer/attic/step.cpp", "\"longshore/base/error.h\""));
  EXPECT_FALSE(
      is_faulty("longshore/offload/lowering/scan.cpp", "\"longshore/models/ir/program.h\""));
  EXPECT_FALSE(is_faulty("longshore/models/ops/kernels/aten.h", "\"longshore/models/ir/op.h\""));
  EXPECT_FALSE(is_faulty("longshore/models/ops/cached_attention/cached_attention.h",
                         "\"longshore/models/ops/attention/attention.h\""));
  EXPECT_FALSE(is_faulty("longshore/models/ops/rope/rope.cpp", "<ATen/core/Tensor.h>"));
  EXPECT_FALSE(is_faulty("longshore/trainer/step/step.cpp", "\"longshore/offload/plan/plan.h\""));
  EXPECT_FALSE(is_faulty("tests/trainer/step/step_test.cpp", "\"tests/offload/training.h\""));
  EXPECT_FALSE(is_faulty("longshore/models/ops/rope/rope.cpp", "<vector>"));
}

}  // namespace
}  // namespace longshore

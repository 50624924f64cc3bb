#include "longshore/trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "longshore/base/atomic_file.h"
#include "longshore/base/atomic_folder.h"
#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/integer.h"
#include "longshore/base/parallel.h"
#include "longshore/base/partial_name.h"
#include "longshore/base/printable.h"
#include "longshore/trainer/checkpoint/optimizer_state.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/export_parameters.h"
#include "longshore/trainer/weights/saved_state.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOptimizer = "optimizer.safetensors";

// A folder that is, or was, a checkpoint.
struct Candidate {
  fs::path folder;
  int64_t step = 0;  // as the manifest says, or the name where that cannot be read
  std::optional<Manifest> manifest;
  std::string fault;  // of the manifest
};

// The latest step first.
std::vector<Candidate> candidates(const fs::path& folder) {
  std::vector<Candidate> list;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::optional<int64_t> step = integer<int64_t>(entry.path().filename().string());
    if (!step) continue;
    if (entry.is_symlink()) require_folder(entry.path());
    if (!entry.is_directory()) continue;
    Candidate candidate{.folder = entry.path(), .step = *step, .manifest = {}, .fault = {}};
    try {
      candidate.manifest = read_manifest(entry.path());
      candidate.step = candidate.manifest->step;
    } catch (const DataError& fault) {
      candidate.fault = fault.what();
    }
    list.push_back(std::move(candidate));
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw DataError(path_text(folder) + ": cannot be read: " + error.message());
  std::ranges::stable_sort(list, std::greater(), &Candidate::step);
  return list;
}

// A manifest without files would verify nothing, and what it does not list is not verified.
void require_parts(const fs::path& folder, const Manifest& manifest) {
  auto lists = [&](const std::string& start) {
    return std::ranges::any_of(manifest.files, [&](const SavedFile& file) {
      return file.path == start || file.path.starts_with(start + "/");
    });
  };
  auto refuse = [&](const std::string& found, const std::string& expected) {
    throw DataError(path_text(folder / kManifestFile) + ": files: found " + found + ", expected " +
                    expected);
  };
  if (!lists(kOptimizer)) refuse(std::string("no ") + kOptimizer, "it");
  if (!lists(kModelFolder) && !lists(kAdapterFolder))
    refuse("neither model nor adapter", "at least one");
  for (const char* part : {kModelFolder, kAdapterFolder}) {
    if (!fs::exists(folder / part)) continue;
    if (!lists(part)) refuse(std::string("nothing of ") + part, "its files: the folder is there");
    // Weights that were added might be read in the place of those that were saved.
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / part)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".safetensors") != std::string::npos && !lists(part + ("/" + name)))
        refuse(std::string("nothing of ") + part + "/" + printable(name),
               "all weights that are there");
    }
  }
}

void verify(const fs::path& folder, const Manifest& manifest) {
  require_regular_files(folder);
  require_parts(folder, manifest);
  verify_files(folder, manifest);
}

void verify_part(const fs::path& folder) {
  const fs::path checkpoint = folder.parent_path();
  if (!fs::exists(checkpoint / kManifestFile)) return;
  require_regular_files(folder);
  Manifest manifest = read_manifest(checkpoint);
  require_parts(checkpoint, manifest);
  std::erase_if(manifest.files, [&](const SavedFile& file) {
    return !file.path.starts_with(folder.filename().string() + "/");
  });
  verify_files(checkpoint, manifest);
}

// What is wrong with it; "" for nothing.
std::string fault_of(const Candidate& candidate) {
  if (!candidate.manifest) return candidate.fault;
  try {
    verify(candidate.folder, *candidate.manifest);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

fs::path free_name(const fs::path& folder, const std::string& suffix) {
  fs::path name = folder.string() + suffix;
  for (int number = 2; fs::exists(fs::symlink_status(name)); ++number)
    name = folder.string() + suffix + "-" + std::to_string(number);
  return name;
}

void move_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw FileError(path_text(from) + ": cannot rename to " + path_text(to) + ": " +
                    error.message());
}

// A link in the place of what was one, at once; what was none is moved aside.
void link_to(const fs::path& target, const fs::path& link) {
  const fs::path fresh = partial_name(link);
  if (fs::exists(fs::symlink_status(link)) && !fs::is_symlink(link))
    move_folder(link, free_name(link, ".before"));
  fs::remove(fresh);
  fs::create_directory_symlink(target.lexically_relative(link.parent_path()), fresh);
  std::error_code error;
  fs::rename(fresh, link, error);
  if (!error) return;
  fs::remove(fresh);
  throw fs::filesystem_error("cannot rename", fresh, link, error);
}

fs::path absolute_or_empty(const fs::path& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal();
}

fs::path part(const fs::path& folder, const char* name) {
  return fs::exists(folder / name) ? folder / name : fs::path();
}

}  // namespace

fs::path Checkpoint::model() const { return part(folder, kModelFolder); }
fs::path Checkpoint::adapter() const { return part(folder, kAdapterFolder); }
fs::path Checkpoint::optimizer() const { return folder / kOptimizer; }

std::string checkpoint_name(int64_t step) { return fmt::format("{:08}", step); }

Manifest write_checkpoint(const fs::path& to, const SavedModel& saved, const ModelFiles& files,
                          const offload::ArgumentReader& arguments, Manifest manifest) {
  AtomicFolder output(to);
  const fs::path& folder = output.directory();
  const auto write_model = [&] {
    if (!saves_model(saved.layout)) return;
    export_parameters(
        folder / kModelFolder,
        {.model = saved.model, .layout = saved.layout, .arguments = arguments, .files = files},
        saved.config.weight_dtype == WeightDtype::bfloat16 ? models::Dtype::bfloat16
                                                           : models::Dtype::float32);
  };
  const auto write_optimizer = [&] {
    write_optimizer_state(folder / kOptimizer, saved.layout, arguments);
  };
  // Together, so that one is converted while the disk takes the other.
  const std::array<std::function<void()>, 2> parts{write_model, write_optimizer};
  parallel_for(parts.size(), [&](size_t i) { parts[i](); });
  // Where some of the model's own weights are trained, too, the adapter is for these. peft takes a
  // relative path from wherever its user is.
  if (saves_adapter(saved.layout))
    write_adapter(folder / kAdapterFolder, saved.model,
                  saves_model(saved.layout) ? fs::absolute(to).lexically_normal() / kModelFolder
                                            : absolute_or_empty(saved.config.load_parameters_path),
                  saved.layout, arguments);
  if (!saves_model(saved.layout)) write_others(files, folder / kAdapterFolder);
  manifest.files = files_of(folder);
  write_file(folder / kManifestFile, manifest_text(manifest));
  output.finish();
  return manifest;
}

void verify_trained(const fs::path& run) {
  for (const char* part : {kModelFolder, kAdapterFolder})
    if (fs::exists(run / part)) verify_part(fs::canonical(folder_inside(run, part)));
}

Checkpoint open_checkpoint(const fs::path& folder) {
  if (!fs::exists(folder / kManifestFile))
    for (const fs::path& around : {folder, folder / kCheckpointsFolder})
      for (const Candidate& inside : candidates(around))
        if (inside.manifest)
          throw DataError(path_text(folder) +
                          ": found a folder of checkpoints, expected one of them; nearest: " +
                          path_text(inside.folder));
  Checkpoint checkpoint{folder, read_manifest(folder)};
  verify(folder, checkpoint.manifest);
  return checkpoint;
}

std::optional<Checkpoint> newest_checkpoint(const fs::path& folder, OnDamage on_damage,
                                            const Log& log) {
  const std::vector<Candidate> list = candidates(folder);
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string fault = fault_of(list[i]);
    if (fault.empty()) return Checkpoint{list[i].folder, *list[i].manifest};
    if (i + 1 == list.size())
      throw DataError(fault + (i == 0 ? "; there is no earlier checkpoint"
                                      : "; all earlier checkpoints are damaged as well"));
    if (on_damage == OnDamage::refuse)
      throw DataError(fault + "; fall_back_to_earlier_checkpoint=true would go on from " +
                      path_text(list[i + 1].folder));
    const fs::path aside = free_name(list[i].folder, ".damaged");
    move_folder(list[i].folder, aside);
    log(fault + "; the damaged checkpoint is now " + path_text(aside));
  }
  return std::nullopt;
}

void link_parts(const fs::path& directory, const Checkpoint& checkpoint) {
  for (const fs::path& part : {checkpoint.model(), checkpoint.adapter()})
    if (!part.empty()) link_to(part, directory / part.filename());
}

void link_best(const fs::path& directory, const fs::path& checkpoint) {
  link_to(checkpoint, directory / kBestLink);
}

fs::path best_checkpoint(const fs::path& directory) {
  std::error_code error;
  const fs::path leads_to = fs::read_symlink(directory / kBestLink, error);
  return error ? fs::path() : directory / kCheckpointsFolder / leads_to.filename();
}

void remove_old_checkpoints(const fs::path& folder, int64_t keep, const fs::path& spared) {
  if (keep < 0) return;
  std::vector<Candidate> list = candidates(folder);
  std::erase_if(list, [](const Candidate& one) { return !one.manifest; });  // what else lies there
  for (size_t i = static_cast<size_t>(keep); i < list.size(); ++i) {
    if (list[i].folder.filename() == spared.filename()) continue;
    const fs::path leaving = free_name(partial_name(list[i].folder), "");
    move_folder(list[i].folder, leaving);
    fs::remove_all(leaving);
  }
}

}  // namespace longshore::trainer

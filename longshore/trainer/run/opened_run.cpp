#include "longshore/trainer/run/opened_run.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

// Throws where the folder holds a run that leaves nothing to go on from.
void require_unused(const Config& config, const fs::path& directory) {
  auto refuse = [&](const std::string& found) {
    throw ConfigError(location(config, "run_name") + ": " + path_text(directory) + " " + found +
                      "; nearest: another run_name, or none");
  };
  if (config.enable_checkpointing && fs::exists(directory / kSummaryFile))
    refuse("holds a run that has ended, and no checkpoint");
  if (!config.enable_checkpointing && fs::exists(directory / kMetricsFile))
    refuse("holds a run already, which enable_checkpointing=false does not resume");
}

// What is wrong with a checkpoint that the config names is its key's to say, and the user's to fix.
Checkpoint given_checkpoint(const Config& config) {
  try {
    return open_checkpoint(config.load_full_state_path);
  } catch (const DataError& error) {
    throw ConfigError(location(config, "load_full_state_path") + ": " + error.what());
  }
}

// A process that was killed after a save, or damage that took the newest checkpoint, leaves links
// that lead to another.
void link_newest(const fs::path& directory, const Checkpoint& newest, const Log& log) {
  try {
    link_parts(directory, newest);
  } catch (const fs::filesystem_error& error) {
    log(error.what());
  }
}

}  // namespace

OpenedRun::OpenedRun(const Config& config, const data::BatchSchema& schema, World& world,
                     const Log& log) {
  const data::Rank rank{.rank = world.rank(), .world_size = world.size()};
  if (world.is_first()) {
    data = open_data(config, schema, log, rank);
    directory.emplace(config);
  }
  const fs::path folder = world.gather(directory ? directory->path().string() : "")[0];
  if (!world.is_first()) {
    data = open_data(config, schema, log, rank);
    directory.emplace(folder);
  }

  if (world.is_first()) {
    if (config.enable_checkpointing)
      start = newest_checkpoint(
          folder / kCheckpointsFolder,
          config.fall_back_to_earlier_checkpoint ? OnDamage::fall_back : OnDamage::refuse, log);
    if (start) {
      saved_step = start->manifest.step;
      link_newest(folder, *start, log);
    } else {
      require_unused(config, folder);
      if (!config.load_full_state_path.empty()) start = given_checkpoint(config);
    }
  }
  const fs::path found = world.gather(start ? start->folder.string() : "")[0];
  if (!start && !found.empty()) start = {found, read_manifest(found)};
  if (start)
    for (const std::shared_ptr<data::StreamedRows>& stream : data.streams)
      stream->restore(start->manifest.shards);
  saved_step = world.sum(world.is_first() ? saved_step : 0);
}

}  // namespace longshore::trainer

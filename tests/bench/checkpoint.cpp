// bench_checkpoint [--config F] [--folder DIR] [key=value ...]
//
// What a checkpoint costs: how long training waits for a save that is written behind it and for one
// that is not, how fast it is written beside a plain write of the same bytes to the same disk (the
// two in turns, both synced), and how long it takes to verify and load.
#include "longshore/trainer/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/program.h"
#include "longshore/base/timing.h"
#include "longshore/trainer/checkpoint/load_state.h"
#include "longshore/trainer/checkpoint/snapshot.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/planner/advice/memory_suggestions.h"
#include "longshore/trainer/step/training_session.h"
#include "tests/bench/interleaved.h"

namespace longshore::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 9;

// The same bytes, as fast as the disk takes them.
void write_plainly(const fs::path& path, int64_t bytes) {
  static const std::vector<std::byte> piece(size_t{4} << 20, std::byte{0x5a});
  fs::remove(path);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw Error(path.string() + ": cannot be written");
  for (int64_t left = bytes; left > 0;) {
    const ssize_t count =
        write(file, piece.data(), std::min<size_t>(piece.size(), static_cast<size_t>(left)));
    if (count <= 0) throw Error(path.string() + ": cannot be written");
    left -= count;
  }
  fsync(file);
  close(file);
}

template <class Work>
double median_seconds(Work work) {
  std::vector<double> seconds;
  for (int i = 0; i <= kRounds; ++i) {
    const auto start = Clock::now();
    work();
    if (i > 0) seconds.push_back(seconds_since(start));  // the first touches its memory
  }
  return median(seconds);
}

void measure(trainer::Config config, const fs::path& folder) {
  config.checkpoint_period = 1;
  config.enable_checkpointing = config.async_checkpointing = true;
  const std::unique_ptr<offload::Backend> backend =
      trainer::make_backend(trainer::choose_backend(config).target);
  const trainer::TrainingPlans plans = trainer::plan_training({config, backend->target()});
  const models::DecoderConfig model = trainer::decoder_config(config, backend->target());
  if (std::string why = explain_out_of_memory({config, backend->target()}, plans, *backend);
      !why.empty())
    throw PlanError(why);
  trainer::TrainingSession session(plans, *backend,
                                   trainer::first_values(config, plans, backend->target()));
  const trainer::SavedModel saved{config, model, plans.layout};

  const fs::path to = folder / trainer::checkpoint_name(1);
  trainer::Manifest manifest;
  auto save = [&](const offload::Arguments& arguments) {
    fs::remove_all(to);
    manifest = write_checkpoint(to, saved, {}, arguments, {.step = 1});
  };
  save(session.arguments());
  int64_t bytes = 0;
  for (const trainer::SavedFile& file : manifest.files) bytes += file.bytes;
  const int64_t parameters = count_parameters(plans.model).all;
  std::printf("%.1f M parameters, %s in %zu files, %.2f bytes a parameter\n",
              static_cast<double>(parameters) / 1e6, offload::bytes_text(bytes).c_str(),
              manifest.files.size(), static_cast<double>(bytes) / static_cast<double>(parameters));

  trainer::Snapshot snapshot(plans.layout, *backend, session.ledger());
  const double copy = median_seconds([&] { snapshot.take(session.arguments()); });
  const Comparison write = compare([&] { save(snapshot.arguments()); },
                                   [&] { write_plainly(folder / "plain", bytes); }, kRounds);
  const double direct = median_seconds([&] { save(session.arguments()); });
  const double verify = median_seconds([&] { trainer::open_checkpoint(to); });
  const trainer::Checkpoint checkpoint = trainer::open_checkpoint(to);
  const double load = median_seconds([&] { load_state(checkpoint, saved, session.arguments()); });
  auto line = [&](const char* what, double seconds) {
    std::printf("%-46s %8.3f s %8.0f MB/s\n", what, seconds,
                static_cast<double>(bytes) / seconds / 1e6);
  };
  line("training waits, async_checkpointing=true", copy);
  line("training waits, async_checkpointing=false", direct);
  line("written behind it", write.first_seconds);
  line("plain write of the same bytes, synced", write.second_seconds);
  std::printf("  a checkpoint takes %.2f times as long (quartiles %.2f apart)\n", write.ratio,
              write.ratio_spread);
  line("resuming: verified", verify);
  line("resuming: loaded", load);
  fs::remove_all(to);
  fs::remove(folder / "plain");
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Measures what a checkpoint costs.", "bench_checkpoint");
  std::string config = "quickstart.yml", folder = ".";
  std::vector<std::string> overrides;
  app.add_option("--config", config, "a path, or the name of a file in configs/")
      ->capture_default_str();
  app.add_option("--folder", folder, "where to write, on the disk that is measured")
      ->capture_default_str();
  app.add_option("key=value", overrides, "config keys, above what the file says");
  return run_program(app, argc, argv, [&] {
    bench::measure(trainer::load_config(config, overrides, trainer::default_configs_directory()),
                   folder);
  });
}

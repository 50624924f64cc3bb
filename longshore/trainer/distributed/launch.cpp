#include "longshore/trainer/distributed/launch.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::trainer {
namespace {

// The names that a launcher gives to the same things.
struct Variables {
  Launch::By by;
  const char *rank, *world_size, *local_rank;
};

constexpr Variables kLaunchers[] = {
    {Launch::By::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    // Before Slurm, whose variables an mpirun in a batch script hands on to all processes; those of
    // PMI come after it, as srun may set them, too, and then without a local rank.
    {Launch::By::mpirun, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    // Of a step: a batch script has the tasks of its job in SLURM_NTASKS, but is one process.
    {Launch::By::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
    {Launch::By::mpirun, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
};

class Reader {
 public:
  Reader(Launch::By by, const Environment& environment) : by_(by), environment_(environment) {}

  int64_t number(const char* variable, int64_t low, int64_t high) const {
    const std::string text = environment_(variable);
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
      throw ConfigError(std::string(variable) + " in the environment: found '" + excerpt(text) +
                        "', expected a number from " + std::to_string(low) + " to " +
                        std::to_string(high) + ", as " + name(by_) + " sets it");
    return value;
  }

 private:
  Launch::By by_;
  const Environment& environment_;
};

constexpr int64_t kMaxProcesses = 1 << 20, kMaxPort = 65535;

}  // namespace

const char* name(Launch::By by) {
  static constexpr const char* kNames[] = {"nobody", "torchrun", "mpirun", "slurm"};
  return kNames[static_cast<size_t>(by)];
}

Launch find_launch(const Environment& environment) {
  for (const Variables& variables : kLaunchers) {
    if (environment(variables.rank).empty() || environment(variables.world_size).empty()) continue;
    Reader read(variables.by, environment);
    Launch launch{.by = variables.by};
    launch.world_size = read.number(variables.world_size, 1, kMaxProcesses);
    launch.rank = read.number(variables.rank, 0, launch.world_size - 1);
    if (launch.world_size == 1) {
      // Images of containers have torchrun's variables for one process, whatever starts it.
      if (launch.by == Launch::By::torchrun) continue;
      return {};  // a shell in a Slurm allocation, for example
    }
    if (!environment(variables.local_rank).empty())
      launch.local_rank = read.number(variables.local_rank, 0, launch.rank);
    if (launch.by == Launch::By::torchrun) {
      launch.master_address = environment("MASTER_ADDR");
      if (launch.master_address.empty())
        throw ConfigError(
            "MASTER_ADDR in the environment: found nothing, expected the host that "
            "torchrun names with RANK and WORLD_SIZE");
      launch.master_port = read.number("MASTER_PORT", 1, kMaxPort);
    }
    return launch;
  }
  return {};
}

Launch find_launch() {
  return find_launch([](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value ? value : "");
  });
}

void require_one_process(const char* program) {
  const Launch launch = find_launch();
  if (launch.world_size > 1)
    throw ConfigError(std::string(program) + " is one process; found " +
                      std::to_string(launch.world_size) + " of them, started by " +
                      name(launch.by));
}

std::string text(const Launch& launch) {
  return std::string(name(launch.by)) + ": rank " + std::to_string(launch.rank) + " of " +
         std::to_string(launch.world_size) + ", device " + std::to_string(launch.local_rank) +
         " of its node";
}

}  // namespace longshore::trainer

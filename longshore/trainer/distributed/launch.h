// A Launch says how a run of several processes was started, as the environment tells: by torchrun,
// by mpirun, or by Slurm's srun.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace longshore::trainer {

struct Launch {
  enum class By { nobody, torchrun, mpirun, slurm };
  By by = By::nobody;
  int64_t rank = 0, world_size = 1, local_rank = 0;
  std::string master_address;  // torchrun's, and the port
  int64_t master_port = 0;
};

const char* name(Launch::By by);

// Variables are asked for by name; "" where one is not set. Looked for as torchrun's, Open MPI's,
// Slurm's, and last PMI's; nobody where none of them launched more than one process. Throws
// ConfigError where variables are missing, no numbers, or contradict each other, naming them and
// what was found.
using Environment = std::function<std::string(const std::string& name)>;
Launch find_launch(const Environment& environment);
// How this process was launched.
Launch find_launch();

// Throws ConfigError where this process is one of several: `program` would do the same in each.
void require_one_process(const char* program);

// "torchrun: rank 3 of 8, device 3 of its node".
std::string text(const Launch& launch);

}  // namespace longshore::trainer

// One process of several: trains a small model on its part of the global batch and prints what it
// saw. usage: mpirun -np DATA*FSDP rank DATA FSDP [policy]
// Or, launched by torchrun, says who is there. usage: torchrun --no-python ... rank store
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "longshore/base/error.h"
#include "longshore/trainer/distributed/connect.h"
#include "longshore/trainer/distributed/store_world.h"
#include "tests/offload/training.h"

namespace {
void meet_by_store() {
  using namespace longshore::trainer;
  const Launch launch = find_launch();
  const auto world = connect_by_store(launch);
  const int64_t sum = world->sum(launch.rank + 1);
  for (const std::string& line : world->gather(text(launch)))
    if (world->is_first())
      std::printf("%s; the sum is %lld\n", line.c_str(), static_cast<long long>(sum));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace longshore;
  try {
    if (argc == 2 && std::string(argv[1]) == "store") return meet_by_store(), 0;
    if (argc < 3) return 2;
    auto world = trainer::connect(trainer::find_launch(), models::Target::cpu);
    offload::DeviceMesh mesh{.data = {.size = std::atoi(argv[1])},
                             .fsdp = {.size = std::atoi(argv[2])}};
    mesh.data.rank = world->rank() / mesh.fsdp.size;
    mesh.fsdp.rank = world->rank() % mesh.fsdp.size;
    offload::TrainingOptions options{.policy = argc > 3 ? argv[3] : "none"};
    options.layout.mesh = mesh;
    options.communicator = world->host_communicator(mesh);
    offload::Training training = offload::train(options);
    std::string line = "rank " + std::to_string(world->rank());
    for (const trainer::StepResult& result : training.results) {
      char text[64];
      std::snprintf(text, sizeof text, " %.9g %.9g", result.loss, result.gradient_norm);
      line += text;
    }
    std::vector<std::string> lines = world->gather(line);
    if (world->sum(1) != world->size()) return 1;
    if (world->rank() == 0)
      for (const std::string& one : lines) std::printf("%s\n", one.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank: %s\n", error.what());
    return 1;
  }
  return 0;
}

#include "longshore/trainer/distributed/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Launch launch_in(const Variables& variables) {
  return find_launch([&](const std::string& name) {
    auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

std::string refusal(const Variables& variables) {
  try {
    launch_in(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29500"}};
const Variables kSlurm{
    {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}};
const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};

TEST(Launch, KnowsTheLaunchers) {
  Launch launch = launch_in(kTorchrun);
  EXPECT_EQ(text(launch), "torchrun: rank 5 of 8, device 1 of its node");
  EXPECT_EQ(launch.master_address, "node0");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_EQ(text(launch_in(kSlurm)), "slurm: rank 3 of 4, device 1 of its node");
  EXPECT_EQ(text(launch_in(kMpirun)), "mpirun: rank 1 of 2, device 1 of its node");
  EXPECT_EQ(text(launch_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})),
            "mpirun: rank 0 of 2, device 0 of its node");
}

TEST(Launch, AsksTorchrunThenMpirunThenSlurm) {
  Variables all = kTorchrun;
  all.insert(kSlurm.begin(), kSlurm.end());
  all.insert(kMpirun.begin(), kMpirun.end());
  EXPECT_EQ(launch_in(all).by, Launch::By::torchrun);
  all.erase("RANK");
  EXPECT_EQ(launch_in(all).by, Launch::By::mpirun);
  all.erase("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(launch_in(all).by, Launch::By::slurm);
  // As srun --mpi=pmi2 sets them.
  all.insert({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(text(launch_in(all)), "slurm: rank 3 of 4, device 1 of its node");
}

TEST(Launch, TorchrunOfOneProcessLeavesItToOthers) {
  Variables both = kMpirun;
  both.insert({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(text(launch_in(both)), "mpirun: rank 1 of 2, device 1 of its node");
}

// A shell on a login node, a batch script, a job step of one task, mpirun for one process in it.
TEST(Launch, OneProcessIsLaunchedByNobody) {
  for (const Variables& variables : {Variables{},
                                     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
                                     {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
                                     {{"OMPI_COMM_WORLD_RANK", "0"},
                                      {"OMPI_COMM_WORLD_SIZE", "1"},
                                      {"SLURM_PROCID", "0"},
                                      {"SLURM_STEP_NUM_TASKS", "4"}},
                                     {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
                                     {{"RANK", "0"}},
                                     {{"WORLD_SIZE", "4"}}}) {
    Launch launch = launch_in(variables);
    EXPECT_EQ(launch.by, Launch::By::nobody);
    EXPECT_EQ(launch.world_size, 1);
  }
}

TEST(Launch, SomeProgramsAreOneProcess) {
  for (const auto& [name, value] : kTorchrun) setenv(name.c_str(), value.c_str(), 1);
  EXPECT_EQ(message_of<ConfigError>([] { require_one_process("compare"); }),
            "compare is one process; found 8 of them, started by torchrun");
  for (const auto& [name, value] : kTorchrun) unsetenv(name.c_str());
  EXPECT_NO_THROW(require_one_process("compare"));
}

TEST(Launch, RefusesWhatContradictsItself) {
  for (const auto& [variable, value, found] :
       {std::array<std::string, 3>{"RANK", "8", "'8', expected a number from 0 to 7"},
        {"RANK", "-1", "'-1', expected a number from 0 to 7"},
        {"WORLD_SIZE", "many", "'many', expected a number from 1"},
        {"LOCAL_RANK", "6", "'6', expected a number from 0 to 5"},
        {"MASTER_PORT", "70000", "'70000', expected a number from 1 to 65535"},
        {"MASTER_ADDR", "", "found nothing"}}) {
    Variables variables = kTorchrun;
    variables[variable] = value;
    const std::string message = refusal(variables);
    EXPECT_THAT(message, HasSubstr(variable + " in the environment: "));
    EXPECT_THAT(message, HasSubstr(found));
  }
}

}  // namespace
}  // namespace longshore::trainer

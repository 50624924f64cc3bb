// Processes that MPI connects, beside threads that do the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "longshore/base/error.h"
#include "longshore/trainer/distributed/connect.h"
#include "tests/offload/training.h"
#include "tests/trainer/distributed/mpirun.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

struct Mesh {
  int data, fsdp;
};

class Processes : public testing::TestWithParam<Mesh> {};

TEST_P(Processes, LearnWhatThreadsLearn) {
  auto [data, fsdp] = GetParam();
  int ranks = data * fsdp;
  ProgramResult output = run_program(mpirun(ranks) + RANK_PROGRAM " " + std::to_string(data) + " " +
                                     std::to_string(fsdp) + " qkv_proj_offloaded");
  ASSERT_EQ(output.exit_code, 0) << output.output;
  offload::DeviceMesh mesh{.data = {.size = data}, .fsdp = {.size = fsdp}};
  std::vector<offload::Training> threads = offload::train_on(mesh, {});
  const size_t begin = output.output.find("rank 0");  // behind what MPI may have to say
  ASSERT_NE(begin, std::string::npos) << output.output;
  std::istringstream lines(output.output.substr(begin));
  std::string word;
  for (int rank = 0; rank < ranks; ++rank) {
    int number = -1;
    ASSERT_TRUE(lines >> word >> number) << output.output;
    EXPECT_EQ(number, rank);
    for (const StepResult& expected : threads[rank].results) {
      double loss = 0, norm = 0;
      lines >> loss >> norm;
      EXPECT_NEAR(loss, expected.loss, 1e-5 * expected.loss);
      EXPECT_NEAR(norm, expected.gradient_norm, 1e-4 * expected.gradient_norm);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, Processes, testing::Values(Mesh{1, 2}, Mesh{2, 1}, Mesh{2, 2}),
                         [](const auto& info) {
                           return "data_" + std::to_string(info.param.data) + "_fsdp_" +
                                  std::to_string(info.param.fsdp);
                         });

TEST(World, OneProcessNeedsNoMpi) {
  auto world = connect({}, models::Target::cpu);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->sum(7), 7);
  EXPECT_EQ(world->gather("a"), std::vector<std::string>{"a"});
}

TEST(World, RefusesTorchrunOnTheCpu) {
  try {
    connect({.by = Launch::By::torchrun, .rank = 0, .world_size = 4}, models::Target::cpu);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nearest: mpirun -np 4"));
  }
}

}  // namespace
}  // namespace longshore::trainer

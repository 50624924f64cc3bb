// What the build promises about the libraries that meet in one process.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <sentencepiece_processor.h>
#include <unistd.h>

#include <algorithm>
#include <dnnl.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/trainer/run_program.h"

namespace longshore {
namespace {

using testing::HasSubstr;

at::Tensor onednn_matmul(const at::Tensor& a, const at::Tensor& b) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  auto desc = [](int64_t rows, int64_t columns) {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                              dnnl::memory::format_tag::ab);
  };
  at::Tensor c = at::full({m, n}, -1.0f);
#if DNNL_VERSION_MAJOR >= 3
  dnnl::matmul::primitive_desc primitive(engine, desc(m, k), desc(k, n), desc(m, n));
#else
  dnnl::matmul::primitive_desc primitive({desc(m, k), desc(k, n), desc(m, n)}, engine);
#endif
  dnnl::matmul(primitive).execute(
      stream, {{DNNL_ARG_SRC, dnnl::memory(desc(m, k), engine, a.data_ptr())},
               {DNNL_ARG_WEIGHTS, dnnl::memory(desc(k, n), engine, b.data_ptr())},
               {DNNL_ARG_DST, dnnl::memory(desc(m, n), engine, c.data_ptr())}});
  stream.wait();
  return c;
}

std::set<std::string> loaded_libraries(const std::string& name) {
  std::set<std::string> paths;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::filesystem::path path = line.substr(slash);
    if (path.filename().string().starts_with(name)) paths.insert(path.string());
  }
  return paths;
}

TEST(Libraries, AtenAndOnednnAgreeInAlternation) {
  at::Tensor a = at::randn({384, 256}), b = at::randn({256, 512});
  for (int i = 0; i < 4; ++i) {
    at::Tensor expected = at::mm(a, b);
    EXPECT_TRUE(onednn_matmul(a, b).allclose(expected, 1e-4, 1e-4));
  }
}

// A setting of GNU OpenMP, as it says itself when it is loaded.
std::string openmp_setting(const std::string& name, const std::string& environment) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string output = trainer::run_program(
                                 "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY -u OMP_NUM_THREADS "
                                 "OMP_DISPLAY_ENV=verbose " +
                                 environment + " " + program + " --gtest_list_tests")
                                 .output;
  const std::string words = name + " = ";
  const size_t at = output.find(words);
  if (at == std::string::npos) return output;
  return output.substr(at + words.size(), output.find('\n', at) - at - words.size());
}

TEST(Libraries, ThreadsSpinBriefly) {
  EXPECT_EQ(openmp_setting("GOMP_SPINCOUNT", ""), "'1000'");
  EXPECT_EQ(openmp_setting("GOMP_SPINCOUNT", "GOMP_SPINCOUNT=7"), "'7'");
  EXPECT_EQ(openmp_setting("GOMP_SPINCOUNT", "OMP_WAIT_POLICY=passive"), "'0'");
}

TEST(Libraries, ProcessesOfALauncherShareTheProcessors) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
  if (CPU_COUNT(&usable) < processors) GTEST_SKIP() << "bound to some of the processors";
  std::string half = "'";
  half += std::to_string(std::max(1L, processors / 2)) + "'";
  const std::string by_torchrun = "TORCHELASTIC_RUN_ID=none LOCAL_WORLD_SIZE=2 ";
  auto threads = [](const std::string& environment) {
    return openmp_setting("OMP_NUM_THREADS", environment);
  };
  EXPECT_EQ(threads(by_torchrun), half);
  EXPECT_EQ(threads(by_torchrun + "OMP_NUM_THREADS=1"), half);
  EXPECT_EQ(threads(by_torchrun + "OMP_NUM_THREADS=3"), "'3'");
  EXPECT_EQ(threads("OMPI_COMM_WORLD_LOCAL_SIZE=2"), half);
  EXPECT_EQ(threads("OMPI_COMM_WORLD_LOCAL_SIZE=2 OMP_NUM_THREADS=1"), "'1'");
  EXPECT_EQ(threads("OMP_NUM_THREADS=1"), "'1'");
}

TEST(Libraries, AllThreadsComeThatAreCountedOn) {
  EXPECT_EQ(openmp_setting("OMP_DYNAMIC", "OMP_DYNAMIC=true"), "'FALSE'");
  EXPECT_EQ(openmp_setting("OMP_NUM_THREADS", "OMP_NUM_THREADS=7 OMP_THREAD_LIMIT=3"), "'3'");
  EXPECT_EQ(openmp_setting("OMP_NUM_THREADS", "OMP_NUM_THREADS=2 OMP_THREAD_LIMIT=3"), "'2'");
  EXPECT_EQ(openmp_setting("OMP_NUM_THREADS", "OMP_NUM_THREADS= OMP_THREAD_LIMIT=1"), "'1'");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  for (const char* environment :
       {"OMP_DYNAMIC=true OMP_NUM_THREADS=16", "OMP_THREAD_LIMIT=1", "OMP_MAX_ACTIVE_LEVELS=0"}) {
    const trainer::ProgramResult result =
        trainer::run_program("env " + std::string(environment) + " " + program +
                             " --gtest_filter='*AgreeInAlternation:*OneOpenMpRuntime*'");
    EXPECT_EQ(result.exit_code, 0) << environment << "\n" << result.output;
  }
}

TEST(Libraries, OneOpenMpRuntimeServesAll) {
  at::mm(at::randn({64, 64}), at::randn({64, 64}));
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  EXPECT_EQ(threads, omp_get_max_threads());
  const std::set<std::string> runtimes = loaded_libraries("libgomp");
  ASSERT_EQ(runtimes.size(), 1u);
  // The one beside LibTorch: what its builders tested with.
  Dl_info torch;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&at::_ops::mm::call), &torch), 0);
  EXPECT_EQ(std::filesystem::path(*runtimes.begin()).parent_path(),
            std::filesystem::canonical(torch.dli_fname).parent_path());
  EXPECT_TRUE(loaded_libraries("libiomp").empty());
  EXPECT_TRUE(loaded_libraries("libomp").empty());
}

TEST(Libraries, SentencepieceKeepsItsProtobufToItself) {
  sentencepiece::SentencePieceProcessor processor;
  EXPECT_FALSE(processor.LoadFromSerializedProto("no model").ok());
  // Defined by both. Were the program to export its own, LibTorch would call that one.
  void* symbol = dlsym(RTLD_DEFAULT, "_ZN6google8protobuf8internal8byteswapILi4EEEvPv");
  ASSERT_NE(symbol, nullptr);
  Dl_info owner;
  ASSERT_NE(dladdr(symbol, &owner), 0);
  EXPECT_THAT(owner.dli_fname, HasSubstr("libtorch_cpu"));
}

}  // namespace
}  // namespace longshore

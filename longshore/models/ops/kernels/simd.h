// Plain loops that the compiler vectorises, for each instruction set of this processor family.
// A kernel is a function over a range of rows, marked LONGSHORE_SIMD and called inside a parallel
// region; helpers are force-inlined into it so that they are compiled for its instruction set.
#pragma once

#include <omp.h>

#include <cstdint>
#include <exception>

#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/numbers.h"

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LONGSHORE_SIMD \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline))
#else
#define LONGSHORE_SIMD __attribute__((noinline))
#endif

namespace longshore::models {

// Calls f(share, begin, end) on each thread's share of [0, count); shares depend only on count and
// the number of threads. What one of them throws is thrown here, when all have ended.
template <class F>
void parallel_shares(int64_t count, F f) {
  if (count == 1) return f(omp_get_max_threads() - 1, 0, 1);  // not worth waking the others
  std::exception_ptr failure;
#pragma omp parallel
  {
    int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
    if (begin < end) try {
        f(thread, begin, end);
      } catch (...) {
#pragma omp critical(longshore_failure)
        failure = std::current_exception();
      }
  }
  if (failure) std::rethrow_exception(failure);
}

template <class F>
void parallel_ranges(int64_t count, F f) {
  parallel_shares(count, [&](int64_t, int64_t begin, int64_t end) { f(begin, end); });
}

}  // namespace longshore::models

#include "longshore/base/openmp_threads.h"

#include <omp.h>

#include "longshore/base/refusals.h"

namespace longshore {

void start_openmp_threads() {
  thread_local bool are_started = false;
  if (are_started) return;
  require_threads(omp_get_max_threads() - 1);
#pragma omp parallel
  are_started = true;
}

}  // namespace longshore

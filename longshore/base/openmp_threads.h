// start_openmp_threads() starts OpenMP's threads before they are needed.
#pragma once

namespace longshore {

// Starts those that the calling thread's parallel regions will use; each thread has its own. They
// stay until it ends. Throws a ConfigError where the system refuses them: later, OpenMP would end
// the program without saying why.
void start_openmp_threads();

}  // namespace longshore

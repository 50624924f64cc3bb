// Several processes of a program, as tests start them.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace longshore::trainer {

// Where Open MPI has its sockets: under a path that is not too long for them, and that no other
// test's processes make at the same time, which they do not survive.
inline const std::string& mpi_folder() {
  struct Folder {
    std::string path = "/tmp/mpi-XXXXXX";
    Folder() {
      if (!mkdtemp(path.data())) throw std::runtime_error("cannot make " + path);
    }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

// What stands before the program: Open MPI as root, in a container, on fewer cores than processes,
// and leaving memory behind at its end.
inline std::string mpirun(int ranks) {
  return "ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "OMP_NUM_THREADS=1 "
         "OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1 "
         "OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_orte_tmpdir_base=" +
         mpi_folder() + " mpirun -np " + std::to_string(ranks) + " ";
}

}  // namespace longshore::trainer

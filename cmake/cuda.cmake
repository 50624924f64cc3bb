# longshore_cudart: the CUDA runtime's headers and library, out of a toolkit or out of the
# nvidia-cuda-* wheels, which are laid out alike. Nothing here needs a GPU. Only what is compiled in
# another way with CUDA links it: all else is the same in both kinds of build, and compiled once where
# a build folder changes from one to the other.

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(nvcc_on_path nvcc NO_CACHE)
  foreach(nvcc "${nvcc_on_path}" "$ENV{CUDA_HOME}/bin/nvcc" /usr/local/cuda/bin/nvcc
          "${LONGSHORE_TORCH_DIR}/../nvidia/cu13/bin/nvcc")
    if(EXISTS "${nvcc}")
      execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE nvcc_version)
      if(nvcc_version MATCHES "release 13\\.") # what LibTorch's wheel is built for
        set(CMAKE_CUDA_COMPILER "${nvcc}")
        break()
      endif()
    endif()
  endforeach()
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "LONGSHORE_CUDA=ON, but there is no nvcc of CUDA 13 on PATH, in CUDA_HOME, "
                        "in /usr/local/cuda or beside LibTorch. Run scripts/setup --cuda.")
  endif()
endif()
# Ampere, Hopper, and Blackwell of data centers and of consumers. Each serves what comes later in its
# major version.
set(CMAKE_CUDA_ARCHITECTURES "80;90;100;120" CACHE STRING "Compute capabilities to build for")
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
if(LONGSHORE_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${LONGSHORE_CCACHE}")
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
# CMake 3.25 does not know yet that nvcc speaks C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -lineinfo -DNDEBUG")

get_filename_component(cuda_root "${CMAKE_CUDA_COMPILER}" REALPATH)
get_filename_component(cuda_root "${cuda_root}/../.." ABSOLUTE)
find_path(LONGSHORE_CUDA_INCLUDE cuda_runtime_api.h
  PATHS "${cuda_root}" PATH_SUFFIXES include REQUIRED NO_DEFAULT_PATH)
find_file(LONGSHORE_CUDART libcudart.so.13
  PATHS "${cuda_root}" PATH_SUFFIXES lib64 lib REQUIRED NO_DEFAULT_PATH)

add_library(longshore_cudart INTERFACE)
# cccl: CUDA 13 keeps <nv/target> and <cuda/std/...>, which C10's headers want, in a folder apart.
target_include_directories(longshore_cudart SYSTEM INTERFACE
  "${LONGSHORE_CUDA_INCLUDE}" "${LONGSHORE_CUDA_INCLUDE}/cccl")
# What a small toolkit lacks, scripts/setup takes from wheels.
if(EXISTS "${LONGSHORE_TORCH_DIR}/../nvidia/cu13/include")
  target_compile_options(longshore_cudart INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${LONGSHORE_TORCH_DIR}/../nvidia/cu13/include>")
endif()
target_compile_definitions(longshore_cudart INTERFACE LONGSHORE_CUDA)
target_link_libraries(longshore_cudart INTERFACE "${LONGSHORE_CUDART}")

# longshore_nccl: out of a toolkit that has it, or out of its wheel.
set(nccl_wheel "${LONGSHORE_TORCH_DIR}/../nvidia/nccl")
find_path(LONGSHORE_NCCL_INCLUDE nccl.h
  PATHS "${nccl_wheel}" "${cuda_root}" PATH_SUFFIXES include REQUIRED NO_DEFAULT_PATH)
find_file(LONGSHORE_NCCL libnccl.so.2
  PATHS "${nccl_wheel}" "${cuda_root}" PATH_SUFFIXES lib lib64 REQUIRED NO_DEFAULT_PATH)
add_library(longshore_nccl INTERFACE)
target_include_directories(longshore_nccl SYSTEM INTERFACE "${LONGSHORE_NCCL_INCLUDE}")
target_link_libraries(longshore_nccl INTERFACE longshore_cudart "${LONGSHORE_NCCL}")

# longshore_cudnn: headers alone. The library comes with LibTorch, and ours is taken from there when
# it is first called: see longshore/models/ops/attention/attention_cudnn_graph.cpp. LONGSHORE_CUDNN, which tests ask, need
# not be here.
find_path(LONGSHORE_CUDNN_INCLUDE cudnn.h
  PATHS "${LONGSHORE_TORCH_DIR}/../nvidia/cudnn" "${cuda_root}"
  PATH_SUFFIXES include REQUIRED NO_DEFAULT_PATH)
find_path(LONGSHORE_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
  PATHS "${LONGSHORE_TORCH_DIR}/.." "${cuda_root}"
  PATH_SUFFIXES include REQUIRED NO_DEFAULT_PATH)
find_file(LONGSHORE_CUDNN libcudnn.so.9
  PATHS "${LONGSHORE_TORCH_DIR}/../nvidia/cudnn" "${cuda_root}"
  PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
add_library(longshore_cudnn INTERFACE)
target_include_directories(longshore_cudnn SYSTEM INTERFACE
  "${LONGSHORE_CUDNN_FRONTEND_INCLUDE}" "${LONGSHORE_CUDNN_INCLUDE}")
target_compile_definitions(longshore_cudnn INTERFACE
  NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING CUDNN_FRONTEND_SKIP_JSON_LIB)
target_link_libraries(longshore_cudnn INTERFACE longshore_cudart ${CMAKE_DL_LIBS})

# longshore_torch: LibTorch out of the PyPI wheel (or any folder laid out like it).
# find_package(Torch) is not used: it insists on a CUDA toolkit that a CPU build does not need.

set(torch_include "${LONGSHORE_TORCH_DIR}/include")
set(torch_lib "${LONGSHORE_TORCH_DIR}/lib")
if(NOT EXISTS "${torch_include}/ATen/core/Tensor.h" OR NOT EXISTS "${torch_lib}/libtorch_cpu.so")
  message(FATAL_ERROR "No LibTorch in ${LONGSHORE_TORCH_DIR} (expected include/ATen and "
                      "lib/libtorch_cpu.so). Run scripts/setup, or set LONGSHORE_TORCH_DIR.")
endif()

add_library(longshore_torch INTERFACE)

# LibTorch ships headers of fmt, oneDNN and protobuf too. Searched last, they never hide the
# system's, which are those we link.
target_compile_options(longshore_torch INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${torch_include}>")
# Without this, ATen's convenience headers include the declarations of all operators.
target_compile_definitions(longshore_torch INTERFACE AT_PER_OPERATOR_HEADERS)
# LibTorch carries a newer oneDNN and exports templates instantiated with its types, under the names
# that ours uses: the loader must meet ours first, or its code generator runs on foreign structures.
target_link_libraries(longshore_torch INTERFACE
  longshore_onednn "${torch_lib}/libtorch_cpu.so" "${torch_lib}/libc10.so")

# One OpenMP runtime: the loader takes the first libgomp.so.1 it meets for everybody, and the one
# beside LibTorch is first when the program itself asks for it.
if(EXISTS "${torch_lib}/libgomp.so.1")
  target_link_libraries(longshore_torch INTERFACE "${torch_lib}/libgomp.so.1")
else()
  target_link_libraries(longshore_torch INTERFACE gomp)
endif()

# The wheel's libraries were linked against CUDA; a CPU build loads only the CUDA runtime and CUPTI.
# NVRTC finds its builtins by the program's path alone.
set(torch_rpath "${torch_lib}")
find_program(nvcc_on_path nvcc NO_CACHE)
get_filename_component(toolkit_on_path "${nvcc_on_path}" REALPATH)
get_filename_component(toolkit_on_path "${toolkit_on_path}/../.." ABSOLUTE)
foreach(library libcudart.so.13 libcupti.so.13 libnvrtc.so.13)
  unset(found)
  # Looked for each time, as a toolkit may be gone since.
  find_file(found ${library}
    PATHS "${LONGSHORE_TORCH_DIR}/../nvidia/cu13/lib" "${toolkit_on_path}" ENV CUDA_HOME
          /usr/local/cuda
    PATH_SUFFIXES . lib64 lib extras/CUPTI/lib64 NO_DEFAULT_PATH NO_CACHE)
  if(found)
    get_filename_component(folder "${found}" DIRECTORY)
    get_filename_component(folder "${folder}" REALPATH)
    list(APPEND torch_rpath "${folder}")
  endif()
endforeach()

# What is built here finds them where they are. What is installed has them beside it: see
# cmake/install.cmake.
list(REMOVE_DUPLICATES torch_rpath)
list(APPEND CMAKE_BUILD_RPATH ${torch_rpath} "${PROJECT_BINARY_DIR}/lib")
target_link_options(longshore_torch INTERFACE "LINKER:--unresolved-symbols=ignore-in-shared-libs")

if(LONGSHORE_CUDA)
  if(NOT EXISTS "${torch_lib}/libtorch_cuda.so")
    message(FATAL_ERROR "LONGSHORE_CUDA=ON, but ${torch_lib} has no libtorch_cuda.so. "
                        "Run scripts/setup --cuda.")
  endif()
  # libtorch_cuda registers its kernels when it is loaded; no symbol of ours asks for it.
  target_link_libraries(longshore_torch INTERFACE
    "${LONGSHORE_CUDART}" "${torch_lib}/libc10_cuda.so"
    "-Wl,--no-as-needed,${torch_lib}/libtorch_cuda.so,--as-needed")
endif()

# Last, since the loader initialises what it meets last before what does not depend on it: see
# longshore/base/openmp_settings.cpp.
add_dependencies(longshore_torch longshore_openmp_settings)
target_link_libraries(longshore_torch INTERFACE
  "-Wl,--no-as-needed,$<TARGET_FILE:longshore_openmp_settings>,--as-needed")

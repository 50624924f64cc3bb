# What programs say with --version: longshore_commit has build_commit(), found by each build, and
# longshore_versions has build_libraries(), which is the same for all of them. They are linked to
# programs alone, so that a commit leaves tests as they are.

set(commit_source "${PROJECT_BINARY_DIR}/generated/commit.cpp")
add_custom_command(
  OUTPUT "${commit_source}"
  COMMAND "${CMAKE_COMMAND}" -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${commit_source}
          -DDEPFILE=${commit_source}.d -P "${PROJECT_SOURCE_DIR}/cmake/write_commit.cmake"
  DEPENDS "${PROJECT_SOURCE_DIR}/cmake/write_commit.cmake"
          "${PROJECT_SOURCE_DIR}/cmake/archived_commit.txt"
  DEPFILE "${commit_source}.d"
  COMMENT "Finding the commit"
  VERBATIM)
add_library(longshore_commit OBJECT "${commit_source}")
target_link_libraries(longshore_commit PRIVATE longshore_options)

# header_version(VARIABLE HEADER MACRO...): the numbers that a header defines as those macros, with
# points between them; "unknown" where there is no such header.
function(header_version variable header)
  set(numbers)
  if(NOT EXISTS "${header}")
    set(${variable} unknown PARENT_SCOPE)
    return()
  endif()
  foreach(macro ${ARGN})
    file(STRINGS "${header}" line REGEX "^#define[ \t]+${macro}[ \t]+[0-9]+")
    string(REGEX MATCH "[0-9]+[ \t]*(/.*)?$" number "${line}")
    string(REGEX MATCH "^[0-9]+" number "${number}")
    list(APPEND numbers "${number}")
  endforeach()
  list(JOIN numbers "." version)
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

header_version(torch_version "${LONGSHORE_TORCH_DIR}/include/torch/headeronly/version.h"
  TORCH_VERSION_MAJOR TORCH_VERSION_MINOR TORCH_VERSION_PATCH)
find_file(dnnl_version_header oneapi/dnnl/dnnl_version.h
  PATHS "${LONGSHORE_ONEDNN_INCLUDE}" REQUIRED NO_CACHE)
header_version(onednn_version "${dnnl_version_header}"
  DNNL_VERSION_MAJOR DNNL_VERSION_MINOR DNNL_VERSION_PATCH)
set(cuda_version none)
set(cudnn_version none)
if(LONGSHORE_CUDA)
  list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
  set(cuda_version "${CMAKE_CUDA_COMPILER_VERSION}, for ${architectures}")
  header_version(cudnn_version "${LONGSHORE_CUDNN_INCLUDE}/cudnn_version.h"
    CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
endif()
header_version(pcre2_version "${LONGSHORE_PCRE2_INCLUDE}/pcre2.h" PCRE2_MAJOR PCRE2_MINOR)
file(STRINGS "${PROJECT_SOURCE_DIR}/scripts/wheels.py" pin REGEX "^SENTENCEPIECE = ")
string(REGEX MATCH "[0-9]+(\\.[0-9]+)+" sentencepiece_version "${pin}")

set(lines "LibTorch ${torch_version}" "CUDA ${cuda_version}" "cuDNN ${cudnn_version}"
  "oneDNN ${onednn_version}" "sentencepiece ${sentencepiece_version}" "ICU ${ICU_VERSION}"
  "PCRE2 ${pcre2_version}")
list(JOIN lines "\\n" lines)
add_library(longshore_versions OBJECT "${PROJECT_SOURCE_DIR}/longshore/base/build_libraries.cpp")
target_link_libraries(longshore_versions PRIVATE longshore_options)
target_compile_definitions(longshore_versions PRIVATE "LONGSHORE_LIBRARIES=\"${lines}\"")

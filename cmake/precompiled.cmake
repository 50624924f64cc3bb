# Precompiled headers, a target each, for
#   target_precompile_headers(my_target REUSE_FROM longshore_std_pch)
# Units that need none of one set SKIP_PRECOMPILE_HEADERS.

set(longshore_std_headers
  <algorithm> <array> <cmath> <cstdint> <cstdio> <filesystem> <functional> <map> <memory> <optional>
  <ranges> <set> <span> <string> <string_view> <tuple> <utility> <vector>)

# longshore_pch(NAME LIBRARIES a ... HEADERS <b> ...)
function(longshore_pch name)
  cmake_parse_arguments(PARSE_ARGV 1 pch "" "" "LIBRARIES;HEADERS")
  add_library(${name} OBJECT "${PROJECT_SOURCE_DIR}/cmake/no_source.cpp")
  target_link_libraries(${name} PRIVATE longshore_options ${pch_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${longshore_std_headers} ${pch_HEADERS})
endfunction()

longshore_pch(longshore_std_pch)
set(aten_headers
  <ATen/core/Tensor.h> <ATen/TensorOperators.h> <ATen/ops/from_blob.h> <ATen/ops/zeros_like.h>)
set(test_headers <gmock/gmock.h> <gtest/gtest.h>)
longshore_pch(longshore_aten_pch LIBRARIES longshore_torch HEADERS ${aten_headers})
longshore_pch(longshore_test_pch LIBRARIES GTest::gmock HEADERS ${test_headers})
longshore_pch(longshore_aten_test_pch
  LIBRARIES longshore_torch GTest::gmock
  HEADERS ${aten_headers} ${test_headers})

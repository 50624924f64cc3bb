# longshore_test(NAME SOURCES a.cpp ... [LIBRARIES ...] [LABELS ...] [EACH Suite ...] [ATEN])
#
# One GoogleTest program build/tests/NAME. ctest knows its suites as NAME.Suite and runs the tests of
# one in one process, since the start of LibTorch takes longer than most tests. Those of the suites
# after EACH have a process each, NAME.Suite.Test: they change or measure what belongs to a process
# (its environment, limits, signals, memory), or take long.
#
# GoogleTest's headers are precompiled, and with ATEN, for tests of which most include them, LibTorch's.
# Tests are compiled quickly rather than made quick.
# Programs are costly to link, so prefer adding a source to one that exists. A test that takes
# longer than a minute belongs in a program labelled `long`, which scripts/test leaves out.

enable_testing()

function(longshore_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "ATEN" "" "SOURCES;LIBRARIES;LABELS;EACH")
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "longshore_test(${name}): unexpected ${test_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${test_SOURCES})
  target_link_libraries(${name} PRIVATE
    longshore_options ${test_LIBRARIES} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(test_ATEN)
    target_precompile_headers(${name} REUSE_FROM longshore_aten_test_pch)
  else()
    target_precompile_headers(${name} REUSE_FROM longshore_test_pch)
  endif()
  set(suites "${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake")
  file(GENERATE OUTPUT "${suites}" CONTENT "set(name \"${name}\")
set(program \"$<TARGET_FILE:${name}>\")
set(list \"${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.txt\")
set(folder \"${PROJECT_SOURCE_DIR}\")
set(labels \"${test_LABELS}\")
set(each \"${test_EACH}\")
set(sanitizers \"${LONGSHORE_SANITIZERS}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/test_suites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${suites}")
endfunction()

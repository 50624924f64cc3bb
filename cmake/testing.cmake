# longshore_test(NAME SOURCES a.cpp ... [LIBRARIES ...] [LABELS ...])
#
# One GoogleTest program build/tests/NAME, each of its tests known to ctest as NAME.Suite.Test.
# Programs are costly to link, so prefer adding a source to one that exists. A test that takes
# longer than a minute belongs in a program labelled `long`, which scripts/test leaves out.

include(GoogleTest)
enable_testing()

function(longshore_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "SOURCES;LIBRARIES;LABELS")
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "longshore_test(${name}): unexpected ${test_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${test_SOURCES})
  target_link_libraries(${name} PRIVATE
    longshore_options ${test_LIBRARIES} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  set(labels)
  if(test_LABELS)
    list(JOIN test_LABELS "\\;" labels)
    set(labels LABELS "${labels}")
  endif()
  gtest_discover_tests(${name}
    TEST_PREFIX "${name}." WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    PROPERTIES TIMEOUT 600 ${labels})
endfunction()

# Read by ctest, with `name`, `program`, `list`, `folder`, `labels`, `each` and `sanitizers` set by
# longshore_test(): adds the program's suites as tests. What the program has is kept in `list`.

cmake_policy(VERSION 3.24)
if(NOT EXISTS "${program}")
  add_test("${name}_NOT_BUILT" "${name}_NOT_BUILT")
  return()
endif()

if("${program}" IS_NEWER_THAN "${list}" OR "${CMAKE_CURRENT_LIST_FILE}" IS_NEWER_THAN "${list}")
  execute_process(
    COMMAND "${program}" --gtest_list_tests
    WORKING_DIRECTORY "${folder}" TIMEOUT 60 OUTPUT_VARIABLE lines RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${status}\n${lines}")
  endif()
  # Without parameters' values, which may hold what separates a list.
  string(REGEX REPLACE " *#[^\n]*" "" lines "${lines}")
  string(REPLACE "\n" ";" lines "${lines}")
  set(tests)
  foreach(line IN LISTS lines)
    if(line MATCHES "^ +(.+)$")
      string(APPEND tests "${suite} ${CMAKE_MATCH_1}\n")
    elseif(line MATCHES "^([^ ]+)\\.$")
      set(suite "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  # Whole or not at all, as another ctest may be reading.
  string(RANDOM LENGTH 8 part)
  file(WRITE "${list}.${part}" "${tests}")
  file(RENAME "${list}.${part}" "${list}")
endif()

file(STRINGS "${list}" tests)
set(suites)
set(missing ${each})
foreach(test IN LISTS tests)
  string(REGEX REPLACE " .*" "" suite "${test}")
  set(filter "${suite}.*")
  if(suite IN_LIST each)
    list(REMOVE_ITEM missing "${suite}")
    string(REPLACE " " "." filter "${test}")
  endif()
  list(APPEND suites "${filter}")
endforeach()
list(REMOVE_DUPLICATES suites)
# What measures memory is left out where sanitizers take some too.
if(missing AND NOT sanitizers)
  message(FATAL_ERROR "longshore_test(${name} EACH ...): no suites ${missing} in ${program}")
endif()

foreach(filter IN LISTS suites)
  set(seconds 600)
  if(filter MATCHES "\\.\\*$")
    set(seconds 1200)
  endif()
  string(REGEX REPLACE "\\.\\*$" "" test "${name}.${filter}")
  add_test("${test}" "${program}" "--gtest_filter=${filter}")
  # Skipped is one in which nothing passed and nothing failed.
  set_tests_properties("${test}" PROPERTIES
    WORKING_DIRECTORY "${folder}" TIMEOUT ${seconds} LABELS "${labels}"
    SKIP_REGULAR_EXPRESSION
    "\\[  PASSED  \\] 0 tests\\.\n\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\][^\n]*\n)+$")
endforeach()

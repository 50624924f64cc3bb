# longshore_program(NAME SOURCES a.cpp ... [LIBRARIES ...]): a program of ours. Reading a command line
# takes long to compile and no time to run.
function(longshore_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "" "SOURCES;LIBRARIES")
  add_executable(${name}
    ${program_SOURCES} $<TARGET_OBJECTS:longshore_commit> $<TARGET_OBJECTS:longshore_versions>)
  target_link_libraries(${name} PRIVATE longshore_options CLI11::CLI11 ${program_LIBRARIES})
  target_precompile_headers(${name} REUSE_FROM longshore_std_pch)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# longshore_options: the language, warnings and flags of every target of ours.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# Line tables only: full debug information triples the build folder and slows every link.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")

add_library(longshore_options INTERFACE)
target_include_directories(longshore_options INTERFACE "${PROJECT_SOURCE_DIR}")
# errno and floating-point traps are not used; without them loops vectorise.
target_compile_options(longshore_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-fopenmp;-fno-math-errno;-fno-trapping-math>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of std::string's own code (GCC bug 105651), which in a precompiled header it no
  # longer takes for the system's.
  target_compile_options(longshore_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>")
endif()
# DT_RPATH rather than DT_RUNPATH: it also serves what a library itself looks for, such as LibTorch.
target_link_options(longshore_options INTERFACE "LINKER:--as-needed" "LINKER:--disable-new-dtags")

# What writes past the end of a buffer ends the program, and what the loader has resolved is read-only
# from then on.
target_compile_options(longshore_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>")
target_link_options(longshore_options INTERFACE
  "LINKER:-z,relro" "LINKER:-z,now" "LINKER:-z,noexecstack"
  "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>")
if(NOT LONGSHORE_SANITIZERS) # which have their own checks of the same calls
  set(fortify 2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(fortify 3)
  endif()
  # Some compilers define it themselves.
  target_compile_options(longshore_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${fortify}>")
endif()

# No program says where it was built.
target_compile_options(longshore_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${LONGSHORE_TORCH_DIR}=torch;-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>")

if(LONGSHORE_SANITIZERS)
  # Function and vptr checks need LibTorch's RTTI, which it does not export.
  target_compile_options(longshore_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LONGSHORE_SANITIZERS};-fno-sanitize=vptr;-fno-sanitize-recover=undefined>")
  target_link_options(longshore_options INTERFACE "-fsanitize=${LONGSHORE_SANITIZERS}")
endif()

find_program(LONGSHORE_MOLD mold)
if(LONGSHORE_MOLD)
  target_link_options(longshore_options INTERFACE -fuse-ld=mold)
endif()

find_program(LONGSHORE_CCACHE ccache)
if(LONGSHORE_CCACHE)
  # ccache cannot see into a precompiled header unless it may ignore what is defined before it.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${LONGSHORE_CCACHE})
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
endif()

# Debian's packages, sentencepiece as scripts/setup builds it, and where they are Arrow's libraries.

# An environment of conda that is active has packages of the same names, beside what is on PATH.
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)

find_package(yaml-cpp REQUIRED CONFIG)
find_package(fmt REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_package(GTest REQUIRED CONFIG)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)

# Debian packages PCRE2 without its CMake files.
find_path(LONGSHORE_PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(LONGSHORE_PCRE2_LIBRARY pcre2-8 REQUIRED)
add_library(longshore_pcre2 INTERFACE)
target_include_directories(longshore_pcre2 INTERFACE "${LONGSHORE_PCRE2_INCLUDE}")
target_link_libraries(longshore_pcre2 INTERFACE "${LONGSHORE_PCRE2_LIBRARY}")

# Likewise Zstandard.
find_path(LONGSHORE_ZSTD_INCLUDE zstd.h REQUIRED)
find_library(LONGSHORE_ZSTD_LIBRARY zstd REQUIRED)
add_library(longshore_zstd INTERFACE)
target_include_directories(longshore_zstd INTERFACE "${LONGSHORE_ZSTD_INCLUDE}")
target_link_libraries(longshore_zstd INTERFACE "${LONGSHORE_ZSTD_LIBRARY}")

# Likewise xxHash.
find_path(LONGSHORE_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(LONGSHORE_XXHASH_LIBRARY xxhash REQUIRED)
add_library(longshore_xxhash INTERFACE)
target_include_directories(longshore_xxhash INTERFACE "${LONGSHORE_XXHASH_INCLUDE}")
target_link_libraries(longshore_xxhash INTERFACE "${LONGSHORE_XXHASH_LIBRARY}")

# libevent's server of HTTP. Open MPI brings the library.
find_path(LONGSHORE_EVENT_INCLUDE event2/http.h REQUIRED)
find_library(LONGSHORE_EVENT_LIBRARY event REQUIRED)
find_library(LONGSHORE_EVENT_PTHREADS_LIBRARY event_pthreads REQUIRED)
add_library(longshore_event INTERFACE)
target_include_directories(longshore_event INTERFACE "${LONGSHORE_EVENT_INCLUDE}")
target_link_libraries(longshore_event INTERFACE "${LONGSHORE_EVENT_LIBRARY}"
  "${LONGSHORE_EVENT_PTHREADS_LIBRARY}")

# Debian's CMake package of oneDNN asks for OpenCL's development files, which nothing here uses.
find_path(LONGSHORE_ONEDNN_INCLUDE dnnl.hpp REQUIRED)
find_library(LONGSHORE_ONEDNN_LIBRARY dnnl REQUIRED)
add_library(longshore_onednn INTERFACE)
target_include_directories(longshore_onednn INTERFACE "${LONGSHORE_ONEDNN_INCLUDE}")
target_link_libraries(longshore_onednn INTERFACE "${LONGSHORE_ONEDNN_LIBRARY}")

if(NOT EXISTS "${LONGSHORE_SENTENCEPIECE_DIR}/lib/libsentencepiece_train.a")
  message(FATAL_ERROR "No sentencepiece in ${LONGSHORE_SENTENCEPIECE_DIR}. Run scripts/setup.")
endif()
add_library(longshore_sentencepiece INTERFACE)
target_include_directories(longshore_sentencepiece SYSTEM INTERFACE
  "${LONGSHORE_SENTENCEPIECE_DIR}/include")
# Its protobuf stays hidden: LibTorch exports another one.
target_link_libraries(longshore_sentencepiece INTERFACE
  "${LONGSHORE_SENTENCEPIECE_DIR}/lib/libsentencepiece_train.a"
  "${LONGSHORE_SENTENCEPIECE_DIR}/lib/libsentencepiece.a" Threads::Threads)
target_link_options(longshore_sentencepiece INTERFACE
  "LINKER:--exclude-libs,libsentencepiece_train.a:libsentencepiece.a")

# longshore_arrow: Arrow's libraries out of the pyarrow wheel, where scripts/setup --parquet has put
# it. What is looked for with GLOB is looked for again by every build.
file(GLOB LONGSHORE_ARROW CONFIGURE_DEPENDS "${LONGSHORE_ARROW_DIR}/libparquet.so.2600")
if(LONGSHORE_ARROW)
  add_library(longshore_arrow INTERFACE)
  target_include_directories(longshore_arrow SYSTEM INTERFACE "${LONGSHORE_ARROW_DIR}/include")
  target_link_libraries(longshore_arrow INTERFACE
    "${LONGSHORE_ARROW_DIR}/libparquet.so.2600" "${LONGSHORE_ARROW_DIR}/libarrow.so.2600")
endif()

unset(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH)

# What cpack makes of an installation: a .deb for Debian 12 and what has its C and C++ runtimes or newer
# ones, and the same tree as a .tar.gz. See scripts/package.

set(CPACK_PACKAGE_VENDOR Longshore)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM trainer in C++20 on LibTorch, for models that barely fit")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_FILE_NAME "longshore-${PROJECT_VERSION}-x86_64")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)

# Its programs have names of others' in /usr/bin: there, one leads to them all.
set(LONGSHORE_MAINTAINER "The Longshore authors" CACHE STRING
    "Who answers for a .deb: NAME <ADDRESS>, of whoever publishes it")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${LONGSHORE_MAINTAINER}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
string(REGEX MATCH "^[0-9]+" LONGSHORE_GCC "${CMAKE_CXX_COMPILER_VERSION}")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "dict-gcide, openmpi-bin")
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/package_kinds.cmake")
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/package_link.cmake")

# For package_kinds.cmake.
set(CPACK_LONGSHORE_GCC "${LONGSHORE_GCC}")
set(CPACK_LONGSHORE_SOURCE "${PROJECT_SOURCE_DIR}")
set(CPACK_LONGSHORE_BUILD "${PROJECT_BINARY_DIR}")

include(CPack)

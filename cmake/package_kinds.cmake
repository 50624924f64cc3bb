# Read by cpack for each kind of package.
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /opt/longshore)
  file(GLOB built "${CPACK_LONGSHORE_BUILD}/bin/t*" "${CPACK_LONGSHORE_BUILD}/lib/*.so")
  execute_process(COMMAND "${CPACK_LONGSHORE_SOURCE}/scripts/oldest_glibc" ${built}
    OUTPUT_VARIABLE glibc OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS
    "libc6 (>= ${glibc}), libstdc++6 (>= ${CPACK_LONGSHORE_GCC}), libgcc-s1 (>= ${CPACK_LONGSHORE_GCC})")
endif()

# The component `dev`, for programs that use Longshore as a library: headers, static libraries, the
# CMake package Longshore and the examples. Only `cmake --install BUILD --component dev` takes it.

set(longshore_archives
  longshore_trainer longshore_data longshore_offload longshore_models longshore_base)
set(dev COMPONENT dev EXCLUDE_FROM_ALL)
install(DIRECTORY longshore DESTINATION include ${dev} FILES_MATCHING PATTERN "*.h")
install(TARGETS ${longshore_archives} ARCHIVE DESTINATION lib ${dev})
install(TARGETS longshore_openmp_settings LIBRARY DESTINATION lib ${dev})
install(DIRECTORY examples DESTINATION share/longshore ${dev})

include(CMakePackageConfigHelpers)
set(package "${PROJECT_BINARY_DIR}/package")
configure_package_config_file(cmake/LongshoreConfig.cmake.in "${package}/LongshoreConfig.cmake"
  INSTALL_DESTINATION lib/cmake/Longshore NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0.0 a minor version may change anything.
write_basic_package_version_file("${package}/LongshoreConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${package}/LongshoreConfig.cmake" "${package}/LongshoreConfigVersion.cmake"
              cmake/torch.cmake
  DESTINATION lib/cmake/Longshore ${dev})

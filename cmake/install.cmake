# What cmake --install and cpack take, in two components:
#
#   longshore   bin/ programs, lib/ our libraries and those of Debian's packages, share/longshore/ what
#               they read, share/doc/longshore/, and what shells and man read
#   libtorch    lib/ LibTorch's libraries and CUDA's, which the pip package takes from torch's instead
#
# Everything is found from where the programs lie, so that the tree may be moved. The C and C++
# runtimes, the driver of a GPU and MPI are those of the machine.

install(TARGETS ${longshore_programs} RUNTIME DESTINATION bin COMPONENT longshore)
install(PROGRAMS packaging/longshore DESTINATION bin COMPONENT longshore)
set(loaded_libraries longshore_openmp_settings longshore_mpi)
set(tables "")
if(TARGET longshore_tables)
  set(tables $<TARGET_FILE:longshore_tables>)
  list(APPEND loaded_libraries longshore_tables)
endif()
install(TARGETS ${loaded_libraries} LIBRARY DESTINATION lib COMPONENT longshore)
set_target_properties(${longshore_programs} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
set_target_properties(${loaded_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")

install(DIRECTORY configs DESTINATION share/longshore COMPONENT longshore
  FILES_MATCHING PATTERN "*.yml" PATTERN "this_machine.yml" EXCLUDE)
install(PROGRAMS scripts/quickstart_data scripts/export_metrics
  DESTINATION share/longshore/scripts COMPONENT longshore)
# All that links lead to.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE THIRD_PARTY.md
  DESTINATION share/doc/longshore COMPONENT longshore)
install(DIRECTORY docs DESTINATION share/doc/longshore COMPONENT longshore)
install(DIRECTORY examples DESTINATION share/doc/longshore COMPONENT longshore
  FILES_MATCHING PATTERN "*.cpp" PATTERN "*.txt" PATTERN "CMakeLists.txt" EXCLUDE)

# Those of Debian in lib/ of the one component, LibTorch's and CUDA's in that of the other.
foreach(component longshore libtorch)
  set(is_torch NO)
  if(component STREQUAL libtorch)
    set(is_torch YES)
  endif()
  install(CODE "
    set(IS_TORCH ${is_torch})
    set(IS_CUDA ${LONGSHORE_CUDA})
    set(PROGRAMS \"$<TARGET_FILE:train>;$<TARGET_FILE:tokenize>\")
    set(LIBRARIES \"${tables}\")
    set(SOURCE \"${PROJECT_SOURCE_DIR}\")
    set(OURS \"${PROJECT_BINARY_DIR}/lib\")
    set(WHEELS \"${LONGSHORE_TORCH_DIR}/..\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/install_libraries.cmake\")"
    COMPONENT ${component})
endforeach()

include(described)
include(package)

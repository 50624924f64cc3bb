# Run by the installation: copies the libraries that PROGRAMS and LIBRARIES load, under the names that
# they are asked for by, and the licences of each. IS_TORCH: LibTorch's and CUDA's, else
# all others. IS_CUDA: of a build with CUDA. OURS: the folder of those that are installed by themselves.

# On any machine, or of what runs there.
set(of_the_machine
  "^ld-linux" "^lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\\+\\+)\\.so"
  "^lib(cuda|nvidia-ml)\\.so" "^lib(mpi|open-)")
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${PROGRAMS} LIBRARIES ${LIBRARIES}
  PRE_EXCLUDE_REGEXES ${of_the_machine}
  RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
  CONFLICTING_DEPENDENCIES_PREFIX twice)
if(missing)
  message(FATAL_ERROR "Found no ${missing}, which the programs load")
endif()
foreach(name IN LISTS twice_FILENAMES)
  list(GET twice_${name} 0 first) # the loader, too, takes the first for all
  list(APPEND found "${first}")
endforeach()

get_filename_component(WHEELS "${WHEELS}" REALPATH)
set(of_torch)
foreach(path IN LISTS found)
  get_filename_component(name "${path}" NAME)
  get_filename_component(folder "${path}" DIRECTORY)
  get_filename_component(folder "${folder}" REALPATH)
  if(folder STREQUAL OURS)
    continue()
  endif()
  # Of CUDA is what LibTorch loads, be it out of a wheel or a toolkit.
  string(FIND "${folder}" "${WHEELS}/" of_wheel)
  set(is_torch NO)
  if((of_wheel EQUAL 0 AND NOT folder MATCHES "/pyarrow$") OR name MATCHES "^lib(cu|nv|nccl)" OR
     name MATCHES "^libgomp\\.so")
    set(is_torch YES)
    list(APPEND torch_folders "${folder}")
  endif()
  if(is_torch STREQUAL IS_TORCH)
    list(APPEND copied "${folder}/${name}")
  endif()
endforeach()
# They load these by name when they first want them.
if(IS_TORCH AND IS_CUDA)
  list(REMOVE_DUPLICATES torch_folders)
  foreach(folder IN LISTS torch_folders)
    file(GLOB by_name "${folder}/libcudnn*.so.*" "${folder}/libnvrtc*.so.*" "${folder}/libnvJitLink.so.*")
    foreach(path IN LISTS by_name)
      if(NOT path MATCHES "alt|\\.so\\.[0-9]+\\.[0-9]+\\.[0-9]+$")
        list(APPEND copied "${path}")
      endif()
    endforeach()
  endforeach()
endif()
list(REMOVE_DUPLICATES copied)

foreach(path IN LISTS copied)
  get_filename_component(name "${path}" NAME)
  get_filename_component(real "${path}" REALPATH)
  file(INSTALL "${real}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib" RENAME "${name}")
  list(APPEND reals "${real}")
endforeach()

# Texts: Debian's of each package, and those of wheels, where they are. THIRD_PARTY.md lists them all.
set(texts "${CMAKE_INSTALL_PREFIX}/share/doc/longshore/licences")
if(IS_TORCH)
  file(GLOB folders "${WHEELS}/torch-*.dist-info" "${WHEELS}/nvidia_*.dist-info")
  foreach(folder IN LISTS torch_folders)
    if(EXISTS "${folder}/../EULA.txt") # of a toolkit
      file(INSTALL "${folder}/../EULA.txt" DESTINATION "${texts}/cuda")
    endif()
  endforeach()
else()
  file(GLOB folders "${WHEELS}/pyarrow-*.dist-info")
  foreach(real IN LISTS reals)
    string(REGEX REPLACE "^/usr/" "/" short "${real}")
    execute_process(COMMAND dpkg-query -S "${real}" OUTPUT_VARIABLE owner RESULT_VARIABLE status ERROR_QUIET)
    if(NOT status EQUAL 0) # where /lib leads to /usr/lib a package may have either
      execute_process(COMMAND dpkg-query -S "${short}" OUTPUT_VARIABLE owner RESULT_VARIABLE status ERROR_QUIET)
    endif()
    if(status EQUAL 0)
      string(REGEX REPLACE "[:,].*" "" package "${owner}")
      get_filename_component(text "/usr/share/doc/${package}/copyright" REALPATH)
      file(INSTALL "${text}" DESTINATION "${texts}/${package}" RENAME copyright)
    endif()
  endforeach()
  file(INSTALL "${SOURCE}/.deps/sentencepiece/LICENSE" DESTINATION "${texts}/sentencepiece")
  foreach(package libcli11-dev nlohmann-json3-dev) # headers alone
    file(INSTALL "/usr/share/doc/${package}/copyright" DESTINATION "${texts}/${package}")
  endforeach()
endif()
foreach(folder IN LISTS folders)
  get_filename_component(name "${folder}" NAME)
  file(INSTALL "${folder}/" DESTINATION "${texts}/${name}" FILES_MATCHING
    PATTERN "LICENSE*" PATTERN "License*" PATTERN "NOTICE*" PATTERN "COPYING*")
endforeach()

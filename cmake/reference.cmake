# Target docs: the reference of the public headers in BUILD/reference/html, by Doxygen, which
# scripts/setup --docs installs. A warning of Doxygen's fails it.

set(reference "${PROJECT_BINARY_DIR}/reference")
set(inputs
  models/ir models/ops offload
  models/families/decoder.h models/families/decoder_config.h models/families/new_weights.h
  models/hf/config.h trainer/step/step.h trainer/step/trainer.h trainer/step/memory_report.h
  trainer/weights/initialize.h base/error.h)
list(TRANSFORM inputs REPLACE "(.+)" "\"${PROJECT_SOURCE_DIR}/longshore/\\1\"")
list(JOIN inputs " " inputs)
configure_file(cmake/reference/Doxyfile.in "${PROJECT_BINARY_DIR}/Doxyfile" @ONLY)

find_program(LONGSHORE_DOXYGEN doxygen)
if(LONGSHORE_DOXYGEN)
  add_custom_target(docs
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${reference}"
    COMMAND "${LONGSHORE_DOXYGEN}" "${PROJECT_BINARY_DIR}/Doxyfile"
    COMMENT "Writing ${reference}/html/index.html"
    VERBATIM)
endif()

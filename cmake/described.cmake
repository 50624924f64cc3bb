# Targets man and completions: what man and shells know of the programs, from what they say with --help,
# in BUILD/share, and its installation. They run for that, so what is built for CUDA has it when asked:
# that may be where no program starts.

set(described ${longshore_programs})
list(REMOVE_ITEM described teach) # which tokenize goes on as
list(TRANSFORM described REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE described_files)
set(share "${PROJECT_BINARY_DIR}/share")
set(launcher "${PROJECT_SOURCE_DIR}/packaging/longshore")
list(TRANSFORM described REPLACE "(.+)" "${share}/man/man1/longshore-\\1.1" OUTPUT_VARIABLE pages)
list(APPEND pages "${share}/man/man1/longshore.1")
list(TRANSFORM described PREPEND "${share}/bash-completion/completions/" OUTPUT_VARIABLE bash)
list(APPEND bash "${share}/bash-completion/completions/longshore")
list(TRANSFORM described PREPEND "${share}/zsh/site-functions/_" OUTPUT_VARIABLE zsh)
list(APPEND zsh "${share}/zsh/site-functions/_longshore")

set(man_made ${pages})
set(completions_made ${bash} ${zsh})
set(optional OPTIONAL)
foreach(kind man completions)
  add_custom_command(OUTPUT ${${kind}_made}
    COMMAND python3 "${PROJECT_SOURCE_DIR}/cmake/from_help.py" ${kind} "${share}" "${launcher}" ${described_files}
    DEPENDS ${described} teach "${launcher}" "${PROJECT_SOURCE_DIR}/cmake/from_help.py" VERBATIM)
  if(LONGSHORE_CUDA)
    add_custom_target(${kind} DEPENDS ${${kind}_made})
  else()
    add_custom_target(${kind} ALL DEPENDS ${${kind}_made})
    add_dependencies(programs ${kind})
    set(optional "")
  endif()
endforeach()

install(FILES ${pages} DESTINATION share/man/man1 COMPONENT longshore ${optional})
install(FILES ${bash} DESTINATION share/bash-completion/completions COMPONENT longshore ${optional})
install(FILES ${zsh} DESTINATION share/zsh/site-functions COMPONENT longshore ${optional})

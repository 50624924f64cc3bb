# Run by cpack on what goes into a package: of a .deb, /usr/bin/longshore, and the licence where
# Debian has it.
if(CPACK_GENERATOR STREQUAL DEB)
  file(MAKE_DIRECTORY "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin")
  file(CREATE_LINK ../../opt/longshore/bin/longshore
    "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin/longshore" SYMBOLIC)
  file(MAKE_DIRECTORY "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share/doc/longshore")
  file(CREATE_LINK ../../../../opt/longshore/share/doc/longshore/LICENSE
    "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share/doc/longshore/copyright" SYMBOLIC)
endif()

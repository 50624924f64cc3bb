# Run by cpack on what goes into a package: of a .deb, /usr/bin/longshore.
if(CPACK_GENERATOR STREQUAL DEB)
  file(MAKE_DIRECTORY "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin")
  file(CREATE_LINK ../../opt/longshore/bin/longshore
    "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin/longshore" SYMBOLIC)
endif()

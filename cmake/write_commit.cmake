# Run by the build: writes OUTPUT, a source that says which commit SOURCE is of, if it does not say so already, and
# DEPFILE, which lists what the answer depends on.
#
# Outside a clone, cmake/archived_commit.txt has the commit: git archive writes it there.

get_filename_component(SOURCE "${SOURCE}" REALPATH)

function(git variable)
  execute_process(
    # Whoever builds a tree may also look at it, whoever owns it. Looking takes no lock.
    COMMAND git -c "safe.directory=${SOURCE}" --no-optional-locks -C "${SOURCE}" ${ARGN}
    OUTPUT_VARIABLE output RESULT_VARIABLE status ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(output "")
  endif()
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()

set(commit "")
set(depends "${SOURCE}/cmake/archived_commit.txt")
git(top rev-parse --show-toplevel)
if(top STREQUAL SOURCE) # else the tree lies within that of another project
  git(commit rev-parse --verify HEAD)
  string(SUBSTRING "${commit}" 0 12 commit)
endif()
if(commit)
  git(changed status --porcelain --untracked-files=no)
  git(added ls-files --others --exclude-standard -- longshore)
  if(changed OR added)
    string(APPEND commit "+changes")
  endif()
  # A commit moves HEAD's log and writes the index.
  foreach(file HEAD logs/HEAD index)
    git(path rev-parse --path-format=absolute --git-path ${file})
    list(APPEND depends "${path}")
  endforeach()
  git(tracked ls-files)
  string(REPLACE "\n" ";" tracked "${tracked}")
  foreach(file IN LISTS tracked)
    list(APPEND depends "${SOURCE}/${file}")
    if(file MATCHES "^longshore/")
      get_filename_component(folder "${SOURCE}/${file}" DIRECTORY)
      list(APPEND depends "${folder}") # which changes when a file is added
    endif()
  endforeach()
elseif(EXISTS "${SOURCE}/cmake/archived_commit.txt")
  file(STRINGS "${SOURCE}/cmake/archived_commit.txt" archived REGEX "^[0-9a-f]+$")
  string(SUBSTRING "${archived}" 0 12 commit)
endif()
if(NOT commit)
  set(commit unknown)
endif()

list(REMOVE_DUPLICATES depends)
set(there)
foreach(file IN LISTS depends)
  # A name that git quotes, or Make would read otherwise, is none of ours.
  if(EXISTS "${file}" AND NOT file MATCHES "[ \t\"#$%:\\]")
    list(APPEND there "${file}")
  endif()
endforeach()
list(JOIN there " \\\n  " there)
file(WRITE "${DEPFILE}" "${OUTPUT}: \\\n  ${there}\n")

set(text "#include \"longshore/base/build.h\"

namespace longshore {

const char* build_commit() { return \"${commit}\"; }

}  // namespace longshore
")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${OUTPUT}" "${text}")
endif()

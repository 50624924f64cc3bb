// Files in folders of others, such as that of a run that is resumed: they are opened only where
// they are regular files in that very folder. A link could lead to any file of the user's, by its
// name or as another name of the same file, and a pipe would be waited for.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "longshore/base/file_descriptor.h"

namespace longshore {

// "a regular file", "a folder", "a symbolic link", "a pipe", "a socket", "a device".
std::string kind_of_file(mode_t mode);

// Whether it is the path of something below whatever folder it is appended to: names with a slash
// between two, none of them "", "." or "..".
bool is_path_below(const std::string& path);

// Opens a file with these flags of open(). The folder itself may be a link; from there on none is
// followed. Throws a DataError where the path names something else than a regular file, whose kind
// it says, and for writing one that has other names as well (hard links). Not open, with errno,
// where the system refuses, as for a file that is not there.
FileDescriptor open_inside(const std::filesystem::path& folder, const std::filesystem::path& below,
                           int flags);

// The text of a file. Throws a DataError that names it where it cannot be read, and where it has
// more than `most_bytes`; `why` ends that message, and says why it never should.
std::string read_inside(const std::filesystem::path& folder, const std::filesystem::path& below,
                        size_t most_bytes, const std::string& why);

// Throw a DataError that names the path where it is something else. It may be nothing.
void require_regular_file(const std::filesystem::path& path);
void require_folder(const std::filesystem::path& path);

// Makes the folder where there is none. Throws a DataError as require_folder() does, and FileError
// where it cannot be made, as in a folder that somebody has removed.
void make_folder(const std::filesystem::path& path);

// Throws a DataError that names what `folder`, or a folder in it, holds beside regular files and
// folders.
void require_regular_files(const std::filesystem::path& folder);

// The folder that `name` in `folder` is or leads to. Throws a DataError where that is no folder
// below `folder`.
std::filesystem::path folder_inside(const std::filesystem::path& folder, const std::string& name);

}  // namespace longshore

// What the running program was built from, for --version and for what runs record.
#pragma once

#include <string>

namespace longshore {

// The commit: "371d8e34c5c0", with "+changes" where the tree differs from it; "unknown" where
// it was neither a clone nor an archive of one. Programs know theirs, tests have "unknown".
const char* build_commit();

// The libraries that the program was built with, a line for each: "LibTorch 2.11.0". Programs know
// theirs, tests have "".
const char* build_libraries();

// "0.1.0, commit 371d8e34c5c0"
std::string version_and_commit();

// What --version prints: "longshore 0.1.0", and lines for the commit and the libraries.
std::string version_text();

}  // namespace longshore

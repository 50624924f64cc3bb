// data_paths() finds the files that an entry of dataset_path stands for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace longshore::trainer {

// Of a file, itself, whether it is there or not. Of a pattern of the shell's (*, ?, [..]), the
// files that it matches. Of a folder, the files of text and token files in it and below, hidden
// ones and what datasets notes of a folder that it saved aside, that are of `split`: that word, or
// one that is as good (valid, val, dev and eval for validation), stands for itself in a file's or a
// folder's name ("data/train-00000-of-00012.jsonl", "test/a.json.gz"). Where no name has any such
// word, all files are of "train". In the order of their names.
std::vector<std::filesystem::path> data_paths(const std::filesystem::path& entry,
                                              const std::string& split);

}  // namespace longshore::trainer

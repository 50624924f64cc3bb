// teach() writes a token file once more, with what a teacher says of each of its tokens: a model of
// a Hugging Face folder, for objective: distill.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longshore::trainer {

struct TeachRequest {
  std::filesystem::path teacher;  // folder with config.json and weights
  std::filesystem::path tokens;   // token file of documents
  std::filesystem::path out;
  int64_t top_k = 64;
  std::vector<std::string> overrides = {};  // key=value, of the keys that teach_footer() lists
};

// Beside each token stand the `top_k` tokens that the teacher finds most likely there, the most
// likely one first, and their log-probabilities: columns kTeacherTokens and kTeacherLogProbs; -1
// and kLeastLogProb at a document's first token. A document of more than max_target_length + 1
// tokens is cut into such parts, of which each is read by itself, as excess_length_strategy: split
// does it.
//
// Prints what it reads and writes, and on standard error how far it is. Throws ConfigError for the
// request and its keys, DataError for files, FileError when the disk has not the room, PlanError
// when this machine has not the memory, Error on a signal to stop. The file appears whole or not at
// all.
void teach(const TeachRequest& request);

// What --help says below the options.
std::string teach_footer();

}  // namespace longshore::trainer

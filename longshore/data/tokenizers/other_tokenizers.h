// Names tokenizer files that Longshore does not read as what they are, and says what to take.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longshore::data {

// What a file is that is neither a sentencepiece model nor JSON; "" where that is not known.
std::string other_tokenizer(const std::filesystem::path& path, std::string_view bytes);

// What a folder has in place of a tokenizer file that is read.
std::string other_tokenizer_in(const std::filesystem::path& folder);

// The end of a message on a file that cannot be read: "; nearest: F", a file beside it that would
// serve, or "".
std::string other_tokenizer_beside(const std::filesystem::path& path);

// Of JSON, by what it holds.
inline constexpr const char* kVocabularyRefusal =
    "found a vocab.json, which is half of a tokenizer, expected the tokenizer.json that "
    "transformers makes of it and merges.txt: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";

}  // namespace longshore::data
